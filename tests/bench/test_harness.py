"""The harness for peers, with a broker of our own in their place: it measures, notices, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.bench.echo import contender

from bench.peers import __main__ as command
from bench.peers import measure as measuring
from bench.peers.clients import WINDOW
from bench.peers.contract import Program
from bench.peers.measure import Broken, Stage, measure
from bench.peers.servers import CannotStart, cpu_s, running

ROOT = Path(__file__).resolve().parents[2]
LIMITS = {"loopback_bytes_s": 1, "fdatasync_4k_s": 1, "fdatasync_64k_s": 1, "reference_us": 1.0, "cores": 2}


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "WARM_UP_S", 0.2)


@pytest.mark.live
def test_a_contender_is_measured() -> None:
    """Rate, CPU of every process and lateness are there, and everything that was sent has come."""
    sample = measure(contender("echo"), 0.5)
    assert sample["sent"] > WINDOW / 10 and (sample["lost"], sample["repeated"], sample["changed"]) == (0, 0, 0)
    assert sample["rate"] > 0
    assert list(sample["cpu_us"]) == ["server", "publisher", "subscriber"]
    assert all(used >= 0 for used in sample["cpu_us"].values()) and sum(sample["cpu_us"].values()) > 0
    for phase in ("at_80_percent", "at_fixed_rate"):
        late = sample[phase]
        assert 0 < late["p50"] <= late["p99"] <= late["p99.9"]
    assert sample["at_fixed_rate"]["rate"] < measuring.FIXED_RATE * 1.1


@pytest.mark.live
def test_what_a_server_loses_is_counted() -> None:
    """A server that drops one in a thousand does not stop the measurement, and each of those is missed."""
    with Stage(contender("lossy", lossy=True)) as stage:
        stage.flood(0.3)
        found = stage.findings()
        sent = int(stage.board[1])
    missing = sent - found["count"]
    assert missing == sent // 1000 > 0
    assert missing - 1 <= found["gaps"] <= missing  # nothing comes after the last one to show that it is missing


@pytest.mark.live
def test_a_client_that_fails_says_why() -> None:
    """What went wrong in a process reaches whoever waits for it."""
    with (
        pytest.raises(Broken, match="the subscriber failed: OSError: no way to subscribe"),
        Stage(contender("deaf", deaf=True)),
    ):
        pass


@pytest.mark.live
def test_a_server_is_gone_with_its_data_whatever_happens() -> None:
    """An error while it runs ends the server and removes its folder."""
    with pytest.raises(KeyboardInterrupt), running(contender("echo").program, 0) as server:
        folder = Path(os.readlink(f"/proc/{server.pid}/cwd"))
        assert folder.is_dir() and cpu_s(server.pid) >= 0
        raise KeyboardInterrupt
    assert not folder.exists() and not Path(f"/proc/{server.pid}").exists()


STARTS_ONE = """
import sys
from bench.peers.servers import running
from tests.bench.echo import contender
with running(contender("echo").program, 0) as server:
    print(server.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_server_outlives_the_harness(number: signal.Signals, tmp_path: Path) -> None:
    """Killed or interrupted, the harness takes its servers with it."""
    harness = subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert harness.stdin is not None and harness.stdout is not None
    with harness, harness.stdin:
        server = Path(f"/proc/{int(harness.stdout.readline())}")
        assert server.exists()
        harness.send_signal(number)
        harness.wait(20)
    until = time.monotonic() + 20
    while server.exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not server.exists()


def test_a_server_that_ends_at_once_says_why() -> None:
    """What it said last is in the sentence."""
    program = Program(
        sys.executable, "", (), lambda binary, folder, port: [binary, "-c", "raise SystemExit('no disk')"]
    )
    with pytest.raises(CannotStart, match="ended at once: no disk"), running(program, 0):
        pass


def test_who_cannot_be_had_is_named_and_harms_nobody(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An absent peer is a sentence and no failure; the others are measured and written down."""
    here, absent = contender("here"), contender("absent")
    object.__setattr__(absent, "program", Program("no-such-server", "no-such-package", (), here.program.command))
    monkeypatch.setattr(command, "chosen", lambda words: (here, absent))
    monkeypatch.setattr(command, "install", lambda programs: {"no-such-package": "install no-such-package."})
    monkeypatch.setattr(command, "measure_limits", lambda seconds: LIMITS)
    late = {"rate": 1.0, "p50": 1.0, "p99": 1.0, "p99.9": 1.0}
    cpu = {"server": 1.0, "publisher": 1.0, "subscriber": 1.0}
    counts = {"sent": 1, "lost": 0, "repeated": 0, "changed": 0, "faults": []}
    sample = {
        "rate": 9.0,
        "cpu_us": cpu,
        "server_core": 1.0,
        "client_core": 0.1,
        "others": 0.0,
        "at_80_percent": late,
        **counts,
    }
    monkeypatch.setattr(command, "measure", lambda one, seconds: dict(sample))
    report = tmp_path / "out" / "peers.json"
    assert command.main(["--pairs", "3", "--json", str(report)]) == 0
    assert "absent is not measured: install no-such-package." in capsys.readouterr().out
    (line,) = json.loads(report.read_text())["contenders"]
    assert line["rate"] == {"median": 9.0, "low": 9.0, "high": 9.0} and len(line["samples"]) == 3


def test_who_is_here_and_cannot_be_measured_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status is 1 then, the reason is told once, and it is not tried again."""
    tried: list[str] = []

    def fail(one: object, seconds: float) -> None:
        tried.append("once")
        raise CannotStart("its port was taken")

    monkeypatch.setattr(command, "chosen", lambda words: (contender("here"),))
    monkeypatch.setattr(command, "measure_limits", lambda seconds: LIMITS)
    monkeypatch.setattr(command, "measure", fail)
    assert command.main(["--pairs", "2"]) == 1
    assert tried == ["once"]
    assert capsys.readouterr().out.count("here could not be measured: its port was taken") == 1


@pytest.mark.parametrize("arguments", [["--only", "nobody"], ["--pairs", "0"], ["--seconds", "-1"], ["--seconds", "x"]])
def test_wrong_use_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A name that nobody has and numbers that make no sense are refused before anything is started."""
    try:
        status = command.main(arguments)
    except SystemExit as end:
        status = int(str(end.code))
    assert status == 2
    assert capsys.readouterr().err
