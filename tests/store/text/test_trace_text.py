"""Traces as text: what is read back, that two runs give the same, that a small change is a small diff."""

from __future__ import annotations

import difflib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.store.example import ARRAYS, VALUES, everything
from torch import Tensor, nn

import insitu
from insitu.demo import GPT
from insitu.errors import ChoiceError, StoreError
from insitu.store.json_writer import Repr
from insitu.store.text.trace_text_reader import from_text
from insitu.store.text.trace_text_writer import to_text
from insitu.trace.compare.closeness import Tolerance, close
from insitu.trace.event import Call, Fields, Mark, ModuleFacts, Opaque, Stats, TensorFacts, Variable, Word
from insitu.trace.trace import Trace


class Net(nn.Module):
    def __init__(self, *, extra: bool = False) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.extra = extra

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.fc(x)) + 0
        if self.extra:
            x = x * 2
        x[0] = 0
        x += 1
        a, b = x.chunk(2)
        return torch.cat([a @ b.T, b @ a.T])


def recorded(model: nn.Module, x: Tensor, *, steps: int = 1, backward: bool = False, **options: Any) -> Trace:
    options.setdefault("keep", "stats")
    with insitu.record(model, **options) as trace:
        for _ in range(steps):
            out = model(x)
            if backward:
                out.sum().backward()
    return trace


def net(*, seed: int = 0, extra: bool = False, **options: Any) -> Trace:
    torch.manual_seed(seed)
    return recorded(Net(extra=extra), torch.randn(2, 3), **options)


def gpt(layers: int = 4, **options: Any) -> Trace:
    torch.manual_seed(0)
    return recorded(GPT(layers=layers), torch.randint(256, (2, 24)), **options)


def essence(trace: Trace) -> list[Any]:
    """All that the text keeps, with tensors and events numbered in the order in which the text has them."""
    trace = Trace(_in_order(trace))
    events = {event.id: number for number, event in enumerate(trace.events)}
    met: dict[int, int] = {}

    def plain(item: Any) -> Any:
        if isinstance(item, TensorFacts):
            made = events.get(item.producer) if item.producer is not None else None
            return (met.setdefault(id(item), len(met)), item.shape, item.dtype, item.type, item.requires_grad, made)
        if isinstance(item, list | tuple):
            return [type(item), *map(plain, item)]
        if isinstance(item, dict):
            return {key: plain(value) for key, value in item.items()}
        return (item.type, plain(item.items)) if isinstance(item, Fields) else item

    return [
        (
            *(
                events.get(event.parent),
                event.kind,
                event.name,
                event.operator,
                event.path,
                event.phase,
                event.mode,
                event.step,
            ),
            *(event.raised, event.message, events.get(event.forward)),
            *(plain(event.args), plain(event.kwargs), plain(event.result)),
        )
        for event in trace.calls
    ]


def _in_order(trace: Trace) -> list[Any]:
    found: list[Any] = []
    waiting = list(reversed(trace.roots))
    while waiting:
        found.append(waiting.pop())
        waiting += reversed(trace.children(found[-1]))
    return found


@pytest.mark.parametrize("level", ["modules", "functions", "aten"])
@pytest.mark.parametrize("backward", [False, True])
def test_a_trace_is_read_back(level: str, backward: bool) -> None:
    for trace in (net(level=level, backward=backward, steps=2), gpt(1, level=level, backward=backward, steps=2)):
        text = to_text(trace)
        back = from_text(text)
        assert essence(back) == essence(trace)
        assert to_text(back) == text
        assert back.about == {"subject": trace.about["subject"], "level": level}


def test_text_has_a_line_for_each_event_and_no_facts_of_the_machine() -> None:
    trace = gpt()
    lines = to_text(trace).splitlines()
    assert len(lines) == len(trace) + 3
    assert not any(word in line for line in lines for word in (".py", "0x", trace.about["started"][:4] + "-"))
    assert to_text(gpt()) == "\n".join([*lines, ""])


