"""Steps that the user chooses by text."""

from __future__ import annotations

import pytest

from insitu.errors import ChoiceError
from insitu.trace.step_choice import StepChoice


@pytest.mark.parametrize(
    ("text", "steps", "end"),
    [
        ("3", [3], 4),
        ("0,3, 4", [0, 3, 4], 5),
        ("10:12", [10, 11], 12),
        (":2", [0, 1], 2),
        ("17:", [17, 18, 19], None),
        ("0:20:5", [0, 5, 10, 15], 20),
        ("2::9", [2, 11], None),
        ("1,18:", [1, 18, 19], None),
        (":", list(range(20)), None),
    ],
)
def test_text_chooses_steps(text: str, steps: list[int], end: int | None) -> None:
    choice = StepChoice.of("--steps", text)
    assert [step for step in range(20) if step in choice] == steps and choice.end == end


@pytest.mark.parametrize("text", ["", "a", "1,", "-3", "1:2:3:4", "1-3", "1.5", "10:x"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ChoiceError, match=r"^--steps expects steps such as 3, 0,3,4, 10:12 \(steps 10 and 11\)"):
        StepChoice.of("--steps", text)


@pytest.mark.parametrize("text", ["5:5", "5:2"])
def test_choice_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(ChoiceError, match="names no step"):
        StepChoice.of("--steps", text)


def test_distance_of_nothing_is_refused() -> None:
    with pytest.raises(ChoiceError, match=r"--steps 3,0:9:0: the last number of 0:9:0 must be 1 or more"):
        StepChoice.of("--steps", "3,0:9:0")


def test_chosen_steps_must_be_there() -> None:
    choice = StepChoice.of("--steps", "3:6")
    assert choice.among("--steps", [1, 4, 4, 9], "it") == [4]
    with pytest.raises(ChoiceError, match=r"--steps 3:6: none of these steps is in it, which has 1 … 9"):
        choice.among("--steps", [1, 9], "it")
