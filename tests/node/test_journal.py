"""Journals on disk and logs: whole lines, numbered through, whatever became of the process before."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from gapless.delivery.port import Note, SpaceSettings
from gapless.model.errors import ConfigError
from gapless.model.events import Event, Kind, decode_event
from gapless.node.clock import now
from gapless.node.journal import Journal
from gapless.node.logs import Logger, as_text


def events_of(journal: Journal) -> list[Event]:
    """What is in the file."""
    return [decode_event(line) for line in journal.path.read_bytes().splitlines()]


def test_a_journal_says_whose_it_is_and_how_its_spaces_deliver(tmp_path: Path) -> None:
    """It begins with `run`, has one for each space however often that is entered, and is complete once closed."""
    journal = Journal(tmp_path / "new" / "folder", "b0", faults=True)
    for _ in range(2):
        journal.space(SpaceSettings(name="quotes"))
    journal.note("quotes", Note(Kind.DROPPED, {"reason": "slow-subscriber", "count": 3}), now())
    journal.close(goodbye=True)
    journal.close(goodbye=True)
    first, space, dropped, goodbye = events_of(journal)
    assert (first.event, first.space, first.version, first.faults) == (Kind.RUN, "", 1, True)
    assert (space.event, space.space, space.delivery, space.faults) == (Kind.RUN, "quotes", "direct", True)
    assert (dropped.reason, dropped.count, dropped.node) == ("slow-subscriber", 3, "b0")
    assert (goodbye.event, goodbye.reason) == (Kind.DISCONNECTED, "draining")


@pytest.mark.parametrize("torn", [b"", b'{"event":"drop', b"\xff"])
def test_a_process_that_comes_back_goes_on_in_its_journal(tmp_path: Path, torn: bytes) -> None:
    """A torn line is cut off, the death is written down, and numbers go on; a good end before is no death."""
    dead = Journal(tmp_path, "b0")
    dead.write(Kind.LINK_UP, now(), peer="b1")
    dead.close()
    with dead.path.open("ab") as file:
        file.write(torn)
    back = Journal(tmp_path, "b0")
    back.close(goodbye=True)
    again = Journal(tmp_path, "b0")
    again.close(goodbye=True)
    events = events_of(again)
    assert [event.n for event in events] == list(range(1, len(events) + 1))
    assert [event.event for event in events] == [
        Kind.RUN,
        Kind.LINK_UP,
        Kind.RUN,
        Kind.CRASH,
        Kind.RESTART,
        Kind.DISCONNECTED,
        Kind.RUN,
        Kind.RESTART,
        Kind.DISCONNECTED,
    ]


@pytest.mark.parametrize("last", [("", "draining: what waits goes out first"), ("c1", "draining")])
def test_a_process_that_is_killed_while_it_drains_has_crashed(last: tuple[str, str], tmp_path: Path) -> None:
    """To begin to drain, or to send one peer away, is not to have ended in an orderly way."""
    journal = Journal(tmp_path, "b0")
    journal.disconnected(*last, now())
    journal.close()
    back = Journal(tmp_path, "b0")
    back.close()
    assert [event.event for event in events_of(back)] == [
        *(Kind.RUN, Kind.DISCONNECTED, Kind.RUN, Kind.CRASH, Kind.RESTART)
    ]


def test_a_journal_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    """A folder that is a file, and a file that is no journal, are refused before anything starts."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"the journal .*b0.ndjson cannot be written: .*; name a folder that can be"):
        Journal(tmp_path / "file", "b0")
    (tmp_path / "b0.ndjson").write_text("not an event\n")
    with pytest.raises(ConfigError, match="ends in a line that is no event: move the file away"):
        Journal(tmp_path, "b0")


def test_a_full_disk_ends_the_journal_and_not_the_process(tmp_path: Path) -> None:
    """When the disk takes no more it is told once, and writing goes on into nothing."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    told: list[str] = []
    journal = Journal(tmp_path, "b0", told.append)
    journal._file.close()
    journal._file = full.open("ab", buffering=64)
    for _ in range(100):
        journal.write(Kind.LINK_UP, now(), peer="b1")
        journal.flush()
    journal.close(goodbye=True)
    assert told == [journal.trouble]
    assert journal.trouble.endswith("No space left on device")


def test_a_log_line_is_one_json_object() -> None:
    """Whatever the fields hold, a line is one line of JSON with time, level and event."""
    stream = io.StringIO()
    log = Logger(stream, "info", broker="b0")
    log.debug("not shown")
    log.warning("link ended", reason='two\nlines and "quotes"', peer="ü")
    (line,) = stream.getvalue().splitlines()
    told = json.loads(line)
    assert told["time"].endswith("+00:00")
    assert {name: told[name] for name in told if name != "time"} == {
        "level": "warning",
        "event": "link ended",
        "broker": "b0",
        "reason": 'two\nlines and "quotes"',
        "peer": "ü",
    }


def test_a_log_line_for_people_cannot_be_forged_by_what_is_in_it() -> None:
    """Values that could be taken for something else are quoted; a traceback stands below."""
    line = {"time": "2026-01-02T03:04:05.678+00:00", "level": "error", "event": "broken", "peer": "a\nb", "n": 3}
    assert as_text(line) == '03:04:05.678 error   broken  peer="a\\nb" n=3'
    assert as_text({**line, "traceback": "Traceback\n  here\n"}).endswith("n=3\nTraceback\n  here")