def test_text_of_a_small_model() -> None:
    lines = to_text(gpt(1)).splitlines()
    assert lines[:2] == ["insitu trace 1", "about {'subject': 'GPT', 'level': 'functions'}"]
    assert lines[2].startswith("module '' GPT(%input:i64[2, 24]{min ") and lines[2].endswith(") -> %head.linear")
    (softmax,) = [line for line in lines if "softmax(" in line]
    head, facts = softmax.split(" -> ")
    assert head == "      F.softmax(%h.0.attn.masked_fill, dim=-1)"
    assert facts.startswith("%h.0.attn.softmax:f32[2, 6, 24, 24]{grad, min 0, max 1, mean 0.0416666")
    assert "    module h.0.attn Attention(%h.0.ln_1.layer_norm) -> %h.0.attn.c_proj.linear" in lines
    assert lines[-1] == "end"


def test_the_text_is_small() -> None:
    assert len(to_text(gpt())) < 30_000
    assert len(to_text(gpt(keep="meta"))) < 20_000


def changed(before: Trace, after: Trace) -> list[str]:
    found = difflib.ndiff(to_text(before).splitlines(), to_text(after).splitlines())
    return [line for line in found if line[0] in "+-"]


def test_additional_call_changes_few_lines() -> None:
    found = changed(net(keep="meta", steps=3), net(keep="meta", steps=3, extra=True))
    # In each step: the new line, and the one that takes its output.
    assert len(found) == 3 * 3
    assert [line for line in found if ".mul *(%add, 2) -> %mul" in line] == found[:1] + found[3:4] + found[6:7]


def test_second_step_reuses_the_names_of_the_first() -> None:
    lines = to_text(net(keep="meta", steps=2)).splitlines()[2:-1]
    half = len(lines) // 2
    assert [line for line in lines[half:] if "relu" in line] == [line for line in lines[:half] if "relu" in line]
    assert lines[half].startswith("module '' Net(%input) [step 1] -> ")


def test_name_of_a_tensor_that_is_used_later_is_not_reused() -> None:
    first = TensorFacts(0, (1,), "f32", "cpu", producer=0)
    second = TensorFacts(1, (2,), "f32", "cpu", producer=1)
    calls = [
        Call(0, None, "function", "torch.relu", result=first, step=0),
        Call(1, None, "function", "torch.relu", result=second, step=1),
        Call(2, None, "function", "torch.add", args=(first, second), step=1),
    ]
    back = from_text(to_text(Trace([*calls])))
    assert [facts.shape for facts in back.calls[2].inputs] == [(1,), (2,)]
    assert [producer.id for facts in back.calls[2].inputs if (producer := back.producer(facts))] == [0, 1]
    # Without the third call nobody needs the first tensor, and the second step may look like the first.
    assert to_text(Trace([*calls[:2]])).count("%relu:f32") == 2


def test_tensor_changed_in_place_has_its_call_as_producer() -> None:
    back = from_text(to_text(net()))
    (added,) = back.find("", name="+=") or back.find("", name="*iadd*") or back.find("", name="*add_")
    producer = back.producer(added.inputs[0])
    assert producer is not None and producer.name == "torch.Tensor.__setitem__"


def test_uninitialized_memory_has_no_statistics() -> None:
    with insitu.record(keep="stats", level="aten") as trace:
        torch.empty(3).fill_(2)
    lines = to_text(trace).splitlines()[2:]
    assert [line.partition("{")[0] for line in lines] == [
        "torch.empty(3) -> %empty",
        "  op aten.empty.memory_format([3], device=cpu, pin_memory=False) -> %empty:f32[3]",
        ".fill_(%empty, 2) -> %fill_",
        "  op aten.fill_.Scalar(%empty, 2) -> %fill_:f32[3]",
        "end",
    ]
    assert [line for line in lines if "{" in line] == [lines[3]] and "{min 2, max 2, " in lines[3]


