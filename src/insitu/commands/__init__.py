"""The commands of `insitu`, one in each file: its options, and what it does.

A command checks its options, calls the public verbs and prints. None imports torch, numpy or h5py before it needs them,
so that `insitu show` answers in a blink.
"""
