"""What pytest finds of Gapless by itself: the fixture `overlay`, and the marker that says what it is made with."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gapless.testing.overlay import Overlay


def pytest_configure(config: pytest.Config) -> None:
    """Tell what the marker is for."""
    config.addinivalue_line(
        "markers", "overlay(brokers=3, spaces='quotes', seed=0, ...): what the fixture `overlay` is made with"
    )


@pytest.fixture
def overlay(request: pytest.FixtureRequest) -> Iterator[Overlay]:
    """An overlay of Gapless in this process. At the end of the test its history must keep every promise."""
    from gapless.testing.overlay import Overlay

    marker = request.node.get_closest_marker("overlay")
    arguments = {"log": sys.stderr, **(marker.kwargs if marker is not None else {})}
    with Overlay(*(marker.args if marker is not None else ()), **arguments) as made:
        yield made
