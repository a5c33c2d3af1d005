"""The commands `publish`, `subscribe` and `filter`, as a shell sees them."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.client.house import SPACE
from tests.client.serving import served
from tests.client.test_life import events_of

import gapless
from gapless.cli import subscribe
from gapless.cli.main import main

Output = pytest.CaptureFixture[str]
TYPES = 'attributes = { price = "float64", when = "timestamp" }'


def _publish(output: Output, servers: list[str], *arguments: str) -> tuple[int, str, list[str]]:
    """Status, output and complaints of `gapless publish`."""
    status = main(["publish", servers[0], SPACE, *arguments])
    printed = output.readouterr()
    return status, printed.out, printed.err.splitlines()


def _arrived(sub: gapless.sync.Subscription) -> list[tuple[dict[str, object], bytes]]:
    got = []
    while True:
        try:
            publication = sub.next(deadline=0.3)
        except gapless.DeadlineExceeded:
            return got
        got.append((dict(publication.attributes), publication.body))


def test_one_from_arguments(capsys: Output) -> None:
    """Attributes are typed as the space declares them, else by their looks; quotes make a string."""
    with served(space=TYPES) as servers, gapless.sync.connect(servers) as bus, bus.subscribe(SPACE) as sub:
        arguments = [
            "price=4",
            "n=7",
            "x=7.5e3",
            "yes=true",
            "no=false",
            "quoted='7'",
            "loc=New York",
            "--body",
            "hello",
        ]
        status, out, err = _publish(capsys, servers, *arguments, "--attr", "empty=", "--attr", "when=2024-01-31T12:00")
        assert (status, err) == (0, []) and out.startswith("accepted 1 publication of client-")
        ((attributes, body),) = _arrived(sub)
        assert str(attributes.pop("when")) == "2024-01-31 12:00:00+00:00"
        plain = {"n": 7, "x": 7500.0, "yes": True, "no": False, "quoted": "7", "loc": "New York", "empty": ""}
        assert attributes == {"price": 4.0, **plain} and type(attributes["price"]) is float and body == b"hello"
        assert _publish(capsys, servers, "--body", "", "--name", "till", "--json")[:1] == (0,)
        assert _arrived(sub) == [({}, b"")]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "nothing to publish"),
        (["a=1", "--from", "x.csv"], "both one publication and a file"),
        (["a"], "'a' is no attribute: write NAME=VALUE"),
        (["a=1", "a=2"], "'a' is given twice"),
        (["--from", "no-such.csv"], "no-such.csv cannot be read: no such file"),
        (["--from", "x.txt"], "name it with --format"),
        (["a=1", "--name", ""], "cannot name a publisher"),
    ],
)
def test_wrong_use_of_publish(arguments: list[str], says: str, capsys: Output) -> None:
    """What cannot be published is one sentence, and status 2."""
    with served(space=TYPES) as servers:
        status, _, err = _publish(capsys, servers, *arguments)
        assert status == 2 and says in err[-1] and err[-1].startswith("gapless publish: ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["price=dear"], "'price' is 'dear', which is string"),
        (["when=soon"], "write it like 2024-01-31T12:00Z"),
        (["n=99999999999999999999"], "outside the 64-bit integers"),
        (["y=1e400"], "'y' is 1e400, beyond the 64-bit floats"),
        (["long=" + 70_000 * "x"], "attribute_bytes_max"),
    ],
)
def test_one_that_is_refused(arguments: list[str], says: str, capsys: Output) -> None:
    """A publication from arguments that cannot be published is told and counted like one from a file: status 1."""
    with served(space=TYPES) as servers:
        status, out, err = _publish(capsys, servers, *arguments)
        assert status == 1 and len(err) == 1 and err[0].startswith("gapless publish: attribute ") and says in err[0]
        assert out.startswith("accepted 0 publications of client-") and out.endswith(", 1 refused\n")


def test_from_ndjson(tmp_path: Path, capsys: Output) -> None:
    """Lines of JSON are published; bad ones are named by their number, and the others are accepted."""
    path = tmp_path / "quotes.ndjson"
    lines = [
        '{"price": 2, "loc": "NY", "body": "text"}',
        '{"price": "dear"}',
        "no json",
        "",
        '{"when": "2024-02-02T00:00:00Z", "big": 99999999999999999999}',
        "[1]",
        '{"nested": {"a": 1}}',
        '{"body": 7}',
        '{"body_base64": "!"}',
        '{"attributes": {"price": null, "yes": true}, "body_base64": "AAE="}',
    ]
    path.write_text("\n".join(lines))
    with served(space=TYPES) as servers, gapless.sync.connect(servers) as bus, bus.subscribe(SPACE) as sub:
        status, out, err = _publish(capsys, servers, "--from", str(path), "--json")
        said = json.loads(out)
        assert status == 1 and (said["accepted"], said["refused"], said["unknown"]) == (2, 7, 0)
        bad = [f"{path} line {number}" for number in (2, 3, 5, 6, 7, 8, 9)]
        assert sorted(line.split(": ")[1] for line in err) == bad
        assert _arrived(sub) == [({"price": 2.0, "loc": "NY"}, b"text"), ({"yes": True}, b"\x00\x01")]


def test_from_csv(tmp_path: Path, capsys: Output) -> None:
    """CSV is published with types, dates and times as UTC; a line of another shape is named, the rest accepted."""
    path = tmp_path / "quotes.csv"
    path.write_text(
        "sym,price,n,day,when,note\n"
        "A,1,1,2024-01-01,2024-01-01 12:00:00,first\n"
        "B,2\n"
        '"C\n",3.5,,2024-01-03,2024-01-03T12:00:00.5,second\n'
    )
    with served(space=TYPES) as servers, gapless.sync.connect(servers) as bus, bus.subscribe(SPACE) as sub:
        status, out, err = _publish(capsys, servers, "--from", str(path), "--body-column", "note")
        assert status == 1 and err == [f"gapless publish: {path} line 3: 2 columns instead of 6"]
        assert out.startswith("accepted 2 publications") and out.endswith(", 1 refused\n")
        (one, body), (two, _) = _arrived(sub)
        assert (one["sym"], one["price"], one["n"], body) == ("A", 1.0, 1, b"first") and type(one["price"]) is float
        assert str(one["day"]) == "2024-01-01 00:00:00+00:00" and str(two["when"]) == "2024-01-03 12:00:00.500000+00:00"
        assert two["sym"] == "C\n" and "n" not in two


def test_from_parquet(tmp_path: Path, capsys: Output) -> None:
    """Parquet is streamed by columns; a rate is kept."""
    path = tmp_path / "quotes.parquet"
    table = pa.table({"n": range(50_000), "price": [0.5] * 50_000, "body": [b"x"] * 50_000})
    pyarrow.parquet.write_table(table, path)
    with served() as servers, gapless.sync.connect(servers) as bus, bus.subscribe(SPACE, "n >= 0") as sub:
        counted: list[int] = []

        def count() -> None:
            while sum(counted) < 50_000:
                counted.append(len(sub.some(deadline=10)))

        counting = threading.Thread(target=count)
        counting.start()
        status, out, err = _publish(capsys, servers, "--from", str(path))
        assert (status, err) == (0, []) and out.startswith("accepted 50,000 publications")
        counting.join(20)
        assert sum(counted) == 50_000
        pyarrow.parquet.write_table(table.slice(0, 10), path)
        _, out, _ = _publish(capsys, servers, "--from", str(path), "--rate", "40", "--json")
        assert 0.15 < json.loads(out)["seconds"] < 5
        status, _, err = _publish(capsys, servers, "--from", str(path), "--body-column", "text")
        assert status == 2 and f"{path} has no column 'text' for the body; there are n, price, body" in err[-1]
        pyarrow.parquet.write_table(pa.table({"n": [[1, 2]]}), path)
        status, _, err = _publish(capsys, servers, "--from", str(path))
        assert status == 2 and err[-1].startswith(f"gapless publish: {path}: column 'n' has the Arrow type list")
        pyarrow.parquet.write_table(pa.table({"x": ["y" * 70_000, "y"]}), path)
        status, _, err = _publish(capsys, servers, "--from", str(path))
        assert status == 1 and [line.split(": ")[1] for line in err] == [f"{path} row 1"]


def _shell(*arguments: str, **more: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gapless.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,  # type: ignore[call-overload]  # whatever a process may be given
    )


def _until_subscribed(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    assert process.stderr.readline() == "subscribed at b0\n"


def test_a_pipe_from_subscribe_to_publish(tmp_path: Path) -> None:
    """What `subscribe --json` prints, `publish --from -` takes as it comes; both end as they should."""
    with served(space="\n[[space]]\nname = 'copy'\ndelivery = 'direct'\n") as servers:
        journals = tmp_path / "journals"
        source = _shell("subscribe", servers[0], SPACE, "n > 0", "--json", "--count", "3", "--journal", str(journals))
        _until_subscribed(source)
        copy = _shell("publish", servers[0], "copy", "--from", "-", stdin=source.stdout)
        with gapless.sync.connect(servers) as bus, bus.subscribe("copy") as sub:
            for n, body in enumerate((b"", b"text", "naïve".encode(), b"\xff"), 0):
                bus.publish(SPACE, {"n": n, "s": "a\nb"}, body)
                if n:
                    publication = sub.next(deadline=10)
                    assert (publication.attributes, publication.body) == ({"n": n, "s": "a\nb"}, body)
        assert source.wait(10) == 0 and copy.wait(10) == 0
        assert copy.stdout is not None and copy.stdout.read().startswith("accepted 3 publications")
        assert [event.event.value for event in events_of(journals)].count("delivered") == 3
        for process in (source, copy):
            process.communicate()


def test_ctrl_c_ends_subscribe_well() -> None:
    """Ctrl-C ends `subscribe` with status 0, what had come printed, whatever reads its output."""
    with served() as servers, gapless.sync.connect(servers) as bus:
        process = _shell("subscribe", servers[0], SPACE, "--filter", "n = 1", "--topic", "a/+")
        _until_subscribed(process)
        bus.publish(SPACE, {"n": 1, "topic": "a/b", "price": 4.5, "yes": True}, b"hello")
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.split(" ", 1)[1].split(" ", 1)[1] == "1  n=1 topic='a/b' price=4.5 yes=true  hello\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
        assert (process.returncode, out, err) == (0, "", "")
        reader, writer = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-m", "gapless.cli.main", "subscribe", servers[0], SPACE],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(writer)
        _until_subscribed(process)
        os.close(reader)
        bus.publish(SPACE, {})
        _, err = process.communicate(timeout=10)
        assert (process.returncode, err) == (0, "")


def test_ctrl_c_before_it_was_subscribed() -> None:
    """Ctrl-C ends a `subscribe` that never reached a server with the status of what was interrupted."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = _shell("subscribe", f"127.0.0.1:{silent.getsockname()[1]}", SPACE)
        with silent.accept()[0]:
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=10) == ("", "")
        assert process.returncode == 130


