"""The architectures of torchvision: the smallest model of each, on small images."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from tests.zoo.model import Model
from tests.zoo.programs import Program, inferring, training
from tests.zoo.torchvision_ops import load_torchvision

# A model of torchvision, the shape of its input, and options. VGG, the larger ResNets and ViT-B are left out for their
# size: VGG is in ssd300_vgg16, and timm has small ones of the others.
TORCHVISION: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("alexnet", (1, 3, 64, 64), {}),
    ("convnext_tiny", (1, 3, 32, 32), {}),
    ("densenet121", (1, 3, 32, 32), {}),
    ("efficientnet_b0", (1, 3, 32, 32), {}),
    ("efficientnet_v2_s", (1, 3, 32, 32), {}),
    ("googlenet", (1, 3, 32, 32), {"init_weights": False}),
    ("inception_v3", (1, 3, 80, 80), {"init_weights": False}),
    ("maxvit_t", (1, 3, 224, 224), {}),
    ("mnasnet0_5", (1, 3, 32, 32), {}),
    ("mobilenet_v2", (1, 3, 32, 32), {}),
    ("mobilenet_v3_small", (1, 3, 32, 32), {}),
    ("regnet_x_400mf", (1, 3, 32, 32), {}),
    ("regnet_y_400mf", (1, 3, 32, 32), {}),
    ("resnet18", (1, 3, 32, 32), {}),
    ("resnet50", (1, 3, 32, 32), {}),
    ("resnext50_32x4d", (1, 3, 32, 32), {}),
    ("shufflenet_v2_x0_5", (1, 3, 32, 32), {}),
    ("squeezenet1_1", (1, 3, 32, 32), {}),
    ("swin_t", (1, 3, 32, 32), {}),
    ("swin_v2_t", (1, 3, 32, 32), {}),
    ("quantized_googlenet", (1, 3, 32, 32), {"quantize": True, "init_weights": False}),
    ("quantized_mobilenet_v2", (1, 3, 32, 32), {"quantize": True}),
    ("quantized_mobilenet_v3_large", (1, 3, 32, 32), {"quantize": True}),
    ("quantized_resnet18", (1, 3, 32, 32), {"quantize": True}),
    ("quantized_shufflenet_v2_x0_5", (1, 3, 32, 32), {"quantize": True}),
    ("deeplabv3_mobilenet_v3_large", (1, 3, 32, 32), {"weights_backbone": None}),
    ("fcn_resnet50", (1, 3, 32, 32), {"weights_backbone": None}),
    ("lraspp_mobilenet_v3_large", (1, 3, 32, 32), {"weights_backbone": None}),
    ("mc3_18", (1, 3, 4, 32, 32), {}),
    ("mvit_v1_b", (1, 3, 16, 224, 224), {}),
    ("mvit_v2_s", (1, 3, 16, 224, 224), {}),
    ("r2plus1d_18", (1, 3, 4, 32, 32), {}),
    ("r3d_18", (1, 3, 4, 32, 32), {}),
    ("s3d", (1, 3, 16, 224, 224), {}),
    ("swin3d_t", (1, 3, 4, 32, 32), {}),
]
# These also train: random depths, dropout, running statistics, two outputs.
TRAINED = ("efficientnet_b0", "googlenet", "mobilenet_v3_small", "resnet18", "swin_t", "lraspp_mobilenet_v3_large")
# Detectors scale their images themselves; those that look at proposals a second time look at few.
SMALL: dict[str, Any] = {"min_size": 64, "max_size": 64}
FEW: dict[str, Any] = {
    **SMALL,
    **{f"rpn_{when}_nms_top_n_{phase}": 20 for when in ("pre", "post") for phase in ("train", "test")},
}
DETECTORS: dict[str, dict[str, Any]] = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": FEW,
    "fasterrcnn_resnet50_fpn_v2": FEW,
    "fcos_resnet50_fpn": SMALL,
    "keypointrcnn_resnet50_fpn": FEW,
    "maskrcnn_resnet50_fpn": FEW,
    "retinanet_resnet50_fpn": SMALL,
    "ssd300_vgg16": {},
    "ssdlite320_mobilenet_v3_large": {},
}


def models() -> Iterator[Model]:
    """Classifiers, detectors, and the rest."""
    for name, shape, options in TORCHVISION:
        yield Model(f"torchvision/{name}", partial(torchvision_model, name, shape, options))
        if name in TRAINED:
            yield Model(
                f"torchvision/{name} trained", partial(torchvision_model, name, (2, *shape[1:]), options, training)
            )
    for name, options in DETECTORS.items():
        yield Model(f"torchvision/{name}", partial(detector, name, options))
        yield Model(f"torchvision/{name} trained", partial(trained_detector, name, options))
    yield Model("torchvision/raft_small", optical_flow)
    yield Model("torchvision/vit", vision_transformer)


def torchvision_model(name: str, shape: tuple[int, ...], options: dict[str, Any], use: Any = inferring) -> Program:
    """A model that takes one tensor."""
    load_torchvision()
    from torchvision.models import get_model

    return use(get_model(name, weights=None, num_classes=10, **options), torch.rand(shape))


def detector(name: str, options: dict[str, Any]) -> Program:
    """A detector, which takes images of different sizes."""
    load_torchvision()
    from torchvision.models import get_model

    model = get_model(name, weights=None, weights_backbone=None, num_classes=3, **options)
    return inferring(model, [torch.rand(3, 64, 64), torch.rand(3, 48, 64)])


def trained_detector(name: str, options: dict[str, Any]) -> Program:
    """A detector with the boxes it should find: it returns its losses."""
    model, _ = detector(name, options)
    target = {
        "boxes": torch.tensor([[4.0, 4.0, 40.0, 40.0], [20.0, 10.0, 60.0, 44.0]]),
        "labels": torch.tensor([1, 2]),
        "masks": (torch.rand(2, 48, 64) > 0.5).to(torch.uint8),
        "keypoints": torch.rand(2, 17, 3) * 40,
    }
    return training(model, [torch.rand(3, 48, 64)] * 2, [target] * 2)


def optical_flow() -> Program:
    """RAFT, which compares two images and refines what it finds."""
    load_torchvision()
    from torchvision.models import get_model

    images = torch.rand(2, 1, 3, 128, 128)
    return inferring(get_model("raft_small", weights=None), images[0], images[1], num_flow_updates=3)


def vision_transformer() -> Program:
    """A small vision transformer, whose layers are nn.MultiheadAttention."""
    load_torchvision()
    from torchvision.models import VisionTransformer

    model = VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64)
    return training(model, torch.rand(2, 3, 32, 32))
