"""Journals as one DataFrame of events, read under an explicit schema, and refused where they cannot be read.

A journal is one file of one process, NDJSON or Parquet; its order is that of its lines or rows. The place of an event
is its file, the block of it that one task read, and the row therein: places of one file are ordered as its lines are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name by which everybody who knows Spark knows it

from gapless.model.events import HISTORY_VERSION, Kind
from gapless.spark.audit.errors import JournalError
from gapless.spark.audit.files import PARQUET, Files, Place
from gapless.spark.audit.schema import FIELDS, REQUIRED, event_ddl

_SHOWN_PROBLEMS = 5

PLACE_DDL = "struct<file:bigint,block:bigint,row:bigint>"
MOMENT_DDL = f"struct<at:bigint,n:bigint,place:{PLACE_DDL}>"
"""The type of `moment`: by it the events of one process, or of one clock, are ordered."""

IN_TIME = ("moment.at", "moment.n", "moment.place.file", "moment.place.block", "moment.place.row")
"""What to sort by for the order of moments: Spark sorts by numbers several times as fast as by structs of them."""


@dataclass(frozen=True)
class Run:
    """What a `run` event says of all spaces, or of one."""

    space: str = ""
    delivery: str = ""
    faults: bool = True
    bound: int = 0
    clock: str = "global"


@dataclass(frozen=True)
class Journals:
    """What was read. `lines` is in Spark's cache until `release`."""

    lines: DataFrame
    events: DataFrame  # the fields of an event, `place`, and `moment`: by it the events of one process are ordered
    files: Files
    runs: tuple[Run, ...]
    kinds: dict[str, int]
    firsts: dict[str, int]  # the earliest moment of each kind of event
    ended: int  # the latest `end`; 0 where there is none
    torn: tuple[str, ...]
    has_common_clock: bool  # moments of different processes can be compared

    def of_space(self, value: Callable[[Run], str | int | bool]) -> Column:
        """What the run says of the space of a row."""
        spaces = self.spaces
        others = F.lit(value(spaces.get("", Run())))
        said = [F.lit(each) for space, run in spaces.items() if space for each in (space, value(run))]
        # One table, however many spaces there are: an expression within an expression for each would be too deep.
        return F.coalesce(F.create_map(*said)[F.col("space")], others) if said else others

    @property
    def spaces(self) -> dict[str, Run]:
        """What the run says of each space, and under the empty name of all others; processes add up to one run."""
        said: dict[str, list[Run]] = {}
        for run in self.runs:
            said.setdefault(run.space, []).append(run)
        return {space: _in_sum(runs) for space, runs in said.items()}

    def release(self) -> None:
        """Let Spark forget what was read."""
        self.lines.unpersist()


def read_journals(session: SparkSession, paths: Sequence[Path]) -> Journals:
    """Read journals into Spark's cache; raises `JournalError` where they cannot be read in full."""
    lines = _read_lines(session, paths).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        files = Files(_blocks(lines))
        torn = _refuse_unreadable(lines, files)
        runs = _runs(lines, files, torn)
        moments = (F.count("*").alias("count"), F.min("at").alias("first"), F.max("at").alias("last"))
        kinds = {row["event"]: row for row in _good(lines).groupBy("event").agg(*moments).collect()}
    except BaseException:
        lines.unpersist()
        raise
    has_common_clock = all(run.clock == "global" for run in runs)
    return Journals(
        lines=lines,
        events=_with_moment(_good(lines), has_common_clock, len(files.paths) == 1),
        files=files,
        runs=runs,
        kinds={kind.value: kinds[kind.value]["count"] for kind in Kind if kind.value in kinds},
        firsts={kind: row["first"] for kind, row in kinds.items()},
        ended=kinds[Kind.END.value]["last"] if Kind.END.value in kinds else 0,
        torn=tuple(files.name(file) for file in torn),
        has_common_clock=has_common_clock,
    )


def _read_lines(session: SparkSession, paths: Sequence[Path]) -> DataFrame:
    parquet = [path for path in paths if path.name.endswith(PARQUET)]
    text = [path for path in paths if path not in parquet]
    for path in parquet:
        _check_parquet(path)
    parts = []
    if text:
        parts.append(_read_ndjson(session, text))
    if parquet:
        parts.append(_read_parquet(session, parquet))
    return reduce(DataFrame.unionByName, parts)


def _read_ndjson(session: SparkSession, paths: Sequence[Path]) -> DataFrame:
    # From text, not with the reader for JSON: that one passes over whatever follows the first document of a line.
    event = F.from_json("value", f"{event_ddl()}, corrupt string", {"columnNameOfCorruptRecord": "corrupt"})
    unreadable = F.col("e.corrupt").isNotNull() | F.col("value").contains('}{"event":')
    return (
        session.read.option("lineSep", "\n")
        .text([_literal(path) for path in paths])
        .select(
            F.col("_metadata.file_path").alias("path"),
            F.col("_metadata.file_block_start").alias("block"),
            F.monotonically_increasing_id().alias("row"),
            "value",
            event.alias("e"),
        )
        .select(
            *_place(),
            F.when(F.trim("value") == "", "")
            .when(unreadable, "is not one event in JSON")
            .otherwise(_problem())
            .alias("problem"),
            *_fields(),
        )
    )


