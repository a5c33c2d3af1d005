"""Spark on this machine, in this process: what the commands and the tests use when nobody names a cluster."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gapless.model.errors import GaplessError
from gapless.spark.runtime import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"
_QUIET = Path(__file__).with_name("log4j2.properties")
_GIB = 1 << 30
T = TypeVar("T")


class SparkMissing(GaplessError):
    """The `spark` extra is not installed."""


def local_session(app_name: str, cores: int | None = None, **conf: str) -> SparkSession:
    """A Spark session in local mode: quiet, without a web page, reachable from this machine only.

    `cores` is how many tasks run at once, all cores by default. `conf` goes over the defaults here; keys with dots
    are passed as `**{"spark.sql.shuffle.partitions": "4"}`. Where this process has a session already, that one is
    returned, and of `conf` only what may change at run time takes effect.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SparkMissing("this needs Spark, which is not installed: pip install 'gapless[spark]'.") from None
    os.environ["JAVA_HOME"] = str(ensure_java())
    # Workers run on the Python that runs this, or what is installed here would be missing there.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)

    tasks = cores or os.cpu_count() or 1
    builder = SparkSession.builder.appName(app_name).master(f"local[{tasks}]")
    running = SparkSession.getActiveSession() is not None
    for key, value in (({} if running else _defaults(tasks)) | conf).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def interruptible(work: Callable[[], T]) -> T:
    """Do some work with Spark so that Ctrl-C ends the wait for it, instead of breaking into a talk with the JVM.

    The work itself ends with the process, and so does the JVM.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001  # whatever it is, it is raised where the work is waited for
            done.set_exception(error)

    threading.Thread(target=run, name="spark", daemon=True).start()
    return done.result()


def _defaults(tasks: int) -> dict[str, str]:
    return {
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
        "spark.driver.host": _LOOPBACK,
        "spark.driver.memory": f"{_memory_mib()}m",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        # Many small tasks cost more than they bring where all of them share one machine.
        "spark.sql.shuffle.partitions": str(tasks),
        "spark.sql.warehouse.dir": _scratch(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _memory_mib() -> int:
    """A quarter of the machine's memory, at least one and at most four GiB."""
    try:
        installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        installed = 0
    return max(_GIB, min(4 * _GIB, installed // 4)) >> 20


def _scratch() -> str:
    """A directory for what Spark would otherwise leave where the process was started; gone when the process ends."""
    scratch = tempfile.mkdtemp(prefix="gapless-spark-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return scratch
