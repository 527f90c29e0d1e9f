"""The verb `guard`: what it accepts, raises, warns and records; that it changes nothing; the health of a training."""

from __future__ import annotations

import copy
import random
import signal
import threading
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from types import FrameType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import insitu
from insitu import InsituWarning, NonFiniteError
from insitu.capture.finite import total
from insitu.demo import GPT
from insitu.trace.findings import (
    MissingGradients,
    OptimizerGap,
    StaleGradients,
    StuckParameters,
    VanishingGradients,
)


class Net(nn.Module):
    """Two layers, and a root that may go wrong."""

    def __init__(self, *, root: bool = False) -> None:
        super().__init__()
        self.body, self.head, self.root = nn.Linear(4, 8), nn.Linear(8, 2), root

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x).relu()
        return self.head(hidden.sqrt() if self.root else hidden)


def trained(model: nn.Module, steps: int = 4, **options: Any) -> insitu.session.guard.Guard:  # type: ignore[name-defined]
    """A guard that has seen a training; `options` change what is healthy about it."""
    torch.manual_seed(0)
    x, y = torch.randn(16, 4), torch.randint(2, (16,))
    optimizer = options.get("optimizer") or torch.optim.SGD(model.parameters(), options.get("rate", 0.1))
    with insitu.guard(model, action="record", allow=options.get("allow", ())) as guard:
        for _ in range(steps):
            if options.get("zero_grad", True):
                optimizer.zero_grad()
            for _ in range(options.get("passes", 1)):
                F.cross_entropy(model(x), y).backward()
            optimizer.step()
    return guard


def zeros() -> Tensor:
    return torch.zeros(2, requires_grad=True)


def test_guard_raises_where_nothing_can_repair_it_and_names_the_call() -> None:
    reached = []
    with pytest.raises(NonFiniteError, match=r"test_guard\.py:\d+: \.log produced") as caught, insitu.guard() as guard:
        loss = zeros().log().sum()
        reached.append("log")
        loss.backward()
        reached.append("backward")
    assert reached == ["log"]
    assert caught.value.finding is guard.findings[0] and str(caught.value) == guard.findings[0].text
    assert isinstance(caught.value, FloatingPointError) and isinstance(caught.value, insitu.InsituError)


def test_without_a_gradient_it_raises_where_the_infinity_matters() -> None:
    reached = []
    with pytest.raises(NonFiniteError, match=r"test_guard\.py:\d+: \.log produced Inf"), insitu.guard():
        scores = -torch.tensor([1.0, 0.0]).log()
        reached.append("log")
        scores.softmax(-1)  # NaN in both: no mask finds the one that was infinite
        reached.append("softmax")
    assert reached == ["log"]
    with pytest.raises(NonFiniteError, match="it is in a result that no call used"), insitu.guard():
        torch.zeros(2).log()


def test_guard_raises_through_backward_and_names_the_forward_line() -> None:
    model = Net(root=True)
    with pytest.raises(NonFiniteError) as caught, insitu.guard(model):
        model(torch.ones(2, 4)).sum().backward()
    text = str(caught.value)
    assert "SqrtBackward0" in text and "hidden.sqrt() if self.root" in text and "the gradient of a root at 0" in text
    assert caught.value.finding is not None and caught.value.finding.phase == "backward"


def test_guard_warns_once_for_each_place() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with insitu.guard(action="warn") as guard:
            for _ in range(5):
                torch.zeros(2).log()
            torch.zeros(2).reciprocal()
    assert [warning.category for warning in told] == [InsituWarning, InsituWarning]
    assert [guard.times(finding) for finding in guard.findings] == [5, 1]


def test_guard_only_records() -> None:
    with insitu.guard(action="record") as guard:
        assert torch.zeros(2, requires_grad=True).log().sum().item() < 0
    assert [finding.kind for finding in guard.findings] == ["inf"]


