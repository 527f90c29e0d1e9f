"""Programs that a trace must not change: real models in small, and everything torch has that is odd.

A case builds a program: a subject (or None) and a function that runs it and returns all that can be compared.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from tests.capture.oracle import gradients
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Program = tuple[nn.Module | None, Callable[[], Any]]


@dataclasses.dataclass
class Case:
    """A program, the warnings that torch itself gives for it, and whether it runs under a bare dispatch mode at all."""

    name: str
    build: Callable[[], Program]
    ignore: tuple[str, ...] = ()
    bare: bool = True


CASES: dict[str, Case] = {}


def case(build: Callable[[], Program] | None = None, *, ignore: tuple[str, ...] = (), bare: bool = True) -> Any:
    """Enter a function that builds a program in the table."""

    def enter(build: Callable[[], Program]) -> Callable[[], Program]:
        CASES[build.__name__] = Case(build.__name__, build, ignore, bare)
        return build

    return enter(build) if build is not None else enter


def trained(model: nn.Module, *args: Any, **kwargs: Any) -> Program:
    """A forward and a backward pass."""

    def run() -> Any:
        output = model(*args, **kwargs)
        first = (
            output
            if isinstance(output, Tensor)
            else next(iter(output.values() if hasattr(output, "values") else output))
        )
        first.float().sum().backward()
        return output, gradients(model), dict(model.named_buffers())

    return model, run


def plain(run: Callable[[], Any]) -> Program:
    """A program without a model."""
    return None, run


def ids() -> Tensor:
    return torch.randint(1, 90, (2, 7))


SMALL = {
    **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99},
    **{"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
}

# --- transformers ---------------------------------------------------------------------------------------------------


@case
def bert() -> Program:
    from transformers import BertConfig, BertModel

    return trained(BertModel(BertConfig(**SMALL)), input_ids=ids())


@case
def gpt2() -> Program:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=99, bos_token_id=1, eos_token_id=2)
    return trained(GPT2LMHeadModel(config), input_ids=ids(), labels=ids())


@case
def llama() -> Program:
    from transformers import LlamaConfig, LlamaForCausalLM

    return trained(LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=2)), input_ids=ids())


@case
def llama_checkpointed() -> Program:
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=2, use_cache=False, attention_dropout=0.3))
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return trained(model.train(), input_ids=ids())


@case
def llama_generate() -> Program:
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=2)).eval()
    tokens = ids()
    mask = torch.ones_like(tokens)
    return model, lambda: model.generate(
        tokens, attention_mask=mask, max_new_tokens=4, do_sample=True, eos_token_id=None
    )


@case
def t5() -> Program:
    from transformers import T5Config, T5ForConditionalGeneration

    size = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 99}
    model = T5ForConditionalGeneration(T5Config(**size, decoder_start_token_id=0))
    return trained(model, input_ids=ids(), decoder_input_ids=ids())


@case
def mixtral() -> Program:
    from transformers import MixtralConfig, MixtralForCausalLM

    return trained(
        MixtralForCausalLM(MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4)), input_ids=ids()
    )


@case
def vit() -> Program:
    from transformers import ViTConfig, ViTModel

    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    return trained(ViTModel(ViTConfig(**size, image_size=16, patch_size=8)), pixel_values=torch.randn(2, 3, 16, 16))


@case
def whisper() -> Program:
    from transformers import WhisperConfig, WhisperModel

    layers = {
        f"{part}_{what}": n for part in ("encoder", "decoder") for what, n in (("layers", 1), ("attention_heads", 2))
    }
    sizes = {"d_model": 32, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 99, "num_mel_bins": 8}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    model = WhisperModel(WhisperConfig(**layers, **sizes, **tokens, max_source_positions=10))
    return trained(model, input_features=torch.randn(2, 8, 20), decoder_input_ids=ids())


@case
def mamba() -> Program:
    from transformers import MambaConfig, MambaModel

    return trained(
        MambaModel(MambaConfig(hidden_size=32, num_hidden_layers=2, vocab_size=99, state_size=4)), input_ids=ids()
    )


# --- models of torch ------------------------------------------------------------------------------------------------


@case(ignore=("enable_nested_tensor is True",))
def transformer() -> Program:
    return trained(nn.Transformer(16, 2, 1, 1, 32), torch.randn(5, 2, 16), torch.randn(3, 2, 16))


def encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2)


@case
def encoder_in_training() -> Program:
    return trained(encoder(), torch.randn(2, 5, 16))


@case
def encoder_fused() -> Program:
    model, x = encoder().eval(), torch.randn(2, 5, 16)

    def run() -> Tensor:
        with torch.no_grad():
            return model(x)

    return model, run


@case(ignore=("The PyTorch API of nested tensors",))
def encoder_fused_with_padding() -> Program:
    model, x = encoder().eval(), torch.randn(2, 5, 16)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])

    def run() -> Tensor:
        with torch.inference_mode():
            return model(x, src_key_padding_mask=padding)

    return model, run


@case
def attention_fused() -> Program:
    model, x = nn.MultiheadAttention(16, 4, batch_first=True).eval(), torch.randn(2, 5, 16)

    def run() -> Any:
        with torch.no_grad():
            return model(x, x, x, need_weights=False), model(x, x, x)

    return model, run


@case
def lstm() -> Program:
    return trained(nn.LSTM(8, 8, 2, dropout=0.5, bidirectional=True), torch.randn(5, 2, 8))


@case
def packed_gru() -> Program:
    model, x = nn.GRU(4, 4, batch_first=True), torch.randn(3, 5, 4)

    def run() -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3, 1]), batch_first=True)
        output, hidden = model(packed)
        padded, lengths = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        padded.sum().backward()
        return padded, lengths, hidden, gradients(model)

    return model, run


class CNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.act = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.norm(self.conv(x))) + x
        y += x
        y.relu_()
        y = self.drop(y)
        y[:, 0] *= 2
        y[0, 1] = 1.0
        return F.max_pool2d(y, 2)


@case
def cnn() -> Program:
    return trained(CNN(), torch.randn(2, 3, 8, 8))


@case
def channels_last() -> Program:
    model = CNN().to(memory_format=torch.channels_last)
    return trained(model, torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last))


# --- what torch does around a model ---------------------------------------------------------------------------------


@case
def autocast() -> Program:
    model, x = encoder(), torch.randn(2, 5, 16)

    def run() -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output = model(x)
        output.float().sum().backward()
        return output, gradients(model)

    return model, run


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.first = nn.Linear(4, 4)
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.3))

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.inner, self.first(x), use_reentrant=self.reentrant)


@case
def checkpointed() -> Program:
    return trained(Checkpointed(False), torch.randn(2, 4))


@case
def checkpointed_reentrant() -> Program:
    return trained(Checkpointed(True), torch.randn(2, 4))


@case
def checkpoint_wrapper() -> Program:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper as wrapped

    return trained(
        nn.Sequential(nn.Linear(4, 4), wrapped(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)))), torch.randn(2, 4)
    )


@case
def data_parallel() -> Program:
    return trained(nn.DataParallel(nn.Sequential(nn.Linear(4, 4), nn.ReLU())), torch.randn(2, 4))


@case
def averaged_model() -> Program:
    return trained(torch.optim.swa_utils.AveragedModel(nn.Linear(4, 4)), torch.randn(2, 4))


def optimized(make: Callable[..., torch.optim.Optimizer], **options: Any) -> Program:
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)), torch.randn(3, 4)
    optimizer = make(model.parameters(), **options)

    def run() -> Any:
        for _ in range(2):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
        return loss, list(model.parameters()), optimizer.state_dict()

    return model, run


@case
def adam_foreach() -> Program:
    return optimized(torch.optim.AdamW, lr=0.1, foreach=True, amsgrad=True)


@case
def adam_fused() -> Program:
    return optimized(torch.optim.Adam, lr=0.1, fused=True)


@case
def sgd() -> Program:
    return optimized(torch.optim.SGD, lr=0.1, momentum=0.9, foreach=False)


@case
def higher_gradients() -> Program:
    model, x = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), torch.randn(2, 3, requires_grad=True)

    def run() -> Any:
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        slope.square().sum().backward()
        torch.autograd.backward([model(x).mean()])
        return slope, x.grad, gradients(model)

    return model, run


@case(ignore=(".*torch.jit.*",))  # torch loads its decompositions with it
def functorch() -> Program:
    model, x = nn.Linear(3, 3), torch.randn(4, 3)

    def run() -> Any:
        parameters = dict(model.named_parameters())

        def loss(parameters: dict[str, Tensor], row: Tensor) -> Tensor:
            return torch.func.functional_call(model, parameters, (row,)).square().sum()

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
        drawn = torch.func.vmap(lambda row: row + torch.randn(3), randomness="different")(x)
        along = torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))
        return each, drawn, along, torch.func.jacrev(torch.tanh)(x[0])

    return model, run


@case(ignore=(".*torch.jit.*",))
def forward_mode() -> Program:
    import torch.autograd.forward_ad as ad

    model, x, along = nn.Linear(3, 3), torch.randn(2, 3), torch.randn(2, 3)

    def run() -> Any:
        with ad.dual_level():
            return tuple(ad.unpack_dual(model(ad.make_dual(x, along)).tanh()))

    return model, run


@case
def inference() -> Program:
    model, x = CNN().eval(), torch.randn(2, 3, 8, 8)

    def run() -> Any:
        with torch.inference_mode():
            output = model(x)
            output.add_(1)
        return output, output.is_inference()

    return model, run


@case
def meta() -> Program:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8))
    return model, lambda: model(torch.randn(2, 4, device="meta"))


@case
def fake() -> Program:
    from torch._subclasses import FakeTensorMode

    def run() -> Any:
        with FakeTensorMode():
            model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
            return model(torch.randn(2, 3)).shape

    return plain(run)


@case
def fake_symbolic() -> Program:
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    def run() -> Any:
        with FakeTensorMode(shape_env=ShapeEnv()) as mode:
            x = mode.from_tensor(torch.randn(3, 5))
            return [str(size) for size in (F.relu(x).reshape(-1, 5) @ x.T).shape]

    return plain(run)


@case
def default_device() -> Program:
    def run() -> Any:
        with torch.device("meta"):
            return nn.Linear(3, 3)(torch.ones(2, 3)), torch.arange(3)

    return plain(run)


# --- kinds of tensors -----------------------------------------------------------------------------------------------


@case
def sparse() -> Program:
    def run() -> Any:
        coo = torch.eye(3).to_sparse().requires_grad_()
        product = coo @ torch.ones(3, 2)
        product.sum().backward()
        uncoalesced = torch.sparse_coo_tensor(
            torch.tensor([[0, 0]]), torch.tensor([1.0, 2.0]), (2,), check_invariants=False
        )
        return product, coo.grad, coo * 2, uncoalesced, uncoalesced.coalesce(), coo.to_dense()

    return plain(run)


@case
def sparse_embedding() -> Program:
    return trained(nn.Embedding(10, 4, sparse=True), torch.tensor([[1, 1, 2]]))


@case(ignore=("Sparse CSR tensor support is in beta", "Sparse invariant checks"))
def sparse_csr() -> Program:
    return plain(lambda: (torch.eye(3).to_sparse_csr(), torch.eye(3).to_sparse_csr() @ torch.ones(3, 1)))


@case(ignore=("The PyTorch API of nested tensors",))
def nested_strided() -> Program:
    def run() -> Any:
        nested = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)])
        return F.linear(nested, torch.ones(2, 3)), nested * 2, torch.nested.to_padded_tensor(nested, 0.0)

    return plain(run)


@case(ignore=("The PyTorch API of nested tensors",))
def nested_jagged() -> Program:
    def run() -> Any:
        parts = [torch.randn(2, 3), torch.randn(4, 3)]
        nested = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
        output = F.linear(nested, torch.ones(2, 3)).sin()
        output.sum().backward()
        return output, nested.grad

    return plain(run)


@case(ignore=("torch.quantize", "TypedStorage is deprecated", "torch.ao.quantization", "quantize_per_", ".*[Qq]uantiz"))
def quantized() -> Program:
    def run() -> Any:
        each = torch.quantize_per_tensor(torch.randn(3, 3), 0.1, 2, torch.qint8)
        channel = torch.quantize_per_channel(
            torch.randn(2, 3), torch.tensor([0.1, 0.2]), torch.zeros(2), 0, torch.qint8
        )
        return (
            each,
            each.dequantize(),
            channel.dequantize(),
            each.relu(),
            each[0],
            torch.ops.quantized.add(each, each, 0.2, 0),
        )

    return plain(run)


DTYPES = [
    getattr(torch, name)
    for name in sorted(dir(torch))
    if isinstance(getattr(torch, name), torch.dtype)
    and not name.startswith(("q", "half", "short", "long", "double", "cfloat", "cdouble", "chalf"))
]


@case(ignore=("ComplexHalf support is experimental",))
def every_dtype() -> Program:
    def run() -> Any:
        made = [torch.empty(4, dtype=dtype) for dtype in DTYPES]
        for tensor in made:
            if tensor.dtype.itemsize and tensor.untyped_storage().nbytes():
                tensor.untyped_storage().fill_(0)
        views = [
            tensor.view(torch.uint8) for tensor in made if tensor.dtype.itemsize == 1 and tensor.dtype is not torch.bool
        ]
        return [str(tensor.dtype) for tensor in made], [view.clone() for view in views]

    return plain(run)


@case(ignore=("ComplexHalf support is experimental",))
def conversions() -> Program:
    def run() -> Any:
        x = torch.randn(2, 3)
        floats = [
            torch.float8_e4m3fn,
            torch.float8_e5m2,
            torch.float8_e4m3fnuz,
            torch.float8_e5m2fnuz,
            torch.float8_e8m0fnu,
        ]
        others = [torch.float16, torch.bfloat16, torch.float64, torch.complex32, torch.complex64, torch.complex128]
        ints = [
            torch.bool,
            torch.int8,
            torch.uint8,
            torch.int16,
            torch.uint16,
            torch.int32,
            torch.uint32,
            torch.int64,
            torch.uint64,
        ]
        small = [x.to(dtype) for dtype in floats]
        return small, [s.float() for s in small], [x.to(d) for d in others], [x.abs().to(d) for d in ints]

    return plain(run)


@case
def small_things() -> Program:
    def run() -> Any:
        flag = torch.tensor([True, False])
        number = torch.tensor(3)
        empty = torch.empty(0, 3)
        turned = torch.randn(3, dtype=torch.complex64)
        return (
            *(
                flag | True,
                ~flag,
                flag.sum(),
                number + 1,
                -number,
                number.item(),
                empty,
                empty.sum(),
                empty @ torch.ones(3, 2),
            ),
            *(turned * 1j, turned.conj(), turned.real, torch.conj(turned).imag, torch.view_as_real(turned)),
            *(
                torch.arange(5)[1:4:2],
                torch.ones(2, 1).expand(2, 3),
                torch.arange(6).view(2, 3).T,
                torch.zeros((), dtype=torch.int8),
            ),
            *(
                torch.randn(3)[torch.tensor([True, False, True])],
                torch.arange(3).tolist(),
                float(torch.tensor(2.5)),
                bool(flag.any()),
            ),
        )

    return plain(run)


class Loud(Tensor):
    """A user's subclass that overrides functions."""

    calls: ClassVar[collections.Counter[str]] = collections.Counter()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls[getattr(func, "__name__", "?")] += 1
        return super().__torch_function__(func, types, args, kwargs or {})