def test_every_event_and_value_can_be_written() -> None:
    text = to_text(everything())
    back = from_text(text)
    assert to_text(back) == text
    assert [type(event) for event in back.events].count(Variable) == 6
    assert {mark.text for mark in back.marks} == {"", "lone \ud800", "it broke"}
    assert [call.raised for call in back.calls if call.raised] == ["RuntimeError"]


MORE = [Word("cuda:0"), Word("nan"), Word("a b"), (Opaque("a b"), Fields("a b", {"c d": 1}))]


@pytest.mark.parametrize("index", range(len(VALUES) + len(MORE)))  # the values themselves make poor ids
def test_a_value_is_read_back(index: int) -> None:
    value = [*VALUES, *MORE][index]
    back = from_text(to_text(Trace([Call(0, None, "function", "f", args=(value,), kwargs={"of": value})])))
    for found in (back.calls[0].args[0], back.calls[0].kwargs["of"]):
        if isinstance(value, Repr):
            assert found == Opaque("Repr")
        else:
            assert type(found) is type(value)
            assert found == value if isinstance(value, int) else repr(found) == repr(value)


@pytest.mark.parametrize("array", [array for array in ARRAYS if array.dtype.kind in "biufc"])
def test_an_array_that_was_kept_is_read_back(array: Any) -> None:
    facts = TensorFacts(0, (2,), "f32", "cpu", producer=0, kept=array)
    kept = from_text(to_text(Trace([Call(0, None, "function", "f", result=facts)]))).calls[0].outputs[0].kept
    np.testing.assert_array_equal(np.asarray(kept), array)
    assert not array.shape or (kept.dtype, kept.shape) == (array.dtype, array.shape)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "c64", "i64", "b8", "f8e4m3fn"])
def test_rounded_statistics_are_close_to_the_exact_ones(dtype: str) -> None:
    random.seed(dtype)
    for exponent in range(-12, 12):
        low, high = sorted(random.uniform(-1, 1) * 10**exponent for _ in range(2))
        spread = (high - low) / 3
        for mean in (random.uniform(low, high), 1e-9 * high):
            facts = TensorFacts(
                0,
                (8,),
                dtype,
                "cpu",
                producer=0,
                stats=Stats(count=8, min=low, max=high, mean=mean, std=spread, zeros=1),
            )
            (back,) = from_text(to_text(Trace([Call(0, None, "function", "f", result=facts)]))).calls[0].outputs
            assert close(facts, back, Tolerance()).same and close(back, facts, Tolerance()).same


def test_rounding_does_not_hide_a_difference() -> None:
    one, other = (
        TensorFacts(0, (8,), "f32", "cpu", stats=Stats(count=8, min=0.0, max=high, mean=1.0, std=1.0))
        for high in (2.0, 2.0001)
    )
    texts = [to_text(Trace([Call(0, None, "function", "f", result=facts)])) for facts in (one, other)]
    facts = [from_text(text).calls[0].outputs[0] for text in texts]
    assert close(facts[0], facts[1], Tolerance()).same is False


@pytest.mark.parametrize("name", ["__", "____", "torch.__", "torch._"])
def test_a_function_without_letters_in_its_name(name: str) -> None:
    made = TensorFacts(0, (2,), "f32", "cpu", producer=0)
    text = to_text(Trace([Call(0, None, "function", name, result=made), Call(1, None, "function", "f", args=(made,))]))
    first, second = from_text(text).calls
    assert first.name == name and second.inputs[0].producer == first.id and to_text(from_text(text)) == text


