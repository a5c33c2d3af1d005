"""`gapless sim`, `soak` and `check` as they are typed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gapless.cli.main import main
from gapless.model.events import Event, Kind, encode_event
from gapless.sim.trace import line_of

SCENARIO = str(Path(__file__).parent.parent.parent / "scenarios" / "full_both_ways.toml")


def test_sim_runs_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    """A scenario that is a file is run, judged and told about."""
    assert main(["sim", SCENARIO, "--seed", "1"]) == 0
    assert "every promise held" in capsys.readouterr().out


def test_sim_tells_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    """With --trace every message is a line."""
    assert main(["sim", SCENARIO, "--trace"]) == 0
    assert "b0->b1 forward from-east#1:" in capsys.readouterr().out


def test_sim_writes_what_can_be_run_and_judged_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A random scenario that is written down gives the same run, and its history the same verdict."""
    history, scenario = tmp_path / "history.ndjson", tmp_path / "scenario.toml"
    drawn = ["sim", "random:direct", "--seed", "8", "--json"]
    assert main([*drawn, "--history", str(history), "--write", str(scenario)]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(["sim", str(scenario), "--seed", "8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["digest"] == first["digest"]
    assert main(["check", str(history)]) == 0


def test_check_shows_the_witness(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A history that breaks a promise gives status 1, the promise and the events that show it."""
    events = [
        Event(event=Kind.RUN, at=0, version=1, delivery="direct"),
        Event(event=Kind.SUBSCRIBE, at=1, node="c", space="m", subscription="s"),
        Event(event=Kind.DELIVERED, at=2, node="c", space="m", subscription="s", source="p", seq=9),
    ]
    path = tmp_path / "history.ndjson"
    path.write_bytes(b"".join(encode_event(event) + b"\n" for event in events))
    assert main(["check", str(path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["violations"][0]["promise"] == "no-invention"
    assert "p:9" in told["violations"][0]["witness"][0]
    assert main(["check", str(path), "--promise", "no-duplicate"]) == 0


def test_soak_tells_what_it_showed(capsys: pytest.CaptureFixture[str]) -> None:
    """A soak ends with what it covered and its digest."""
    assert main(["soak", "direct", "--seeds", "1:3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["runs"] == 2
    assert told["digest"]


def test_a_mutant_is_hunted(capsys: pytest.CaptureFixture[str]) -> None:
    """With --mutant the status is 0 when it is caught."""
    assert main(["soak", "direct", "--seeds", "0:2", "--mutant", "fence-oneself", "--no-shrink"]) == 0
    assert "caught in 2 of 2 seeds" in capsys.readouterr().out


def test_a_trace_keeps_its_columns_apart() -> None:
    """However long the names of brokers are, what happened is apart from where."""
    assert line_of("b1->b2", "forward") == "b1->b2 forward"
    assert line_of("b10->b11", "forward") == "b10->b11 forward"
    assert line_of("b1", "session") == "b1     session"


def test_files_that_will_not_do_are_told_with_a_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be read, written or understood is a sentence in the words of people that says what to do."""
    path = tmp_path / "scenario.toml"
    said = {}
    for name, content in {"binary": b"\xff", "syntax": b"calm_ms = 'x'", "nothing": None}.items():
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        assert main(["sim", str(path)]) == 2
        said[name] = capsys.readouterr().err
    assert said["binary"] == f"gapless sim: {path} is not UTF-8; a scenario is a TOML file\n"
    assert said["syntax"].startswith(f"gapless sim: {path}: expected `int`") and "docs/simulator.md" in said["syntax"]
    assert said["nothing"].endswith("no such file or directory; name a scenario file, or random:DELIVERY\n")
    assert main(["sim", SCENARIO, "--history", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"gapless sim: {tmp_path} cannot be written: is a directory; name another file\n"
    (tmp_path / "folder.ndjson").mkdir()
    assert main(["check", str(tmp_path)]) == 2
    assert "cannot be read: is a directory; name a history" in capsys.readouterr().err


def test_ctrl_c_ends_the_processes_of_a_soak_silently() -> None:
    """A worker that is interrupted in the middle of a run ends without a word: who started it speaks."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "gapless.sim.worker", "direct"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.write("1\n")
    worker.stdin.flush()
    assert worker.stdout.readline()
    worker.send_signal(signal.SIGINT)
    _, said = worker.communicate("2\n", timeout=20)
    assert (worker.returncode, said) == (-signal.SIGINT, "")


WRONG = [
    ["sim", "no-such-file.toml"],
    ["sim", "random:telepathy"],
    ["soak", "telepathy"],
    ["soak", "direct", "--seeds", "5:5"],
    ["soak", "direct", "--seeds", "many"],
    ["soak", "direct", "--mutant", "xyzzy"],
    ["sim", SCENARIO, "--mutant", "xyzzy"],
    ["shrink", SCENARIO, "--mutant", "xyzzy"],
    ["shrink", "no-such-file.toml"],
    ["check", "no-such-history"],
    ["check", SCENARIO],
    ["check"],
]


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_wrong_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong use gives status 2 and a sentence."""
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"gapless {arguments[0]}: ")
    assert "Traceback" not in said
