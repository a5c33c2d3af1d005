"""Which subscriptions a publication matches: each distinct filter evaluated once per publication, in Arrow batches.

Publications are never joined with subscriptions to find out: what these ask for is little, and goes to wherever the
publications are. The evaluation of filters is the one thing this audit has in common with the brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import msgspec
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the name by which everybody who knows Spark knows it
from pyspark.sql.pandas.functions import arrow_udf

from gapless.filters import Interest
from gapless.model.errors import FilterError
from gapless.model.events import digest_of_attributes

# Spark asks for type hints instead of a type of function and warns of the latter, which its own stub demands.
_udf = cast("Callable[..., Callable[..., Column]]", arrow_udf)

_attributes = msgspec.json.Decoder(dict[str, bool | int | float | str | None])


class Asked(NamedTuple):
    """What some subscriptions of a space ask for."""

    space: str
    filter: str
    topic: str  # empty: any


def matched_by(asked: Sequence[Asked], space: str, attributes: str) -> Column:
    """The positions in `asked` of what matches, an array; null where the attributes cannot be read."""
    all_asked = tuple(asked)

    def matched(spaces: pa.Array, texts: pa.Array) -> pa.Array:
        return match_batch(all_asked, spaces, texts)

    return _udf(matched, "array<int>")(F.col(space), F.col(attributes))


def match_batch(asked: Sequence[Asked], spaces: pa.Array, texts: pa.Array) -> pa.Array:
    """For each publication of a batch the positions of what it matches."""
    by_space: dict[str, list[tuple[int, Interest]]] = {}
    for position, interest in _compiled(tuple(asked)):
        by_space.setdefault(asked[position].space, []).append((position, interest))
    known: dict[tuple[str, str | None], list[int] | None] = {}  # publications of one batch often look alike
    found = []
    for key in zip(spaces.to_pylist(), texts.to_pylist(), strict=True):
        if key not in known:
            known[key] = _match(by_space.get(key[0], []), key[1])
        found.append(known[key])
    return pa.array(found, pa.list_(pa.int32()))


def _match(asked: Sequence[tuple[int, Interest]], text: str | None) -> list[int] | None:
    try:
        attributes: dict[str, Any] = _attributes.decode(text) if text is not None else {}
    except msgspec.MsgspecError:
        return None
    return [position for position, interest in asked if interest.matches(attributes)]


@lru_cache(maxsize=4)
def _compiled(asked: tuple[Asked, ...]) -> list[tuple[int, Interest]]:
    """The interests ready to use, without those that do not parse: no space can have confirmed them."""
    compiled = []
    for position, each in enumerate(asked):
        try:
            compiled.append((position, Interest.parse(each.filter, each.topic)))
        except FilterError:
            continue
    return compiled


def same_attributes(left: str, right: str) -> Column:
    """Whether two texts of attributes say the same: equal values of equal types, an absent one being null."""

    def same(lefts: pa.Array, rights: pa.Array) -> pa.Array:
        pairs = zip(lefts.to_pylist(), rights.to_pylist(), strict=True)
        return pa.array([one == other or _plain(one) == _plain(other) for one, other in pairs], pa.bool_())

    return _udf(same, "boolean")(F.col(left), F.col(right))


def digest_of_text(attributes: str) -> Column:
    """The digest of the attributes in a text, as `delivered` events tell it; null where they cannot be read."""

    def digests(texts: pa.Array) -> pa.Array:
        known: dict[str | None, str | None] = {}
        for text in texts.to_pylist():
            if text not in known:
                known[text] = _digest(text)
        return pa.array([known[text] for text in texts.to_pylist()], pa.string())

    return _udf(digests, "string")(F.col(attributes))


def _digest(text: str | None) -> str | None:
    try:
        return digest_of_attributes(_attributes.decode(text) if text is not None else {})
    except msgspec.MsgspecError:
        return None


def _plain(text: str | None) -> dict[str, tuple[type, Any]] | None:
    try:
        attributes = _attributes.decode(text) if text is not None else {}
    except msgspec.MsgspecError:
        return None
    return {name: (type(value), value) for name, value in attributes.items() if value is not None}
