"""Measure the layouts: microseconds for each step, at 1, 16, 256 and 4,096 publications."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from bench.layouts.candidates import Layout, layouts
from gapless.cli.benches.limits import pin, reference_us
from gapless.cli.benches.load import Load

SIZES = (1, 16, 256, 4096)
STRETCHES = 7


def steps_of(layout: Layout, table: pa.RecordBatch) -> dict[str, Callable[[], Any]]:
    """What is measured of a layout."""
    rows = table.drop_columns(["body"]).to_pylist()
    bodies = table.column("body").to_pylist()
    data = layout.encode_table(table)
    half = np.arange(0, table.num_rows, 2)
    return {
        "encode rows": lambda: layout.encode(rows, bodies),
        "encode Arrow": lambda: layout.encode_table(table),
        "header": lambda: layout.header(data),
        "decode": lambda: layout.decode(data),
        "take half": lambda: layout.take(data, half),
        "join 4": lambda: layout.concatenate([data] * 4),
        "to Arrow": lambda: layout.arrow(data),
    }


def measured(work: Callable[[], Any], seconds: float) -> float:
    """Microseconds of one call: the middle one of several stretches."""
    work()
    found = []
    for _ in range(STRETCHES):
        count, start = 0, time.perf_counter()
        while (took := time.perf_counter() - start) < seconds / STRETCHES or not count:
            work()
            count += 1
        found.append(took / count * 1e6)
    return sorted(found)[STRETCHES // 2]


def main(arguments: list[str]) -> int:
    """Print a table for each size."""
    parser = argparse.ArgumentParser(prog="python -m bench.layouts", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each figure (default: 0.5)")
    seconds = parser.parse_args(arguments).seconds
    pin(0)
    for size in SIZES:
        table = next(Load(size, seed=5).tables())
        every = [(layout, steps_of(layout, table)) for layout in layouts()]
        names = list(every[0][1])
        print(f"\n{size} publications, microseconds")
        print(f"{'layout':26} {'bytes':>8} " + " ".join(f"{name:>13}" for name in names))
        for layout, steps in every:
            figures = [measured(steps[name], seconds) for name in names]
            print(f"{layout.name:26} {len(layout.encode_table(table)):8} " + " ".join(f"{f:13.2f}" for f in figures))
    print(f"\nreference loop {reference_us():.0f} µs per thousand steps")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