def test_statistics_and_facts_are_kept() -> None:
    grad = TensorFacts(2, (2, 0), "f32", "cpu", stats=Stats(count=0))
    stats = Stats(count=9, nan=9)
    facts = TensorFacts(1, ("s0", 3), "bf16", "cuda:1", True, None, "DTensor", None, stats, {"top": [1.5]}, grad)
    (back,) = from_text(to_text(Trace([Call(0, None, "function", "f", result=[facts])]))).calls[0].outputs
    assert (back.shape, back.dtype, back.device, back.type) == (("s0", 3), "bf16", "cuda:1", "DTensor")
    assert (back.requires_grad, back.stats, back.kept, back.producer) == (True, stats, {"top": [1.5]}, None)
    assert back.grad is not None and (back.grad.shape, back.grad.stats) == ((2, 0), grad.stats)


def test_names_of_any_kind_survive() -> None:
    module = ModuleFacts("my block.0", "<locals>.Net", settings={"eps": 1e-5, "a b": None})
    names = ["module", "op", "end", "F.x", ".y", "f.<locals>.g", "torch.Tensor.data=", "torch.nn.functional.relu", "é"]
    calls: list[Any] = [Call(0, None, "module", module.type, module)]
    calls += [Call(1 + i, 0, "function", name, module, operator="del []") for i, name in enumerate(names)]
    back = from_text(to_text(Trace(calls)))
    assert [call.name for call in back.calls] == [module.type, *names]
    assert back.calls[1].operator == "del []"
    assert (back.calls[3].path, back.calls[0].module.settings) == ("my block.0", module.settings)  # type: ignore[union-attr]


def test_calls_of_other_threads_are_not_nested_in_a_call() -> None:
    one, two = (Call(i, None, "python", f"f{i}", thread=i) for i in range(2))
    inner = [Call(2 + i, i % 2, "function", f"g{i}", thread=i % 2) for i in range(4)]
    lines = to_text(Trace([one, two, *inner])).splitlines()[2:-1]
    assert lines == ["def f0()", "  g0()", "  g2()", "def f1()", "  g1()", "  g3()"]


def test_text_file_is_saved_and_loaded(tmp_path: Path) -> None:
    insitu.save(net(), tmp_path / "net.trace")
    assert (tmp_path / "net.trace").read_text("utf-8") == to_text(net())
    assert essence(insitu.load(tmp_path / "net.trace")) == essence(net())
    with pytest.raises(StoreError, match="is there already"):
        insitu.save(net(), tmp_path / "net.trace")
    with pytest.raises(StoreError, match=r"no\.trace' cannot be loaded: the file does not exist"):
        insitu.load(tmp_path / "no.trace")
    (tmp_path / "dos.trace").write_bytes(to_text(net()).replace("\n", "\r\n").encode())
    assert essence(insitu.load(tmp_path / "dos.trace")) == essence(net())


def test_a_run_is_not_written_as_text(tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match=r"unknown output format '\.trace' in .*run\.trace': choose \.h5 or \.hdf5"):
        insitu.record_run(Net(), keep="values", to=tmp_path / "run.trace")