def _read_parquet(session: SparkSession, paths: Sequence[Path]) -> DataFrame:
    return (
        session.read.schema(event_ddl())
        .parquet(*[_literal(path) for path in paths])
        .select(
            F.col("_metadata.file_path").alias("path"),
            F.lit(0).cast("bigint").alias("block"),
            F.col("_metadata.row_index").alias("row"),
            F.struct(*FIELDS).alias("e"),
        )
        .select(*_place(), _problem().alias("problem"), *_fields())
    )


def _check_parquet(path: Path) -> None:
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise JournalError(f"{path} cannot be read as Parquet: {error}") from error
    for name in REQUIRED:
        if name not in schema.names:
            raise JournalError(f"{path} has no column {name}: a journal has the columns of the history schema.")
    for column in schema:
        field = FIELDS.get(column.name)
        if field is not None and not field.accepts(column.type):
            raise JournalError(f"{path}: column {column.name} is of type {column.type}, not {field.arrow}.")


def _literal(path: Path) -> str:
    """A path in which Spark sees no pattern."""
    return "file://" + "".join("\\" + c if c in "\\*?[]{}" else c for c in str(path))


def _place() -> list[Column]:
    # The number of a file stands for its path wherever rows move: it is a tenth of its size.
    place = F.struct(F.xxhash64("path").alias("file"), "block", "row")
    return [F.col("path"), place.alias("place")]


def _problem() -> Column:
    """Why this is no event of the schema; null where it is one."""
    kind = F.col("e.event")
    unknown = F.concat(F.lit("has an `event` the schema does not know: "), kind)
    return (
        F.when(kind.isNull(), "has no `event`")
        .when(~kind.isin(*[kind.value for kind in Kind]), unknown)
        .when(F.col("e.at").isNull(), "has no `at`")
    )


def _fields() -> list[Column]:
    """The fields, absent ones with their defaults."""
    return [
        (F.col(f"e.{name}") if field.default is None else F.coalesce(f"e.{name}", F.lit(field.default))).alias(name)
        for name, field in FIELDS.items()
    ]


def _good(lines: DataFrame) -> DataFrame:
    return lines.where(F.col("problem").isNull()).drop("problem", "path")


def _in_sum(runs: Sequence[Run]) -> Run:
    return Run(
        space=runs[0].space,
        delivery=next((run.delivery for run in runs if run.delivery), ""),
        faults=any(run.faults for run in runs),
        bound=max(run.bound for run in runs),
    )


def _with_moment(events: DataFrame, has_common_clock: bool, is_one_file: bool) -> DataFrame:
    # In one history the lines say what came first; over several files, the time and the position in each do. Without a
    # common clock there is nothing but the position.
    if has_common_clock:
        at, n = ("place.block", "place.row") if is_one_file else ("at", "n")
    else:
        at, n = "n", "n"
    return events.withColumn("moment", F.struct(F.col(at).alias("at"), F.col(n).alias("n"), "place"))


def _blocks(lines: DataFrame) -> list[Row]:
    first_event = F.when(F.col("problem").isNull(), F.struct("place.row", "event"))
    return (
        lines.groupBy("path", "place.file", "place.block")
        .agg(
            F.count("*").alias("lines"),
            F.min("place.row").alias("first"),
            F.min(first_event).alias("begins"),
        )
        .collect()
    )


def _refuse_unreadable(lines: DataFrame, files: Files) -> list[int]:
    """The files whose last line is torn; any other line that cannot be read is an error that names it."""
    problems = lines.where(F.length("problem") > 0).select("place", "problem")
    rows = problems.orderBy("place").limit(_SHOWN_PROBLEMS + len(files.paths)).collect()
    torn, refused = [], []
    for row in rows:
        place = Place(*row["place"])
        line = files.line(place)
        if line == files.lines[place.file] and _lacks_newline(files.paths[place.file]):
            torn.append(place.file)
        else:
            refused.append(f"{files.paths[place.file]}, line {line}: {row['problem']}")
    if refused:
        shown = "\n".join(refused[:_SHOWN_PROBLEMS])
        raise JournalError(f"journals cannot be read in full:\n{shown}\nRemove or mend these lines and run again.")
    return torn


def _lacks_newline(path: Path) -> bool:
    """Whether a file ends inside a line, as that of a killed process does."""
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) != b"\n"


def _runs(lines: DataFrame, files: Files, torn: Sequence[int]) -> tuple[Run, ...]:
    for file, kind in files.begins_with.items():
        if kind != Kind.RUN.value and not (kind is None and file in torn):
            raise JournalError(f"{files.paths[file]} does not begin with a `run` event, so it is no journal.")
    rows = _good(lines).where(F.col("event") == Kind.RUN.value).orderBy("place").collect()
    for row in rows:
        if row["version"] != HISTORY_VERSION:
            place = Place(*row["place"])
            raise JournalError(
                f"{files.paths[place.file]}, line {files.line(place)}: a history of version {row['version']}; "
                f"this audit reads version {HISTORY_VERSION}."
            )
    said = (Run(row["space"], row["delivery"], row["faults"], row["bound"], row["clock"]) for row in rows)
    return tuple(dict.fromkeys(said))
