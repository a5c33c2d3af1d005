"""What the index reads off the rows of a batch: numbers by gauges, and shelves by keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, nan
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gapless.filters.columns import Part, Strings, View
from gapless.filters.index.clauses import Gauge, Key, Range, Shape
from gapless.filters.index.lists import Places, Register
from gapless.filters.index.table import NO_GAUGE

Readings = npt.NDArray[np.float64]

UNKEYED: Final = 0  # the shelf of clauses without a key, on which every row looks


class Gauges:
    """The gauges in use, by number, and the codes of the texts that are asked for."""

    def __init__(self) -> None:
        self.register = Register()
        self.register.take(None)
        self.codes: dict[str, Register] = {}

    def take(self, asked: Range) -> tuple[int, float, float]:
        """A range with the number of its gauge."""
        number = self.register.take(asked.gauge)
        if asked.text is None:
            return number, asked.low, asked.high
        codes = self.codes.setdefault(asked.gauge.name, Register())
        code = float(codes.take(asked.text))
        return number, code, code

    def code(self, asked: Range) -> float:
        """The code of a text; NaN when nobody asks for it."""
        codes = self.codes.get(asked.gauge.name)
        code: float = nan if codes is None else codes.numbers.get(asked.text, nan)
        return code

    def leave(self, number: int, low: float) -> bool:
        """A range is gone; true when its gauge is not used any more."""
        gauge: Gauge = self.register.things[number]
        if gauge.kind == "text":
            codes = self.codes[gauge.name]
            codes.leave(int(low))
            if not codes:
                del self.codes[gauge.name]
        return self.register.leave(number)

    def read(self, view: View) -> Readings:
        """What each gauge reads off each row."""
        readings = np.full((len(self.register.things), view.rows), nan)
        readings[NO_GAUGE] = 0.0
        for gauge, number in self.register:
            if gauge is not None:
                self._read(gauge, view, readings[number])
        return readings

    def nothing(self) -> list[float]:
        """Readings of gauges that find nothing to read."""
        readings = [nan] * len(self.register.things)
        readings[NO_GAUGE] = 0.0
        return readings

    def read_one(self, attributes: Mapping[str, Any]) -> list[float]:
        """What each gauge reads off one publication."""
        readings = self.nothing()
        for gauge, number in self.register:
            if gauge is not None:
                kind, name = gauge
                value = attributes.get(name)
                if value is None:
                    if kind == "presence":
                        readings[number] = 0.0
                elif kind == "number":
                    if type(value) is float or type(value) is int:
                        readings[number] = value
                else:
                    readings[number] = self._reading(kind, name, value)
        return readings

    def _reading(self, kind: str, name: str, value: Any) -> float:
        """What a gauge reads off what is there."""
        if kind == "presence":
            return 1.0
        if kind == "truth":
            return float(value) if type(value) is bool else nan
        if kind == "text":
            code: float = self.codes[name].numbers.get(value, nan) if type(value) is str else nan
            return code
        if (type(value) is float or type(value) is int) and value == value:
            return float(value)
        return -inf if kind == "low" else inf

    def _read(self, gauge: Gauge, view: View, line: Readings) -> None:
        parts = view.parts(gauge.name)
        if gauge.kind == "number":
            _read_numbers(parts, line)
        elif gauge.kind == "text":
            get = self.codes[gauge.name].numbers.get
            for part in parts:
                if part.kind is str:
                    codes, distinct = part.data.encoded()
                    values = np.array([get(text, nan) for text in distinct], np.float64)
                    _put(line, values[codes] if len(distinct) else line, part.valid)
        elif gauge.kind == "truth":
            for part in parts:
                if part.kind is bool:
                    _put(line, part.data, part.valid)
        elif gauge.kind == "presence":
            line[:] = 0.0
            for part in parts:
                _put(line, np.ones(len(line)), part.valid)
        else:
            _read_numbers(parts, line)
            strange = np.isnan(line)
            for part in parts:
                _put(line, np.full(len(line), -inf if gauge.kind == "low" else inf), part.valid & strange)


def _read_numbers(parts: Iterable[Part], line: Readings) -> None:
    for part in parts:
        if part.kind is float or part.kind is int:
            _put(line, part.data, part.valid)


def _put(line: Readings, values: Any, valid: Any) -> None:
    if valid is True:
        line[:] = values
    elif valid is not False:
        np.copyto(line, values, where=valid)


class Rack:
    """The shelves for one way of looking at one attribute."""

    __slots__ = ("kind", "name", "shape", "shelves")

    def __init__(self, key: Key) -> None:
        self.kind = key.kind
        self.name = key.name
        self.shape = key.shape
        self.shelves: dict[str | float | None, int] = {}

    def see(self, view: View) -> tuple[Places, Places]:
        """The rows that have a shelf here, and which."""
        found: list[tuple[Places, Places]] = []
        for part in view.parts(self.name):
            if self.kind == "number":
                if part.kind is float or part.kind is int:
                    found.append(self._of_numbers(part))
            elif part.kind is str:
                found.append(self._of_texts(part.data, part.valid))
        if len(found) == 1:
            return found[0]
        if not found:
            return _NOBODY, _NOBODY
        return np.concatenate([rows for rows, _ in found]), np.concatenate([shelves for _, shelves in found])

    def shelf_of(self, attributes: Mapping[str, Any]) -> int:
        """The shelf that one publication has here; 0 for none."""
        value = attributes.get(self.name)
        if type(value) is not str:
            of_number = self.kind == "number" and (type(value) is float or type(value) is int)
            return self.shelves.get(value, 0) if of_number else 0
        shape = self.shape
        if self.kind == "text":
            return self.shelves.get(value, 0)
        if isinstance(shape, Shape):
            return self.shelves.get(shape.value_of(value.split("/")), 0)
        if self.kind == "head":
            return self.shelves.get(value[:shape], 0)
        return self.shelves.get(value[-shape:], 0) if self.kind == "tail" else 0

    def _of_numbers(self, part: Part) -> tuple[Places, Places]:
        get = self.shelves.get
        return _found(np.array([get(value, 0) for value in part.data.tolist()], np.intp), part.valid)

    def _of_texts(self, strings: Strings, valid: Any) -> tuple[Places, Places]:
        codes, distinct = strings.encoded()
        get, shape = self.shelves.get, self.shape
        if isinstance(shape, Shape):
            value_of = shape.value_of
            known = [get(value_of(text.split("/")), 0) for text in distinct]
        elif self.kind == "text":
            known = [get(text, 0) for text in distinct]
        elif self.kind == "head":
            known = [get(text[:shape], 0) for text in distinct]
        else:
            known = [get(text[-shape:], 0) for text in distinct]
        if not any(known):
            return _NOBODY, _NOBODY
        return _found(np.array(known, np.intp)[codes], valid)


_NOBODY: Final = np.empty(0, np.intp)


def _found(shelves: Places, valid: Any) -> tuple[Places, Places]:
    rows = np.flatnonzero(shelves if valid is True else shelves * valid)
    return rows, shelves[rows]