@case
def function_subclass() -> Program:
    model, x = nn.Linear(3, 3), torch.randn(2, 3).as_subclass(Loud)

    def run() -> Any:
        Loud.calls.clear()
        output = model(x).relu() + 1
        output.sum().backward()
        return output, gradients(model), output.shape, dict(Loud.calls)

    return model, run


class Wrapping(Tensor):
    """A user's subclass that holds another tensor."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapping:
        made = Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)
        made.inner = inner
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        raise RuntimeError("nobody may print this")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        bare = torch.utils._pytree.tree_map_only(Wrapping, lambda tensor: tensor.inner, (args, kwargs or {}))
        result = func(*bare[0], **bare[1])
        return torch.utils._pytree.tree_map_only(Tensor, Wrapping, result)


@case
def dispatch_subclass() -> Program:
    model, x = nn.Linear(3, 3), torch.randn(2, 3)

    def run() -> Any:
        with torch.no_grad():
            output = model(Wrapping(x))
            output.mul_(2)
        return output, output.sum()

    return model, run


@case
def two_tensor() -> Program:
    from torch.testing._internal.two_tensor import TwoTensor

    def run() -> Any:
        pair = TwoTensor(torch.randn(3), torch.randn(3)) * 2
        return pair.a, pair.b

    return plain(run)


@case
def buffers_and_parameters() -> Program:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = nn.Buffer(torch.zeros(()))
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1
            return x * self.scale * self.count

    return trained(Model(), torch.randn(2, 3))


# --- how people write models ----------------------------------------------------------------------------------------


@case(ignore=("Lazy modules are a new feature",))
def lazy() -> Program:
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    x = torch.randn(2, 4)
    return model, lambda: (model(x), model(x), list(model.parameters()))


FIRING = "Full backward hook is firing"


@case(ignore=(FIRING,))
def hooks() -> Program:
    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)), torch.randn(2, 3)

    def run() -> Any:
        seen: list[str] = []
        model[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
        model[0].register_forward_hook(lambda module, args, output: output + 1)
        model[1].register_forward_hook(lambda module, args, kwargs, output: seen.append(str(kwargs)), with_kwargs=True)
        model[2].register_full_backward_hook(lambda module, into, outof: (into[0] * 3,))
        model[2].register_full_backward_pre_hook(lambda module, outof: (outof[0] * 2,))
        model[2].weight.register_hook(lambda grad: grad * 5)
        model[2].bias.register_post_accumulate_grad_hook(lambda parameter: seen.append("accumulated"))
        output = model(x)
        output.register_hook(lambda grad: grad + 1)
        output.sum().backward()
        return output, gradients(model), seen

    return model, run


@case(ignore=(FIRING,))
def raising_hook() -> Program:
    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), torch.randn(2, 3)

    def run() -> Any:
        def refuse(*_: Any) -> None:
            raise LookupError("no")

        seen: list[str] = []
        handle = model[1].register_forward_hook(refuse)
        model[1].register_forward_hook(lambda *_: seen.append("always"), always_call=True)
        try:
            model(x)
        except LookupError as error:
            seen.append(str(error))
        handle.remove()
        backward = model[0].register_full_backward_hook(refuse)
        try:
            model(x).sum().backward()
        except LookupError as error:
            seen.append(str(error))
        backward.remove()
        return seen, model(x)

    return model, run


@case
def global_hooks() -> Program:
    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), torch.randn(2, 3)

    def run() -> Any:
        seen: list[str] = []
        hook = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module).__name__))
        try:
            return model(x), seen
        finally:
            hook.remove()

    return model, run


@case
def shared_and_tied() -> Program:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(9, 4)
            self.block = nn.Linear(4, 4)
            self.blocks = nn.ModuleList([self.block, self.block])
            self.head = nn.Linear(4, 9, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x: Tensor) -> Tensor:
            h = self.embed(x)
            for block in (self.block, *self.blocks):
                h = block(h)
            return self.head(h)

    return trained(Model(), torch.tensor([[1, 2, 3]]))


class Recursive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor, depth: int = 3) -> Tensor:
        return self.fc(x) if depth == 0 else self(x, depth=depth - 1) + self.fc(x)


@case
def recursion() -> Program:
    return trained(Recursive(), torch.randn(2, 3))


@case
def data_dependent() -> Program:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            while x.norm() < 20:
                x = self.fc(x) * 3 if bool((x > 0).any()) else -x + 1
            return x[x > 0][: int(x.argmax()) + 1]

    return trained(Model(), torch.randn(2, 3))


@case
def generator_in_forward() -> Program:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])

        def states(self, x: Tensor) -> Any:
            for layer in self.layers:
                x = layer(x).tanh()
                yield x

        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([state * 2 for state in self.states(x)])

    return trained(Model(), torch.randn(2, 3))


@dataclasses.dataclass
class Output:
    hidden: Tensor
    parts: dict[str, Tensor]


class Pair(NamedTuple):
    first: Tensor
    second: Output


@case
def containers() -> Program:
    from transformers.modeling_outputs import BaseModelOutput

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, batch: dict[str, Any], /, *rest: Any, scale: float = 1.0, **options: Any) -> Any:
            h = self.fc(batch["x"]) * scale + rest[0][0] + options["more"][1]["y"]
            output = Output(h, {"double": h * 2, "half": h / 2})
            return (
                Pair(h, output),
                {"a": [h, (h,)], 1: None},
                BaseModelOutput(last_hidden_state=h, hidden_states=(h, h)),
            )

    model, x = Model(), torch.randn(2, 3)
    return model, lambda: model({"x": x}, [x, None], scale=2.0, more=("no", {"y": x}), text="t", at=slice(1), f=len)


@case
def custom_function() -> Program:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
            (x,) = ctx.saved_tensors
            return grad * 3 * x**2

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return Cube.apply(self.fc(x))

    return trained(Model(), torch.randn(2, 3))


@torch.library.custom_op("insitu_tests::scaled", mutates_args=())
def scaled(x: Tensor, by: float) -> Tensor:
    return x * by


LIBRARY = torch.library.Library("insitu_more_tests", "FRAGMENT")
LIBRARY.define("fill(Tensor x, *, Tensor(a!) out) -> ()")
LIBRARY.define("fill_all(Tensor x, Tensor(a!)[] out) -> ()")
LIBRARY.impl("fill", lambda x, *, out: [out.copy_(x), None][1], "CPU")
LIBRARY.impl("fill_all", lambda x, out: [[one.copy_(x) for one in out], None][1], "CPU")

scaled.register_autograd(
    lambda ctx, grad: (grad * ctx.by, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1])
)


@case
def custom_operator() -> Program:
    x = torch.randn(3)

    def run() -> Any:
        leaf, out = x.clone().requires_grad_(), torch.empty(3)
        y = scaled(leaf, 2.0)
        y.sum().backward()
        torch.ops.insitu_more_tests.fill(y.detach(), out=out)
        torch.ops.insitu_more_tests.fill_all(y.detach(), [out, leaf.grad])
        return y, leaf.grad, out

    return plain(run)


@case(ignore=("`torch.jit.script` is deprecated", "`torch.jit.interface` is deprecated", ".*torch.jit.*"))
def scripted() -> Program:
    model = nn.Sequential(torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.ReLU())), nn.Linear(3, 3))
    return trained(model, torch.randn(2, 3))


@case
def symbolically_traced() -> Program:
    return trained(torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU())), torch.randn(2, 3))


@case
def traced_by_fx_meanwhile() -> Program:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.TransformerEncoderLayer(3, 1, 3)).eval()
    return model, lambda: torch.fx.symbolic_trace(model[:2]).code


@case
def make_fx_meanwhile() -> Program:
    from torch.fx.experimental.proxy_tensor import make_fx

    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), torch.randn(2, 3)
    return model, lambda: make_fx(model)(x).code


@case(ignore=(".*torch.jit.*",), bare=False)
def traced_by_jit_meanwhile() -> Program:
    model, x = CNN().eval(), torch.randn(2, 3, 8, 8)

    def run() -> Any:
        with torch.no_grad():
            traced = torch.jit.trace(model, x)
            return [node.kind() for node in traced.inlined_graph.nodes()], traced(x)

    return model, run


@case
def own_modes() -> Program:
    from torch.overrides import TorchFunctionMode

    class Names(TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.seen.append(getattr(func, "__name__", "?"))
            return func(*args, **(kwargs or {}))

    model, x = nn.Sequential(encoder(), CNN().conv).eval(), torch.randn(1, 3, 8, 16)

    def run() -> Any:
        with Names() as names, torch.no_grad():
            output = model[0](x[0])
        return output, names.seen

    return model, run


@case
def weight_norm() -> Program:
    model = nn.utils.parametrizations.spectral_norm(nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)))
    return trained(model, torch.randn(2, 3))


@case
def odd_modules() -> Program:
    class Model(nn.Module):
        """It is equal to nothing, says it is empty, and cannot be printed."""

        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def __len__(self) -> int:
            return 0

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("do not compare")

        __hash__ = nn.Module.__hash__

        def __repr__(self) -> str:
            raise RuntimeError("do not print")

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x)

    return trained(Model(), torch.randn(2, 3))


@case
def odd_arguments() -> Program:
    class Vicious:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("do not compare")

        def __repr__(self) -> str:
            raise RuntimeError("do not print")

        def __bool__(self) -> bool:
            raise RuntimeError("do not ask")

        def __len__(self) -> int:
            raise RuntimeError("do not count")

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("do not look")

        __hash__ = None  # type: ignore[assignment]

    class Model(nn.Module):
        def forward(self, x: Tensor, *rest: Any, **more: Any) -> Any:
            return x + 1, rest[0], more

    model, x = Model(), torch.randn(2, 3)
    knot: list[Any] = [x]
    knot.append(knot)

    def run() -> Any:
        made = model(x, Vicious(), vicious=[Vicious()], knot=knot, key={Pair: 1, (1, 2): x}, many=list(range(1000)))
        return made[0], type(made[1]).__name__

    return model, run
