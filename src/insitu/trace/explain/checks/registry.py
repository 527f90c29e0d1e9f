"""How a check is registered: under the functions, the words of the error and the arguments that it is for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from insitu.trace.explain.case import Case
from insitu.trace.explain.explanation import Misfit

Find = Callable[..., Misfit | None]


@dataclass(slots=True, frozen=True)
class Check:
    """A function that looks for one kind of mistake, and the cases that it is for.

    `functions` are names of torch functions and modules. `says` is a pattern in the message of the exception. `tensors`
    are the names of the first arguments, which must be tensors. `operands` is how many tensors the call must have.
    """

    find: Find
    functions: frozenset[str] = frozenset()
    says: re.Pattern[str] | None = None
    tensors: tuple[str, ...] = ()
    operands: int = 0

    def run(self, case: Case) -> Misfit | None:
        """The misfit in a case that the check is for; the function gets the case, the match of `says`, the tensors."""
        misfit = self._find(case)
        if misfit is None:
            return None
        return replace(misfit, check=self.find.__name__)

    def _find(self, case: Case) -> Misfit | None:
        if len(case.operands) < self.operands or not self._is_for(case):
            return None
        facts = [case.tensor(index, name) for index, name in enumerate(self.tensors)]
        if None in facts:
            return None
        if self.says is None:
            return self.find(case, *facts)
        match = self.says.search(case.message)
        if match is not None:
            return self.find(case, match, *facts)
        return None

    def _is_for(self, case: Case) -> bool:
        """Whether the check is for the function: by its name, or by that of all its forms (`scatter` of `scatter_`)."""
        return not self.functions or not self.functions.isdisjoint((case.name, case.operation.base))


class Checks(list[Check]):
    """The checks of one theme, in the order in which they run."""

    def add(
        self, functions: str = "", *, says: str = "", tensors: str = "", operands: int = 0
    ) -> Callable[[Find], Find]:
        """Register the function that follows.

        >>> checks = Checks()
        >>> @checks.add("relu", says="negative")
        ... def negative(case, match): return Misfit("relu got a negative number")
        >>> from insitu.trace.event import Call
        >>> checks[0].run(Case("RuntimeError", "a negative number", Call(0, None, "function", "torch.relu"))).text
        'relu got a negative number'
        >>> checks[0].run(Case("RuntimeError", "a negative number", Call(0, None, "function", "torch.exp")))
        """
        pattern = re.compile(says, re.MULTILINE) if says else None

        def register(find: Find) -> Find:
            self.append(Check(find, frozenset(functions.split()), pattern, tuple(tensors.split()), operands))
            return find

        return register


def listing(sizes: Any) -> str:
    """Sizes as text: `2, 3`."""
    return ", ".join(map(str, sizes))
