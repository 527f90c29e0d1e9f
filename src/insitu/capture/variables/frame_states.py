"""What is known of the variables of each running frame."""

from __future__ import annotations

from types import FrameType
from typing import TypeVar

State = TypeVar("State")

MOST_FRAMES = 1000


class FrameStates(dict[int, State]):
    """A state for each running frame, by the id of the frame.

    A frame may have the id of one that has ended, and nobody says when a frame ends: so each call announces itself by
    an "entered" report, which begins a new state, and the states are dropped when there are too many.
    """

    def enter(self, frame: FrameType, state: State) -> State:
        """Begin a new state: a call begins."""
        if len(self) >= MOST_FRAMES:
            self.clear()
        self[id(frame)] = state
        return state
