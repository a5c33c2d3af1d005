"""The whole state of a core as bytes: equal bytes mean that it will answer equally to whatever comes.

Everything that can be reached from the core is written down, in the order in which the core keeps it, and what is
reached twice is named the second time, so that two cores with equal bytes differ in nothing but their addresses. What
cannot be written down is refused: a fingerprint that left something out would merge states that are not the same.
"""

from __future__ import annotations

import marshal
import re
from collections import deque
from enum import Enum
from hashlib import blake2b
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import msgspec
import numpy as np

from gapless.filters import Interest
from gapless.model.batch import Batch

_PLAIN = (type(None), bool, int, float, str, bytes)


def fingerprint(core: object) -> bytes:
    """The fingerprint of a core. Raises TypeError when it holds something whose state cannot be seen."""
    writer = _Writer()
    writer.write(core)
    return blake2b(marshal.dumps(writer.tokens, 2), digest_size=16).digest()


class _Writer:
    """Writes an object and all that it refers to as a list of plain values."""

    def __init__(self) -> None:
        self.tokens: list[Any] = []
        self._names: dict[int, int] = {}
        self._kept: list[object] = []  # so that no address is used twice while we write

    def write(self, thing: object) -> None:
        """One thing, and what it refers to."""
        if isinstance(thing, _PLAIN) and not isinstance(thing, Enum):
            self.tokens.append(thing)
        elif isinstance(thing, tuple):
            self._many(_kind(thing), thing)
        elif isinstance(thing, Enum | type | ModuleType | BuiltinFunctionType | np.dtype | np.ufunc):
            self.tokens.append(
                f"!{thing!r}" if not isinstance(thing, Enum) else f"!{type(thing).__name__}.{thing.name}"
            )
        elif isinstance(thing, Batch):
            self.tokens += ["batch", thing.encode()]  # what it has worked out of its bytes does not matter
        elif isinstance(thing, Interest):
            self.tokens += ["interest", thing.filter.text, "" if thing.topic is None else thing.topic.text]
        elif self._is_new(thing):
            self._object(thing)

    def _is_new(self, thing: object) -> bool:
        name = self._names.get(id(thing))
        if name is not None:
            self.tokens += ["@", name]
            return False
        self._names[id(thing)] = len(self._names)
        self._kept.append(thing)
        return True

    def _object(self, thing: Any) -> None:
        if isinstance(thing, dict):
            self._many(f"{_kind(thing)} {len(thing)}", [part for item in thing.items() for part in item])
        elif isinstance(thing, list | deque):
            self._many(_kind(thing), thing)
        elif isinstance(thing, set | frozenset):
            self._many(_kind(thing), sorted(thing, key=repr))
        elif isinstance(thing, np.ndarray | np.generic):
            self.tokens += ["array", str(thing.dtype), repr(thing.shape), thing.tobytes()]
            if thing.dtype.hasobject:
                self._many("objects", thing.ravel().tolist())
        elif isinstance(thing, bytearray | memoryview):
            self.tokens += [_kind(thing), bytes(thing)]
        elif isinstance(thing, re.Pattern):
            self.tokens += ["pattern", thing.pattern, thing.flags]
        elif isinstance(thing, range):
            self.tokens += ["range", thing.start, thing.stop, thing.step]
        elif isinstance(thing, MethodType):
            self._many("method", (thing.__func__, thing.__self__))
        elif isinstance(thing, FunctionType):
            cells = [cell.cell_contents for cell in thing.__closure__ or ()]
            self._many(f"function {thing.__module__}.{thing.__qualname__}", [*cells, thing.__defaults__])
        else:
            self._instance(thing)

    def _instance(self, thing: Any) -> None:
        if isinstance(thing, msgspec.Struct):
            names = list(thing.__struct_fields__)
        else:
            names = [*getattr(thing, "__dict__", ())]
            for kind in type(thing).__mro__:
                slots = kind.__dict__.get("__slots__", ())
                names += [slots] if isinstance(slots, str) else list(slots)
            if not names and not _is_empty(thing):
                raise TypeError(f"a core holds a {_kind(thing)}, whose state cannot be seen")
        self.tokens += [_kind(thing), len(names)]
        for name in names:
            self.tokens.append(name)
            self.write(getattr(thing, name, "(unset)"))

    def _many(self, kind: str, things: Any) -> None:
        self.tokens += [kind, len(things)]
        for thing in things:
            self.write(thing)


def _kind(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _is_empty(thing: object) -> bool:
    """Whether its class gives it nowhere to keep anything, or nothing that ever changes."""
    return type(thing).__module__.startswith("msgspec") or type(thing).__basicsize__ <= object.__basicsize__
