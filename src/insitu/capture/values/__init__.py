"""Values by path: which targets path patterns name in a model, and how their values are recorded at each step.

`targets.py` finds the targets; `value_recorder.py` is told of calls, updates and steps, and has a part for each kind of
value; `step_writer.py` passes the values on to a sink. Nothing here knows the file that the values are written to.
"""
