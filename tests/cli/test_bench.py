"""`gapless bench`: short runs measure what long ones do, and nothing that is lost or changed goes unseen."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gapless.cli.benches import limits
from gapless.cli.benches.load import Checks, Load
from gapless.cli.benches.rates import CASES
from gapless.cli.main import main
from gapless.model.arrow import batch_of_table
from gapless.model.batch import Batch
from gapless.model.types import Source


@pytest.mark.live
def test_a_short_measurement_names_rates_cpu_latency_and_limits(tmp_path: Path) -> None:
    """Every process is accounted for, nothing is lost, and the machine's limits stand beside the rate."""
    report = tmp_path / "bench.json"
    main(["bench", "--case", "filtered at every hop", "--seconds", "0.5", "--json", str(report)])
    results = json.loads(report.read_text())
    (case,) = results["cases"]
    assert case["lost"] == 0 and case["rate"] > 0
    assert set(case["cpu_us"]) == {"b0", "b1", "b2", "publisher", "subscriber"}
    assert all(value > 0 for value in case["cpu_us"].values())
    assert 0 < case["at_80_percent"]["p50_ms"] <= case["at_80_percent"]["p99_ms"]
    assert all(value > 0 for value in results["limits"].values())


def test_a_case_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong name is wrong use, and the right ones are listed."""
    assert main(["bench", "--case", "ten brokers"]) == 2
    complaint = capsys.readouterr().err
    assert all(case.name in complaint for case in CASES)


def test_measuring_the_limits_binds_nobody_to_a_core() -> None:
    """What is started after the limits were measured may go to any core that this process may."""
    if not hasattr(os, "sched_getaffinity"):
        return
    before = os.sched_getaffinity(0)
    assert limits.loopback(0.05) > 0
    assert os.sched_getaffinity(0) == before


def _batch(first: int) -> Batch:
    table = next(Load(16, seed=1).tables())
    return batch_of_table(Source("p", 1), first, table)


def test_the_subscriber_sees_what_is_lost() -> None:
    """Seqs that are skipped are counted as lost."""
    checks = Checks()
    checks.batch(_batch(1))
    checks.batch(_batch(20))
    assert (checks.count, checks.lost) == (32, 3)


def test_the_subscriber_sees_what_was_changed() -> None:
    """One bit of one body is enough."""
    data = bytearray(_batch(1).encode())
    data[-50] ^= 1
    with pytest.raises(AssertionError, match="a body has changed"):
        Checks().batch(Batch(bytes(data)))