def test_guard_decorates_a_function() -> None:
    @insitu.guard()
    def logarithm(x: Tensor) -> Tensor:
        return x.log()

    assert logarithm.__name__ == "logarithm" and logarithm(torch.ones(2)).sum() == 0
    with pytest.raises(NonFiniteError, match="log produced Inf"):
        logarithm(torch.zeros(2))


def test_a_decorated_function_leaves_the_exceptions_around_it_alone() -> None:
    @insitu.guard()
    def fine() -> int:
        return 1

    around = ValueError("handled by the caller")
    try:
        raise around
    except ValueError:
        assert fine() == 1
    assert not hasattr(around, "__notes__")


def test_generators_and_coroutines_are_refused() -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def coroutine() -> None: ...

    async def both() -> AsyncIterator[int]:
        yield 1

    for function in (generator, coroutine, both):
        with pytest.raises(insitu.SubjectError, match=r"it runs later.*Write `with insitu\.guard"):
            insitu.guard()(function)


def test_with_a_model_the_loss_and_the_data_are_checked_too() -> None:
    model = Net()
    with pytest.raises(NonFiniteError, match="log"), insitu.guard(model):
        model(torch.ones(2, 4)).mul(0).log()
    data = torch.ones(2, 4)
    with pytest.raises(NonFiniteError, match=r"data - data\) / data\.std") as caught, insitu.guard(model):
        scaled = (data - data) / data.std(0).sub(data.std(0))
        model(scaled)
    assert caught.value.finding is not None and caught.value.finding.kind == "nan"


def test_a_metric_of_a_training_only_warns() -> None:
    model = Net()
    with pytest.warns(InsituWarning, match=r"it left torch: \.item"), insitu.guard(model) as guard:
        model(torch.ones(2, 4)).mean().backward()
        assert (torch.zeros(1) / torch.zeros(1)).item() != 0
    assert [finding.kind for finding in guard.findings] == ["nan"]
    with pytest.raises(NonFiniteError, match=r"it left torch: \.item"), insitu.guard(model):
        (torch.zeros(1) / torch.zeros(1)).item()


def test_allowed_functions_and_modules_are_silent() -> None:
    with insitu.guard(allow="log"):
        torch.zeros(2).log()
    with insitu.guard(allow=["torch.Tensor.log", "sqrt"]):
        torch.zeros(2, requires_grad=True).sqrt().sum().backward()
        torch.zeros(2).log()
    model = nn.Sequential(Net(root=True))
    with insitu.guard(model, allow="0"):
        model(torch.ones(2, 4)).sum().backward()
    with pytest.raises(NonFiniteError), insitu.guard(model, allow="0.head"):
        model(torch.ones(2, 4)).sum().backward()


def test_bad_options_are_refused() -> None:
    with pytest.raises(insitu.ChoiceError, match="did you mean 'raise'"):
        insitu.guard(action="rise")
    with pytest.raises(insitu.SubjectError, match=r"insitu\.guard cannot"):
        insitu.guard(3)  # type: ignore[arg-type]
    with pytest.raises(insitu.PatternError, match="did you mean 'body'"):
        insitu.guard(Net(), allow="bdy")
    with pytest.raises(insitu.PatternError, match="is not a path pattern"):
        insitu.guard(allow=[3])  # type: ignore[list-item]


def test_the_environment_switches_guards_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSITU", "0")
    with insitu.guard() as guard:
        torch.zeros(2).log()
    assert guard.findings == []


def test_the_user_s_exception_is_not_replaced() -> None:
    error = ValueError("of the user")
    with pytest.raises(ValueError) as caught, insitu.guard(Net()):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("the loss is infinite"), SystemExit(1)])
def test_what_comes_to_light_when_an_exception_ends_the_block_is_only_told(error: BaseException) -> None:
    with (
        pytest.warns(InsituWarning, match=r"raised by its line \* 10"),
        pytest.raises(type(error)) as caught,
        insitu.guard() as guard,
    ):
        kept = torch.tensor([3e38], requires_grad=True) * 10  # raised by its line * 10
        raise error
    assert caught.value is error and kept.isinf().all()
    assert [finding.kind for finding in guard.findings] == ["inf"]
    with pytest.raises(type(error)), insitu.guard(action="record") as guard:
        kept = torch.tensor([3e38], requires_grad=True) * 10
        raise error
    assert [finding.kind for finding in guard.findings] == ["inf"]


