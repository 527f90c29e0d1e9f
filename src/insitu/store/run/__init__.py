"""The file of a run: merged from the journals of all ranks, and read back as series."""