def test_for_ends_in_a_busy_space() -> None:
    """`--for` ends `subscribe` although there is always something more to print."""
    endless = SimpleNamespace(some=lambda deadline: [])
    arguments = argparse.Namespace(json=False, seconds=0.2, count=None)
    started = time.monotonic()
    assert subscribe._print_all(endless, arguments, SimpleNamespace(look=lambda: None)) == 0  # type: ignore[arg-type]  # what it uses of them
    assert 0.2 <= time.monotonic() - started < 5


def test_what_json_cannot_show_survives(capsys: Output) -> None:
    """Times and numbers without end come out of `subscribe --json` as JSON, and go in again as what they were."""
    when = datetime(2024, 1, 31, 12, 0, 0, 5, UTC)
    row = {"when": when, "up": inf, "down": -inf, "no": nan, "one": 1.0, "big": 1e300, "n": 1 << 60, "s": "inf"}
    with served() as servers, gapless.sync.connect(servers) as bus, bus.subscribe(SPACE) as sub:
        process = _shell("subscribe", servers[0], SPACE, "--json", "--count", "1")
        _until_subscribed(process)
        bus.publish(SPACE, row)
        line, _ = process.communicate(timeout=10)
        json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
        copy = _shell("publish", servers[0], SPACE, "--from", "-", stdin=subprocess.PIPE)
        _, err = copy.communicate(line + '{"attributes": {}, "types": {"a": "date"}}\n{"y": 1e400}\n', timeout=10)
        assert "standard input line 2: its `types` do not name types" in err and "line 3: this cannot be read" in err
        (first, _), (second, _) = _arrived(sub)
        assert repr(first) == repr(second) and second["when"] == when and second["down"] == -inf


