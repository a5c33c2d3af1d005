"""What is said about peers: who they are, what the subscriber notices, what rounds decide, why one cannot be had."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.peers import servers
from bench.peers.compare import (
    cpu_sentence,
    doubt,
    middle,
    objections,
    rounds_of,
    summary,
    unrest,
    verdict,
    who_decides,
)
from bench.peers.contract import Form, Program
from bench.peers.load import Tally, decode, payload, subject
from bench.peers.measure import faults
from bench.peers.registry import CONTENDERS, OURS, chosen
from gapless.cli.benches.load import Load
from gapless.model.arrow import batch_of_table
from gapless.model.batch import Batch
from gapless.model.types import Source


def test_names_tell_contenders_apart() -> None:
    """Nobody shares a name, we are among them, and everybody says what is promised."""
    names = [one.name for one in CONTENDERS]
    assert len(names) == len({*names}) and OURS in CONTENDERS
    for one in CONTENDERS:
        assert one.promises.words().count(";") == 2 and "flushed" in one.promises.words()
        assert one.program.package or one.program == OURS.program


def test_whoever_is_chosen_is_measured_beside_us() -> None:
    """One word chooses all whose name has it, and what they are compared with; none chooses nobody."""
    assert [one.name for one in chosen("mosquitto")] == [OURS.name, "Mosquitto, QoS 0"]
    assert len(chosen("jetstream, NATS")) == 3
    assert chosen("") == CONTENDERS
    assert chosen("nobody") == ()


@pytest.mark.parametrize("name", ["nats-server", "mosquitto"])
def test_a_server_listens_where_it_is_told(name: str, tmp_path: Path) -> None:
    """The configuration that is written names the port, loopback alone, and nothing outside the folder."""
    program = next(one.program for one in CONTENDERS if one.program.binary == name)
    command = program.command("/there", tmp_path, 12345)
    config = Path(command[-1])
    assert command[0] == "/there" and config.parent == tmp_path
    text = config.read_text()
    assert "12345" in text and "127.0.0.1" in text
    assert "store_dir" not in text or str(tmp_path) in text


def _publications(count: int) -> list[tuple[int, dict[str, Any], bytes]]:
    made = Load(16, seed=1).singles()
    return [(seq, *next(made)) for seq in range(1, count + 1)]


def test_attributes_travel_in_subject_and_payload() -> None:
    """Nothing of a publication is lost between the two."""
    for seq, row, body in _publications(5):
        where = subject(row, ".")
        assert where == f"quotes.{row['loc']}.{row['sym']}"
        assert decode(payload(seq, row, body)) == (seq, row["price"], row["vol"], body)


def test_a_whole_run_leaves_nothing_to_say() -> None:
    """What comes in order and unchanged is counted and that is all."""
    tally = Tally()
    tally.forget_latencies()
    for seq, row, body in _publications(20):
        tally.take(seq, row["price"], body)
    assert (tally.count, tally.lost, tally.repeated, tally.changed) == (20, 0, 0, 0)
    late = tally.latencies_ms()
    assert 0 < late["p50"] <= late["p99.9"]
    tally.forget_latencies()
    assert tally.latencies_ms() == {}


def test_what_is_missing_or_comes_again_is_noticed() -> None:
    """Seqs that are skipped are lost; seqs that come again are repeated."""
    tally = Tally()
    for seq, row, body in _publications(9):
        if seq not in (3, 4, 7):
            tally.take(seq, row["price"], body)
    seq, row, body = _publications(5)[-1]
    tally.take(seq, row["price"], body)
    assert (tally.count, tally.lost, tally.repeated) == (7, 3, 1)


@pytest.mark.parametrize("at", [0, 5, 99])
def test_one_bit_of_a_body_is_noticed(at: int) -> None:
    """Whichever byte it is in."""
    ((seq, row, body),) = _publications(1)
    tally = Tally()
    tally.take(seq, row["price"], body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
    assert tally.changed == 1


def test_another_attribute_or_length_is_noticed() -> None:
    """A price that is no float any more and a body cut short are changes as well."""
    ((seq, row, body),) = _publications(1)
    tally = Tally()
    tally.take(seq, str(row["price"]), body)
    tally.take(seq + 1, row["price"], body[:-1])
    assert (tally.count, tally.changed) == (2, 2)


def test_batches_are_checked_as_well() -> None:
    """What is missing between batches, what comes again and what was changed."""
    table = next(Load(16, seed=1).tables())
    tally = Tally()
    for first in (1, 20, 20):
        tally.take_batch(batch_of_table(Source("p", 1), first, table))
    assert (tally.count, tally.lost, tally.repeated, tally.changed) == (48, 3, 16, 0)
    data = bytearray(batch_of_table(Source("p", 1), 36, table).encode())
    data[-50] ^= 1
    tally.take_batch(Batch(bytes(data)))
    assert tally.changed == 16


def test_the_median_comes_with_its_spread() -> None:
    """One bad round moves the spread and not the median."""
    assert middle([3, 1, 2, 40, 2.5]) == (2.5, 1, 40)


def test_rounds_go_to_and_fro() -> None:
    """Everybody has a turn in every round, and nobody is always the first."""
    first, second, third = rounds_of(CONTENDERS, 3)
    assert first == third == list(CONTENDERS)
    assert second == first[::-1]


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ([3.0, 2.6, 2.9], "a and b: decided; a had 2.9 times as many publications a second (2.6 to 3.0 in 3 pairs)."),
        ([0.25, 0.2, 0.5], "b and a: decided; b had 4.0 times as many publications a second (2.0 to 5.0 in 3 pairs)."),
        (
            [1.9, 1.8, 1.99],
            "a and b: nothing is decided; a had 1.9 times as many publications a second (1.8 to 2.0 in 3 pairs), "
            "and a factor below 2 says nothing between systems.",
        ),
        (
            [3.0, 0.9, 2.5],
            "a and b: nothing is decided; a had 2.5 times as many publications a second (0.9 to 3.0 in 3 pairs), "
            "and the pairs disagree.",
        ),
    ],
)
def test_verdicts_are_words(ratios: list[float], words: str) -> None:
    """Below a factor of two nothing is decided, nor where the pairs disagree."""
    assert verdict("a", "b", ratios) == words


def _sample(**more: Any) -> dict[str, Any]:
    late = {"rate": 2000.0, "p50": 0.1, "p99": 1.0, "p99.9": 2.0}
    return {
        "rate": 1000.0,
        "cpu_us": {"server": 1.0, "publisher": 2.0, "subscriber": 3.0},
        "server_core": 0.2,
        "client_core": 0.95,
        "others": 0.05,
        "at_80_percent": late,
        "at_fixed_rate": late,
        "sent": 5000,
        "lost": 0,
        "repeated": 0,
        "changed": 0,
        **more,
    }


def test_rounds_are_summed_up() -> None:
    """Figures become medians, counts become sums, and it is said whose core was full."""
    found = summary([_sample(), _sample(rate=3000.0, lost=2), _sample(rate=2000.0)])
    assert found["rate"] == (2000.0, 1000.0, 3000.0)
    assert (found["sent"], found["lost"]) == (15000, 2)
    assert found["cpu_us"]["publisher"].median == 2.0
    assert who_decides(found) == "clients"
    assert who_decides(summary([_sample(server_core=0.9)])) == "server and clients"
    assert who_decides(summary([_sample(client_core=0.5)])) == "neither core full"


def test_what_others_use_is_said() -> None:
    """A busy machine is named with how busy it was, a quiet one is not."""
    assert unrest([_sample()]) == "" == unrest([])
    said = unrest([_sample(), _sample(others=0.5), _sample(others=0.9)])
    assert "others used 0.50 of the cores meanwhile (up to 0.90)" in said


def test_doubts_keep_a_factor_from_deciding() -> None:
    """Neither a rate that does not count nor a busy machine decides anything, however large the factor."""
    quiet, lossy, busy = _sample(), _sample(lost=1), _sample(others=0.9)
    assert doubt([quiet], [quiet]) == ""
    assert doubt([quiet], [lossy]) == doubt([lossy], [quiet]) == "not both rates count"
    assert doubt([busy], [busy]) == "this was no quiet run"
    said = verdict("a", "b", [9.0, 9.0], "this was no quiet run")
    assert said.startswith("a and b: nothing is decided; a had 9.0 times") and said.endswith("this was no quiet run.")


def test_what_a_publication_costs_is_compared() -> None:
    """The CPU of all processes together stands beside the rates."""
    dear = _sample(cpu_us={"server": 4.0, "publisher": 4.0, "subscriber": 4.0})
    said = cpu_sentence("a", "b", [_sample()], [dear])
    assert said == "  CPU of all processes: 6.0 µs a publication with a, 12.0 µs with b, 2.0 times that."


def test_a_rate_counts_only_if_nothing_speaks_against_it() -> None:
    """Losing, repeating, changing and being late each do."""
    assert objections(summary([_sample()])) == [] == faults(_sample())
    late = {"rate": 800.0, "p50": 10.0, "p99": 51.0, "p99.9": 60.0}
    said = objections(summary([_sample(lost=1, repeated=2, changed=3, at_80_percent=late)]))
    assert said == ["1 lost", "2 repeated", "3 changed", "p99 at 80% of it is 51 ms"]
    slow = {"rate": 1800.0, "p50": 0.1, "p99": 1.0, "p99.9": 2.0}
    assert faults(_sample(lost=1, at_80_percent=late, at_fixed_rate=slow)) == [
        "1 lost",
        "p99 51 ms at 80%",
        "only 1,800/s of 2,000/s reached",
    ]


def _program(name: str) -> Program:
    return Program(name, f"{name}-package", (), lambda binary, folder, port: [])


def test_without_apt_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each missing package has its sentence, once, and what is here has none."""
    monkeypatch.setattr(servers.shutil, "which", lambda name, path="": "/there" if name == "here" else None)
    absent = servers.install([_program("here"), _program("a"), _program("b"), _program("a")])
    assert list(absent) == ["a-package", "b-package"]
    assert "this machine has no apt-get" in absent["a-package"]
    assert "install Debian's package a-package" in absent["a-package"]


