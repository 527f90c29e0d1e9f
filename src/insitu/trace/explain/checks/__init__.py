"""The checks: small functions that each look at a case for one kind of mistake and return a misfit, or None.

A file holds the checks of one theme. `@CHECKS.add(...)` above a function registers it, with the functions, the words of
the error and the tensors that it is for. A check knows the case and nothing else, and one sentence says what is wrong.
"""
