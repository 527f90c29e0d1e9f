"""Named variables of Python functions: watched functions, the functions that they reach, and what changes in them.

`function_watch.py` runs a watched function, as one of the `variants.py` that report their variables; `reporters.py`
passes the reports on to the probes of the thread, where `variable_tracker.py` makes records of the changes. Whatever
needs no torch is in `follow/`.
"""
