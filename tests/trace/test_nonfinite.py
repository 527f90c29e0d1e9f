"""NaN and Inf in the events of a trace, made by hand: which are wrong, and where they began."""

from __future__ import annotations

from typing import Any

import pytest

from insitu.trace.event import Call, ModuleFacts, Stats, TensorFacts, Variable
from insitu.trace.nonfinite import NonFiniteSearch
from insitu.view.page.flags import HAS_INF, HAS_NAN, IS_ORIGIN, IS_WRONG, flags

INF, NAN = float("inf"), float("nan")
MODULE = ModuleFacts("net", "Net")
BEGINS, FOLLOWS = IS_WRONG | IS_ORIGIN, IS_WRONG


def tensor(id: int, *, nan: int = 0, inf: int = 0, low: float = 0.0, **more: Any) -> TensorFacts:
    return TensorFacts(
        id, (4,), "f32", "cpu", stats=Stats(count=4, min=low, max=1.0, mean=0.5, std=0.1, nan=nan, inf=inf), **more
    )


def call(id: int, name: str, *given: Any, result: Any, **more: Any) -> Call:
    return Call(id, None, more.pop("kind", "function"), f"torch.{name}", args=given, result=result, **more)


def found(*events: Call | Variable) -> dict[int, int]:
    search = NonFiniteSearch()
    for event in events:
        search.add(event)
    return flags(search.result())


def test_nan_begins_in_one_call_and_is_wrong_from_there_on() -> None:
    fine, bad = tensor(1), tensor(2, nan=3)
    events = [
        call(0, "log", fine, result=bad, module=MODULE),
        call(1, "add", bad, result=tensor(3, nan=1)),
        Call(2, None, "module", "Net", args=(fine,), result=bad),
        Variable(3, None, "x", bad, ("new",)),
        Variable(4, None, "loss", NAN, ("new",)),
        call(5, "relu", fine, result=tensor(4)),
    ]
    follows = HAS_NAN | FOLLOWS
    assert found(*events) == {0: HAS_NAN | BEGINS, 1: follows, 2: follows, 3: follows, 4: follows}


@pytest.mark.parametrize("name", ["empty", "Tensor.new_empty", "empty_like"])
def test_memory_that_nobody_wrote_is_not_wrong(name: str) -> None:
    memory = tensor(1, nan=2)
    view = call(1, "Tensor.view", memory, result=tensor(2, nan=2))
    assert found(call(0, name, 4, result=memory), view) == {0: HAS_NAN, 1: HAS_NAN}


def test_an_infinite_literal_is_not_wrong_but_the_nan_that_it_causes_is() -> None:
    masked = tensor(2, inf=3)
    events = [
        call(0, "Tensor.masked_fill", tensor(1), -INF, result=masked),
        call(1, "add", masked, result=tensor(3, inf=3)),
        call(2, "softmax", masked, result=tensor(4, nan=4), module=MODULE),
        call(3, "full", (4,), result=tensor(5, inf=4), kwargs={"fill_value": -INF}),
    ]
    assert found(*events) == {0: HAS_INF, 1: HAS_INF, 2: HAS_NAN | BEGINS, 3: HAS_INF}


def test_a_nan_literal_begins_where_it_is_written() -> None:
    assert found(call(0, "full", (4,), NAN, result=tensor(1, nan=4))) == {0: HAS_NAN | BEGINS}


def test_nan_from_outside_is_news_to_the_first_call_and_inf_from_outside_is_a_mask() -> None:
    events = [
        call(0, "add", tensor(1, nan=1), result=tensor(2, nan=1, producer=0)),
        call(1, "add", tensor(3, inf=2), result=tensor(4, inf=2)),
    ]
    assert found(*events) == {0: HAS_NAN | BEGINS, 1: HAS_INF}


def test_autograd_passes_nan_on_as_another_tensor() -> None:
    events = [
        call(3, "log", tensor(1), result=tensor(2, nan=1, producer=3), kind="aten", module=MODULE),
        call(4, "view", tensor(7, nan=1, producer=3), result=tensor(8, nan=1, producer=4), kind="aten"),
    ]
    assert found(*events) == {3: HAS_NAN | BEGINS, 4: HAS_NAN | FOLLOWS}


