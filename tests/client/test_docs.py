"""The page about the client: every example on it runs."""

from __future__ import annotations

import ast
import asyncio
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.client.house import SPACE
from tests.client.serving import served

import gapless
from gapless.cli.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.S | re.M)
COMMANDS = [line for block in re.findall(r"^```shell\n(.*?)^```$", PAGE, re.S | re.M) for line in block.splitlines()]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each example in Python runs, with a bus and a publisher at hand where it expects them."""
    monkeypatch.chdir(tmp_path)
    with served() as (server,):
        code = EXAMPLES[number].replace("127.0.0.1:7400", server)
        if "await" not in code and "async " not in code:
            exec(compile(code, "docs/client.md", "exec"), {})
            return
        program = "async def example(bus, out):\n" + textwrap.indent(code, "    ")
        names: dict[str, object] = {"gapless": gapless}
        exec(compile(ast.parse(program), "docs/client.md", "exec"), names)

        async def run() -> None:
            async with gapless.connect(server) as bus:
                out = await bus.publisher(SPACE)
                async with asyncio.timeout(10):
                    await names["example"](bus, out)  # type: ignore[operator]  # defined just above

        asyncio.run(run())


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command line works as it stands."""
    monkeypatch.chdir(tmp_path)
    Path("quotes.ndjson").write_text('{"sym": "IBM", "price": 4.5, "body": "hello"}\n')
    assert len(COMMANDS) >= 4
    with served() as (server,):
        for command in COMMANDS:
            program, *arguments = shlex.split(command.replace("127.0.0.1:7400", server))
            assert program == "gapless"
            assert main(arguments) == 0, command
    assert "true" in capsys.readouterr().out


def test_errors_are_all_there() -> None:
    """The table of errors names every error that `gapless` offers."""
    offered = [name for name in gapless.__all__ if isinstance(getattr(gapless, name), type)]
    errors = [name for name in offered if issubclass(getattr(gapless, name), gapless.GaplessError)]
    table = PAGE.partition("## Errors")[2]
    assert len(errors) > 10 and [name for name in errors if f"`{name}`" not in table] == []


def test_help_of_commands_runs() -> None:
    """`--help` of each command shows an example, and asks for nothing heavy."""
    for command in ("publish", "subscribe", "filter"):
        done = subprocess.run(
            [sys.executable, "-m", "gapless.cli.main", command, "--help"], capture_output=True, text=True, check=True
        )
        assert "examples:\n  gapless " + command in done.stdout and "Exit status" in done.stdout
