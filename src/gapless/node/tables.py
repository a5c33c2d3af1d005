"""Tables whose keys are known beforehand: read with everything that is wrong in them collected, not only the first."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

NAME_CHARACTERS_MAX = 64
NAMES_SHOWN = 12
CHARACTERS_SHOWN = 60
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?")
_PORT = re.compile(r"[0-9]{1,5}")
_EXAMPLE = 'write for example "127.0.0.1:7400"'


class Wrong(Exception):
    """A value that a key cannot have. Each argument is one sentence that says why and what to write."""


class Address(NamedTuple):
    """Where something listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. Of names only localhost counts: others may mean anything."""
        address = ip_address(self.host)
        return self.host.lower() == "localhost" if address is None else address.is_loopback

    @property
    def is_wildcard(self) -> bool:
        """Whether it means every address of the machine, which nobody can dial."""
        address = ip_address(self.host)
        return address is not None and address.is_unspecified


class Required:
    """In place of the default of a key that has to be there."""


REQUIRED: Final = Required()


class Key(NamedTuple):
    """One key of a table. `read` gives the value or raises Wrong; `kind` is its type as the documentation names it."""

    name: str
    kind: str
    read: Callable[[object], object]
    default: object = REQUIRED
    example: str = ""


class Problems:
    """What is wrong with one file, collected until all of it can be said together."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.lines: list[str] = []

    def add(self, where: str, sentence: str) -> None:
        """`where` is the table, and the key if it is about one; the sentence says what is wrong and what to do."""
        self.lines.append(f"{self.origin}: {where}: {sentence}")

    def text(self) -> str:
        if len(self.lines) == 1:
            return self.lines[0]
        return "\n  ".join([f"{self.origin} has {len(self.lines)} problems:", *self.lines])


class Table:
    """One table as it was read: its good values with defaults filled in, and how to point at it."""

    def __init__(self, title: str, raw: Mapping[str, object], problems: Problems) -> None:
        self.title = title
        self.raw = raw
        self.values: dict[str, Any] = {}
        self._problems = problems

    def wrong(self, key: str, sentence: str) -> None:
        """Report what is wrong with one of its keys."""
        self._problems.add(f"{self.title} key {shown(key)}", sentence)

    def read(self, keys: Iterable[Key], belongs: Mapping[str, str] | None = None) -> None:
        """Take the values of these keys; refuse any other, with its sentence in `belongs` or the nearest known."""
        known = {key.name: key for key in keys}
        for name in self.raw:
            if name not in known:
                self.wrong(name, (belongs or {}).get(name) or f"there is no such key; {nearest(name, known)}")
        for name, key in known.items():
            if name not in self.raw:
                self.values[name] = key.default
                if key.default is REQUIRED:
                    del self.values[name]
                    self.wrong(name, f"is missing; write for example {name} = {key.example}")
                continue
            try:
                self.values[name] = key.read(self.raw[name])
            except Wrong as wrong:
                for sentence in wrong.args:
                    self.wrong(name, sentence)


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean "x"?`, or where nothing is near, all there is."""
    names = list(known)
    near = get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    if near:
        return f'did you mean "{near[0]}"?'
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(names[:NAMES_SHOWN])}{more}"


def shown(value: object) -> str:
    """A value as its author would recognise it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            cut = value if len(value) <= CHARACTERS_SHOWN else value[:CHARACTERS_SHOWN] + "…"
            return json.dumps(cut, ensure_ascii=False)
        case dict():
            return "a table"
        case list():
            return "a list"
        case _:
            return str(value)


def text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise Wrong(f"{shown(value)} is not a text; put a text between quotes")
    return value


def name(value: object) -> str:
    """A name for people, files and the wire: short, and without characters that mean something to any of them."""
    if not isinstance(value, str):
        raise Wrong(f"{shown(value)} is not a name; put a name between quotes")
    if len(value) > NAME_CHARACTERS_MAX:
        raise Wrong(f"{shown(value)} is longer than {NAME_CHARACTERS_MAX} characters; shorten it")
    if not _NAME.fullmatch(value):
        rule = 'letters, digits, ".", "_" and "-", the first a letter or digit'
        raise Wrong(f"{shown(value)} is not a name; use {rule}")
    return value


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise Wrong(f"{shown(value)} is neither true nor false; write one of them, without quotes")
    return value


def whole(least: int, most: int) -> Callable[[object], int]:
    """Reads a whole number between two bounds, both included."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Wrong(f"{shown(value)} is not a whole number; write one between {least} and {most}, without quotes")
        if not least <= value <= most:
            raise Wrong(f"{value} is out of range; write a number between {least} and {most}")
        return value

    return read


def address(value: object) -> Address:
    """Reads host:port; a host is a name, an IPv4 address, or an IPv6 address in brackets."""
    host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        is_host = ":" in host and ip_address(host) is not None
    elif host and not host.strip("0123456789."):
        is_host = ip_address(host) is not None
    else:
        is_host = _HOST.fullmatch(host) is not None
    if not colon or not is_host or not (_PORT.fullmatch(port)):
        raise Wrong(f"{shown(value)} is not host:port; {_EXAMPLE}")
    if not 1 <= int(port) <= 65535:
        raise Wrong(f"{shown(value)} has no port that exists; ports are 1 to 65535; {_EXAMPLE}")
    return Address(host, int(port))


def ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that this is written as, or None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
