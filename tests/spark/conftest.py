"""One Spark session for all tests that need Spark: starting one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from gapless.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark in local mode on two cores, shared; a test that stops it or changes its settings starts its own instead."""
    session = local_session("gapless-tests", cores=2)
    yield session
    session.stop()
