"""The promises about what was delivered: `no-invention`, `no-duplicate`, `publisher-order`."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name by which everybody who knows Spark knows it

from gapless.spark.audit.journals import IN_TIME, Journals
from gapless.spark.audit.matching import same_attributes
from gapless.spark.audit.processes import PUBLICATION, SUBSCRIPTION, is_after

NO_INVENTION, NO_DUPLICATE, PUBLISHER_ORDER = "no-invention", "no-duplicate", "publisher-order"
SAFETY = (NO_INVENTION, NO_DUPLICATE, PUBLISHER_ORDER)

_GOES_ON = ("stream", "delta")  # deliveries in which another process goes on with a subscription
_HERE = "moment.place"


def judge_deliveries(
    journals: Journals, deliveries: DataFrame, publications: DataFrame, subscriptions: DataFrame
) -> DataFrame:
    """Each delivery with a column for each promise: null, or what is wrong and where the journals show it."""
    delivery = journals.of_space(lambda run: run.delivery)
    joined = _with_publication(journals, deliveries, publications).join(
        subscriptions.select(*SUBSCRIPTION, "filter", "interest"), SUBSCRIPTION, "left"
    )
    judged = joined.select(
        *SUBSCRIPTION,
        *PUBLICATION[1:],
        "life",
        "own",
        "cut_off",
        "redelivered",
        "at",
        "moment",
        F.col("published").isNotNull().alias("is_published"),
        # In `direct` another incarnation is another source; elsewhere the newer one goes on where the older ended.
        F.when(delivery == "direct", F.col("incarnation")).otherwise(0).alias("lane"),
        # What nobody published has no place in the order of its source, and neither has what was published without one.
        (F.col("published").isNotNull() & ~F.col("loose")).alias("is_ranked"),
        _no_invention(journals).alias(NO_INVENTION),
    )
    return _with_orders(judged, journals).where("own")


def _with_publication(journals: Journals, deliveries: DataFrame, publications: DataFrame) -> DataFrame:
    known = publications.select(
        *PUBLICATION,
        F.col("body").alias("published_body"),
        F.col("attributes").alias("published_attributes"),
        F.col("digest").alias("published_digest"),
        F.col("moment").alias("published"),
        F.col("node").alias("published_node"),
        "refused",
        "loose",
        "matched",
    )
    joined = deliveries.join(known, PUBLICATION, "left")
    has_other_digest = (F.col("digest") != "") & (F.col("digest") != F.col("published_digest"))
    if not deliveries.where(F.col("attributes").isNotNull()).isEmpty():
        is_told = F.col("attributes").isNotNull() & F.col("published").isNotNull()
        has_other_digest |= is_told & ~same_attributes("attributes", "published_attributes")
    return joined.withColumn("has_other_attributes", has_other_digest)


def _no_invention(journals: Journals) -> Column:
    too_early = is_after(journals, "published", "published_node", "moment", "node")
    offer = "published.place"
    return (
        F.when(F.col("published").isNull(), _shows("delivered and never published", _HERE))
        .when(too_early, _shows("delivered before it was published", _HERE, offer))
        .when(F.col("refused"), _shows("delivered although it was refused", offer, _HERE))
        .when(F.col("filter").isNull(), _shows("delivered to a subscription that nobody asked for", _HERE))
        .when(~F.array_contains("matched", F.col("interest")), _shows("delivered and does not match", offer, _HERE))
        .when(F.col("body") != F.col("published_body"), _shows("delivered with other bytes", offer, _HERE))
        .when(F.col("has_other_attributes"), _shows("delivered with other attributes", offer, _HERE))
    )


def _with_orders(judged: DataFrame, journals: Journals) -> DataFrame:
    lane = [*SUBSCRIPTION, "life", "source", "lane"]
    in_lane = Window.partitionBy(*lane).orderBy(*IN_TIME).rowsBetween(Window.unboundedPreceding, -1)
    of_one = Window.partitionBy(*lane, "incarnation", "seq").orderBy(*IN_TIME)
    rank = F.struct("incarnation", "seq")
    so_far = F.when(F.col("is_ranked"), F.struct(rank.alias("rank"), F.col(_HERE).alias("place")))
    goes_on = journals.of_space(lambda run: run.delivery).isin(*_GOES_ON)

    is_repeated = F.col("handed_before").isNotNull()
    is_unmarked = F.col("cut_off").isNotNull() & ~F.col("redelivered") & goes_on
    is_late = F.col("is_ranked") & ~is_repeated & (F.col("farthest.rank") > rank)
    return (
        judged.withColumn("farthest", F.max(so_far).over(in_lane))
        .withColumn("handed_before", F.lag(_HERE).over(of_one))
        .withColumn(
            NO_DUPLICATE,
            F.when(is_repeated, _shows("delivered again", "handed_before", _HERE)).when(
                is_unmarked, _shows("handed over again without being marked as redelivered", "cut_off", _HERE)
            ),
        )
        .withColumn(
            PUBLISHER_ORDER,
            F.when(is_late, _shows("delivered after a later one of its source", "farthest.place", _HERE)),
        )
    )


def _shows(says: str, *places: str) -> Column:
    return F.struct(F.lit(says).alias("says"), F.array(*[F.col(place) for place in places]).alias("places"))
