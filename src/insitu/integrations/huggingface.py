"""Recording in the Trainer of Hugging Face transformers."""

from __future__ import annotations

import sys
from functools import partial, update_wrapper
from types import FrameType
from typing import Any

from insitu.errors import MissingError
from insitu.integrations.training import RecordedTraining

try:
    from transformers import TrainerCallback
except ImportError as missing:
    raise MissingError(
        "HuggingFaceCallback needs transformers and accelerate: pip install 'insitu[huggingface]'"
    ) from missing

# What a Trainer calls while it trains: one that got the callback late is guarded here, for `train` runs already.
_INSIDE = ("_run_epoch", "_finalize_training", "_evaluate", "training_step")


class HuggingFaceCallback(RecordedTraining, TrainerCallback):
    """Records what path patterns name in the model that a Trainer trains, as `insitu.record` does.

    ```python
    from insitu.integrations.huggingface import HuggingFaceCallback

    record = HuggingFaceCallback(only=["lm_head", "**.weight.grad"], keep="stats", every=10, to="run.h5")
    Trainer(model, arguments, train_dataset=data, callbacks=[record]).train()
    ```

    Every rank writes; the file is made when the training ends, also by an exception or Ctrl-C.
    """

    _guarding: int | None = None  # the Trainer that is guarded

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Watch how the training of a new Trainer ends: it calls its callbacks only when the training succeeds."""
        trainer = self._trainer(sys._getframe(1))
        if trainer is not None:
            self._guard(trainer, ("train",))

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to record."""
        trainer = self._trainer(sys._getframe(1))
        if trainer is not None and self._guarding != id(trainer):
            self._guard(trainer, _INSIDE)
        self.start(kwargs["model"], first=state.global_step)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A step begins."""
        self.begin_step()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The step has ended."""
        self.end_step()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Make the file."""
        self.stop()

    def _trainer(self, frame: FrameType | None) -> Any:
        """The Trainer that has this callback: it gives callbacks everything but itself."""
        while frame is not None:
            found = frame.f_locals.get("self")
            if self in getattr(getattr(found, "callback_handler", None), "callbacks", ()):
                return found
            frame = frame.f_back
        return None

    def _guard(self, trainer: Any, names: tuple[str, ...]) -> None:
        self._guarding = id(trainer)
        for name in names:
            if hasattr(trainer, name):
                method = getattr(trainer, name)
                setattr(trainer, name, update_wrapper(partial(_told, self, method), method))


def _told(callback: HuggingFaceCallback, method: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return method(*args, **kwargs)
    except BaseException as error:
        callback.stop(error)
        raise
