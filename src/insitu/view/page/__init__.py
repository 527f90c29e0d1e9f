"""The page, one self-contained HTML file: what is in it, and the script and style that show it.

`insitu.view.html` joins these: `rows` and `tables` make columns of events, `packing` makes bytes of columns.
"""
