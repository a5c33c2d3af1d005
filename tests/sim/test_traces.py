"""Small protocol runs as text: the commands above the line give what stands below it.

`REWRITE_TRACES=1 pytest tests/sim/test_traces.py` writes down what is now below the lines; read the difference before
keeping it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gapless.model.errors import ConfigError
from gapless.sim.trace import LINE, play

TRACES = sorted((Path(__file__).parent.parent / "traces").glob("*.txt"))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_trace(path: Path) -> None:
    """Each trace gives the transcript that is written below its line."""
    text = path.read_text()
    commands, _, expected = text.partition(f"{LINE}\n")
    transcript = play(text)
    if os.environ.get("REWRITE_TRACES"):
        path.write_text(f"{commands}{LINE}\n{transcript}")
    else:
        assert transcript == expected


def test_every_trace_says_what_is_true() -> None:
    """Each trace begins with a sentence, and there are some."""
    assert len(TRACES) >= 6
    for path in TRACES:
        first = path.read_text().splitlines()[0]
        assert first.startswith("# ") and first.endswith("."), path


def test_a_wrong_command_is_named() -> None:
    """A command that cannot be understood is shown in the error."""
    with pytest.raises(ConfigError, match="frobnicate b1"):
        play("brokers b1-b2\nfrobnicate b1")
