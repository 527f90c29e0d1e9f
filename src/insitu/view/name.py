"""The names of calls: key settings of modules, compact names of functions, the method that contains a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Protocol

from insitu.trace.event import Call, ModuleFacts, Site
from insitu.trace.operation import operation
from insitu.trace.source_file import base_name, folders, is_library
from insitu.view.collective_text import collective_part
from insitu.view.value import argument, arguments, holds_tensor, safe, short, value_text

MOST_ARGUMENTS = 48  # characters of arguments in a compact name

_CONV = ("in_channels", "out_channels", "kernel_size")
_RNN = ("input_size", "hidden_size", "num_layers")
_POOL = ("kernel_size",)
_KEYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Linear", "NonDynamicallyQuantizableLinear"), ("in_features", "out_features")),
    "Bilinear": ("in1_features", "in2_features", "out_features"),
    **{f"{kind}{n}d": _CONV for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)},
    **{f"{kind}{n}d": ("num_features",) for kind in ("BatchNorm", "InstanceNorm") for n in (1, 2, 3)},
    "SyncBatchNorm": ("num_features",),
    "LayerNorm": ("normalized_shape",),
    "RMSNorm": ("normalized_shape",),
    "GroupNorm": ("num_groups", "num_channels"),
    **dict.fromkeys(("Embedding", "EmbeddingBag"), ("num_embeddings", "embedding_dim")),
    "MultiheadAttention": ("embed_dim", "num_heads"),
    **dict.fromkeys(("RNN", "LSTM", "GRU"), _RNN),
    **dict.fromkeys(("RNNCell", "LSTMCell", "GRUCell"), _RNN[:2]),
    **dict.fromkeys(("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout"), ("p",)),
    **{f"{kind}Pool{n}d": _POOL for kind in ("Max", "Avg") for n in (1, 2, 3)},
    **{f"Adaptive{kind}Pool{n}d": ("output_size",) for kind in ("Max", "Avg") for n in (1, 2, 3)},
    **dict.fromkeys(("Softmax", "LogSoftmax", "Softmin"), ("dim",)),
    "Flatten": ("start_dim", "end_dim"),
    "Upsample": ("size", "scale_factor", "mode"),
    "LeakyReLU": ("negative_slope",),
}
_BARE = frozenset(
    {
        *("in_features", "out_features", "in1_features", "in2_features", "in_channels", "out_channels"),
        *("kernel_size", "output_size", "num_features", "normalized_shape", "num_groups", "num_channels"),
        *("num_embeddings", "embedding_dim", "embed_dim", "input_size", "hidden_size"),
    }
)
_SEPARATORS = dict.fromkeys(("in_features", "in_channels", "input_size"), " → ")  # after a setting
_SIGNS = {"kernel_size": "×", "output_size": "×"}  # between the parts of a setting


def key_settings(module: ModuleFacts) -> dict[str, Any]:
    """The few settings that tell a module from others of its class; of an unknown class, its first numbers.

    >>> key_settings(ModuleFacts("fc", "Linear", settings={"in_features": 6, "out_features": 2, "bias": True}))
    {'in_features': 6, 'out_features': 2}
    """
    settings = module.settings
    for name in (module.type, *module.bases):
        if name in _KEYS:
            return {key: settings[key] for key in _KEYS[name] if settings.get(key) is not None}
    numbers = [key for key, item in settings.items() if type(item) in (int, float)]
    return {key: settings[key] for key in numbers[:3]}


def module_type(module: ModuleFacts) -> str:
    """The class with its key settings.

    >>> module_type(ModuleFacts("c", "Conv2d", settings={"in_channels": 3, "out_channels": 16, "kernel_size": (3, 3)}))
    'Conv2d(3 → 16, 3×3)'
    """
    return safe(module.type) + settings_text(module)


def settings_text(module: ModuleFacts) -> str:
    """The key settings of a module in parentheses; nothing if it has none."""
    text = ""
    sign = ""
    for name, item in key_settings(module).items():
        text += f"{sign}{_setting(name, item)}"
        sign = _SEPARATORS.get(name, ", ")
    if text:
        return f"({text})"
    return ""


def _setting(name: str, item: Any) -> str:
    """A setting by its value, with its name where the value alone does not say what it is."""
    shown = value_text(item)
    if isinstance(item, (tuple, list)):
        shown = _SIGNS.get(name, ", ").join(map(value_text, item))
    if name in _BARE:
        return shown
    return f"{name}={shown}"


@lru_cache(maxsize=4096)
def function_name(name: str) -> str:
    """The name of a function as people write it.

    >>> [function_name(f"torch.{name}") for name in ("nn.functional.softmax", "Tensor.view", "cat")]
    ['F.softmax', '.view', 'torch.cat']
    """
    name = safe(name.removesuffix(".__get__"))
    if name.startswith("torch.nn.functional."):
        return "F." + name[20:]
    if name.startswith("torch.Tensor."):
        return name[12:]
    if name.startswith("torch.distributed."):
        return "dist." + name.rpartition("torch.distributed.")[2].removeprefix("distributed_c10d.")
    return name


def is_method(call: Call) -> bool:
    """Whether the first argument is the tensor whose method was called."""
    return call.name.startswith("torch.Tensor.")


def operands(call: Call) -> tuple[Any, ...]:
    """The arguments of an operator in the order of the source: `1 - x` calls x.__rsub__(1)."""
    if call.kind != "function":
        return call.args
    if len(call.args) != 2:
        return call.args
    left, right = call.args
    if operation(call.kind, call.name).is_reflected:
        return (right, left)
    return (left, right)


def named_arguments(call: Call) -> dict[str, Any]:
    """The arguments of a watched function by name, without the object whose method it is.

    >>> named_arguments(Call(0, None, "python", "Data.get", kwargs={"self": None, "index": 3}))
    {'index': 3}
    """
    return {name: item for name, item in call.kwargs.items() if name not in ("self", "cls")}


def compact(call: Call) -> str:
    """A function call in a few words: `F.softmax(dim=-1)`, `.view(2, 3)`, `@`, `/ 8`, `[:, 0]`.

    Positional arguments are left out where all of them are tensors, and so are named ones. Else all of them are shown,
    but for the tensor whose method it is: a tensor among numbers keeps its place.

    >>> from insitu.trace.event import TensorFacts
    >>> n = TensorFacts(0, (), "i64", "cpu")
    >>> compact(Call(0, None, "function", "torch.zeros", args=(1, n, 5)))
    'torch.zeros(1, i64[], 5)'
    """
    name, given = compact_parts(call)
    return name + given


def compact_parts(call: Call) -> tuple[str, str]:
    """The two parts of a compact name: the function, and its arguments in parentheses; an operator is one part."""
    if call.operator is not None:
        return _operation(call, safe(call.operator)), ""
    if part := collective_part(call):
        return function_name(call.name), part
    return function_name(call.name), _arguments_text(call)


def _arguments_text(call: Call) -> str:
    """The arguments of a call in parentheses; nothing where all of them are tensors."""
    args, kwargs = call.args, call.kwargs
    if call.kind == "python":
        kwargs = named_arguments(call)
    if not args and not kwargs:
        return "()"
    if is_method(call):
        args = args[1:]
    if _are_tensors(args):
        args = ()
    if _are_tensors(kwargs.values()):
        kwargs = {}
    text = _first_fit(
        lambda: arguments(args, kwargs),
        lambda: arguments(args, kwargs, brief=True),
        lambda: _without_named_tensors(args, kwargs),
    )
    if text:
        return f"({text})"
    return ""


def _without_named_tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The arguments but for named tensors, with a sign if one is left out."""
    plain = {key: item for key, item in kwargs.items() if not holds_tensor(item)}
    texts = arguments(args, plain, brief=True)
    if len(plain) < len(kwargs):
        return [*texts, "…"]
    return texts


