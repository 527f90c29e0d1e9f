"""Why a call failed: judged on plain data, without torch.

`pipeline.explain` turns a `Failure`, which capture builds from the frames and the tape, into an `Explanation`. On the
way, `checks/` finds the misfits of the `Case`. Code that reads live tensors stays in capture, code that makes lines in
view.
"""
