"""The remedies: small functions that each turn one kind of misfit into an advice, or None.

A file holds the remedies of one theme. `@REMEDIES.add(check)` above a function registers it for the misfits of a check.
"""