class Alarm(KeyboardInterrupt):
    """What the user's handler raises."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_interrupt_leaves_the_grad_mode_as_it_was(dtype: torch.dtype) -> None:
    def handler(number: int, frame: FrameType | None) -> None:
        raise Alarm

    chosen, x = random.Random(0), torch.ones(3, dtype=dtype)
    earlier = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(300):
            with pytest.raises(Alarm):
                signal.setitimer(signal.ITIMER_REAL, chosen.uniform(1e-4, 1e-3))
                while True:
                    total(x)  # as in a guard, where function modes are off
            assert torch.is_grad_enabled()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
        torch.set_grad_enabled(True)


def test_an_own_failure_is_told_once_and_stays_out_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("of ours")

    monkeypatch.setattr("insitu.capture.guard.handlers.output_finding", fail)
    with pytest.warns(InsituWarning, match="finding a cause") as told, insitu.guard():
        for _ in range(3):
            torch.zeros(2).log()
    assert len(told) == 1


def test_guards_nest_and_overlap_with_other_sessions() -> None:
    outer, inner = insitu.guard(action="record"), insitu.guard(action="record")
    with outer, insitu.record(level="aten") as trace, inner, insitu.record() as functions:
        torch.zeros(2).log()
    for guard in (outer, inner):
        assert [finding.kind for finding in guard.findings] == ["inf"]
    assert [call.name for call in functions.calls] == ["torch.zeros", "torch.Tensor.log"]
    assert "aten.sum" not in {call.name for call in trace.calls}
    one, other = insitu.guard(action="record"), insitu.guard(action="record")
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    torch.zeros(2).log()
    other.__exit__(None, None, None)
    assert (len(one.findings), len(other.findings)) == (0, 1)


def test_modes_of_the_user_do_not_see_the_checks() -> None:
    class Seen(TorchFunctionMode):
        names: list[str] = []  # noqa: RUF012

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Seen() as seen, insitu.guard():
        (torch.ones(2, requires_grad=True) * 2).exp().prod().backward()
    assert seen.names == ["ones", "mul", "exp", "prod", "backward"]


def run_of(model: nn.Module, guarded: bool) -> list[Tensor]:
    torch.manual_seed(1)
    tokens = torch.randint(256, (2, 12))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    kept = []
    with insitu.guard(model) if guarded else warnings.catch_warnings():
        for _ in range(3):
            optimizer.zero_grad()
            logits = F.dropout(model(tokens), 0.1)
            loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
            loss.backward()
            kept += [logits.detach().clone(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
            optimizer.step()
    return [*kept, *(p.detach().clone() for p in model.parameters()), torch.get_rng_state()]


def test_outputs_gradients_and_random_state_are_the_same_bit_by_bit() -> None:
    model = GPT()
    alone, guarded = run_of(copy.deepcopy(model), False), run_of(model, True)
    assert len(alone) == len(guarded) > 100
    assert all(torch.equal(one, other) for one, other in zip(alone, guarded, strict=True))


def test_grad_mode_stays_as_it_is() -> None:
    with insitu.guard():
        with torch.no_grad():
            nn.Parameter(torch.ones(2)).exp()
            assert not torch.is_grad_enabled()
        torch.ones(2).exp()
        assert torch.is_grad_enabled()
        with torch.inference_mode():
            assert torch.ones(2).exp().is_inference()


# The health of a training


def test_a_healthy_training_is_silent() -> None:
    assert trained(Net()).findings == []
    assert trained(Net(), passes=3).findings == []
    assert trained(Net(), steps=1, rate=0.0).findings == []


def kinds(guard: Any) -> list[tuple[str, list[str]]]:
    return [(finding.kind, [*getattr(finding, "paths", ())]) for finding in guard.findings]


def test_frozen_and_forgotten_weights_are_named() -> None:
    frozen = Net()
    frozen.body.requires_grad_(False)
    assert kinds(trained(frozen)) == [("unchanged", ["body.weight", "body.bias"])]
    assert kinds(trained(frozen, allow="body")) == []
    forgotten = Net()
    guard = trained(forgotten, optimizer=torch.optim.SGD(forgotten.head.parameters(), 0.1))
    assert kinds(guard) == [("unchanged", ["body.weight", "body.bias"])]
    assert isinstance(guard.findings[0], OptimizerGap)
    assert [type(finding) for finding in trained(Net(), rate=0.0).findings] == [StuckParameters]


def test_fine_tuning_is_recorded_without_a_warning() -> None:
    def tune(model: Net, *, freeze_late: bool = False) -> Any:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with insitu.guard(model) as guard:
            model.body.requires_grad_(not freeze_late and model.body.weight.requires_grad)
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.ones(2, 4)).square().mean().backward()
                optimizer.step()
        return guard

    tuned = Net()
    tuned.body.requires_grad_(False)
    (finding,) = tune(tuned).findings  # a warning would be an error here
    assert finding.severity == "info" and "body.weight, body.bias" in finding.text
    with pytest.warns(InsituWarning, match=r"\(frozen: requires_grad is False\)"):
        tune(Net(), freeze_late=True)


def test_a_fixed_table_is_not_a_frozen_layer() -> None:
    model = Net()
    model.table = nn.Parameter(torch.ones(3), requires_grad=False)
    model.positions = nn.Embedding.from_pretrained(torch.ones(3, 2))
    assert kinds(trained(model)) == []


def test_a_parameter_of_one_s_own_is_counted_among_the_frozen() -> None:
    model = Net()
    model.scale = nn.Parameter(torch.ones(3), requires_grad=False)
    model.body.requires_grad_(False)
    assert kinds(trained(model)) == [("unchanged", ["scale", "body.weight", "body.bias"])]


def test_weights_that_get_no_gradient_are_named() -> None:
    model = Net()
    model.unused = nn.Linear(2, 2)
    guard = trained(model)
    assert kinds(guard) == [("missing", ["unused.weight", "unused.bias"])]
    assert guard.findings[0].text == ("2 parameters got no gradient in 4 backward passes: unused.weight, unused.bias")


class Cut(Net):
    """The graph is cut in the middle."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x).relu()
        return self.head(hidden.detach())


