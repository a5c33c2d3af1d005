"""The fixture `overlay`, as somebody finds it who has installed Gapless and pytest; and the page about it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "testing.md").read_text(), re.S | re.M)

USERS_TEST = """
import gapless, pytest

def test_fixture(overlay):
    async def story(overlay):
        async with gapless.connect(overlay.servers) as bus, bus.subscribe("quotes") as sub:
            overlay.kill("b2")
            await bus.publish("quotes", {"n": 1})
            assert (await sub.next(deadline=1)).seq == 1
    overlay.run(story)

@pytest.mark.overlay(brokers=1, spaces=["ledger"], seed=4)
def test_marker(overlay):
    async def story(overlay):
        async with gapless.connect(overlay.servers) as bus:
            return await bus.publish("ledger", {"n": 1})
    assert overlay.brokers == ("b0",) and overlay.run(story) == 1

def test_a_bug(overlay, monkeypatch):
    from gapless.client.subscription import Subscription
    put = Subscription.put
    monkeypatch.setattr(Subscription, "put", lambda self, parcel: (put(self, parcel), put(self, parcel)))
    async def story(overlay):
        async with gapless.connect(overlay.servers) as bus, bus.subscribe("quotes") as sub:
            await bus.publish("quotes", {"n": 1})
            await sub.next()
            await sub.next()
    overlay.run(story)

def test_a_failure(overlay):
    async def story(overlay):
        async with gapless.connect(overlay.servers):
            assert 1 == 2
    overlay.run(story)
"""


def pytest_of_a_user(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A run of pytest in a folder that knows nothing of this project."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "-rA", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_fixture_is_there_by_itself(tmp_path: Path) -> None:
    """A user's test has the fixture without asking; a broken promise fails it, and shows what the brokers logged."""
    (tmp_path / "test_application.py").write_text(USERS_TEST)
    done = pytest_of_a_user(tmp_path, "--strict-markers")
    assert done.returncode == 1, done.stdout + done.stderr
    passed = re.findall(r"^PASSED \S+::(\w+)", done.stdout, re.M)
    assert passed == ["test_fixture", "test_marker", "test_a_bug"]
    assert re.findall(r"^ERROR \S+::(\w+)", done.stdout, re.M) == ["test_a_bug"]
    assert re.findall(r"^FAILED \S+::(\w+)", done.stdout, re.M) == ["test_a_failure"]
    assert "BrokenPromise" in done.stdout and "broken: no-duplicate" in done.stdout
    assert re.search(r"00:00:00\.\d+ info +link open +broker=b0 peer=b1", done.stdout)


def test_the_fixture_is_light(tmp_path: Path) -> None:
    """Projects that do not use the fixture do not pay for it: nothing of the overlay is loaded with pytest."""
    (tmp_path / "test_application.py").write_text(
        "import sys\ndef test_light():\n    assert not {'numpy', 'pyarrow', 'asyncio.sslproto'} & {*sys.modules}\n"
    )
    done = pytest_of_a_user(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_examples(tmp_path: Path) -> None:
    """The examples of docs/testing.md, put into one file as a reader would, pass."""
    (tmp_path / "test_page.py").write_text("\n\n".join(EXAMPLES))
    done = pytest_of_a_user(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^PASSED", done.stdout, re.M)) >= 4


def test_gapless_needs_no_pytest() -> None:
    """The kit works in any test runner: only the fixture imports pytest."""
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "import gapless\nfrom gapless.testing import Overlay\n"
        "async def story(overlay):\n"
        "    async with gapless.connect(overlay.servers) as bus:\n"
        "        return await bus.publish('quotes', {})\n"
        "with Overlay() as overlay:\n"
        "    assert overlay.run(story) == 1\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