def test_without_rights_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither root nor a sudo without password: that is said instead of asking for one."""
    monkeypatch.setattr(servers.shutil, "which", lambda name, path="": "/apt-get" if name == "apt-get" else None)
    monkeypatch.setattr(servers.os, "geteuid", lambda: 1000)
    assert "takes root or a sudo that asks for no password" in servers.install([_program("a")])["a-package"]


def test_what_apt_says_last_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that apt does not have is tried once more with new lists, and the next one is tried all the same."""
    ran: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        failed = command[-1] == "a-package"
        return subprocess.CompletedProcess(command, int(failed), "", "E: nothing\nE: Unable to locate\n")

    monkeypatch.setattr(servers.shutil, "which", lambda name, path="": "/apt-get" if name == "apt-get" else None)
    monkeypatch.setattr(servers.os, "geteuid", lambda: 0)
    monkeypatch.setattr(servers.subprocess, "run", run)
    absent = servers.install([_program("a"), _program("b")])
    assert [command[-1] for command in ran] == ["a-package", "update", "a-package", "b-package"]
    assert list(absent) == ["a-package"] and "E: Unable to locate" in absent["a-package"]


def test_only_what_is_handed_in_alike_is_compared() -> None:
    """We are compared one at a time; our batches are a line beside it."""
    assert OURS.form is Form.SINGLES
    assert [one.name for one in CONTENDERS if one.form is Form.TABLES] == ["Gapless direct, batches from Arrow"]