def test_the_line_that_cuts_the_graph_is_named() -> None:
    (finding,) = trained(Cut()).findings
    assert isinstance(finding, MissingGradients) and finding.paths == ("body.weight", "body.bias")
    assert finding.site is not None and "hidden.detach()" in finding.site.text
    words = ".detach takes a tensor that requires a gradient; its result does not"
    assert f"\n  cut   test_guard.py:{finding.site.line}: {words}\n" in finding.text


def test_a_call_that_cuts_another_graph_is_not_named() -> None:
    class Other(Net):
        def __init__(self) -> None:
            super().__init__()
            self.unused = nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.body(x).relu()
            return self.head(hidden + hidden.detach())

    (finding,) = trained(Other()).findings
    assert finding.text == "2 parameters got no gradient in 4 backward passes: unused.weight, unused.bias"


def fit(model: nn.Module, parameters: Any, *subject: nn.Module, loss: Any = None) -> Any:
    """A guard around three steps of training."""
    optimizer = torch.optim.SGD(parameters, 0.1)
    with insitu.guard(*subject, action="record") as guard:
        for _ in range(3):
            optimizer.zero_grad()
            out = model(torch.ones(2, 4))
            (out if loss is None else loss(out)).square().mean().backward()
            optimizer.step()
    return guard


