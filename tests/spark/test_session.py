"""A local Spark session works on a machine without Java, and is a good guest there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from gapless.spark.session import local_session

spark = local_session("a test", cores=1, **{"spark.sql.shuffle.partitions": "3"})
assert local_session("another") is spark

def with_gapless(batches):
    import gapless
    return batches

rows = spark.range(10).mapInArrow(with_gapless, "id long").groupBy().sum().collect()
print(rows[0][0], spark.conf.get("spark.sql.shuffle.partitions"), spark.conf.get("spark.driver.bindAddress"))
assert spark.sparkContext.uiWebUrl is None
spark.sql("create table kept (one int) using parquet")
spark.sql("insert into kept values (1)")
spark.stop()
"""

NEEDED_BY_SPARK = ("bash", "cat", "chmod", "dirname", "env", "ls", "nice", "ps", "readlink", "rm", "sh", "uname")


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_spark_runs_without_java(tmp_path: Path) -> None:
    """With no Java on the machine Spark runs Python workers here, says nothing, and leaves nothing behind."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in NEEDED_BY_SPARK:
        for place in ("/bin", "/usr/bin"):
            if (Path(place) / name).exists() and not (tools / name).exists():
                (tools / name).symlink_to(Path(place) / name)
    started_in = tmp_path / "here"
    started_in.mkdir()
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("JAVA", "SPARK", "PYSPARK"))}
    environment |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], cwd=started_in, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["45", "3", "127.0.0.1"]
    # Java itself says it was told where to put its temporary files where someone set that; nothing else may speak.
    assert [line for line in done.stderr.splitlines() if "Picked up" not in line] == []
    assert list(started_in.iterdir()) == []
    assert list(tmp_path.glob("gapless-spark-*")) == []
    assert list((tmp_path / "cache" / "gapless").glob("java-*/bin/java")) != []
