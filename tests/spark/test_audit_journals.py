"""The audit reads journals as processes leave them, and says which line of which file it cannot read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from gapless.model.events import HISTORY_VERSION, Event, Kind, digest_of, encode_event
from gapless.spark.audit import AuditVerdict, JournalError, Result, audit
from gapless.spark.audit.matching import Asked, match_batch
from gapless.spark.audit.schema import write_parquet

BODY = digest_of(b"body")
NAMED: dict[str, Any] = {"space": "q", "source": "p", "incarnation": 1}


def run(node: str, **fields: Any) -> Event:
    return Event(event=Kind.RUN, at=0, node=node, version=HISTORY_VERSION, **{"delivery": "direct"} | fields)


def confirmed(name: str, at: int, filter_text: str = "", node: str = "sub") -> list[Event]:
    asked = {"node": node, "space": "q", "subscription": name}
    return [
        Event(event=Kind.SUBSCRIBE, at=at, filter=filter_text, **asked),
        Event(event=Kind.CONFIRMED, at=at + 1, **asked),
    ]


def published(seq: int, at: int, node: str = "pub", **fields: Any) -> list[Event]:
    named = NAMED | fields
    return [
        Event(event=Kind.PUBLISH, at=at, node=node, seq=seq, attributes={"n": seq}, body=BODY, **named),
        Event(event=Kind.ACCEPTED, at=at + 1, node=node, seq=seq, **named),
    ]


def delivered(name: str, seq: int, at: int, node: str = "sub", **fields: Any) -> Event:
    return Event(event=Kind.DELIVERED, at=at, node=node, subscription=name, seq=seq, body=BODY, **NAMED | fields)


def two_processes() -> dict[str, list[Event]]:
    """Two journals; by their common clock publication 1 came before the confirmation, 2 to 4 after it; 4 is missing."""
    publisher = [run("pub")]
    for seq, at in ((1, 5), (2, 30), (3, 40), (4, 50)):
        publisher += published(seq, at)
    subscriber = [run("sub"), *confirmed("s", 10), delivered("s", 2, 35), delivered("s", 3, 45)]
    director = [run("director"), Event(event=Kind.END, at=100, node="director")]
    return {"pub": publisher, "sub": subscriber, "director": director}


def summary_of(verdict: AuditVerdict) -> dict[str, tuple[str, int, int]]:
    return {promise.promise: (promise.result.value, promise.judged, promise.broken) for promise in verdict.promises}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "journals [of a run]"
    inside.mkdir()
    return inside


def write_journal(path: Path, events: Iterable[Event]) -> None:
    with path.open("wb") as file:
        for event in events:
            file.write(encode_event(event) + b"\n")


def write_all(folder: Path, journals: dict[str, list[Event]]) -> Path:
    for node, events in journals.items():
        write_journal(folder / f"{node}.ndjson", events)
    return folder


@pytest.mark.spark
def test_orders_journals_by_their_clock(spark: SparkSession, folder: Path) -> None:
    """Journals of several processes are judged together, ordered by their common clock."""
    verdict = audit([write_all(folder, two_processes())], spark, report=folder / "report")
    assert verdict.of("all-delivered").result is Result.BROKEN
    [missing] = verdict.violations
    assert missing.publications == ("p#1/4",)
    assert [(witness.journal, witness.line) for witness in missing.witnesses] == [("sub.ndjson", 3), ("pub.ndjson", 8)]
    told = json.loads((folder / "report" / "verdict.json").read_text())
    assert told["verdict"] == "broken" and told["promises"]["all-delivered"]["violations"][0]["count"] == 1
    assert (folder / "report" / "verdict.txt").read_text() == verdict.render()


@pytest.mark.spark
def test_reads_parquet(spark: SparkSession, folder: Path) -> None:
    """Journals in Parquet get the verdict that the same journals get as lines, beside journals that are lines."""
    journals = two_processes()
    for node in ("pub", "sub"):
        write_parquet(folder / f"{node}.parquet", journals.pop(node), rows_at_once=3)
    verdict = audit([write_all(folder, journals)], spark)
    assert summary_of(verdict) == {
        "no-invention": ("kept", 2, 0),
        "no-duplicate": ("kept", 2, 0),
        "publisher-order": ("kept", 2, 0),
        "all-delivered": ("broken", 3, 1),
    }
    [missing] = verdict.violations
    assert missing.witnesses[1].journal == "pub.parquet" and '"seq":4' in missing.witnesses[1].event


@pytest.mark.spark
def test_takes_a_torn_line(spark: SparkSession, folder: Path) -> None:
    """The line that a killed process left unfinished is named and left out; all before it is judged."""
    write_all(folder, two_processes())
    with (folder / "sub.ndjson").open("ab") as file:
        file.write('{"event":"delivered","at":50,"node":"sub","body":"ä'.encode()[:-1])
    verdict = audit([folder], spark)
    assert verdict.torn == ("sub.ndjson",)
    assert "torn line: the last line of sub.ndjson" in verdict.render()
    assert verdict.of("no-duplicate").judged == 2
    assert verdict.of("all-delivered").result is Result.NOT_JUDGED


@pytest.mark.spark
def test_knows_no_common_clock(spark: SparkSession, folder: Path) -> None:
    """Without a common clock only what follows a confirmation in one process is known to follow it."""
    unknown = published(2, 8)[0]
    both = [*confirmed("mine", 7, node="pub"), *published(1, 8), unknown, Event(event=Kind.END, at=9)]
    both = [Event(**fields_of(event) | {"n": place}) for place, event in enumerate(both, 1)]
    subscriber = [Event(**fields_of(event) | {"n": place}) for place, event in enumerate(confirmed("other", 1), 1)]
    journals = {
        "pub": [run("pub", clock="causal"), *both],
        "sub": [run("sub", clock="causal"), *subscriber],
    }
    verdict = audit([write_all(folder, journals)], spark)
    [missing] = verdict.violations
    assert (missing.subscription, missing.publications) == ("mine", ("p#1/1",))


def fields_of(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


GOOD = [run("sub"), *confirmed("s", 10), *published(1, 20)]

UNREADABLE = {
    "no event": (b'{"event":"end","at":3', "line 6: is not one event in JSON"),
    "two events": (b'{"event":"end","at":3}{"event":"end","at":3}', "line 6: is not one event in JSON"),
    "of another type": (b'{"event":"end","at":"late"}', "line 6: is not one event in JSON"),
    "of an unknown kind": (b'{"event":"born","at":3}', "line 6: has an `event` the schema does not know: born"),
    "without a time": (b'{"event":"end"}', "line 6: has no `at`"),
    "nested attributes": (
        b'{"event":"publish","at":3,"space":"q","source":"p","seq":7,"attributes":{"a":[1]}}',
        "line 6: `attributes` is no object",
    ),
    "of another version": (b'{"event":"run","at":3,"version":99}', "line 6: a history of version 99"),
}


@pytest.mark.spark
@pytest.mark.parametrize("name", UNREADABLE)
def test_names_the_line(name: str, spark: SparkSession, folder: Path) -> None:
    """A line that cannot be read is an error that names the file, the line and what is wrong."""
    line, says = UNREADABLE[name]
    path = folder / "sub.ndjson"
    write_journal(path, GOOD)
    with path.open("ab") as file:
        file.write(line + b"\n" + b'{"event":"end","at":60}\n')
    with pytest.raises(JournalError) as raised:
        audit([folder], spark)
    assert f"{path}, {says}" in str(raised.value)


@pytest.mark.spark
def test_journals_begin_with_a_run(spark: SparkSession, folder: Path) -> None:
    """A file that does not begin with a `run` event is no journal."""
    write_journal(folder / "sub.ndjson", GOOD[1:])
    with pytest.raises(JournalError, match=r"sub\.ndjson does not begin with a `run` event"):
        audit([folder], spark)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: [folder], "holds no journals"),
        (lambda folder: [folder / "nowhere"], "nowhere does not exist"),
        (lambda folder: [], "no journals were named"),
    ],
)
def test_says_that_there_are_none(make: Any, says: str, folder: Path) -> None:
    """Where there are no journals, that is said before Spark is started."""
    with pytest.raises(JournalError, match=says):
        audit(make(folder))


@pytest.mark.spark
def test_refuses_other_parquet(spark: SparkSession, folder: Path) -> None:
    """Parquet that is no journal, or no Parquet at all, is refused by name."""
    pq.write_table(pa.table({"event": ["end"]}), folder / "other.parquet")
    with pytest.raises(JournalError, match=r"other\.parquet has no column at"):
        audit([folder], spark)
    (folder / "other.parquet").write_bytes(b"PAR")
    with pytest.raises(JournalError, match=r"other\.parquet cannot be read as Parquet"):
        audit([folder], spark)


def test_matches_each_publication_once_for_each_filter() -> None:
    """Filters and topic patterns are those of the publication's space; what is unknown does not match."""
    asked = [Asked("q", "n > 2", ""), Asked("q", "", "a/+"), Asked("other", "n > 2", ""), Asked("q", "n >", "")]
    spaces = pa.array(["q", "q", "q", "other", "none", "q"])
    texts = ['{"n":3}', '{"n":null,"topic":"a/b"}', None, '{"n":3}', '{"n":3}', "[1]"]
    found = match_batch(asked, spaces, pa.array(texts)).to_pylist()
    assert found == [[0], [1], [], [2], [], None]


