"""Setting up fails in one sentence, and what it makes can be installed elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest
from tools import setup_environment

ROOT = Path(__file__).resolve().parent.parent


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A `make` as people type it, also where these tests were started by one."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(["make", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_help_is_what_make_says_by_itself() -> None:
    """Plain `make` lists what one can do, and needs nothing set up for it."""
    said = make()
    assert said.returncode == 0
    assert "make demo" in said.stdout
    assert said.stdout == make("help").stdout


def test_no_python_is_one_sentence() -> None:
    """Where no Python is new enough, `make` says which one it needs and how to name it."""
    said = make("-W", "requirements.lock", "setup", "PYTHON=")
    assert said.returncode != 0
    assert "needs Python 3.11 or newer and found none" in said.stderr


def test_a_python_that_is_not_there_is_one_sentence() -> None:
    """A Python that is named but does not exist is told as such, not by what the shell makes of it."""
    said = make("-W", "requirements.lock", "setup", "PYTHON=/nonexistent/python")
    assert said.returncode != 0
    ours = [line for line in said.stderr.splitlines() if not line.startswith("make")]
    assert len(ours) == 1
    assert ours[0].startswith("setup: there is no Python at /nonexistent/python: name one that is there, or leave ")


def test_what_runs_leave_behind_is_ignored() -> None:
    """A cluster that was tried in the checkout, its journals, and seeds that failed are no part of the project."""
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {"/cluster.toml", "/data/", "/journals/", "/failures/"} <= {*ignored}


def test_a_python_without_venv_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Python whose venv module was left out is told apart from every other failure."""
    monkeypatch.setattr(setup_environment, "PYTHON", tmp_path / "missing")
    monkeypatch.setattr(setup_environment.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(setup_environment.CannotSetUp, match=r"without its venv module: install it .*-venv"):
        setup_environment._make_venv()


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        ("WARNING: Retrying after NewConnectionError\nERROR: No matching distribution", "index cannot be reached"),
        ("ERROR: Could not find a version of x==1 (from versions: none)", "index cannot be reached"),
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "the disk is full"),
        ("Collecting x\nERROR: x has another hash\n", r"pip could not install .*\(ERROR: x has another hash\)"),
        ("  OSError: Readme file does not exist\n", r"\(OSError: Readme file does not exist\)"),
        ("", "it gave no reason"),
    ],
)
def test_what_pip_says_becomes_a_sentence(log: str, sentence: str) -> None:
    """Whatever pip writes, people get one sentence that says what is wrong."""
    assert re.search(sentence, setup_environment._why_pip_failed(log))


def test_the_build_tool_is_pinned_by_the_same_lock() -> None:
    """What builds source packages is taken out of the lock with its version and hashes, and nothing else is."""
    lock = setup_environment.LOCK.read_text()
    for name in setup_environment.BUILT_WITH:
        pin = setup_environment._pin_of(name, lock)
        assert pin.startswith(f"{name}==")
        assert pin.count("==") == 1
        assert pin.count("--hash=sha256:") >= 1
    with pytest.raises(setup_environment.CannotSetUp, match="does not pin nothing-like-it"):
        setup_environment._pin_of("nothing-like-it", lock)


@pytest.mark.house
def test_the_lock_satisfies_the_project() -> None:
    """Every dependency the project declares is in the lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = setup_environment.LOCK.read_text()
    declared = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    names = [declaration.split(";")[0].split(">")[0].split("<")[0].strip() for declaration in declared]
    assert [name for name in names if f"\n{name}==" not in lock] == []


def test_the_wheel_runs_outside_the_checkout(tmp_path: Path) -> None:
    """A wheel built here installs into an environment of its own and its command runs there, with its data files."""
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("gapless-*.whl")

    venv.create(tmp_path / "elsewhere", with_pip=False)
    bin_ = tmp_path / "elsewhere" / "bin"
    installed = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "elsewhere")}))
    install = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(bin_ / "python"), *install], check=True)
    # What Gapless depends on is borrowed from here; its own code is not, for the path of a checkout is in a .pth file,
    # which does not count on PYTHONPATH.
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": sysconfig.get_path("purelib")}
    said = subprocess.run(
        [str(bin_ / "gapless"), "--version"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    from gapless import __version__

    assert __version__ in said.stdout
    shipped = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    assert {"gapless/py.typed", "gapless/spark/log4j2.properties"} <= shipped
    ours = (ROOT / "src").rglob("*")
    expected = {str(p.relative_to(ROOT / "src")) for p in ours if p.is_file() and "__pycache__" not in p.parts}
    assert expected - shipped == set()
