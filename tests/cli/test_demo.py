"""`gapless demo` and what else is shown in tables: where it goes, how wide it is, and what it may not swallow."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from gapless.cli import demo, status
from gapless.cli.demonstration.stage import Stage, Watch
from gapless.cli.demonstration.verdict import Judgement
from gapless.cli.demonstration.view import View
from gapless.cli.main import main
from gapless.filters import Interest

Output = pytest.CaptureFixture[str]


@pytest.mark.parametrize("name", ["file", "file/x", "full"])
def test_a_folder_that_will_not_do_is_one_sentence(name: str, tmp_path: Path, capsys: Output) -> None:
    """A file, what lies below one, and a folder with something in it are refused before anything starts."""
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    assert main(["demo", "--folder", str(tmp_path / name)]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert printed.err.startswith("gapless demo: ") and printed.err.endswith("name a folder that is new or empty\n")


def test_brackets_are_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    """Without Spark the extra is named as one types it, and folders and verdicts are printed as they are."""

    async def act(console: Console, folder: Path, seconds: float) -> None:
        pass

    for name in ("_first_act", "_second_act"):
        monkeypatch.setattr(demo, name, act)
    monkeypatch.setattr(demo, "spark_is_here", lambda: False)
    monkeypatch.setattr(demo, "judge", lambda folders, use_spark: [Judgement(True, "q[red]", "")] * 2)
    folder = tmp_path / "a[b]"
    assert main(["demo", "--folder", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "pip install 'gapless[spark]'" in shown and "q[red]" in shown and "a[b]" in shown.replace("\n", "")


def test_help_says_how_long_and_which_status(capsys: Output) -> None:
    """`gapless demo --help` tells how long it takes, and what its exit status means."""
    assert main(["demo", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "about a minute" in shown and "Exit status: 0 every promise was kept, 1" in shown


@pytest.mark.parametrize("terminal", [True, False])
def test_an_act_leaves_one_table(terminal: bool) -> None:
    """However many scenes an act has, its table stays once, on a terminal too, with an empty line below it."""
    watch = Watch("picky", "b0", "a[0] = 1", Interest.parse(""))
    stage = cast("Stage", SimpleNamespace(watches=[watch], alive=lambda name: True))
    printed = io.StringIO()
    console = Console(file=printed, force_terminal=terminal, width=100, markup=False)

    async def act() -> None:
        with View(console, stage) as view:
            for scene in ("first", "[second]"):
                view.say(scene)
                await view.show(0.01)
            view.final()
            view.say("over")

    asyncio.run(act())
    left = printed.getvalue()
    if terminal:
        left = left.rpartition("[second]")[2].rpartition("\x1b[2K")[2]  # what is not wiped away again
    assert left.count("subscriber") == 1 and left.count("picky") == 1
    lines = [line.rstrip() for line in left.splitlines()]
    assert lines[-1].endswith(" over") and lines[-2] == "" and lines[-3].startswith("picky")


def test_status_cuts_nothing_off(capsys: Output) -> None:
    """Where there is no terminal, every neighbour of a broker stands in its line, and every heading is whole."""
    neighbours = {f"a-broker-with-a-long-name-{number}": "up" for number in range(9)}
    space = {"publications_in": 1, "publications_out": 2, "dropped": {"[slow]": 3}, "held": {}}
    answer = {"broker": "b0", "ready": True, "uptime_s": 1.0, "neighbours": neighbours, "clients": 0}
    status._print({"b0": {**answer, "spaces": {"quotes": space}}})
    shown = capsys.readouterr().out
    assert all(heading in shown.splitlines()[1] for heading in ("neighbours", "clients", "dropped", "held"))
    assert ", ".join(neighbours) in shown and "[slow] 3" in shown
