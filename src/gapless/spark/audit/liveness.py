"""`all-delivered`: every live subscription has been handed all it is owed, in runs without faults."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name by which everybody who knows Spark knows it

from gapless.model.events import Kind
from gapless.spark.audit.journals import Journals
from gapless.spark.audit.processes import PUBLICATION, SUBSCRIPTION, Processes, is_after, of_kind
from gapless.spark.audit.subscriptions import LIVE

ALL_DELIVERED = "all-delivered"

_FAULTS = (Kind.CRASH, Kind.LINK_DOWN, Kind.FAULT)
_NAMED = [*SUBSCRIPTION, "source", "incarnation", "seq"]
_LANE = [*SUBSCRIPTION, "source", "incarnation"]


def why_not_judged(journals: Journals) -> str:
    """Why nothing can be said about `all-delivered` in this run; empty where something can."""
    spaces = journals.spaces
    if all(run.faults for space, run in spaces.items() if space or len(spaces) == 1):
        return "the run may contain faults"
    for kind in _FAULTS:
        if kind.value in journals.kinds and not _is_of_stopping(journals, kind):
            return f"the run says that it has no faults, and has a `{kind.value}` event"
    if journals.torn:
        return f"the process of {journals.torn[0]} was killed"
    if Kind.END.value not in journals.kinds:
        return "no journal has an `end` event"
    return ""


def _is_of_stopping(journals: Journals, kind: Kind) -> bool:
    """Whether these are links that processes took with them when they stopped after the end of the run."""
    over = journals.has_common_clock and journals.ended and journals.firsts[kind.value] >= journals.ended
    return kind is Kind.LINK_DOWN and bool(over)


def judge_owed(
    journals: Journals, processes: Processes, deliveries: DataFrame, publications: DataFrame, subscriptions: DataFrame
) -> DataFrame:
    """Each pair of a live subscription and a publication it is owed, with `handed`: whether it was delivered.

    `deliveries` are judged ones.
    """
    owed = _owed(journals, deliveries, publications, subscriptions)
    if Kind.GAP.value in journals.kinds:
        owed = _without_gaps(owed, processes.place(of_kind(journals, Kind.GAP)))
    handed = deliveries.select(*_NAMED).distinct().withColumn("handed", F.lit(True))
    return owed.join(handed, _NAMED, "left").withColumn("handed", F.col("handed").isNotNull())


def _owed(journals: Journals, deliveries: DataFrame, publications: DataFrame, subscriptions: DataFrame) -> DataFrame:
    bound = journals.of_space(lambda run: run.bound)
    live = subscriptions.where((F.col("state") == LIVE) & ~journals.of_space(lambda run: run.faults)).select(
        *SUBSCRIPTION,
        "interest",
        "confirmed",
        F.col("node").alias("confirmed_node"),
        "confirmed_at",
        (F.col("end_at") - bound).alias("deadline"),
    )
    first = deliveries.where("is_published").groupBy(*_LANE).agg(F.min_by("seq", "moment").alias("first"))
    settled = _settled(deliveries, publications)
    pairs = settled.withColumn("interest", F.explode("matched")).drop("matched").join(live, ["space", "interest"])
    begun_after = is_after(journals, "moment", "node", "confirmed", "confirmed_node")
    return (
        pairs.where(_is_due(journals))
        .join(first, _LANE, "left")
        .where(begun_after | F.coalesce(F.col("seq") >= F.col("first"), F.lit(False)))
        .select(*_NAMED, F.col("moment.place").alias("offer"), F.col("confirmed.place").alias("confirmation"))
    )


def _is_due(journals: Journals) -> Column:
    """Whether it was certain, and the subscription confirmed, early enough before the subscription was last watched."""
    if not journals.has_common_clock:
        return F.lit(True)
    return (F.col("settled_at") <= F.col("deadline")) & (F.col("confirmed_at") <= F.col("deadline"))


def _settled(deliveries: DataFrame, publications: DataFrame) -> DataFrame:
    """What somebody may be owed: accepted, or of unknown outcome and yet delivered to anyone; never refused."""
    columns = (*PUBLICATION, "moment", "node", "matched")
    not_refused = publications.where(~F.col("refused"))
    is_accepted = F.col("accepted_at").isNotNull()
    accepted = not_refused.where(is_accepted).select(*columns, F.col("accepted_at").alias("settled_at"))
    handed = deliveries.groupBy(*PUBLICATION).agg(F.min("at").alias("settled_at"))
    unknown = not_refused.where(~is_accepted).join(handed, PUBLICATION)
    return accepted.unionByName(unknown.select(*columns, "settled_at"))


def _without_gaps(owed: DataFrame, gaps: DataFrame) -> DataFrame:
    told = gaps.select(*_LANE, F.col("seq").alias("from_seq"), F.greatest("seq", "last").alias("to_seq"))
    within = [F.col(f"owed.{name}") == F.col(f"told.{name}") for name in _LANE]
    within += [F.col("owed.seq").between(F.col("told.from_seq"), F.col("told.to_seq"))]
    return owed.alias("owed").join(told.alias("told"), within, "left_anti")
