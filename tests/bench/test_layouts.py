"""The layouts that are compared do the same: otherwise their figures would mean nothing."""

from __future__ import annotations

import numpy as np
import pytest

from bench.layouts.__main__ import SIZES, main, steps_of
from bench.layouts.candidates import Layout, layouts
from gapless.cli.benches.load import Load


@pytest.mark.parametrize("layout", layouts(), ids=lambda layout: layout.name)
@pytest.mark.parametrize("size", [1, 16])
def test_every_layout_gives_back_what_went_in(layout: Layout, size: int) -> None:
    """From rows or columns, whole, in part or joined: the same publications come out."""
    table = next(Load(size, seed=5).tables())
    rows = table.drop_columns(["body"]).to_pylist()
    bodies = table.column("body").to_pylist()

    def content(data: bytes) -> list[tuple[object, ...]]:
        arrow = layout.arrow(data)
        return list(
            zip(*(arrow.column(name).to_pylist() for name in ("sym", "price", "vol", "loc", "body")), strict=True)
        )

    expected = [(*row.values(), body) for row, body in zip(rows, bodies, strict=True)]
    data = layout.encode_table(table)
    assert content(data) == content(layout.encode(rows, bodies)) == expected
    assert layout.header(data) == (size, 1) and len(layout.decode(data)) == size
    assert content(layout.take(layout.encode_table(table), np.arange(0, size, 2))) == expected[::2]
    assert content(layout.concatenate([data] * 3)) == expected * 3


def test_the_measurement_measures_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each layout and size, a figure for each step."""
    assert main(["--seconds", "0.001"]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = next(Load(1, seed=5).tables())
    for layout in layouts():
        assert sum(line.startswith(layout.name) for line in lines) == len(SIZES)
    assert len(steps_of(layouts()[0], table)) == 7