def many_events(sources: int, each: int) -> dict[str, Iterator[Event] | list[Event]]:
    """A journal for each publisher and two subscribers, with one publication missing and one delivered again."""
    half, last = each // 2, each

    def publisher(source: str) -> Iterator[Event]:
        yield run(source)
        for seq in range(1, each + 1):
            yield published(seq, 100 + seq, source, source=source)[0]
            if seq % 1000 == 0:
                fields = NAMED | {"source": source}
                yield Event(event=Kind.ACCEPTED, at=100 + seq, node=source, seq=seq - 999, last=seq, **fields)

    def subscriber(node: str, skips: tuple[str, int], repeats: tuple[str, int]) -> Iterator[Event]:
        yield run(node)
        yield from confirmed(node, 10, f"n > {half}", node)
        for seq in range(half + 1, last + 1):
            for source in names:
                if (source, seq) != skips:
                    yield delivered(node, seq, 200 + seq, node, source=source)
                if (source, seq) == repeats:
                    yield delivered(node, seq, 200 + seq, node, source=source)

    names = [f"p{number}" for number in range(sources)]
    journals: dict[str, Iterator[Event] | list[Event]] = {name: publisher(name) for name in names}
    journals["s1"] = subscriber("s1", skips=("p0", last - 7), repeats=("", 0))
    journals["s2"] = subscriber("s2", skips=("", 0), repeats=("p1", half + 9))
    journals["director"] = [run("director"), Event(event=Kind.END, at=10_000_000, node="director")]
    return journals


