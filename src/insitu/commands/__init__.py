"""The commands of `insitu`, one in each file: its options, and what it does. None imports torch."""
