"""Every command line of the documentation that is marked to be run does what it should.

A block that begins with "```shell run" is run, line by line; all blocks of a page share a folder. Commands that stay
(`up`, `broker`, a `subscribe` without an end) are waited for and then left alone; `# Ctrl-C` ends the last of them.
Ports of the documentation are exchanged for free ones, and PID_OF_B1 for the process id of broker b1 that `up` printed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.node.processes import PATIENCE_S, Process, environment

ROOT = Path(__file__).resolve().parent.parent
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if page.is_file()]
BLOCK = re.compile(r"^```shell run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CTRL_C = "# Ctrl-C"
WHOLLY_RUN = ("docs/operations.md",)


def commands_of(page: Path) -> list[str]:
    """The command lines of a page that are to be run, and the Ctrl-Cs between them."""
    lines = "".join(BLOCK.findall(page.read_text(encoding="utf-8"))).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and (line.strip() == CTRL_C or not line.startswith("#"))]


def free_base() -> int:
    """A port that is free, with those near it and those a thousand above."""
    for base in range(21000, 40000, 100):
        wanted = [base + above + n for above in (0, 1000) for n in range(3)]
        if all(_is_free(port) for port in wanted):
            return base
    raise AssertionError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def sign_of_life(command: str) -> str:
    """What a command that stays says when it is ready; empty for one that ends by itself."""
    words = shlex.split(command)
    if words[:1] != ["gapless"] or len(words) < 2:
        return ""
    if words[1] == "subscribe" and not {"--count", "--for"} & {*words}:
        return "subscribed at"
    return {"up": " is up; ", "broker": "listening"}.get(words[1], "")


class Terminal:
    """Runs command lines in a folder, as somebody would who follows a page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.base = free_base()
        self.staying: list[Process] = []
        self.killed = False
        command = folder / "bin" / "gapless"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gapless "$@"\n')
        command.chmod(0o755)
        self.path = f"{command.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def type(self, line: str) -> None:
        """One line."""
        if line == CTRL_C:
            self.end_last()
            return
        line = re.sub(r"\b([78])4(\d\d)\b", lambda m: str(self.base + (m[1] == "8") * 1000 + int(m[2])), line)
        line = re.sub(r"PID_OF_(B\d)", lambda m: self._process_of(m[1].lower()), line)
        if line.startswith("gapless up") and "--port" not in line and ".toml" not in line:
            line += f" --port {self.base}"
        words = sign_of_life(line)
        if words:
            process = Process(self.folder, "/bin/sh", "-c", f"PATH={shlex.quote(self.path)}; export PATH; exec {line}")
            self.staying.append(process)
            process.wait_for(words)
        elif not line.startswith("curl ") or shutil.which("curl"):
            done = subprocess.run(
                ["/bin/sh", "-c", line],
                cwd=self.folder,
                env={**environment(), "PATH": self.path},
                capture_output=True,
                text=True,
                timeout=PATIENCE_S * 3,
                check=False,
            )
            assert done.returncode == 0, f"{line}: status {done.returncode}\n{done.stdout}{done.stderr}"

    def _process_of(self, broker: str) -> str:
        """The process id that `up` printed for a broker."""
        found = re.search(rf"^ +{broker} .*process (\d+)", self.staying[0].text(), re.MULTILINE)
        assert found is not None, self.staying[0].text()
        self.killed = True
        return found[1]

    def end_last(self) -> None:
        """Ctrl-C in the shell that was opened last."""
        process = self.staying.pop()
        process.signal(signal.SIGINT)
        assert process.status() in (0, 130, int(self.killed)), process.text()

    def close(self) -> None:
        """Whatever is left."""
        while self.staying:
            self.staying.pop().stop()


@pytest.mark.live
@pytest.mark.parametrize(
    "page", [page for page in PAGES if commands_of(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_command_lines_of_a_page_work(page: Path, tmp_path: Path) -> None:
    """Typed one after the other, the command lines of the page do what they should."""
    terminal = Terminal(tmp_path)
    try:
        for line in commands_of(page):
            terminal.type(line)
        while terminal.staying:
            terminal.end_last()
    finally:
        terminal.close()


@pytest.mark.parametrize("name", WHOLLY_RUN)
def test_every_command_line_of_some_pages_is_run(name: str) -> None:
    """Pages for operators have no block of commands that is not run."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert re.findall(r"^```(?:shell|console|bash|sh)$", text, re.MULTILINE) == []
    assert commands_of(ROOT / name)


@pytest.mark.parametrize(
    "page", [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_every_link_leads_somewhere(page: Path) -> None:
    """What a page links to within the project is there."""
    linked = re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in linked if not (page.parent / link).exists()] == []
