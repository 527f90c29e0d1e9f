"""Recording in the Trainer of Lightning, by either of its names: lightning or pytorch_lightning."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from insitu.errors import MissingError
from insitu.integrations.training import RecordedTraining

NAMES = ("lightning.pytorch", "pytorch_lightning")


def bases() -> tuple[Any, ...]:
    """The class of callbacks of each Lightning that the program uses; of the first that there is, if it uses none."""
    used = [name for name in NAMES if name in sys.modules]
    for name in used or NAMES:
        try:
            import_module(name)
        except ImportError:
            continue
        return tuple(import_module(each).Callback for each in used or [name])
    raise MissingError("LightningCallback needs Lightning: pip install 'insitu[lightning]'")


class LightningCallback(RecordedTraining, *bases()):  # type: ignore[misc]
    """Records what path patterns name in the LightningModule that is trained, as `insitu.record` does.

    ```python
    from insitu.integrations.lightning import LightningCallback

    record = LightningCallback(only=["training_step.loss", "**.weight.grad"], keep="stats", every=10, to="run.h5")
    Trainer(max_epochs=3, callbacks=[record]).fit(module, data)
    ```

    Every rank writes; the file is made when the training ends, also by an exception or Ctrl-C. In a module that calls
    its optimizers itself, a step is a batch.
    """

    _updates: int | None = None  # how many updates there were when the step began; None between steps

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to record."""
        self._updates = None
        self.start(pl_module, first=trainer.global_step)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """A step begins, unless the gradients of several batches are one."""
        if self._updates is None:
            self._updates = trainer.global_step
            self.begin_step()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """The step has ended, if the parameters were updated."""
        if trainer.global_step != self._updates or not pl_module.automatic_optimization:
            self._updates = None
            self.end_step()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Make the file."""
        self.stop()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Make the file from the steps so far."""
        self.stop(exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Undo everything, whatever happened."""
        self.stop()
