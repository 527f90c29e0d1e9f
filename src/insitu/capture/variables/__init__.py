"""Named variables of Python functions: rewriting functions, following lines, reporting changes."""
