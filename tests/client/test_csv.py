"""`gapless publish --from FILE.csv`: every row that can be published is, and every other one is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.client.house import SPACE
from tests.client.serving import served
from tests.client.test_commands import TYPES, Output, _arrived, _publish

import gapless


def test_a_late_cell_does_not_end_the_reading(tmp_path: Path, capsys: Output) -> None:
    """A column of numbers with one word far below is a column of strings for all rows, and that is said once."""
    path = tmp_path / "quotes.csv"
    path.write_text("n,m\n" + "7,1\n" * 40_000 + "x,2\n" + "y,3\n")
    with served() as servers, gapless.sync.connect(servers) as bus, bus.subscribe(SPACE, "m > 1 OR n = '7'") as sub:
        status, out, err = _publish(capsys, servers, "--from", str(path))
        assert status == 0 and out.startswith("accepted 40,002 publications")
        assert err == [
            f"gapless publish: {path}: column 'n' is published as strings, because line 40002 has 'x' among numbers"
        ]
        assert {type(sub.next(5).attributes["n"]) for _ in range(3)} == {str}


def test_bad_rows_are_named_and_the_others_published(tmp_path: Path, capsys: Output) -> None:
    """Where the space declares types, a cell that does not fit costs its own row and no other."""
    path = tmp_path / "quotes.csv"
    rows = [
        "price,n,note",
        "1,1,one",
        "dear,2,two",
        "1e400,3,three",
        '4,4,"fo\nur"',
        "5,99999999999999999999,five",
        '6,6,"si"x',
        "7,7",
        "8,8,eight",
        '9,9,"nine',
        "10,10,ten",
    ]
    path.write_bytes("\n".join(rows).encode() + b"\n11,11,\xff\n,12,\n")
    with served(space=TYPES) as servers, gapless.sync.connect(servers) as bus, bus.subscribe(SPACE) as sub:
        status, out, err = _publish(capsys, servers, "--from", str(path), "--body-column", "note")
        told = dict(line.removeprefix(f"gapless publish: {path} ").split(": ", 1) for line in err)
        assert status == 1 and out.endswith(", 7 refused\n")
        assert list(told) == [f"line {number}" for number in (3, 4, 7, 8, 9, 11, 13)]
        assert told["line 3"] == "attribute 'price' is 'dear', but its space declares it as float64: write it like 4.5"
        assert "beyond the 64-bit floats" in told["line 4"] and "outside the 64-bit integers" in told["line 7"]
        assert "its quotes do not fit" in told["line 8"] and told["line 9"] == "2 columns instead of 3"
        assert "closed nowhere" in told["line 11"] and "not UTF-8" in told["line 13"]
        arrived = _arrived(sub)
        assert [body for _, body in arrived] == [b"one", b"fo\nur", b"eight", b"ten", b""]
        assert arrived[1][0] == {"price": 4.0, "n": 4} and arrived[-1][0] == {"n": 12}


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        ("", 2, "has no header: its first line has to name the columns"),
        ("a,a\n1,2\n", 2, "two columns are named 'a'"),
        ("a,\n1,2\n", 2, "a column is named ''"),
        ("a\n1\n", 0, ""),
        ("sym\nIBM\nSUN\n7\n", 0, ""),
        ("day\n2024-02-28\n2024-02-30\n", 1, "line 3: attribute 'day' is '2024-02-30', and should be a timestamp"),
        (
            "yes\ntrue\n1\ntrue\n",
            0,
            "column 'yes' is published as strings, because line 3 has '1' among true and false",
        ),
    ],
)
def test_columns_by_their_looks(text: str, status: int, says: str, tmp_path: Path, capsys: Output) -> None:
    """What cannot be columns is wrong use; a column of words may hold a number without a remark."""
    path = tmp_path / "some.csv"
    path.write_text(text)
    with served() as servers:
        got, _, err = _publish(capsys, servers, "--from", str(path))
        assert got == status and len(err) == bool(says) and says in "".join(err)


def test_from_a_pipe() -> None:
    """Standard input that cannot be read twice is published all the same, and its rows have names, too."""
    with served() as servers, gapless.sync.connect(servers) as bus, bus.subscribe(SPACE) as sub:
        command = [sys.executable, "-m", "gapless", "publish", servers[0], SPACE, "--from", "-", "--format", "csv"]
        done = subprocess.run(command, input="n\n1\n2,3\n4\n", capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (1, "gapless publish: standard input line 3: 2 columns instead of 1\n")
        assert [attributes for attributes, _ in _arrived(sub)] == [{"n": 1}, {"n": 4}]