def test_subscribe_ends(capsys: Output) -> None:
    """`--for` ends it well, unless fewer came than `--count` asked for; no server is status 1, wrong use 2."""
    cases: list[tuple[list[str], int, str]] = [
        (["--for", "0.1"], 0, "subscribed at b0"),
        (["--for", "0.1", "--count", "2"], 1, "2 of 2 did not come within 0.1 s"),
        (["price >"], 2, "column 8"),
        (["a = 1", "--filter", "a = 1"], 2, "there are two filters"),
        (["--count", "0"], 2, "argument --count: '0' will not do: give a whole number, 1 or more"),
    ]
    with served() as servers:
        for arguments, status, says in cases:
            assert main(["subscribe", servers[0], SPACE, *arguments]) == status, arguments
            assert says in capsys.readouterr().err
        assert main(["subscribe", servers[0], "nope"]) == 2
    assert main(["subscribe", servers[0], SPACE, "--connect-deadline", "0.1"]) == 1
    assert main(["subscribe", "no address", SPACE]) == 2
    assert "the name of a configuration file will do as well" in capsys.readouterr().err


def test_servers_from_a_configuration(tmp_path: Path, capsys: Output) -> None:
    """A configuration file in place of servers means all its brokers."""
    with served() as servers:
        path = tmp_path / "cluster.toml"
        brokers = "".join(
            f'[[broker]]\nid = "b{n}"\nlisten = "{server}"\n' + ('parent = "b0"\n' if n else "")
            for n, server in enumerate(("127.0.0.1:1", *servers))
        )
        path.write_text(f'[cluster]\nname = "demo"\n{brokers}[[space]]\nname = "{SPACE}"\ndelivery = "direct"\n')
        assert main(["publish", str(path), SPACE, "a=1"]) == 0
        capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "status", "printed"),
    [
        (["price > 3", "--on", '{"price": 4}'], 0, "true\n"),
        (["price > 3", "--on", '{"price": 3}'], 0, "false\n"),
        (["price > 3", "--on", "{}"], 0, "unknown\n"),
        (["NOT (3 < price)", "--explain"], 0, "normal form: "),
        (["a = 1 AND b = 2", "--explain", "--on", '{"a": 1, "b": 2}'], 0, "attributes:  a, b\ntrue\n"),
        (["price >", "--on", "{}"], 2, "column 8"),
        (["price > 3"], 2, "give --on"),
        (["price > 3", "--on", "{"], 2, "not JSON"),
        (["price > 3", "--on", "[]"], 2, "not a JSON object"),
        (["price > 3", "--on", '{"a": [1]}'], 2, "'a' is [1]"),
    ],
)
def test_filter(arguments: list[str], status: int, printed: str, capsys: Output) -> None:
    """`filter` prints what a filter makes of attributes; what is wrong is a sentence and status 2."""
    assert main(["filter", *arguments]) == status
    output = capsys.readouterr()
    assert printed in (output.out if status == 0 else output.err)
