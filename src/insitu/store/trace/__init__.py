"""A trace in an HDF5 file: tables of columns, and the events they come from."""