HEAD = ["insitu trace 1", "about {}"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["PK\x03\x04"], r"line 1: it does not begin with 'insitu trace 1'"),
        ([*HEAD, "f()"], r"line 4: it is cut short: the last line is not 'end'"),
        ([*HEAD, "f(1", "end"], r"line 3: ',' is missing before the end of the line: 'f\(1'"),
        ([*HEAD, "f(", "end"], r"line 3: it is cut short: 'f\('"),
        ([*HEAD, "f(1 2)", "end"], r"line 3: ',' is missing before '2'"),
        ([*HEAD, "f(%x)", "end"], r"line 3: %x is not the name of a tensor before this: 'f\(%x\)'"),
        ([*HEAD, "f() -> %x", "  g()", "h()", "end"], r"line 3: %x is not the name"),
        ([*HEAD, "f()", "   g()", "end"], r"line 4: it is indented by 3 spaces"),
        ([*HEAD, "    f()", "end"], r"line 3: it is indented by 4 spaces"),
        ([*HEAD, "f() -> %x:f32[2]{min ?}", "end"], r"line 3: '\?\}' cannot be understood here"),
        ([*HEAD, "f() -> %x:f32[2]{most 1}", "end"], r"line 3: 'grad' or .* is missing before 'most'"),
        ([*HEAD, "f() [of 1]", "end"], r"line 3: 'of' must be followed by a tensor that a call produced"),
        ([*HEAD, "f() nonsense", "end"], r"line 3: there is more than can be understood, from 'nonsense' on"),
        ([*HEAD, "<<<<<<< HEAD", "f()", "=======", "end"], r"line 3: .*: '<<<<<<< HEAD'"),
        ([*HEAD, f"f({'(' * 10_000}", "end"], r"line 3: it is nested more than 64 deep"),
        ([*HEAD, "", "end"], r"line 3: "),
        (["insitu trace 1", "f()", "end"], r"line 2: 'about' is missing"),
    ],
)
def test_error_names_the_damaged_line(tmp_path: Path, lines: list[str], message: str) -> None:
    (tmp_path / "bad.trace").write_text("\n".join([*lines, ""]), "utf-8")
    with pytest.raises(StoreError, match=r"bad\.trace' cannot be loaded: " + message):
        insitu.load(tmp_path / "bad.trace")


def test_error_names_the_line_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "bad.trace").write_bytes(b"insitu trace 1\nabout {}\nf('\xff')\nend\n")
    with pytest.raises(StoreError, match="line 3: it is not text in UTF-8"):
        insitu.load(tmp_path / "bad.trace")


def test_damaged_text_raises_only_store_errors() -> None:
    text = to_text(everything()) + to_text(gpt(1, backward=True))
    generator = random.Random(0)
    lines = to_text(everything()).split("\n")
    signs = sorted({*text, "\n", "(", "%"})
    refused = 0
    for _ in range(1500):
        broken = list(lines)
        number = generator.randrange(len(broken))
        line = broken[number]
        at, end = sorted(generator.randrange(len(line) + 1) for _ in range(2))
        broken[number] = line[:at] + "".join(generator.choices(signs, k=generator.randrange(4))) + line[end:]
        try:
            from_text("\n".join(broken))
        except StoreError as error:
            refused += 1
            assert str(error).startswith("line ")
    assert refused > 500


def test_compiled_and_vmapped_calls_are_read_back() -> None:
    calls = [Call(0, None, "module", "Net", mode="compiled"), Call(1, None, "function", "torch.sin", mode="vmap")]
    calls += [Call(2, 1, "aten", "aten.sin"), Call(3, 1, "function", "torch.cos", mode="vmap", phase="recompute")]
    again = from_text(to_text(Trace(list(calls)))).calls
    assert [(call.mode, call.phase) for call in again] == [(call.mode, call.phase) for call in calls]


def test_mark_is_read_back() -> None:
    assert [mark.text for mark in from_text(to_text(Trace([Mark(3, None, "note", "it's")]))).marks] == ["it's"]


def test_tensor_of_a_variable_without_a_label_keeps_its_identity() -> None:
    x = TensorFacts(0, (2,), "f32", "cpu")
    trace = Trace([Variable(0, None, "x.", x, ("new",)), Variable(1, None, "y", x, ("new",))])
    assert to_text(from_text(to_text(trace))) == to_text(trace)


def test_result_of_a_surrounding_call_does_not_name_a_forward_call() -> None:
    x = TensorFacts(0, (2,), "f32", "cpu", producer=1)
    block = Call(0, None, "module", "Block", ModuleFacts("", "Block"), result=x)
    inner, later = Call(1, 99, "function", "torch.relu", result=x), Call(2, None, "aten", "aten.mm", forward=1)
    text = to_text(Trace([block, inner, later]))
    assert " of %" not in text and to_text(from_text(text)) == text
