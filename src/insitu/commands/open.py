"""`insitu open`: the page of a saved trace or a recorded run, in the browser.

The page is made in the user's cache folder, because the browser needs it after this command has ended. Each file has
one page there, which is made anew each time; pages that were not opened for a week are removed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import time
import webbrowser
from contextlib import suppress
from pathlib import Path

from insitu.commands.following import follow
from insitu.commands.options import add_memory
from insitu.errors import StoreError
from insitu.view.progress import working

EXAMPLE = """\
The page is written to your cache folder, and only you can read it; its path is printed. Each file has one page there,
and pages that are older than a week are removed. To keep a page, or to send it, use insitu export.

With --follow, the page of a run that is being recorded is served on this machine only, behind a secret address, until
Ctrl-C or the end of the terminal. Steps appear as they are recorded; nothing is written to the disk.

example:
  insitu open step.h5
  insitu open run.h5
  insitu open run.h5 --follow
  BROWSER=firefox insitu open run.h5
"""
PAGE = ".html"
WEEK = 7 * 24 * 3600.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `insitu open`."""
    parser.add_argument("file", help="a saved trace, a recorded run or a page, as in step.h5, run.h5 or step.html")
    parser.add_argument(
        "--follow", action="store_true", help="of a run that goes on: serve the page here, and add steps as they come"
    )
    add_memory(parser)


def main(options: argparse.Namespace) -> int:
    """Make the page, print its path and open it; or serve it."""
    if options.follow:
        return follow(options.file, open_in_browser)
    page = _page_of(options.file, options.memory)
    print(page)
    sys.stdout.flush()
    reason = open_in_browser(page.as_uri())
    if reason is not None:
        print(f"insitu: no browser was opened: {reason}; open the page above yourself", file=sys.stderr)
    return 0


def _page_of(file: str, memory: str | None) -> Path:
    """The page of a file; a page is its own."""
    from insitu import store
    from insitu.verbs.save import save

    if file.lower().endswith(PAGE):
        if not os.path.isfile(file):
            raise StoreError(f"{file!r} does not exist")
        return Path(file).absolute()
    found = store.load(file, memory=memory)
    folder = page_folder()
    remove_old_pages(folder)
    page = folder / page_name(file)
    with working(f"making the page of {file}"):
        save(found, page, overwrite=True)
    return page


def page_name(file: str) -> str:
    """The name of the page of a file: files of one name in several folders have pages of their own."""
    place = hashlib.sha256(os.fsencode(os.path.realpath(file))).hexdigest()
    return f"{Path(file).name.partition('.')[0]}-{place[:8]}{PAGE}"


def page_folder() -> Path:
    """The folder for pages, which only the user can read; a temporary one if there can be no cache folder."""
    try:
        folder = cache_folder().absolute() / "insitu"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except (OSError, RuntimeError):  # the user of a container may have no home
        return Path(tempfile.mkdtemp(prefix="insitu-"))
    return folder


def cache_folder() -> Path:
    """Where programs of this system keep what they can make again."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def remove_old_pages(folder: Path) -> None:
    """Remove the pages that were not made anew for a week."""
    for page in folder.glob(f"*{PAGE}"):
        with suppress(OSError):  # somebody else removes it, too
            if time.time() - page.stat().st_mtime > WEEK:
                page.unlink()


def open_in_browser(address: str) -> str | None:
    """Open an address in the user's browser; returns why that was not possible, or None."""
    if not has_display():
        return "this machine has no display"
    try:
        is_opened = webbrowser.open(address)
    except webbrowser.Error as error:
        return str(error)
    if is_opened:
        return None
    return "none was found"


def has_display() -> bool:
    """Whether a browser can show something here; a user who names one in BROWSER knows that it can."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