def _are_tensors(items: Iterable[Any]) -> bool:
    """Whether all items are None or hold tensors."""
    for item in items:
        if item is None:
            continue
        if not holds_tensor(item):
            return False
    return True


def _first_fit(*forms: Callable[[], list[str]]) -> str:
    """The first form that is short enough, with commas between; the last one is cut."""
    text = ""
    for form in forms:
        text = ", ".join(form())
        if len(text) <= MOST_ARGUMENTS:
            return text
    return short(text, MOST_ARGUMENTS)


def _operation(call: Call, symbol: str) -> str:
    """An operator with the operands that are not tensors, or an index with all of its parts."""
    count = len(call.args)
    if symbol.startswith("[]") and count > 1:
        return f"[{_index(call.args[1])}]{symbol[2:]}"
    if count != 2:
        return symbol
    left, right = operands(call)
    return " ".join([*_plain_operand(left), symbol, *_plain_operand(right)])


def _index(index: Any) -> str:
    """The parts of an index."""
    parts = index
    if not isinstance(index, tuple):
        parts = (index,)
    return _first_fit(lambda: list(map(argument, parts)), lambda: [argument(part, brief=True) for part in parts])


def _plain_operand(item: Any) -> tuple[str, ...]:
    """The text of an operand; nothing for a tensor, which is not written out."""
    if holds_tensor(item):
        return ()
    return (short(value_text(item), MOST_ARGUMENTS),)


