"""The engine that follows variables of Python functions. It needs nothing but Python: no torch, no numpy.

`rewrite.py` makes code that reports its variables, from the `definitions.py` of functions in their files; `lines.py`
follows functions without source line by line; `callees.py` finds the functions that a function can call. Nothing here
may import from outside of this folder but `insitu.errors`.
"""
