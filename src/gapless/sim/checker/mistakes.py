"""Whether who was refused had done what cannot be granted: each reason is looked up in the history, not believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gapless.filters import Interest
from gapless.model.errors import FilterError
from gapless.model.events import FENCED, Event
from gapless.model.types import MICROSECOND_FIRST, MICROSECOND_LAST
from gapless.sim.checker.view import Publication, Refusal, View, reason_of

SUBSCRIPTION_BYTES = 512  # what a subscription counts besides its texts
_KINDS: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int64": (int,),
    "float64": (float, type(None)),  # what is no number is written as null
    "string": (str,),
    "timestamp": (int,),
}


def own_mistake(view: View, refusal: Refusal) -> bool:
    """Whether the history shows what the refusal says."""
    reason = reason_of(refusal.mark.event)
    if refusal.mark.event.subscription:
        looked_up = _OF_SUBSCRIBERS.get(reason)
        return looked_up is not None and looked_up(view, refusal)
    if reason == FENCED:
        newest = view.holders if view.world.clock == "causal" else {refusal.mark.event.source: refusal.newest}
        return newest.get(refusal.mark.event.source, 0) > refusal.mark.event.incarnation
    if reason == "TooManyNames":
        return refusal.names >= view.sizes.get("names_max", refusal.names + 1)
    return any(_is_wrong(view, reason, publication) for publication in view.named(refusal.mark.event))


def _is_wrong(view: View, reason: str, publication: Publication) -> bool:
    if reason == "PublicationError":
        return any(test(view, publication) for test in _OF_PUBLISHERS.values())
    test = _OF_PUBLISHERS.get(reason)
    return test is not None and test(view, publication)


def _too_large(view: View, publication: Publication) -> bool:
    given = [value for value in _attributes(publication).values() if value is not None]
    longest = max((len(value.encode()) for value in given if isinstance(value, str)), default=0)
    return (
        _beyond(view, "body_bytes_max", publication.event.size)
        or _beyond(view, "attributes_max", len(given))
        or _beyond(view, "attribute_bytes_max", longest)
    )


def _beyond(view: View, limit: str, size: int) -> bool:
    return limit in view.sizes and size > view.sizes[limit]


def _mistyped(view: View, publication: Publication) -> bool:
    attributes = _attributes(publication)
    return any(
        name in attributes and type(attributes[name]) not in _KINDS.get(declared, ())
        for name, declared in view.declared.items()
    )


def _beyond_calendar(view: View, publication: Publication) -> bool:
    whole = [value for value in _attributes(publication).values() if type(value) is int]
    return any(not MICROSECOND_FIRST <= value <= MICROSECOND_LAST for value in whole)


def _attributes(publication: Publication) -> dict[str, Any]:
    return publication.event.attributes or {}


def _unreadable(view: View, refusal: Refusal) -> bool:
    return refusal.asked is not None and _interest(refusal.asked) is None


def _asks_too_much(view: View, refusal: Refusal) -> bool:
    return _beyond(view, "interest_bytes_max", sum(map(_cost, refusal.beside)))


def _asks_for_the_past(view: View, refusal: Refusal) -> bool:
    return refusal.asked is not None and (bool(refusal.asked.source) or refusal.asked.total)


def _cost(asked: Event) -> int:
    """What a subscription counts; its filter may have been sent in its normal form."""
    interest = _interest(asked)
    normal = len(interest.texts[0]) if interest is not None else 0
    return SUBSCRIPTION_BYTES + max(len(asked.filter), normal) + len(asked.topic)


def _interest(asked: Event) -> Interest | None:
    try:
        return Interest.parse(asked.filter, asked.topic)
    except FilterError:
        return None


_OF_PUBLISHERS: dict[str, Callable[[View, Publication], bool]] = {
    "TooLarge": _too_large,
    "SchemaError": _mistyped,
    "AttributeTypeError": _beyond_calendar,
}
_OF_SUBSCRIBERS: dict[str, Callable[[View, Refusal], bool]] = {
    "FilterError": _unreadable,
    "TooLarge": _asks_too_much,
    "Unsupported": _asks_for_the_past,
    "UnknownSpace": lambda view, refusal: not view.is_declared,
}