def call_marks(call: Call) -> list[str]:
    """What is unusual about how a call ran: "recompute", "compiled", or "vmap" if its shapes are those of one sample.

    >>> call_marks(Call(0, None, "module", "Net", phase="recompute", mode="compiled"))
    ['recompute', 'compiled']
    """
    marks: list[str] = []
    if call.phase == "recompute":
        marks.append(call.phase)
    if call.mode != "eager":
        marks.append(call.mode)
    return marks


class Placed(Protocol):
    """An object with a place in the source."""

    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...


def spot(site: Placed) -> str:
    """A place as it is named everywhere: the file without its folder, and the line.

    >>> spot(Site("/home/me/model.py", 7, "forward")), spot(Site("C:\\\\me\\\\model.py", 7, "forward"))
    ('model.py:7', 'model.py:7')
    """
    return f"{file_name(site.file)}:{site.line}"


@lru_cache(maxsize=4096)
def file_name(file: str) -> str:
    """A source file without its folder; a file of a library has its package.

    >>> file_name("/home/me/vit.py"), file_name("/venv/lib/python3.11/site-packages/vit_pytorch/vit.py")
    ('vit.py', 'vit_pytorch/vit.py')
    >>> file_name("/venv/lib/python3.11/site-packages/transformers/models/bert/modeling_bert.py")
    'transformers/…/modeling_bert.py'
    """
    if not is_library(file):
        return safe(base_name(file))
    package, *inner = folders(file)
    if len(inner) > 1:
        inner = ["…"]
    return safe("/".join([package, *inner, base_name(file)]))


def named_in_folder(file: str) -> str:
    """A source file with the folder that it is in, to tell it from another file of the same name.

    >>> named_in_folder("/home/me/data/utils.py"), named_in_folder("<stdin>")
    ('data/utils.py', '<stdin>')
    """
    return safe("/".join([*folders(file)[-1:], base_name(file)]))


def expression(site: Site | None) -> str:
    """The source text at a site, in one line.

    >>> expression(Site("train.py", 9, "main", "    optimizer.step()  # now", start=4, end=20))
    'optimizer.step()'
    """
    if site is None:
        return "?"
    text = site.text
    if site.end is not None:
        text = text[site.start : site.end]
    return short(safe(text.strip()), MOST_ARGUMENTS) or spot(site)


def method_name(call: Call) -> str | None:
    """The method, of the module that was running, that contains a call: `MHA.split_heads`.

    None when no line of that module's own code led to the call, as with F.linear inside torch's Linear.
    """
    if call.module is None:
        return None
    if call.site is None:
        return None
    return _method(call.site, call.module)


@lru_cache(maxsize=4096)
def _method(site: Site, module: ModuleFacts) -> str | None:
    owners = {module.type, *module.bases}
    place: Site | None = site
    while place is not None:
        owner, _, name = place.function.rpartition(".")
        if owner and owner.rpartition(".")[2] in owners:
            return safe(f"{module.type}.{name}")
        place = place.caller
    return None


def is_inner(call: Call) -> bool:
    """Whether a call is how a leaf module does its work, and not written in code of that module's own."""
    if call.kind == "module":
        return False
    if call.module is None:
        return False
    return call.module.leaf and method_name(call) is None
