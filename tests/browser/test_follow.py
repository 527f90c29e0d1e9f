"""A run that is followed in a real browser while a real training records it; and a training that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser.conftest import Opened, _tab

from insitu.store.journal.journal_writer import JournalWriter
from insitu.verbs.follow import FollowedPage
from insitu.verbs.loopback import LoopbackServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TRAINING = """
import sys, torch, insitu

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(8, 16), torch.nn.Linear(16, 1)

    def forward(self, x, phase):
        loss = self.head(self.body(x).relu()).square().mean()
        return loss

net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.05)
only = ["forward.loss", "forward.phase", "**.weight.grad"]
with insitu.record_run(net, only=only, keep={"forward.*": "values", "**": "stats"}, to=sys.argv[1]):
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            optimizer.zero_grad()
            net(torch.randn(4, 8), "train").backward()
            optimizer.step()
        print("done", flush=True)
"""


class Training:
    """A training in a process of its own, which makes as many steps as it is asked for."""

    def __init__(self, path: Path) -> None:
        program = path.with_name("train.py")
        program.write_text(TRAINING, "utf-8")
        words = [sys.executable, str(program), str(path)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._answer() == "ready"

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def steps(self, count: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        assert self._answer() == "done"

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    found = Training(tmp_path / "run.h5")
    yield found
    if found.process.poll() is None:
        found.kill()
    for stream in (found.process.stdin, found.process.stdout):
        if stream is not None and not stream.closed:
            stream.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[LoopbackServer]:
    """Serves the run once somebody asks for its page."""
    pages: list[FollowedPage] = []

    def page() -> FollowedPage:
        if not pages:
            pages.append(FollowedPage(tmp_path / "run.h5"))
        return pages[0]

    server = LoopbackServer(lambda: page().text(), lambda after: page().update(after))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)
    for found in pages:
        found.close()


def opened_tab(browser: Browser, address: str) -> Opened:
    tab = _tab(browser)
    tab.page.goto(address)
    tab.until("document.body.dataset.ready")
    return tab


STATE = "document.querySelector('.series-state').textContent"


def test_steps_appear_while_a_training_goes_on(browser: Browser, training: Training, serve: LoopbackServer) -> None:
    training.steps(3)
    tab = opened_tab(browser, serve.address)
    tab.until(f"{STATE} === '● running · step 2'")
    assert tab("document.querySelectorAll('.series-card').length") == 4
    training.steps(20)
    tab.until(f"{STATE} === '● running · step 22'")
    second = opened_tab(browser, serve.address)
    second.until(f"{STATE} === '● running · step 22'")
    training.steps(5)
    for each in (tab, second):
        each.until(f"{STATE} === '● running · step 27'")
        each.page.locator("[data-path='forward.loss'] .plot").focus()
        each.press("ArrowLeft")
        assert "step 26:" in str(each.page.locator("[data-path='forward.loss'] .plot").get_attribute("aria-valuetext"))
    training.end()
    tab.until(f"{STATE} === '■ ended · step 27'", seconds=30)
    assert tab.errors == [] and tab("document.querySelector('.series-notes').hidden")
    addresses = {request.partition("?")[0] for request in tab.requests}
    assert addresses == {serve.address, f"{serve.address}points"}
    for each in (tab, second):
        each.page.context.close()


def test_a_killed_training_is_reported(browser: Browser, training: Training, serve: LoopbackServer) -> None:
    training.steps(4)
    tab = opened_tab(browser, serve.address)
    tab.until(f"{STATE} === '● running · step 3'")
    training.kill()
    tab.until(f"{STATE}.startsWith('✗ the process was killed')")
    assert "killed" in tab("document.querySelector('.series-notes').textContent")
    tab.page.context.close()


def test_a_page_without_its_server_says_so_and_stays(
    browser: Browser, training: Training, serve: LoopbackServer
) -> None:
    training.steps(4)
    tab = opened_tab(browser, serve.address)
    tab.until(f"{STATE} === '● running · step 3'")
    serve.shutdown()
    serve.server_close()
    tab.until(f"{STATE}.startsWith('✗ not connected')")
    assert tab("document.querySelectorAll('.series-card').length") == 4
    tab.page.context.close()


def test_a_training_without_a_step_is_waited_for(browser: Browser, training: Training, serve: LoopbackServer) -> None:
    tab = opened_tab(browser, serve.address)
    assert tab("document.querySelector('.groups').textContent") == "no values yet"
    training.steps(2)
    tab.until(f"{STATE} === '● running · step 1'")
    assert tab("document.querySelectorAll('.series-card').length") == 4
    tab.page.context.close()


def test_a_wrong_secret_shows_nothing(browser: Browser, training: Training, serve: LoopbackServer) -> None:
    training.steps(1)
    tab = _tab(browser)
    response = tab.page.goto(serve.address[:-2] + "x/")
    assert response is not None and response.status == 404
    assert tab("document.body.innerText").strip() == "not found"
    tab.page.context.close()


def test_line_of_many_ranks_goes_on_without_the_first(browser: Browser, tmp_path: Path, serve: LoopbackServer) -> None:
    """More ranks than lines that are drawn: one line has the range of all, and the first rank is slow."""
    writers = [JournalWriter(tmp_path / "run.h5.parts", rank, {"world_size": 10}) for rank in range(10)]
    for writer in writers:
        writer.step(0, 0.0, [("a", 0, None, (), 1.0)])
    tab = opened_tab(browser, serve.address)
    reading = "document.querySelector('[data-path=a]').textContent"
    tab.until(f"{reading}.includes('range of 10 ranks')")
    for writer in writers[1:]:
        writer.step(1, 0.0, [("a", 0, None, (), 7777.0)])
    tab.until(f"{STATE}.endsWith('step 1')")
    tab.until(f"{reading}.includes('7777') || {reading}.includes('7,777')")
    for writer in writers:
        writer.close()
    tab.page.context.close()
