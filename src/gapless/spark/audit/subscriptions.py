"""Subscriptions: one row each, with what it asks for, when its promises began, and if it was watched to the end."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name by which everybody who knows Spark knows it

from gapless.model.events import Kind
from gapless.spark.audit.journals import Journals
from gapless.spark.audit.matching import Asked
from gapless.spark.audit.processes import SUBSCRIPTION, Processes, of_kind

LIVE = "live"
_ASKED = ("space", "filter", "topic")


def subscriptions_of(journals: Journals, processes: Processes) -> DataFrame:
    """Subscriptions by `space, subscription, epoch`.

    `filter` and `topic` are null where nobody asked for it. `state` is LIVE, or why `all-delivered` says nothing about
    it; `confirmed`, `confirmed_at` and `node` tell when and in which process its promises began, `end_at` until when
    the run was watched.
    """
    about = of_kind(journals, Kind.SUBSCRIBE, Kind.CONFIRMED, Kind.UNSUBSCRIBE, Kind.GAP)
    events = processes.place(about.where(F.col("subscription") != ""))
    facts = events.groupBy(*SUBSCRIPTION).agg(
        F.min_by("filter", _moment_of(Kind.SUBSCRIBE)).alias("filter"),
        F.min_by("topic", _moment_of(Kind.SUBSCRIBE)).alias("topic"),
        F.min(_moment_of(Kind.CONFIRMED)).alias("confirmed"),
        F.min_by("at", _moment_of(Kind.CONFIRMED)).alias("confirmed_at"),
        F.min_by("node", _moment_of(Kind.CONFIRMED)).alias("node"),
        F.min(_moment_of(Kind.UNSUBSCRIBE)).alias("unsubscribed"),
        _any((F.col("event") == Kind.CONFIRMED.value) & (F.size("exceptions") > 0)).alias("has_exceptions"),
        _any((F.col("event") == Kind.GAP.value) & (F.col("source") == "")).alias("has_open_gap"),
    )
    # Whoever runs the run says when it was over, for all of them.
    end = of_kind(journals, Kind.END).agg(F.max("moment").alias("end"), F.max("at").alias("end_at"))
    has_left = F.col("unsubscribed").isNotNull()
    if journals.has_common_clock:
        has_left &= F.col("unsubscribed") < F.col("end")
    watched = facts.crossJoin(F.broadcast(end)).withColumn("state", _state(has_left))
    return watched.drop("end", "unsubscribed", "has_exceptions", "has_open_gap")


def asked_by(subscriptions: DataFrame) -> list[Asked]:
    """What is asked for, each once."""
    rows = subscriptions.where(F.col("filter").isNotNull()).select(*_ASKED).distinct().collect()
    return sorted(Asked(row["space"], row["filter"], row["topic"]) for row in rows)


def with_interest(subscriptions: DataFrame, asked: list[Asked]) -> DataFrame:
    """Subscriptions with the position of what they ask for as `interest`."""
    table = subscriptions.sparkSession.createDataFrame(
        [(position, *each) for position, each in enumerate(asked)],
        "interest int, space string, filter string, topic string",
    )
    return subscriptions.join(F.broadcast(table), list(_ASKED), "left")


def _moment_of(kind: Kind) -> Column:
    return F.when(F.col("event") == kind.value, F.col("moment"))


def _any(condition: Column) -> Column:
    return F.coalesce(F.bool_or(condition), F.lit(False))


def _state(has_left: Column) -> Column:
    return (
        F.when(F.col("confirmed").isNull(), "never confirmed")
        .when(has_left, "unsubscribed before the end")
        .when(F.col("has_exceptions"), "confirmed with exceptions")
        .when(F.col("has_open_gap"), "told of a gap without a range")
        .otherwise(LIVE)
    )
