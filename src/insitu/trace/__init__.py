"""A trace as plain data, and every judgement made on it; torch is never imported here.

`event.py` has the events and `trace.py` the questions one asks of them. `operation.py`, `dtype.py` and `path.py` are
the tables and the grammar that everything else shares; `origin.py`, `explain/` and `compare/` decide where a NaN
began, why a call failed and why two runs differ. Every other room may import this one, and this one imports
`insitu.errors` only: sentences are made in `view`, bytes in `store`.
"""
