"""The audit: judges journals of any size by the names in GUARANTEES, on Spark, independently of the in-process checker.

`audit` reads journals and gives an `AuditVerdict`. docs/audit.md says what is judged and how.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.model.errors import ConfigError
from gapless.spark.audit.errors import JournalError
from gapless.spark.audit.files import find_journals
from gapless.spark.audit.verdict import JUDGED_PROMISES, AuditVerdict, PromiseVerdict, Result, Violation, Witness
from gapless.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "JUDGED_PROMISES",
    "AuditVerdict",
    "JournalError",
    "PromiseVerdict",
    "Result",
    "Violation",
    "Witness",
    "audit",
]

_BYTES_AT_ONCE = 32 << 20  # of journals, for one task after a shuffle: sorted in memory


def audit(paths: Sequence[Path], session: SparkSession | None = None, report: Path | None = None) -> AuditVerdict:
    """Judge the run whose journals `paths` name: files, or folders of them.

    Without a `session`, and where none is running, one in local mode is started and stopped again. With `report`, the
    verdict is also written there: as `verdict.json` and `verdict.txt`. Raises `JournalError` where the journals are
    missing or cannot be read in full, `ConfigError` where that folder cannot be had.
    """
    journals = find_journals(paths)
    if report is not None:
        _make(report)  # before the work, not after it
    session = session or _running_session()
    verdict = _judge(session, journals) if session is not None else _judge_alone(journals)
    if report is not None:
        (report / "verdict.json").write_text(verdict.to_json(), encoding="utf-8")
        (report / "verdict.txt").write_text(verdict.render(), encoding="utf-8")
    return verdict


def _make(report: Path) -> None:
    try:
        report.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ConfigError(f"the report cannot be left in {report}: {why}; name a folder that can be made") from None


def _running_session() -> SparkSession | None:
    # Spark is an extra: without it this package still imports, and `local_session` says what to install.
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    return SparkSession.getActiveSession()


def _judge_alone(journals: Sequence[Path]) -> AuditVerdict:
    size = sum(path.stat().st_size for path in journals)
    tasks = max(os.cpu_count() or 1, -(-size // _BYTES_AT_ONCE))
    session = local_session("gapless audit", None, **{"spark.sql.shuffle.partitions": str(tasks)})
    try:
        return _judge(session, journals)
    finally:
        session.stop()


def _judge(session: SparkSession, journals: Sequence[Path]) -> AuditVerdict:
    from gapless.spark.audit.judge import judge

    return judge(session, journals)
