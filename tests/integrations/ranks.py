"""A training on several ranks: `torchrun … -m tests.integrations.ranks FRAMEWORK FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def huggingface(folder: Path) -> None:
    """Train with the Trainer of transformers."""
    from tests.integrations.test_huggingface import trainer

    from insitu.integrations.huggingface import HuggingFaceCallback

    trainer(
        folder, HuggingFaceCallback(only=["forward.loss", "fc.weight"], to=folder / "run.h5"), ddp_backend="gloo"
    ).train()


def lightning(folder: Path) -> None:
    """Train with the Trainer of Lightning."""
    import lightning.pytorch as framework
    from tests.integrations.test_lightning import batches, module, trainer

    from insitu.integrations.lightning import LightningCallback

    record = LightningCallback(only=["training_step.loss", "fc.weight"], to=folder / "run.h5")
    options: dict[str, Any] = {"devices": 2, "strategy": "ddp"}
    trainer(framework, folder, record, **options).fit(module(framework), batches())


if __name__ == "__main__":
    {"huggingface": huggingface, "lightning": lightning}[sys.argv[1]](Path(sys.argv[2]))
