"""A trace in an HDF5 file.

`trace_encoder` turns events into the tables of `schema`, and `trace_decoder` turns them back; `trace_file` writes and
reads the tables. `archive` holds the parts of a trace that does not fit into memory, and `trace_parts` joins them.
Code belongs here if it knows both events and columns.
"""