def test_the_least_number_of_a_dtype_is_a_mask() -> None:
    least = tensor(1, low=-3.4e38)
    assert found(call(0, "add", least, least, result=tensor(2, inf=1))) == {0: HAS_INF}
    assert found(call(0, "add", tensor(1, low=-3.0), result=tensor(2, inf=1))) == {0: HAS_INF | BEGINS}


# What may heal.


def overflow(**more: Any) -> tuple[Call, TensorFacts]:
    bad = tensor(2, inf=1, **more)
    return call(0, "log", tensor(1), result=bad), bad


def test_inf_that_heals_is_not_wrong() -> None:
    produced, bad = overflow()
    scores = tensor(3, inf=1)
    events = [
        produced,
        call(1, "add", bad, tensor(9), result=scores),
        Variable(2, None, "scores", scores, ("new",)),
        call(3, "softmax", scores, result=tensor(4)),
    ]
    assert found(*events) == {0: HAS_INF, 1: HAS_INF, 2: HAS_INF}


def test_inf_that_nobody_uses_or_that_has_a_gradient_is_wrong() -> None:
    produced, _ = overflow()
    assert found(produced) == {0: HAS_INF | BEGINS}
    produced, bad = overflow(requires_grad=True)
    assert found(produced, call(1, "clamp", bad, result=tensor(3))) == {0: HAS_INF | BEGINS}


@pytest.mark.parametrize(
    ("consumer", "flag"),
    [
        (call(1, "Tensor.sub", tensor(2, inf=1), result=tensor(3, nan=1)), HAS_NAN | FOLLOWS),
        (call(1, "Tensor.item", tensor(2, inf=1), result=INF), None),
        (call(1, "Tensor.tolist", tensor(2, inf=1), result=None), None),
        (call(1, "Tensor.backward", tensor(2, inf=1), result=None), None),
    ],
)
def test_inf_that_reaches_nan_a_number_or_a_loss_begins_where_it_was_produced(consumer: Call, flag: int | None) -> None:
    produced, _ = overflow()
    assert found(produced, consumer) == {0: HAS_INF | BEGINS, **({} if flag is None else {1: flag})}


def test_inf_that_spoils_a_gradient_begins_where_it_was_produced() -> None:
    produced, bad = overflow()
    product = call(1, "mul", bad, tensor(9, requires_grad=True), result=tensor(3))
    gradient = call(2, "mul", tensor(5), result=tensor(6, nan=1), kind="aten", phase="backward", forward=1)
    assert found(produced, product, gradient) == {0: HAS_INF | BEGINS, 2: HAS_NAN | FOLLOWS}


def test_while_a_program_runs_an_inf_that_may_heal_is_not_wrong_yet() -> None:
    search, inf = NonFiniteSearch(), tensor(1, inf=2)
    search.add(call(0, "log", tensor(0), result=inf))
    waiting = search.so_far(0)
    assert waiting is not None and (waiting.is_wrong, waiting.may_heal) == (False, True)
    search.add(call(1, "softmax", inf, result=tensor(2)))
    healed = search.so_far(0)
    assert healed is not None and (healed.is_wrong, healed.may_heal) == (False, False)
    search.add(call(2, "sub", inf, inf, result=tensor(3, nan=2)))
    reached = search.so_far(0)
    assert reached is not None and (reached.is_wrong, reached.may_heal) == (True, False)
    assert search.so_far(7) is None and search.origins == [0]


def test_nan_that_is_left_over_has_not_healed() -> None:
    fine, bad = tensor(1), tensor(2, nan=4)
    events = [call(0, "log", fine, result=bad), call(1, "sum", bad, result=tensor(3, nan=4))]
    assert found(*events) == {0: HAS_NAN | BEGINS, 1: HAS_NAN | FOLLOWS}


def test_nan_that_is_replaced_has_healed() -> None:
    fine, bad, worse = tensor(1), tensor(2, nan=4), tensor(3, nan=4)
    events = [
        call(0, "log", fine, result=bad),
        call(1, "add", bad, result=worse),
        call(2, "nan_to_num", worse, result=tensor(4)),
    ]
    assert found(*events) == {0: HAS_NAN, 1: HAS_NAN}
