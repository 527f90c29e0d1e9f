"""A run of several ranks as one process would have made it: the parts that the ranks hold, joined.

`layout` says where a part belongs, as the rank recorded it. `part` is a value of one rank. `join` puts parts together by
their layouts, `guess` finds how parts belong together of which no layout was recorded, by the shape of the whole value.
`joined_value` decides between them for one value, `joined_run` does so for a run. `rank_fault` says what is wrong with
the parts of a value that differs from the whole one.

Nothing here reads files or knows torch. Sentences belong in `view.rank_text`.
"""
