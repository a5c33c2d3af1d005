"""What the harness wants to know of a system: its program, its client and what it promises.

A system is a module in `systems/` that makes one `Program` and one or more `Contender`s, and `registry.py` names it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.peers.clients import Inbox, Outbox

AT_MOST_ONCE = "at most once, nothing stored"


class Form(Enum):
    """How publications are handed in."""

    SINGLES = "one at a time"
    TABLES = "in batches"


@dataclass(frozen=True)
class Promises:
    """What stands beside a number, or the number says nothing."""

    kind: str  # only contenders of the same kind are compared
    acknowledged: str  # what the publisher gets told
    flushed: bool  # to the disk, before the publisher is told
    deduplicated: bool  # what a publisher repeats is delivered once
    ordered: bool  # one publisher's publications come in its order

    def words(self) -> str:
        """The line of the report."""
        said = [f"{'' if yes else 'not '}{what}" for what, yes in self._facts()]
        return "; ".join([self.kind, self.acknowledged, ", ".join(said)])

    def _facts(self) -> list[tuple[str, bool]]:
        return [("flushed", self.flushed), ("deduplicated", self.deduplicated), ("ordered", self.ordered)]


@dataclass(frozen=True)
class Program:
    """A server's program: where it comes from and how it is started."""

    binary: str  # its name, or the path of one that is there for certain
    package: str  # Debian's package that has it; empty if no package is needed
    version: tuple[str, ...]  # arguments that make it say its version
    command: Callable[[str, Path, int], list[str]]  # writes its configuration for (binary, folder, port)


@dataclass(frozen=True)
class Contender:
    """One line of the report: a program, a client for it, and a way of using both."""

    name: str
    program: Program
    library: str  # the distribution the client comes from
    promises: Promises
    publish: Callable[[int, Outbox], Awaitable[None]]
    subscribe: Callable[[int, Inbox], Awaitable[None]]
    form: Form = Form.SINGLES
    portion: int = 64  # publications handed in between two turns of the publisher's loop
