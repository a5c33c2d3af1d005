"""Make `.venv` hold exactly what the lock file says, and the project itself.

Needs nothing but Python 3.11 with its venv module: run by `make`, with whichever Python it found. What cannot be set
up ends in one sentence; pip's own words are kept in `.venv/setup.log`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.lock"
LOG = VENV / "setup.log"
READY = VENV / "ready"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

# pyspark comes as source only; building it takes setuptools, which therefore goes in first, from the same lock.
BUILT_WITH = ("setuptools",)


class CannotSetUp(Exception):
    """One sentence for whoever typed `make`."""


def main() -> int:
    """Bring the environment up to date; 0 when it is."""
    started = time.monotonic()
    try:
        if sys.version_info < (3, 11):  # noqa: UP036  # run by whatever Python someone names, before any installer
            raise CannotSetUp(
                f"Gapless needs Python 3.11 or newer and {sys.executable} is {sys.version.split()[0]}: "
                "install one, or name it with `make PYTHON=/path/to/python3.11`."
            )
        _make_venv()
        if _installed_from() != _fingerprint():
            _install_locked()
        _install_project()
    except CannotSetUp as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    READY.write_text(_fingerprint() + "\n")
    say(f"ready in {time.monotonic() - started:.0f} s")
    return 0


def say(text: str) -> None:
    """One line of progress."""
    print(f"setup: {text}", flush=True)


def _fingerprint() -> str:
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()


def _installed_from() -> str | None:
    return READY.read_text().strip() if READY.exists() else None


def _make_venv() -> None:
    if PYTHON.exists() and _runs([str(PYTHON), "-m", "pip", "--version"]):
        return
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise CannotSetUp(
                f"{sys.executable} comes without its {module} module: install it (on Debian and Ubuntu the package "
                f"python{sys.version_info.major}.{sys.version_info.minor}-venv) and run make again."
            )
    say(f"making .venv with Python {sys.version.split()[0]}")
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(VENV)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise CannotSetUp(f"{sys.executable} could not make {VENV}: {_last_line(made.stdout + made.stderr)}")


def _install_locked() -> None:
    lock = LOCK.read_text()
    pins = len(re.findall(r"^[a-z0-9].*==", lock, re.MULTILINE))
    say(f"installing {pins} locked packages (about half a gigabyte the first time; details in .venv/setup.log)")
    first = VENV / "built-with.lock"
    first.write_text("".join(_pin_of(name, lock) for name in BUILT_WITH))
    LOG.write_text("")
    _pip("install", "--require-hashes", "--no-deps", "-r", str(first))
    _pip("install", "--require-hashes", "--no-build-isolation", "-r", str(LOCK))


def _pin_of(name: str, lock: str) -> str:
    """The lines of the lock that pin `name`, hashes and all."""
    found = re.search(rf"^{re.escape(name)}==(?:.*\\\n)*.*\n", lock, re.MULTILINE)
    if found is None:
        raise CannotSetUp(f"requirements.lock does not pin {name}: run `make lock`.")
    return found.group()


def _install_project() -> None:
    say("installing gapless itself, editable")
    _pip("install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))


def _pip(*arguments: str) -> None:
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    with LOG.open("a") as log:
        done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT, check=False)
    if done.returncode:
        raise CannotSetUp(_why_pip_failed(LOG.read_text()))


def _why_pip_failed(log: str) -> str:
    unreachable = ("NewConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyError", "from versions: none")
    if any(sign in log for sign in unreachable):
        return (
            "the locked packages could not be downloaded because the package index cannot be reached: "
            "check the network (or pip's index settings) and run make again; details in .venv/setup.log."
        )
    if "No space left on device" in log:
        return "the disk is full: about 2 GB are needed for .venv and pip's cache; details in .venv/setup.log."
    errors = [line for line in log.splitlines() if re.match(r"\s*(ERROR|error|\w*Error):", line)]
    return f"pip could not install what is needed ({_last_line(chr(10).join(errors))}); see .venv/setup.log."


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it gave no reason"


def _runs(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
