"""The pictures of the documentation, made by the tool: `python docs/make_pictures.py`.

It makes the pages of the gallery, opens them in a browser, does what a user would do, and photographs them. The moving
picture of the README shows a terminal first, then these pages.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

DOCS = Path(__file__).parent
PICTURES = DOCS / "pictures"
sys.path.insert(0, str(DOCS / "site"))
from gallery import make_page  # noqa: E402
from real_terminal import printed_in_a_terminal  # noqa: E402
from terminal_svg import terminal_svg  # noqa: E402

SIZE = (1280, 760)  # pixels of a photographed page
FRAME = (960, 570)  # pixels of the moving picture
COLOURS = 240  # of the moving picture: it must be small
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
COLUMNS, ROWS = 112, 36  # of the terminal
TITLE = "a training script, without any change"
COMMAND = "insitu run train.py"
TRAIN = """\
import torch
from torch.nn import functional as F
from insitu.demo import GPT

model = GPT()
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randint(256, (32, 25))
for batch in data.split(4):
    loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@dataclass(frozen=True)
class Visit:
    """A page of the gallery, its picture, what to search for and to click before it is taken."""

    page: str
    picture: str
    query: str = ""
    click: str = ""
    seconds: float = 3.0
    has_dark_twin: bool = False


VISITS = (
    Visit("model.html", "model.png", click="button[data-view='graph']"),
    Visit("model.html", "values.png", query="softmax", click="text=larger"),
    Visit("nan.html", "nan.png", has_dark_twin=True),
    Visit("diff.html", "diff.png"),
    Visit("training.html", "training.png"),
)


def opened(browser: Browser, path: Path, *, dark: bool = False) -> Page:
    """A page in a tab, once it has drawn itself."""
    width, height = SIZE
    page = browser.new_page(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", device_scale_factor=1.5
    )
    page.goto(path.as_uri())
    for _ in range(500):
        if page.evaluate("document.body.dataset.ready"):
            return page
        time.sleep(0.02)
    sys.exit(f"{path.name} never became ready")


def photograph(page: Page, visit: Visit) -> bytes:
    """Do what the visit says, and take the picture when all is drawn."""
    if visit.query:
        page.fill("#query", visit.query)
        page.keyboard.press("Enter")
    if visit.click:
        page.click(visit.click)
    page.wait_for_timeout(600)
    taken: bytes = page.screenshot()
    page.close()
    return taken


def terminal_frames(browser: Browser, folder: Path) -> list[tuple[bytes, float]]:
    """What a command prints, and then the command while it is typed."""
    (folder / "train.py").write_text(TRAIN)
    command = [sys.executable, "-m", *COMMAND.split()]
    output = printed_in_a_terminal(command, folder, columns=COLUMNS, rows=ROWS)
    typed = [f"$ {COMMAND[:length]}▏" for length in (0, 6, 10, len(COMMAND))]
    texts = [(text, 0.3) for text in typed]
    texts.insert(0, (f"$ {COMMAND}\n{output}", 4.0))  # the first frame is all that some viewers show
    width, height = FRAME
    frames: list[tuple[bytes, float]] = []
    for text, seconds in texts:
        page = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=1)
        picture = terminal_svg("\n".join(text.split("\n")[:ROWS]), TITLE, columns=COLUMNS, rows=ROWS)
        page.set_content(f"<style>body{{margin:0}} svg{{width:100%;height:auto}}</style>{picture}")
        frames.append((page.screenshot(), seconds))
        page.close()
    return frames


def animate(frames: list[tuple[bytes, float]], path: Path) -> None:
    """Write an animated PNG with few colours, the same in all its frames."""
    pictures = [
        Image.open(io.BytesIO(data)).convert("RGB").resize(FRAME, Image.Resampling.LANCZOS) for data, _ in frames
    ]
    width, height = FRAME
    all_of_them = Image.new("RGB", (width, height * len(pictures)))
    for number, picture in enumerate(pictures):
        all_of_them.paste(picture, (0, number * height))
    palette = all_of_them.quantize(COLOURS, dither=Image.Dither.NONE)
    first, *others = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    durations = [round(seconds * 1000) for _, seconds in frames]
    first.save(path, save_all=True, append_images=others, duration=durations, loop=0, optimize=True)


def write_small(data: bytes, path: Path) -> None:
    """Write a photograph with 256 colours."""
    Image.open(io.BytesIO(data)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def main(pictures: Path = PICTURES, visits: Sequence[Visit] = VISITS) -> None:
    """Make the pictures of some visits, all if nothing else is asked for, and the moving picture."""
    found = os.environ.get("INSITU_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    pictures.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        printed, *typed = terminal_frames(browser, folder)
        frames = [printed]
        for visit in visits:
            page = folder / visit.page
            if not page.exists():
                make_page(visit.page, folder)
            taken = photograph(opened(browser, page), visit)
            write_small(taken, pictures / visit.picture)
            frames.append((taken, visit.seconds))
            if visit.has_dark_twin:
                dark = photograph(opened(browser, page, dark=True), visit)
                write_small(dark, pictures / f"{Path(visit.picture).stem}-dark.png")
        animate([*frames, *typed], pictures / "insitu.png")
        browser.close()


if __name__ == "__main__":
    main()
