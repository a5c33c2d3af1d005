"""The audit of one run: journals in, verdict out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the name by which everybody who knows Spark knows it

from gapless.spark.audit.deliveries import deliveries_of
from gapless.spark.audit.errors import JournalError
from gapless.spark.audit.files import Place
from gapless.spark.audit.journals import Journals, read_journals
from gapless.spark.audit.liveness import ALL_DELIVERED, judge_owed, why_not_judged
from gapless.spark.audit.processes import PUBLICATION, SUBSCRIPTION, Processes
from gapless.spark.audit.publications import publications_of
from gapless.spark.audit.safety import SAFETY, judge_deliveries
from gapless.spark.audit.schema import FIELDS
from gapless.spark.audit.subscriptions import LIVE, asked_by, subscriptions_of, with_interest
from gapless.spark.audit.verdict import AuditVerdict, PromiseVerdict, Result, Violation, Witness

SHOWN_VIOLATIONS = 20
SHOWN_PUBLICATIONS = 10


def judge(session: SparkSession, paths: Sequence[Path]) -> AuditVerdict:
    """Judge the run that these journals tell of."""
    journals = read_journals(session, paths)
    try:
        return _Audit(journals).verdict()
    finally:
        journals.release()


class _Audit:
    def __init__(self, journals: Journals) -> None:
        self.journals = journals
        self.processes = Processes(journals)
        subscriptions = subscriptions_of(journals, self.processes).localCheckpoint()
        asked = asked_by(subscriptions)
        self.subscriptions = with_interest(subscriptions, asked)
        self.publications = publications_of(journals, asked).persist(StorageLevel.MEMORY_AND_DISK)
        deliveries = deliveries_of(journals, self.processes)
        self.deliveries = judge_deliveries(journals, deliveries, self.publications, self.subscriptions).persist(
            StorageLevel.MEMORY_AND_DISK
        )
        self._kept = [self.publications, self.deliveries]

    def verdict(self) -> AuditVerdict:
        try:
            publications = self._publications()
            promises = (*self._safety(), self._all_delivered())
            return AuditVerdict(
                promises=promises,
                journals=len(self.journals.files.paths),
                events=sum(self.journals.kinds.values()),
                counts=self.journals.kinds,
                publications=publications,
                subscriptions=self.subscriptions.count(),
                torn=self.journals.torn,
            )
        finally:
            for frame in self._kept:
                frame.unpersist()

    def _publications(self) -> int:
        """How many there are; refuses journals with attributes that cannot be read."""
        unreadable = self.publications.where(F.col("matched").isNull()).agg(F.min("moment.place")).first()
        if unreadable is not None and unreadable[0] is not None:
            place = _place(unreadable[0])
            where = f"{self.journals.files.paths[place.file]}, line {self.journals.files.line(place)}"
            raise JournalError(f"{where}: `attributes` is no object of bool, int64, float64, string and null.")
        return self.publications.count()

    # --- safety

    def _safety(self) -> list[PromiseVerdict]:
        counted = [F.count("*").alias("judged"), *[F.count(F.col(name)).alias(name) for name in SAFETY]]
        counts = self.deliveries.agg(*counted).first()
        assert counts is not None  # an aggregate without groups always has its one row
        return [self._safety_of(promise, counts["judged"], counts[promise]) for promise in SAFETY]

    def _safety_of(self, promise: str, judged: int, broken: int) -> PromiseVerdict:
        if not broken:
            return PromiseVerdict(promise, Result.KEPT, judged=judged)
        rows = (
            self.deliveries.where(F.col(promise).isNotNull())
            .orderBy("moment")
            .limit(SHOWN_VIOLATIONS)
            .select(*SUBSCRIPTION, *PUBLICATION[1:], f"{promise}.says", f"{promise}.places")
            .collect()
        )
        witnesses = self._witnesses(place for row in rows for place in row["places"])
        violations = tuple(
            Violation(
                promise=promise,
                space=row["space"],
                subscription=row["subscription"],
                says=row["says"],
                publications=(_name(row, row["seq"]),),
                witnesses=tuple(witnesses[_place(place)] for place in row["places"]),
            )
            for row in rows
        )
        return PromiseVerdict(promise, Result.BROKEN, judged=judged, broken=broken, violations=violations)

    # --- liveness

    def _all_delivered(self) -> PromiseVerdict:
        why = why_not_judged(self.journals)
        if why:
            return PromiseVerdict(ALL_DELIVERED, Result.NOT_JUDGED, why=why)
        left_out = self._left_out()
        owed = judge_owed(self.journals, self.processes, self.deliveries, self.publications, self.subscriptions)
        counts = owed.agg(F.count("*").alias("judged"), F.count_if(~F.col("handed")).alias("broken")).first()
        assert counts is not None  # an aggregate without groups always has its one row
        if not counts["broken"]:
            if not counts["judged"] and left_out:
                return PromiseVerdict(ALL_DELIVERED, Result.NOT_JUDGED, why=left_out)
            return PromiseVerdict(ALL_DELIVERED, Result.KEPT, judged=counts["judged"], why=left_out)
        return PromiseVerdict(
            ALL_DELIVERED,
            Result.BROKEN,
            judged=counts["judged"],
            broken=counts["broken"],
            why=left_out,
            violations=self._undelivered(owed.where(~F.col("handed"))),
        )

    def _left_out(self) -> str:
        """For how many subscriptions it was not judged, and why."""
        faulty = self.journals.of_space(lambda run: run.faults)
        state = F.when(faulty, "in a space with faults").otherwise(F.col("state"))
        rows = self.subscriptions.groupBy(state.alias("state")).count().orderBy("state").collect()
        told = [f"{row['count']} {row['state']}" for row in rows if row["state"] != LIVE]
        return f"subscriptions left out: {', '.join(told)}" if told else ""

    def _undelivered(self, missing: DataFrame) -> tuple[Violation, ...]:
        """One violation for each source that a subscription misses something of."""
        source = [*SUBSCRIPTION, "source", "incarnation"]
        in_order = Window.partitionBy(*source).orderBy("seq")
        shown = F.when(F.col("position") <= SHOWN_PUBLICATIONS, F.col("seq"))
        rows = (
            missing.withColumn("position", F.row_number().over(in_order))
            .groupBy(*source)
            .agg(
                F.count("*").alias("count"),
                F.sort_array(F.collect_list(shown)).alias("seqs"),
                F.min_by("offer", "seq").alias("offer"),
                F.first("confirmation").alias("confirmation"),
            )
            .orderBy(*source)
            .limit(SHOWN_VIOLATIONS)
            .collect()
        )
        witnesses = self._witnesses(place for row in rows for place in (row["confirmation"], row["offer"]))
        return tuple(
            Violation(
                promise=ALL_DELIVERED,
                space=row["space"],
                subscription=row["subscription"],
                says="owed and never delivered",
                publications=tuple(_name(row, seq) for seq in row["seqs"]),
                count=row["count"],
                witnesses=(witnesses[_place(row["confirmation"])], witnesses[_place(row["offer"])]),
            )
            for row in rows
        )

    # --- witnesses

    def _witnesses(self, places: Iterable[Any]) -> dict[Place, Witness]:
        """The events at these places, as they stand in their journals."""
        wanted = {_place(place) for place in places}
        if not wanted:
            return {}
        rows = sorted({place.row for place in wanted})
        found = self.journals.events.where(F.col("place.row").isin(rows)).collect()
        witnesses = {}
        for row in found:
            place = _place(row["place"])
            if place in wanted:
                files = self.journals.files
                witnesses[place] = Witness(files.name(place.file), files.line(place), _line_of(row))
        return witnesses


def _place(row: Row) -> Place:
    return Place(row["file"], row["block"], row["row"])


def _name(row: Row, seq: int) -> str:
    return f"{row['source']}#{row['incarnation']}/{seq}"


def _line_of(row: Row) -> str:
    """An event as a line of a journal, without what is absent."""
    said = {name: row[name] for name, field in FIELDS.items() if row[name] not in (field.default, None, [], {})}
    if "attributes" in said:
        said["attributes"] = json.loads(said["attributes"])
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False)
