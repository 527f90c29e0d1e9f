"""A trace as text, for people and for version control.

`trace_text_writer` writes a line for each call, and `trace_text_reader` reads the lines back. `value_text` and
`line_parser` do the same for the values in a line. Nothing here imports NumPy or h5py when it is imported.
"""
