"""The checks: small functions that each look at a case for one kind of mistake and return a misfit, or None.

A file holds the checks of one theme and ends with their list, CHECKS, in the order in which they run. A check knows the
case and nothing else, and says what is wrong in one sentence. To add one, write the function and name it in CHECKS.
"""
