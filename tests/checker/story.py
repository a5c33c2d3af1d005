"""Histories as short text, and files of them.

A line is an event: the process, what it journals, the subscription, the publication, then fields.

    run stream faults bound=5
    c subscribe s 'price > 3'
    c confirmed s
    p publish P:1 price=4
    p accepted P:1
    c delivered s P:1
    calm
    +100 end

Each line is a second after the one before, or as many as `+N` says. `P:1-3` is a range, `P#2:1` names an incarnation.
What stands in a `publish` and is no field is an attribute. Bodies are what their publication is called, unless `body=`
says otherwise; `bytes=` is their size.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gapless.model.events import HISTORY_VERSION, Event, Kind

NS_PER_S = 1_000_000_000
KINDS = {kind.value: kind for kind in Kind}
PUBLICATION = re.compile(r"(?P<source>[A-Z]\w*)(#(?P<incarnation>\d+))?:(?P<seq>\d+)(-(?P<last>\d+))?$")
NUMBERS = ("count", "tick", "version")
LISTS = ("keys", "exceptions", "limits")
TABLES = ("starts", "parents", "sizes", "declares")
FLAGS = ("faults", "redelivered", "total")
NAMES = ("delivery", "digest", "mode", "clock", "reason", "order", "body", "topic", "peer", "pubend", "space")
SUBSCRIBING = ("subscribe", "confirmed", "covered", "delivered", "acknowledged", "unsubscribe", "gap")


def events_of(text: str) -> list[Event]:
    """The events of a story; lines that start with # and empty ones are left out."""
    events: list[Event] = []
    journal: dict[str, int] = {}
    at = 0
    for line in text.splitlines():
        words = [] if line.startswith("#") else shlex.split(line)
        if not words:
            continue
        at += int(words.pop(0)) if words[0].startswith("+") else 1
        node = "" if words[0] in KINDS else words.pop(0)
        journal[node] = journal.get(node, 0) + 1
        kind = KINDS[words.pop(0)]
        events.append(Event(event=kind, at=at * NS_PER_S, node=node, n=journal[node], **_fields(kind, words)))
    return events


def _fields(kind: Kind, words: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"space": "", "attributes": {}}
    if kind is Kind.RUN:
        fields |= {"delivery": words.pop(0), "version": HISTORY_VERSION}
    if kind.value in SUBSCRIBING:
        fields["subscription"] = words.pop(0)
    for word in words:
        named = PUBLICATION.match(word)
        name, equals, value = word.partition("=")
        if named:
            fields |= {
                name: part if name == "source" else int(part) for name, part in named.groupdict().items() if part
            }
            fields.setdefault("body", word if kind in (Kind.PUBLISH, Kind.DELIVERED) else "")
        elif equals and name.isidentifier():
            _set(fields, kind, name, value)
        elif word in FLAGS:
            fields[word] = True
        else:
            assert kind is Kind.SUBSCRIBE, f"what is {word!r}?"
            fields["filter"] = word
    if kind is not Kind.PUBLISH and not fields["attributes"]:
        del fields["attributes"]
    return fields


def _set(fields: dict[str, Any], kind: Kind, name: str, value: str) -> None:
    if kind in (Kind.PUBLISH, Kind.DELIVERED) and name not in ("order", "keys", "body", "bytes", "digest", "space"):
        fields["attributes"][name] = _value(value)
    elif kind is Kind.SUBSCRIBE and name not in ("topic", "space", "subscription"):
        fields["filter"] = f"{name}={value}"  # a filter such as price=4 looks like a field
    elif name == "bytes":
        fields["size"] = int(value)
    elif name in NUMBERS:
        fields[name] = int(value)
    elif name == "bound":
        fields[name] = int(value) * NS_PER_S
    elif name in LISTS:
        fields[name] = tuple(value.split(","))
    elif name in TABLES:
        pairs = (pair.split(":") for pair in value.split(","))
        whole = name in ("starts", "sizes")
        fields["attributes" if name == "declares" else name] = {
            key: int(each) if whole else each for key, each in pairs
        }
    else:
        assert name in NAMES or name == "subscription", f"what is {name}?"
        fields[name] = value


def _value(text: str) -> bool | int | float | str | None:
    words: dict[str, bool | None] = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


class Story(NamedTuple):
    """A history and which promises it breaks; none when it only looks as if it did."""

    title: str
    breaks: tuple[str, ...]
    text: str


def stories_in(path: Path) -> Iterator[Story]:
    """The stories of a file: each begins with `== breaks NAME: what happens` or `== keeps: what happens`."""
    for part in re.split(r"^== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        verb, *names = title.partition(":")[0].replace(",", " ").split()
        assert verb in ("breaks", "keeps") and bool(names) == (verb == "breaks"), title
        yield Story(title, tuple(names), text)
