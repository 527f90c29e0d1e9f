"""Values of parameters and buffers: each has one value in a step, the last one that it had there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from insitu.capture.changes import tensor_print
from insitu.capture.deferral import Deferral, PendingContent
from insitu.capture.tensor_memory import is_plain_class, local_part
from insitu.capture.values.copies import is_dense
from insitu.capture.values.intake import Keep
from insitu.capture.values.targets import TensorTarget

if TYPE_CHECKING:
    from insitu.capture.values.value_recorder import ValueRecorder

MISSING = object()


class ParameterValues:
    """Takes parameters and buffers, and takes those again that have changed since they were written."""

    def __init__(self, recorder: ValueRecorder) -> None:
        self._recorder = recorder
        self._targets = recorder.targets.parameters

    @property
    def are_taken(self) -> bool:
        """Whether this step has a value of each of them."""
        return len(self._recorder.now.contents) >= len(self._targets)

    def take_all(self) -> None:
        """Take all parameters and buffers."""
        self._take(self._targets)

    def take_updated(self, owned: Collection[int]) -> None:
        """Take the parameters with these ids, which an optimizer has updated, and once what no optimizer updates."""
        self._take(target for target in self._targets if self._is_due(target, owned))

    def _is_due(self, target: TensorTarget, owned: Collection[int]) -> bool:
        parameter = getattr(target.module, target.name, None)
        if isinstance(parameter, Tensor) and parameter.requires_grad:
            return id(parameter) in owned
        return target.path not in self._recorder.now.contents

    def _take(self, targets: Iterable[TensorTarget]) -> None:
        """Take these; a value that is in the step already is left out."""
        recorder = self._recorder
        contents = recorder.now.contents
        found = list(self._values(targets))
        pending = self._pending_contents(found, recorder.deferral) if recorder.deferral is not None else {}
        for target, value in found:
            keep, path = recorder.keep_of(target.path), target.path
            content: Any = pending.get(path)
            if path in contents and self._is_written(path, value, keep, content):
                continue
            if content is None and keep is not None and recorder.sink.is_early:
                content = tensor_print(value)
            recorder.settle(path, value, 0)
            contents[path] = content

    def _pending_contents(self, found: list[tuple[TensorTarget, Any]], deferral: Deferral) -> dict[str, PendingContent]:
        """The fingerprints of the parameters on accelerators, by path: all are taken before one is compared."""
        if not self._recorder.sink.is_early:
            return {}
        parts = {target.path: local_part(value) for target, value in found if isinstance(value, Tensor)}
        prints = {path: deferral.content(part) for path, part in parts.items() if deferral.applies_to(part)}
        return {path: content for path, content in prints.items() if content is not None}

    def _values(self, targets: Iterable[TensorTarget]) -> Iterator[tuple[TensorTarget, Any]]:
        for target in targets:
            value: Any = getattr(target.module, target.name, MISSING)
            if value is MISSING:
                self._recorder.leave_out(target.path, f"its module has no {target.name!r} any more")
            else:
                yield target, value

    def _is_written(self, path: str, value: Any, keep: Keep | None, content: PendingContent | None) -> bool:
        """Whether a parameter has the values that were written for it in this step; `content` is its fingerprint, if it
        is on an accelerator."""
        now = self._recorder.now
        tensor = value if type(value) is nn.Parameter else local_part(value)
        if (path, 0) in now.settled or not isinstance(tensor, Tensor) or not is_plain_class(tensor):
            return False
        if content is not None:
            return content.is_same(now.contents[path])
        if keep is not None:
            return bool(tensor_print(value) == now.contents[path])
        return is_dense(tensor) and self._recorder.sink.holds(path, tensor.detach())
