"""The page, one self-contained HTML file: the data in it, and the scripts and styles that show it.

`rows` puts events in order, `row_columns` and `tables` turn them into columns, `packing` turns columns into text, and
`insitu.view.html` joins everything. Scripts are plain JavaScript, which Python joins; none loads anything.
"""