@pytest.mark.parametrize("has_model", [True, False])
def test_a_training_in_which_no_parameter_gets_a_gradient_is_named(has_model: bool) -> None:
    model = Net()
    subject = [model] if has_model else []
    guard = fit(model, model.parameters(), *subject, loss=lambda out: out.detach().requires_grad_())
    (finding,) = guard.findings
    assert finding.text.startswith("none of 4 parameters got a gradient in 3 backward passes: body.weight, body.bias")
    assert finding.site is not None and "out.detach()" in finding.site.text


def test_a_model_that_another_training_only_evaluates_is_fine() -> None:
    teacher, student = Net(), Net()

    def distance(out: Tensor) -> Tensor:
        with torch.no_grad():
            return out - teacher(torch.ones(2, 4))

    for subject in ([], [student]):
        assert fit(student, student.parameters(), *subject, loss=lambda out: out - distance(out)).findings == []
    guard = fit(student, student.parameters(), teacher, loss=lambda out: out - distance(out))
    assert guard.findings == []


def test_without_a_model_layers_that_the_optimizer_lacks_are_named() -> None:
    model = Net()
    assert kinds(fit(model, model.head.parameters())) == [("unchanged", ["body.weight", "body.bias"])]
    assert kinds(fit(model, [*model.parameters()])) == []


def test_without_a_model_a_network_that_only_computes_the_loss_is_fine() -> None:
    model, features = Net(), nn.Linear(2, 3)
    assert fit(model, model.parameters(), loss=features).findings == []


def test_gradients_that_are_not_set_to_zero_are_named_with_the_line() -> None:
    (finding,) = trained(Net(), zero_grad=False).findings
    assert finding.kind == "accumulated" and finding.site is not None and ".backward()" in finding.site.text
    assert isinstance(finding, StaleGradients) and finding.stale_steps == 3


def test_two_optimizers_may_take_turns() -> None:
    one, two = nn.Linear(3, 3), nn.Linear(3, 1)
    first, second = torch.optim.SGD(one.parameters(), 0.1), torch.optim.SGD(two.parameters(), 0.1)
    with insitu.guard(nn.ModuleList([one, two])) as guard:
        for _ in range(4):
            second.zero_grad()
            two(one(torch.ones(2, 3))).square().mean().backward()  # adds to the gradients of `one`, too
            second.step()
            first.zero_grad()
            (two(one(torch.ones(2, 3))) - 1).square().mean().backward()
            first.step()
    assert guard.findings == []


def test_vanishing_and_exploding_gradients_are_named() -> None:
    dead = Net()
    nn.init.constant_(dead.body.bias, -40.0)
    (finding,) = trained(dead).findings
    assert isinstance(finding, VanishingGradients) and "body.weight" in finding.paths

    class Growing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor) -> Tensor:
            return (x * self.scale).mul(1e4)[:, :2]

    assert kinds(trained(Growing(), rate=0.0))[0][0] != "exploding"
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 20.0)
    with insitu.guard(model, action="record") as guard:
        for _ in range(5):
            optimizer.zero_grad()
            (model(torch.ones(2, 4)) - 1).square().mean().backward()
            optimizer.step()
    assert "exploding" in [finding.kind for finding in guard.findings]


def test_a_step_that_spoils_a_weight_raises() -> None:
    model = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), 3e38)
    with (
        pytest.raises(NonFiniteError, match=r"the step of SGD with lr=3e\+38 wrote NaN or Inf into weight"),
        insitu.guard(model),
    ):
        (model(torch.ones(2, 2)) * 10).sum().backward()
        optimizer.step()


def test_what_an_optimizer_calls_is_not_checked_one_by_one_and_checking_goes_on() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([weight], 0.1)
    with insitu.guard(action="record") as guard:
        weight.sum().backward()
        optimizer.step()
        torch.zeros(2).log()
    assert [finding.kind for finding in guard.findings] == ["inf"]


