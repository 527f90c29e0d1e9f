"""Runs every case where there is no pytest: `python -m tests.capture.variables.follow.running`."""

from __future__ import annotations

import sys
import traceback

from tests.capture.variables.follow.cases import ALL


def main() -> int:
    failed = 0
    for name, case in ALL.items():
        try:
            case()
        except Exception:
            failed += 1
            print(f"FAILED {name}", file=sys.stderr)
            traceback.print_exc()
    print(f"{len(ALL) - failed} of {len(ALL)} cases passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
