"""Publications: one row each, with what became of it and what it matches."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name by which everybody who knows Spark knows it

from gapless.model.events import Kind
from gapless.spark.audit.journals import IN_TIME, Journals
from gapless.spark.audit.matching import Asked, digest_of_text, matched_by
from gapless.spark.audit.processes import PUBLICATION, of_kind


def publications_of(journals: Journals, asked: Sequence[Asked]) -> DataFrame:
    """Publications by `space, source, incarnation, seq`: as offered first, what became of them, and what they match.

    `accepted_at` is null where it was not accepted; `matched` has positions in `asked`.
    """
    by_seq = Window.partitionBy("space", "source", "incarnation").orderBy("seq", "is_publish", *IN_TIME)
    so_far = by_seq.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    offered_before = F.lag(F.when(F.col("is_publish"), F.col("seq"))).over(by_seq)
    # Outcomes are ranges of seq, which may be wide and full of holes, so none is taken apart: going through the ranges
    # and publications of a source by seq, a publication is in a range when the farthest end so far reaches it.
    accepted, refused = (F.max(_range_of(kind)).over(so_far) for kind in (Kind.ACCEPTED, Kind.REFUSED))
    return (
        of_kind(journals, Kind.PUBLISH, Kind.ACCEPTED, Kind.REFUSED)
        .where(F.col("source") != "")
        .withColumn("is_publish", F.col("event") == Kind.PUBLISH.value)
        .withColumns({"accepted": accepted, "refused": refused, "offered_before": offered_before})
        .where(F.col("is_publish") & ~F.col("offered_before").eqNullSafe(F.col("seq")))
        .select(
            *PUBLICATION,
            "attributes",
            digest_of_text("attributes").alias("digest"),
            "body",
            (F.col("order") == "eventual").alias("loose"),
            "node",
            "at",
            "moment",
            F.when(F.col("accepted.last") >= F.col("seq"), F.col("accepted.at")).alias("accepted_at"),
            F.coalesce(F.col("refused.last") >= F.col("seq"), F.lit(False)).alias("refused"),
            matched_by(asked, "space", "attributes").alias("matched"),
        )
    )


def _range_of(kind: Kind) -> Column:
    """The range that an outcome is about, as its inclusive end and when it was told; null for other events."""
    return F.when(F.col("event") == kind.value, F.struct(F.greatest("seq", "last").alias("last"), "at"))
