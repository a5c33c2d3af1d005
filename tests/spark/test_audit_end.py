"""What a run without faults may show when it is over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from gapless.spark.audit.journals import Journals, Run
from gapless.spark.audit.liveness import why_not_judged


def journals(link_down_at: int, common_clock: bool = True) -> Journals:
    """Journals of a run that ended at 100, in which a link went down."""
    said = SimpleNamespace(
        spaces={"": Run("", "direct", False, 0, "global")},
        kinds={"link-down": 1, "end": 1},
        firsts={"link-down": link_down_at, "end": 100},
        ended=100,
        torn=(),
        has_common_clock=common_clock,
    )
    return cast("Journals", said)


def test_links_that_processes_take_with_them_when_they_stop_are_no_faults() -> None:
    """After the end a link may go down; before it, a run said to be without faults cannot be judged."""
    assert why_not_judged(journals(link_down_at=101)) == ""
    assert "link-down" in why_not_judged(journals(link_down_at=99))


def test_without_a_common_clock_nobody_can_tell_which_came_first() -> None:
    """Where moments of processes cannot be compared, a link that went down counts."""
    assert "link-down" in why_not_judged(journals(link_down_at=101, common_clock=False))
