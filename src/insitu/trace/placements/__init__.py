"""A run of several ranks as one process would have made it: the parts that the ranks hold, joined.

`part_layout` says where a part belongs, as the rank recorded it, and `part` is a value of one rank. `join` puts parts
together by their layouts, and `guess` finds how parts without a layout belong together, by the shape of the whole
value. `joiner` decides between them for one value, `whole_run` does so for a run. `rank_fault` says what is
wrong with the parts of a value that differs from the whole one. `diff_of_ranks` calls them: read it first.

Nothing here reads files or knows torch. Sentences belong in `view.rank_text`.
"""
