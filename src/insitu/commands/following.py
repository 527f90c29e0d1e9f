"""`insitu open --follow`: the page of a run that is being recorded, served on this machine until Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable

from insitu.errors import ChoiceError
from insitu.view.progress import working

Show = Callable[[str], str | None]  # shows an address to the user; returns why that was not possible, or None


def follow(file: str, show: Show) -> int:
    """Serve the page of a run, print its address and show it, until Ctrl-C or the end of the terminal.

    Nothing is written to the disk, so a signal that ends the process leaves nothing behind.
    """
    from insitu.verbs.follow import FollowedPage
    from insitu.verbs.loopback import LoopbackServer

    with working(f"reading {file}"):
        page = FollowedPage(file)
    try:
        if page.state == "ended":
            raise ChoiceError(f"{file!r} has ended, and --follow is for a run that goes on: leave out --follow")
        with LoopbackServer(page.text, page.update) as server:
            _introduce(server.address, show)
            server.serve_forever(poll_interval=0.1)
    except KeyboardInterrupt:  # the usual end
        return 0
    finally:
        page.close()
    return 0


def _introduce(address: str, show: Show) -> None:
    """Print the address. Whoever has it can read the page, as long as this command runs."""
    print(address)
    sys.stdout.flush()
    reason = show(address)
    if reason is not None:
        print(f"insitu: no browser was opened: {reason}; open the address above yourself", file=sys.stderr)
    print("insitu: new steps appear on the page; Ctrl-C ends it", file=sys.stderr, flush=True)
