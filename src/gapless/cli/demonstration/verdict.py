"""The verdict at the end: the audit on Spark where Spark is installed, else the checker in this process."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import NamedTuple


class Judgement(NamedTuple):
    """What was found."""

    ok: bool
    text: str
    judge: str


def spark_is_here() -> bool:
    """Whether the extra is installed."""
    return importlib.util.find_spec("pyspark") is not None


def judge(journals: list[Path], use_spark: bool) -> list[Judgement]:
    """A judgement of each folder of journals."""
    if use_spark:
        return _judge_on_spark(journals)
    return [_judge_here(folder) for folder in journals]


def _judge_on_spark(journals: list[Path]) -> list[Judgement]:
    from gapless.spark.audit import audit
    from gapless.spark.session import interruptible, local_session

    def work() -> list[Judgement]:
        session = local_session("gapless demo")
        try:
            verdicts = [audit([folder], session) for folder in journals]
            return [Judgement(verdict.kept, verdict.render(), "audit on Spark") for verdict in verdicts]
        finally:
            session.stop()

    return interruptible(work)


def _judge_here(folder: Path) -> Judgement:
    from gapless.cli.histories import read_history
    from gapless.sim.checker import check

    verdict = check(read_history([folder]))
    return Judgement(verdict.ok, verdict.render(), "checker in this process")
