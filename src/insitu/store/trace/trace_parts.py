"""A trace that was saved in parts, as one again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from insitu.trace.event import Call, Mark, ModuleFacts, Site
from insitu.trace.missing import Missing
from insitu.trace.trace import Trace


def join_traces(parts: list[Trace]) -> Trace:
    """The events of all parts by time; the last one says what the trace is about."""
    if len(parts) == 1:
        return parts[0]
    events = [event for part in parts for event in part.events]
    events.sort(key=lambda event: (event.start, event.id))
    same = _Same()
    for event in events:
        if isinstance(event, Mark):
            continue
        event.site = same.site(event.site)
        if isinstance(event, Call):
            event.defined = same.site(event.defined)
            event.module = same.module(event.module)
    return Trace(events, about=parts[-1].about)


class _Same:
    """Makes equal places, and equal modules, the same object: those of one trace are."""

    def __init__(self) -> None:
        self._sites: dict[Any, Site] = {}
        self._modules: dict[Any, ModuleFacts] = {}
        # By identity, for those that were met; both hold what they are asked for.
        self._met_sites: dict[int, tuple[Site, Site]] = {}
        self._met_modules: dict[int, tuple[ModuleFacts, ModuleFacts]] = {}

    def site(self, site: Site | None) -> Site | None:
        if site is None:
            return None
        waiting = []
        place: Site | None = site
        while place is not None and id(place) not in self._met_sites:
            waiting.append(place)
            place = place.caller
        for place in reversed(waiting):
            caller = self._met_sites[id(place.caller)][1] if place.caller is not None else None
            key = (place.file, place.line, place.function, place.text, place.start, place.end, id(caller))
            found = self._sites.setdefault(key, place)
            if found is place:
                place.caller = caller
            self._met_sites[id(place)] = (place, found)
        return self._met_sites[id(site)][1]

    def module(self, module: ModuleFacts | None) -> ModuleFacts | None:
        if module is None:
            return None
        if id(module) not in self._met_modules:
            counts = (module.parameters, module.own_parameters, module.trainable, module.leaf)
            key = (module.path, module.type, module.bases, repr(module.settings), counts)
            self._met_modules[id(module)] = (module, self._modules.setdefault(key, module))
        return self._met_modules[id(module)][1]


def only_whole_steps(trace: Trace, left: Missing, missing: Missing) -> Trace:
    """The trace without the rest of a step whose beginning was left in the file, if there are later ones.

    `missing` is all that is missing then.
    """
    whole = [event for event in trace.events if event.step > left.steps[1]]
    dropped = len(trace) - len(whole) if whole else 0
    about = {**trace.about, "missing": replace(missing, events=missing.events + dropped).plain()}
    return Trace(whole if whole else trace.events, about=about)
