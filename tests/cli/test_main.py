"""The command line as a whole: every command helps, mistakes are one sentence, statuses mean what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence

import pytest

from gapless import __version__
from gapless.cli import main as command_line
from gapless.cli.main import COMMANDS, main
from gapless.model import errors


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_helps_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command that is listed has a --help that ends well and shows a command line to type."""
    assert main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: gapless {command} ")
    assert re.search(rf"example.*\n(.*\n)*?.*gapless {command} ", shown)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`gapless --help` has all commands with what they are for."""
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for command, (_, words) in COMMANDS.items():
        assert re.search(rf"^    {command}\s+{re.escape(words)}$", shown, re.MULTILINE)


def test_help_and_version_load_nothing_large() -> None:
    """Asking for help or the version imports neither numpy nor Arrow nor any command."""
    program = (
        "import sys; from gapless.cli.main import main; main(['--help']); main(['--version'])\n"
        "large = {'numpy', 'pyarrow', 'msgspec', 'rich', 'asyncio', 'gapless.cli.up'} & set(sys.modules)\n"
        "assert not large, large"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"gapless {__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["stats"], "there is no command 'stats'; did you mean 'status'?"),
        (["xyzzy"], "there is no command 'xyzzy'; there are demo, up, "),
        (
            ["broker", "cluster.toml"],
            "gapless broker: the following arguments are required: --id; gapless broker --help",
        ),
        (["up", "--brokers", "three"], "invalid int value: 'three'"),
        (["status", "here"], "gapless status: 'here' is not the address of a server"),
        (
            ["broker", "nowhere.toml", "--id", "b0", "--log-format", "text"],
            "gapless broker: there is no file nowhere.toml",
        ),
        (["up", "cluster.toml", "--brokers", "2"], "leave out --brokers"),
        (["up", "--brokers", "0"], "a cluster of 0 brokers cannot be made"),
    ],
)
def test_wrong_use_is_one_sentence_and_status_2(
    arguments: Sequence[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be meant is answered on standard error in a line, without a traceback, and nothing is done."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.count("\n") == 1


def test_no_command_at_all_shows_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    """`gapless` alone prints the help where errors go, with status 2."""
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ConfigError("c"), 2),
        (errors.FilterError("f"), 2),
        (errors.SchemaError("s"), 2),
        (errors.UnknownSpace("u"), 2),
        (errors.Unreachable("r"), 1),
        (errors.DeadlineExceeded("d"), 1),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 0),
    ],
)
def test_errors_become_a_status(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Mistakes of whoever typed are 2, what could not be done now is 1; output nobody reads any more is no error."""

    def fails(arguments: object) -> int:
        raise error

    monkeypatch.setattr("gapless.cli.status.run", fails)
    monkeypatch.setattr(command_line, "_forget_output", lambda: None)
    assert main(["status", "here"]) == status
    said = capfd.readouterr().err
    assert said == (f"gapless status: {error}\n" if isinstance(error, errors.GaplessError) else "")
