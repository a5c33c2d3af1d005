"""Work with Spark as commands do it: refused before it starts where it could not end well, and ended by Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from gapless.cli.demonstration.verdict import judge
from gapless.cli.main import main
from gapless.spark.session import interruptible

PROGRAM = """
import sys, threading
from gapless.spark.session import interruptible

def work():
    print("working", flush=True)
    threading.Event().wait()

try:
    interruptible(work)
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_ctrl_c_ends_the_wait_and_not_what_is_said_to_the_jvm() -> None:
    """Interrupted work with Spark ends the process without a word, whatever that work was doing."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "working\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (130, "")


def test_what_comes_of_the_work_comes_out() -> None:
    """Its result is returned, and its error is raised."""
    assert interruptible(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)


def test_commands_work_with_spark_where_ctrl_c_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the audit nor the demo talks to the JVM from the thread that Ctrl-C interrupts."""
    talking: list[threading.Thread] = []

    def audit(*_: object, **more: object) -> object:
        talking.append(threading.current_thread())
        return SimpleNamespace(kept=True, render=lambda: "kept")

    monkeypatch.setattr("gapless.spark.audit.audit", audit)
    monkeypatch.setattr("gapless.spark.session.local_session", lambda name: SimpleNamespace(stop=lambda: None))
    assert main(["audit", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "kept\n"
    assert [judgement.ok for judgement in judge([tmp_path, tmp_path], use_spark=True)] == [True, True]
    assert len(talking) == 3 and threading.main_thread() not in talking


def test_a_report_that_cannot_be_left_is_told_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder for the report that cannot be made is one sentence, and no Spark is started for it."""
    (tmp_path / "h.ndjson").write_text("")
    report = tmp_path / "h.ndjson" / "x"
    assert main(["audit", str(tmp_path / "h.ndjson"), "--report", str(report)]) == 2
    assert capsys.readouterr().err == (
        f"gapless audit: the report cannot be left in {report}: not a directory; name a folder that can be made\n"
    )
