"""Backward slices of the user's source: from an expression to the expressions that its value comes from.

`resolver` makes one step (a name, an attribute, a call). A rule in `rules` knows one fact (a dtype, a size, None …):
which parts of an expression pass it on, and how well an expression explains it. `slice_walk` goes back until the rules
find something. Only source text is read; nothing is executed, and no file of a library is opened.
"""
