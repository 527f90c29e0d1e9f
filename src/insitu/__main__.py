"""`python -m insitu`, the same as the command `insitu`."""

from __future__ import annotations

import sys

from insitu.cli import main

if __name__ == "__main__":
    sys.exit(main())
