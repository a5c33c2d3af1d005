"""How fast a batch, or one publication, is matched against very many filters; what filters cost to parse and keep."""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gapless.cli.benches.limits import pin
from gapless.cli.benches.matching import Load
from gapless.filters import FilterIndex, Interest, RouteIndex
from gapless.model.batch import Batch

BATCH_ROWS = 256
BATCHES = 32  # that go round
NEIGHBOURS = 4  # behind which the filters are when it is asked where to route
CHANGES_MAX = 20_000  # filters removed and added again
PARSE_US_MAX = 30.0
CHANGE_US_MAX = 50.0
FILTER_BYTES_MAX = 1000
WEIGHED_FROM = 10_000  # filters; fewer weigh less than the pages that a process takes anyway
SINGLE_FLOOR = 30_000
SINGLE_FILTERS_MAX = 100_000
MIXED_SHARE = 3  # of the mixed load a third is asked
PAGE = 4096

Results = dict[str, Any]


class MatchCase(NamedTuple):
    """One line of the report."""

    kind: str
    filters: int
    floor: float  # publications a second in batches, that the project promises

    @property
    def name(self) -> str:
        """What it is called."""
        return f"matching, {self.kind}, {self.filters:,} filters"

    @property
    def single_floor(self) -> float:
        """The same one at a time."""
        floor = SINGLE_FLOOR if self.filters <= SINGLE_FILTERS_MAX else 0
        return floor / MIXED_SHARE if self.kind == "mixed" else floor


FLOORS = {1_000: 800_000, 10_000: 400_000, 100_000: 40_000, 1_000_000: 10_000}
MATCH_CASES = tuple(
    MatchCase(kind, count, floor / MIXED_SHARE if kind == "mixed" else floor)
    for kind in ("plain", "mixed")
    for count, floor in FLOORS.items()
)


def measure_matching(case: MatchCase, seconds: float) -> Results:
    """Measure one case, in a process of its own, so that memory is its own too."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measure, (case, seconds))


def _measure(case: MatchCase, seconds: float) -> Results:
    pin(0)
    load = Load(case.kind)
    batches = [load.batch(BATCH_ROWS).encode() for _ in range(BATCHES)]
    singles = load.batch(BATCH_ROWS).plain_attributes
    texts = load.filters(case.filters)
    parsed = texts[:CHANGES_MAX]
    parse_s = _timed(lambda: [Interest.parse(*pair) for pair in parsed])
    interests = [Interest.parse(*pair) for pair in texts]
    for interest in interests:
        _ = interest.key  # an index holds it, and so does the rest of a broker: it belongs to parsing
    gc.collect()
    gc.freeze()
    return {
        "case": case.name,
        "filters": case.filters,
        "floor": case.floor,
        "single_floor": case.single_floor,
        "parse_us": parse_s / len(parsed) * 1e6,
        **_measure_index(interests, batches, singles, seconds),
        "route_rate": _measure_routes(interests, batches, seconds / 2),
    }


def _measure_index(interests: list[Interest], batches: list[bytes], singles: list[Any], seconds: float) -> Results:
    before = _resident()
    index = FilterIndex()
    add_s = _timed(lambda: _add_all(index, interests))
    resident = _resident() - before
    found = sum(len(index.matches(Batch(data)).rows) for data in batches)
    return {
        "add_us": add_s / len(interests) * 1e6,
        "filter_bytes": resident / len(interests),
        "matches": found / (BATCHES * BATCH_ROWS),
        "rate": BATCH_ROWS * _rate(lambda data: index.matches(Batch(data)), batches, seconds),
        "single_rate": _rate(index.match_one, singles, seconds / 2),
        "change_us": _change_us(index, interests[:CHANGES_MAX]),
    }


def _measure_routes(interests: list[Interest], batches: list[bytes], seconds: float) -> float:
    routes = RouteIndex()
    for place, interest in enumerate(interests):
        routes.add(interest, place % NEIGHBOURS)
    return BATCH_ROWS * _rate(lambda data: routes.route(Batch(data)), batches, seconds)


def kept(result: Results) -> bool:
    """Whether a case kept what the project promises."""
    return bool(
        result["rate"] >= result["floor"]
        and result["single_rate"] >= result["single_floor"]
        and max(result["add_us"], result["change_us"]) <= CHANGE_US_MAX
        and result["parse_us"] <= PARSE_US_MAX
        and (result["filters"] < WEIGHED_FROM or result["filter_bytes"] <= FILTER_BYTES_MAX)
    )


def _add_all(index: FilterIndex, interests: Sequence[Interest]) -> None:
    for place, interest in enumerate(interests):
        index.add(interest, place)


def _change_us(index: FilterIndex, interests: Sequence[Interest]) -> float:
    """Microseconds for one filter to go or come, in a full index."""

    def change() -> None:
        for place, interest in enumerate(interests):
            index.remove(interest, place)
        _add_all(index, interests)

    return _timed(change) / (2 * len(interests)) * 1e6


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _rate(work: Callable[[Any], object], items: Sequence[Any], seconds: float) -> float:
    """Items a second, after one round to warm up; the middle one of five stretches."""
    for item in items:
        work(item)
    rates = []
    for _ in range(5):
        count, start = 0, time.perf_counter()
        while (took := time.perf_counter() - start) < seconds / 5 or not count:
            for item in items:
                work(item)
            count += len(items)
        rates.append(count / took)
    return sorted(rates)[2]


def _resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
