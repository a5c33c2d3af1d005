"""Arguments: options stand where one likes, and amounts that mean nothing are refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gapless.cli.main import main

NOBODY = "127.0.0.1:1"
SOON = ("--connect-deadline", "0.05")


@pytest.mark.parametrize(
    "arguments",
    [
        ["subscribe", NOBODY, "quotes", *SOON, "--json", "price > 3"],
        ["subscribe", NOBODY, *SOON, "quotes", "--for", "1", "price > 3"],
        ["subscribe", *SOON, NOBODY, "quotes", "price > 3"],
        ["publish", NOBODY, "quotes", *SOON, "--name", "x", "a=1"],
        ["publish", NOBODY, "quotes", "a=1", "--name", "x", "b=2", *SOON],
        ["publish", NOBODY, "quotes", *SOON, "--", "--odd=1"],
    ],
    ids=" ".join,
)
def test_options_stand_anywhere(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Between the other arguments as well as before and after them: only the server is missing here."""
    assert main(arguments) == 1
    assert "no server answered within 0.05 s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (["subscribe", NOBODY, "quotes", "a = 1", "b = 2"], "b = 2"),
        (["publish", NOBODY, "quotes", "--bogus", "a=1"], "--bogus"),
        (["status", NOBODY, "--bogus"], "--bogus"),
    ],
)
def test_what_is_left_over_is_named_by_its_command(
    arguments: Sequence[str], left: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An argument that the command has no use for is wrong use, and the sentence says of which command."""
    command = arguments[0]
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said == f"gapless {command}: unrecognized arguments: {left}; gapless {command} --help shows what there is\n"


@pytest.mark.parametrize(
    "arguments",
    [
        *(["subscribe", NOBODY, "quotes", "--for", text] for text in ("-1", "0", "nan", "inf", "long")),
        ["subscribe", NOBODY, "quotes", "--count", "-2"],
        ["subscribe", NOBODY, "quotes", "--connect-deadline", "-1"],
        *(["publish", NOBODY, "quotes", "a=1", "--deadline", text] for text in ("-1", "nan")),
        *(["publish", NOBODY, "quotes", "a=1", "--rate", text] for text in ("0", "inf")),
        *(["demo", "--seconds", text] for text in ("0", "-1")),
        *(["bench", "--seconds", text] for text in ("0", "0.01")),
        ["soak", "direct", "--jobs", "0"],
        ["status", NOBODY, "--deadline", "-1"],
    ],
    ids=" ".join,
)
def test_amounts_that_mean_nothing_are_refused(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    """No time, less than none, or none that can be told is one sentence that names the option, and status 2."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    option, text = arguments[-2:]
    assert printed.out == "" and printed.err.count("\n") == 1
    assert printed.err.startswith(f"gapless {arguments[0]}: argument {option}: {text!r} will not do: give ")
