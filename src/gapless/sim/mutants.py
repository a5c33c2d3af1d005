"""Mutants: cores with one thing wrong, to prove that the checker would see it.

Each is one edit to the source of a shipped module. Nothing is written: a process that is to run a mutant takes the
edited source when it imports the module (see `worker`).
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import NamedTuple

from gapless.model.errors import ConfigError

BROKER = "gapless.delivery.direct.broker"
LEAF = "gapless.delivery.direct.leaf"
INTERESTS = "gapless.delivery.direct.interests"
COVER = "gapless.filters.cover"
COVERING = "gapless.filters.covering"
BATCH = "gapless.model.batch"


class Mutant(NamedTuple):
    """One edit: where `old` stands, exactly once, there will be `new`."""

    name: str
    hazard: str
    promise: str  # which it breaks first; others may break with it
    module: str
    old: str
    new: str


DIRECT = (
    Mutant(
        "listen-to-the-old",
        "old-tail",
        "justified-gap",
        LEAF,
        "if session != self.session:\n            self._drop",
        "if session != self.session and not isinstance(message, Match | Credit):\n            self._drop",
    ),
    Mutant(
        "any-end-ends-all",
        "end-of-old",
        "all-confirmed",
        LEAF,
        "if session == self.session:",
        "if self.session:",
    ),
    Mutant(
        "order-of-arrival",
        "overtaken",
        "publisher-order",
        LEAF,
        "if batch.first <= seen:",
        "if batch.last == seen:",
    ),
    Mutant(
        "let-the-newest-come-again",
        "repeated",
        "no-duplicate",
        LEAF,
        "        if batch.first <= seen:\n",
        "        if batch.first < seen:\n",
    ),
    Mutant(
        "tell-only-what-is-new",
        "late-link",
        "all-delivered",
        INTERESTS,
        "neighbour.touched = dict.fromkeys(self.covers[peer].told)",
        "neighbour.touched = dict.fromkeys(())",
    ),
    Mutant(
        "wait-for-nobody-absent",
        "awaited-neighbour",
        "confirmed-start",
        INTERESTS,
        "self._wait(pending, peer, 1)",
        "pass",
    ),
    Mutant(
        "confirm-at-once",
        "awaited-word",
        "confirmed-start",
        INTERESTS,
        "self._wait(pending, peer, neighbour.sent + 1)",
        "pass",
    ),
    Mutant(
        "confirm-by-the-word-before",
        "untold",
        "confirmed-start",
        INTERESTS,
        "self._wait(pending, peer, neighbour.sent + 1)",
        "self._wait(pending, peer, neighbour.sent)",
    ),
    Mutant(
        "wait-for-the-dead",
        "out-of-reach",
        "state-drained",
        INTERESTS,
        "            self._settle(pending, (peer,))",
        "            if pending.exceptions:\n                self._settle(pending, (peer,))",
    ),
    Mutant(
        "old-exceptions",
        "in-reach-again",
        "justified-gap",
        INTERESTS,
        "if neighbour.exceptions and neighbour.sent == neighbour.held:",
        "if neighbour.sent == neighbour.held:\n"
        "                    pending.exceptions.update(dict.fromkeys(neighbour.exceptions))\n"
        "                if False:",
    ),
    Mutant(
        "keep-missing",
        "slow-subscriber",
        "justified-gap",
        BROKER,
        "            peer.missed = None\n",
        "            peer.missed = {}\n",
    ),
    Mutant(
        "no-patience",
        "patient",
        "justified-gap",
        BROKER,
        "        if now.at < until:\n",
        "        if now.at < peer.outbox.waiting[0].since:\n",
    ),
    Mutant(
        "keep-the-room",
        "both-full",
        "state-drained",
        BROKER,
        "self._send(peer.session.id, item.message)\n            self._pay(item.hold)",
        "self._send(peer.session.id, item.message)",
    ),
    Mutant(
        "one-for-each-credit",
        "queue",
        "state-drained",
        BROKER,
        "while (item := peer.outbox.next()) is not None:",
        "if (item := peer.outbox.next()) is not None:",
    ),
    Mutant(
        "room-goes-with-the-client",
        "gone-with-credit",
        "state-drained",
        BROKER,
        "lost += item.rows\n            self._pay(item.hold)",
        "lost += item.rows",
    ),
    Mutant(
        "room-goes-with-the-subscription",
        "unsubscribed-in-flight",
        "all-delivered",
        LEAF,
        "            self._passed(self.inbox, size)\n            return",
        "            return",
    ),
    Mutant(
        "one-ends-all-end",
        "shared-interest",
        "all-delivered",
        INTERESTS,
        "        holders = self.holders[key]\n"
        "        holders[holder] -= 1\n"
        "        if not holders[holder]:\n"
        "            del holders[holder]\n",
        "        self.holders.get(key, {}).pop(holder, None)\n",
    ),
    Mutant(
        "whatever-overlaps-covers",
        "covered",
        "all-delivered",
        COVERING,
        "return asked.low <= known.low and known.high <= asked.high",
        "return asked.low <= known.high and known.low <= asked.high",
    ),
    Mutant(
        "forget-what-was-covered",
        "uncovered",
        "all-delivered",
        COVER,
        "            del self._under[key]\n            self._place(interest)\n",
        "            del self._under[key]\n",
    ),
    Mutant(
        "unknown-is-refused",
        "unknown",
        "no-invention",
        LEAF,
        'Unknown("the session with the broker ended before it answered")',
        'Refused("Unreachable", "the session with the broker ended before it answered")',
    ),
    Mutant(
        "fence-oneself",
        "fenced",
        "justified-gap",
        BROKER,
        "if self.holders.has_newer(source):",
        "if self.holders.has_newer(source._replace(incarnation=source.incarnation - 1)):",
    ),
    Mutant(
        "one-too-many-is-old",
        "offered-twice",
        "all-delivered",
        BROKER,
        "holder.accepted = last\n",
        "holder.accepted = last + 1\n",
    ),
    Mutant(
        "everything-for-everyone",
        "several-at-once",
        "no-invention",
        BROKER,
        "tuple([packed(np.searchsorted(union, rows), part.rows) for rows in some])",
        'tuple([b""] * len(some))',
    ),
    Mutant(
        "swap-attributes",
        "cut-out",
        "no-invention",
        BATCH,
        "else (column.raw[rows].tobytes(),)",
        "else (column.raw[rows[::-1]].tobytes(),)",
    ),
    Mutant(
        "deliver-before-confirming",
        "awaited-word",
        "gapless",
        BROKER,
        "        peer.interests[number] = interest\n",
        "        peer.interests[number] = interest\n        self.index.add(interest, (peer.session.id, number))\n",
    ),
)

MUTANTS: dict[str, tuple[Mutant, ...]] = {"direct": DIRECT}


def mutant_named(delivery: str, name: str) -> Mutant:
    """The mutant of that name. Raises ConfigError when there is none."""
    for mutant in MUTANTS[delivery]:
        if mutant.name == name:
            return mutant
    known = ", ".join(mutant.name for mutant in MUTANTS[delivery])
    raise ConfigError(f"{delivery} has no mutant {name!r}: its mutants are {known}")


def edited(source: str, mutant: Mutant) -> str:
    """The source of the mutant. Raises ConfigError when the edit does not fit the source any more."""
    found = source.count(mutant.old)
    if found != 1:
        raise ConfigError(
            f"mutant {mutant.name!r} edits a text that occurs {found} times in {mutant.module}, and must occur once: "
            "bring the mutant up to date"
        )
    return source.replace(mutant.old, mutant.new)


class _Loader(SourceFileLoader):
    """Loads one module from its edited source."""

    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self.mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        """Compiled anew, past every cache."""
        source = self.get_data(self.path).decode()
        code: CodeType = compile(edited(source, self.mutant), self.path, "exec", dont_inherit=True)
        return code


class _Finder(MetaPathFinder):
    """Finds the module that is to be edited."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, fullname: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The usual place, another loader."""
        if fullname != self.mutant.module:
            return None
        spec = PathFinder.find_spec(fullname, path)  # type: ignore[arg-type]  # what the import system gives
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, self.mutant)
        return spec


def become(mutant: Mutant) -> None:
    """From now on this process imports the mutant; what it edits must not have been imported yet."""
    if mutant.module in sys.modules:
        raise AssertionError(f"{mutant.module} is already here, sound: {mutant.name} comes too late")
    sys.meta_path.insert(0, _Finder(mutant))
