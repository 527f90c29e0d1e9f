"""A trace as text: small, one line for each call, to be read in a code review."""
