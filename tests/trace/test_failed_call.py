"""The call that raised the exception which ended a trace."""

from __future__ import annotations

from tests.view.build import Run

from insitu.trace.failed_call import failed_call


def test_the_innermost_call_of_the_last_exception_is_found() -> None:
    run = Run()
    with run.inside(run.module("", "Net", leaf=False)):
        run.call("function", "torch.mm", raised="RuntimeError")  # caught
    with run.inside(run.module("", "Net", leaf=False, raised="RuntimeError")):
        run.call("function", "torch.relu")
        with run.inside(run.module("fc", "Linear", leaf=False, raised="RuntimeError")):
            wanted = run.call("function", "torch.addmm", raised="RuntimeError")
    assert failed_call(run.events) is wanted
    assert failed_call(run.events, "RuntimeError") is wanted


def test_an_exception_that_was_caught_inside_is_not_the_one_that_ended_the_trace() -> None:
    run = Run()
    with run.inside(run.module("", "Net", leaf=False, raised="KeyError")):
        run.call("function", "torch.mm", raised="RuntimeError")
    found = failed_call(run.events)
    assert found is not None and found.name == "Net"
    run.call("function", "torch.relu")
    assert failed_call(run.events) is None
    assert failed_call(run.events, "ValueError") is None


def test_a_trace_without_calls_has_no_failed_call() -> None:
    assert failed_call([]) is None
