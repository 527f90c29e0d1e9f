"""Notes on exceptions: what is needed of the frames, the tape and autograd to explain an exception later.

When an exception passes, `note.py` attaches a note and keeps a snapshot of the frames. When the note is read,
`build_failure.py` builds a `Failure` for `trace.explain`, which judges it. Nothing here decides what is wrong.
"""
