"""The same forward pass traced by others, each in a session of its own and with all it can tell."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import insitu
from benchmarks.measure import Case, Effort, Row, Run, Target, Times, at_least, in_turn, told
from benchmarks.models import SMALL, Subject, gpt2

Peer = Callable[[Subject], object]


def debug_mode(subject: Subject) -> object:
    """torch's own DebugMode with everything on; with `store_original_args` it makes less text, and is faster."""
    from torch.utils._debug_mode import DebugMode

    more = {"record_torchfunction": True, "record_nn_module": True, "record_ids": True, "record_stack_trace": True}
    with DebugMode(**more, record_output=True, store_original_args=True, record_faketensor=True) as mode:
        subject.forward()
    return mode


def torchlens_trace(subject: Subject) -> object:
    """torchlens."""
    import torchlens

    return torchlens.trace(subject.model, subject.input)


def code_tracing(subject: Subject) -> object:
    """torch-code-tracing, which prints nothing here."""
    from torch_code_tracing import TracingMode

    with TracingMode(quiet=True) as mode:
        subject.forward()
    return mode


def torchview_graph(subject: Subject) -> object:
    """torchview, without drawing: only modules and the tensors between them."""
    from torchview import draw_graph

    return draw_graph(subject.model, input_data=subject.input)


def torchinfo_summary(subject: Subject) -> object:
    """torchinfo: only modules, their parameters and the shapes of their outputs."""
    from torchinfo import summary

    return summary(subject.model, input_data=subject.input, verbose=0)


def recorded(subject: Subject, *, decoded: bool = False) -> object:
    """insitu with everything on; its events are made when they are asked for."""
    with insitu.record(subject.model, level="aten") as trace:
        subject.forward()
    return trace.events if decoded else trace


PEERS: dict[str, tuple[str, Peer, Target | None]] = {
    "DebugMode": ("torch DebugMode, everything on", debug_mode, at_least(15)),
    "torchlens": ("torchlens.trace", torchlens_trace, at_least(30)),
    "torch-code-tracing": ("torch-code-tracing, quiet", code_tracing, at_least(50)),
    "torchview": ("torchview (less: modules and functions only)", torchview_graph, None),
    "torchinfo": ("torchinfo (less: modules only)", torchinfo_summary, None),
}


def rows(effort: Effort) -> Iterator[Row]:
    """How many times as long each peer takes."""
    for make in SMALL if effort.name == "full" else (gpt2,):
        subject = make()
        times = in_turn(cases(subject), effort.repeats(9))
        for name, (title, _, target) in PEERS.items():
            note = details(times, name)
            yield Row(f"{title} / insitu, {subject.name}", times.ratio(name, "insitu"), target, note=note)


def cases(subject: Subject) -> dict[str, Case | Run]:
    """insitu, the peers, and the pass alone."""
    found: dict[str, Case | Run] = {
        "alone": Case(subject.forward, number=10),
        "insitu": Case(partial(recorded, subject), number=10),
        "insitu decoded": Case(partial(recorded, subject, decoded=True), number=10),
    }
    for name, (_, peer, _) in PEERS.items():
        found[name] = partial(silently, peer, subject)
    # It wraps every function of torch and leaves that on: nobody else must run with it.
    from torchlens.backends.torch.wrappers import unwrap_torch, wrap_torch

    found["torchlens"] = Case(partial(silently, torchlens_trace, subject), before=wrap_torch, after=unwrap_torch)
    return found


def silently(peer: Peer, subject: Subject) -> object:
    """Run a peer without what it prints and warns of."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return peer(subject)


def details(times: Times, name: str) -> str:
    """The other ways to compare."""
    decoded = told(times.ratio(name, "insitu decoded"))
    return (
        f"{told(times.overhead(name, 'insitu', 'alone'))} the overhead; {decoded} if insitu decodes its events at once"
    )
