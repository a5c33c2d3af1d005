"""Deliveries: `D(s)` of each life of each subscription.

When the process of a subscriber dies, `D(s)` is cut back to the position it had acknowledged, or the cursor that the
next process presents, and what was handed over behind that may come again. What stands after the cut is part of the
next life's `D(s)` too: there it is a row once more, with `own` false.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812  # the name by which everybody who knows Spark knows it

from gapless.model.events import Kind
from gapless.spark.audit.journals import MOMENT_DDL, PLACE_DDL, Journals
from gapless.spark.audit.processes import SUBSCRIPTION, Processes, of_kind

_NAMED = [*SUBSCRIPTION, "source", "incarnation", "seq"]
_CUTS_DDL = f"space string, subscription string, epoch int, cuts array<struct<life:int,position:{MOMENT_DDL}>>"


def deliveries_of(journals: Journals, processes: Processes) -> DataFrame:
    """Deliveries with `epoch`, `life`, and `own`: whether they were handed over in that life, not kept from one before.

    `cut_off` is the place of an earlier delivery of the same, which may have been cut off.
    """
    delivered = processes.place(of_kind(journals, Kind.DELIVERED)).select(
        *_NAMED, "attributes", "digest", "body", "redelivered", "node", "at", "moment", "life"
    )
    cuts = _cuts(journals, processes, delivered) if processes.came_again else []
    if not cuts:
        return delivered.withColumn("own", F.lit(True)).withColumn("cut_off", F.lit(None).cast(PLACE_DDL))
    table = F.broadcast(delivered.sparkSession.createDataFrame(cuts, _CUTS_DDL))
    removed = F.filter(
        "cuts",
        lambda cut: (cut["life"] > F.col("life")) & (cut["position"].isNull() | (cut["position"] < F.col("moment"))),
    )
    until = F.coalesce(F.array_min(removed)["life"], F.array_max("cuts")["life"] + 1, F.col("life") + 1)
    of_one = Window.partitionBy(*_NAMED).orderBy("moment")
    return (
        delivered.withColumn("cut_off", F.lag("moment.place").over(of_one))
        .join(table, SUBSCRIPTION, "left")
        .withColumn("in_life", F.explode(F.sequence("life", until - 1)))
        .withColumn("own", F.col("in_life") == F.col("life"))
        .withColumn("life", F.col("in_life"))
        .drop("cuts", "in_life")
    )


def _cuts(journals: Journals, processes: Processes, delivered: DataFrame) -> list[tuple[Any, ...]]:
    """For each subscription with several lives, where `D(s)` was cut back to as each began; null: to nothing."""
    lives = delivered.groupBy(*SUBSCRIPTION).agg(F.max("life").cast("int").alias("last")).where(F.col("last") > 0)
    several = lives.collect()
    if not several:
        return []
    these = F.broadcast(delivered.sparkSession.createDataFrame(several, lives.schema).drop("last"))
    named = processes.place(
        of_kind(journals, Kind.ACKNOWLEDGED, Kind.SUBSCRIBE, Kind.CONFIRMED).where(F.col("source") != "")
    ).join(these, SUBSCRIPTION, "left_semi")
    handed = delivered.join(these, SUBSCRIPTION, "left_semi").select(*_NAMED, F.col("moment").alias("handed"))
    reached = (
        named.select(*_NAMED, "event", "life", "moment")
        .join(handed, _NAMED)
        .where(F.col("handed") < F.col("moment"))
        .groupBy(*SUBSCRIPTION, "life", "event")
        .agg(F.max("handed").alias("position"))
    )
    positions = {(_key(row), row["life"], row["event"]): row["position"] for row in reached.collect()}
    return [(*_key(row), _cuts_of(_key(row), row["last"], positions)) for row in several]


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in SUBSCRIPTION)


def _cuts_of(
    subscription: tuple[Any, ...], last: int, positions: Mapping[tuple[tuple[Any, ...], int, str], Any]
) -> list[tuple[int, Any]]:
    """Life by life: the cursor presented, else what was acknowledged; or what its home names, if that is less."""
    cuts = []
    acknowledged = positions.get((subscription, 0, Kind.ACKNOWLEDGED.value))
    for life in range(1, last + 1):
        acknowledged = positions.get((subscription, life, Kind.SUBSCRIBE.value), acknowledged)
        home = positions.get((subscription, life, Kind.CONFIRMED.value))
        if home is not None and acknowledged is not None:
            acknowledged = min(acknowledged, home)
        cuts.append((life, acknowledged))
        further = positions.get((subscription, life, Kind.ACKNOWLEDGED.value))
        if further is not None:
            acknowledged = further if acknowledged is None else max(acknowledged, further)
    return cuts