@pytest.mark.spark
def test_finds_one_among_many(spark: SparkSession, folder: Path) -> None:
    """Of two hundred thousand events the one missing and the one delivered again are found."""
    sources, each = 4, 25_000
    for node, events in many_events(sources, each).items():
        write_journal(folder / f"{node}.ndjson", events)
    verdict = audit([folder], spark)
    deliveries = sources * each  # half of all publications to each of two
    assert verdict.events == sum(path.read_bytes().count(b"\n") for path in folder.iterdir()) > 200_000
    assert summary_of(verdict) == {
        "no-invention": ("kept", deliveries, 0),
        "no-duplicate": ("broken", deliveries, 1),
        "publisher-order": ("kept", deliveries, 0),
        "all-delivered": ("broken", deliveries, 1),
    }
    again, missing = verdict.violations
    assert (again.subscription, again.publications) == ("s2", (f"p1#1/{each // 2 + 9}",))
    assert (missing.subscription, missing.publications) == ("s1", (f"p0#1/{each - 7}",))


@pytest.mark.spark
def test_leaves_a_running_session_running(spark: SparkSession, folder: Path) -> None:
    """Where Spark runs already the audit works there, and stops nothing."""
    write_journal(folder / "sub.ndjson", GOOD[1:])
    with pytest.raises(JournalError):
        audit([folder])
    assert spark.range(3).count() == 3


@pytest.mark.spark
def test_takes_many_spaces(spark: SparkSession, folder: Path) -> None:
    """What runs say of hundreds of spaces holds for each of them, and for none of the others."""
    events = [run("all", faults=True)]
    events += [run("all", space=f"s{number}", faults=number % 2 == 0) for number in range(400)]
    for space in ("s398", "s399", "elsewhere"):
        events += [replace(event, node="all", space=space) for event in confirmed("s", 10)]
        events += published(1, 30, node="all", space=space)
    events.append(Event(event=Kind.END, at=100, node="all"))
    write_journal(folder / "all.ndjson", events)
    verdict = audit([folder], spark)
    assert [(violation.promise, violation.space) for violation in verdict.violations] == [("all-delivered", "s399")]