class Failing(torch.optim.SGD):
    """An optimizer whose step does what the user wants."""

    def __init__(self, *, fails: bool = True, inside: Any = None, wait: float = 0.0) -> None:
        super().__init__([nn.Parameter(torch.ones(2))], 0.1)
        self.fails, self.inside, self.wait = fails, inside, wait
        self.together = threading.Barrier(1)

    def step(self, closure: Any = None) -> None:
        self.together.wait()
        time.sleep(self.wait)
        torch.zeros(2).log()  # not checked: it is inside of a step
        if self.inside is not None:
            self.inside.step()
            torch.zeros(2).log()
        if self.fails:
            raise ValueError("of the user")


def test_checking_goes_on_after_a_step_that_raises() -> None:
    for optimizer in (Failing(), Failing(inside=Failing(fails=False)), Failing(inside=Failing())):
        with insitu.guard(action="record") as guard:
            for _ in range(2):
                with pytest.raises(ValueError, match="of the user"):
                    optimizer.step()
            torch.zeros(2).log()
            torch.zeros(2).reciprocal()
        assert [guard.times(finding) for finding in guard.findings] == [1, 1]


def test_checking_goes_on_after_the_first_module_of_a_step_that_raised() -> None:
    with insitu.guard(action="record") as guard:
        with pytest.raises(ValueError, match="of the user"):
            Failing().step()
        nn.ReLU()(torch.zeros(2))
        torch.zeros(2).log()
    assert [finding.kind for finding in guard.findings] == ["inf"]


def test_steps_may_be_inside_each_other() -> None:
    optimizer = Failing(fails=False, inside=Failing(fails=False, inside=torch.optim.SGD([torch.ones(1)], 0.1)))
    with insitu.guard(action="record") as guard:
        optimizer.step()
        assert guard.findings == []
        torch.zeros(2).log()
    assert [finding.kind for finding in guard.findings] == ["inf"]


def test_two_threads_may_step_at_once() -> None:
    class Stepping(nn.Module):
        def __init__(self, optimizer: Failing) -> None:
            super().__init__()
            self.optimizer = optimizer

        def forward(self, x: Tensor) -> Tensor:
            self.optimizer.step()
            return x.log()

    slow, fast = Failing(fails=False, wait=0.05), Failing(fails=False)
    slow.together = fast.together = threading.Barrier(2)
    models = [Stepping(slow), Stepping(fast)]
    with insitu.guard(action="record") as guard:
        threads = [threading.Thread(target=model, args=(zeros(),)) for model in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [(finding.kind, guard.times(finding)) for finding in guard.findings] == [("inf", 2)]


def test_without_a_model_the_weights_of_the_optimizers_are_watched() -> None:
    model = Net()
    model.body.requires_grad_(False)
    optimizer = torch.optim.SGD([*model.head.parameters(), unused := nn.Parameter(torch.ones(2))], 0.0)
    with insitu.guard(action="record") as guard:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    assert kinds(guard) == [
        ("missing", ["SGD.param_groups[0]['params'][2]"]),
        ("unchanged", ["head.weight", "head.bias"]),
    ]
    assert unused.grad is None


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True")  # LBFGS of torch 2.8
def test_an_optimizer_that_calls_the_model_itself_is_fine() -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (model(torch.ones(2, 3)) - 1).square().mean()
        loss.backward()
        return loss

    with insitu.guard(model) as guard:
        for _ in range(3):
            optimizer.step(closure)
    assert guard.findings == []


class Masked(nn.Module):
    """Returns scores, and the same with -inf in all columns but the first."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(3, 3), nn.LayerNorm(3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.layer(x)
        masked = torch.full((2, 3), float("-inf"))
        masked[:, 0] = scores[:, 0]
        return self.norm(scores), masked


def test_of_several_sums_that_are_gone_the_finite_one_is_not_blamed() -> None:
    model = Masked()
    with insitu.guard(model, action="record") as guard:
        outputs = model(torch.ones(2, 3))
        torch.stack([leaf.float().sum() for leaf in outputs]).sum().backward()
    assert [finding.text.splitlines()[0].partition(": ")[2] for finding in guard.findings] == [
        "torch.full introduced a number that is not finite, and the loss contains Inf"
    ]
