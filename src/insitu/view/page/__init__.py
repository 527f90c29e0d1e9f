"""The page, one self-contained HTML file: the data in it, and the scripts and styles that show it.

`rows` puts events in order, `row_columns` and `tables` turn them into columns, `packing` turns columns into text, and
`insitu.view.html` joins everything. The folder `web` has the frame, the scripts and the styles: plain JavaScript, which
Python joins and which loads nothing.
"""
