"""Which subscription, and which process of it, an event belongs to, where names come again.

A name that is subscribed anew after `unsubscribe` is a new subscription: its *epoch* counts them. A subscription whose
process died, or that another process goes on with, enters a new *life*: `D(s)` is of one life.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name by which everybody who knows Spark knows it

from gapless.model.events import Kind
from gapless.spark.audit.journals import Journals

NAME = ["space", "subscription"]
SUBSCRIPTION = [*NAME, "epoch"]
PUBLICATION = ["space", "source", "incarnation", "seq"]


def of_kind(journals: Journals, *kinds: Kind) -> DataFrame:
    """The events of these kinds."""
    return journals.events.where(F.col("event").isin(*[kind.value for kind in kinds]))


def is_after(journals: Journals, later: str, later_node: str, earlier: str, earlier_node: str) -> Column:
    """Whether one moment is known to be after another: by time, or within one process."""
    after = F.col(later) > F.col(earlier)
    if journals.has_common_clock:
        # Of two events of one time in different journals nobody can say which came first.
        in_one_file = F.col(f"{later}.place.file") == F.col(f"{earlier}.place.file")
        return F.when(in_one_file, after).otherwise(F.col(f"{later}.at") > F.col(f"{earlier}.at"))
    return (F.col(later_node) == F.col(earlier_node)) & after


class Processes:
    """Gives the events of subscriptions their `epoch` and `life`."""

    def __init__(self, journals: Journals) -> None:
        asked = _subscribes(journals)
        renewed = asked.where("is_new").groupBy(*NAME).agg(F.collect_list("moment").alias("renewed"))
        began = asked.where("is_other_process").select(*NAME, "moment").unionByName(_deaths(journals, asked))
        lives = began.groupBy(*NAME).agg(F.collect_list("moment").alias("began"))
        # There are as many rows as names that came again: mostly none, and then plans stay small.
        self._again = renewed.join(lives, NAME, "full").localCheckpoint()
        self.came_again = not self._again.isEmpty()

    def place(self, events: DataFrame) -> DataFrame:
        """Events of subscriptions with `epoch` and `life`, numbers that begin at 0."""
        if not self.came_again:
            return events.withColumn("epoch", F.lit(0)).withColumn("life", F.lit(0))
        return (
            events.join(F.broadcast(self._again), NAME, "left")
            .withColumn("epoch", _how_many_until("renewed"))
            .withColumn("life", _how_many_until("began"))
            .drop("renewed", "began")
        )


def _how_many_until(moments: str) -> Column:
    until = F.size(F.filter(moments, lambda moment: moment <= F.col("moment")))
    return F.when(F.col(moments).isNull(), 0).otherwise(until)


def _subscribes(journals: Journals) -> DataFrame:
    """The `subscribe` events: whether each is anew, whether it is from another process, and when the next one is."""
    in_order = Window.partitionBy(*NAME).orderBy("moment")
    events = of_kind(journals, Kind.SUBSCRIBE, Kind.UNSUBSCRIBE).select(*NAME, "event", "node", "moment")
    process = F.struct("node", "moment.place.file")
    return (
        events.withColumn("is_new", F.lag("event").over(in_order) == Kind.UNSUBSCRIBE.value)
        .where(F.col("event") == Kind.SUBSCRIBE.value)
        .withColumn("is_other_process", F.lag(process).over(in_order) != process)
        .withColumn("next", F.lead("moment").over(in_order))
    )


def _deaths(journals: Journals, asked: DataFrame) -> DataFrame:
    """When the process that held a subscription died."""
    crashes = of_kind(journals, Kind.CRASH).select("node", F.col("moment").alias("died"))
    held_then = (F.col("died") > F.col("moment")) & (F.col("next").isNull() | (F.col("died") < F.col("next")))
    return asked.join(F.broadcast(crashes), "node").where(held_then).select(*NAME, F.col("died").alias("moment"))
