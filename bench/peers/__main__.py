"""`make bench-peers`: Gapless and its peers on this machine, interleaved, in one run."""

from __future__ import annotations

import argparse
import json
import platform
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from bench.peers.clients import WINDOW
from bench.peers.compare import cpu_sentence, doubt, objections, rounds_of, summary, unrest, verdict, who_decides
from bench.peers.contract import Contender, Form
from bench.peers.measure import FIXED_RATE, Broken, measure
from bench.peers.registry import CONTENDERS, OURS, chosen
from bench.peers.report import show
from bench.peers.servers import CannotStart, find, install, version
from gapless.cli.benches.limits import measure_limits

REPORT_WIDTH = 140
Samples = dict[str, list[dict[str, Any]]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure who can be had and say who cannot; 1 when one that is here could not be measured."""
    options = _parser().parse_args(arguments)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = REPORT_WIDTH
    wanted = chosen(options.only)
    if not wanted:
        names = "; ".join(one.name for one in CONTENDERS)
        print(f"bench-peers: nobody's name has {options.only!r} in it; there are: {names}", file=sys.stderr)
        return 2
    if not Path("/proc/self/stat").exists():
        print("bench-peers: the CPU of every process is read from Linux's /proc: run it there", file=sys.stderr)
        return 2
    absent = install(one.program for one in wanted)
    present = [one for one in wanted if find(one.program)]
    console.print(f"measuring {'; '.join(one.name for one in present)}: {options.pairs} rounds")
    limits = measure_limits(min(options.seconds, 2.0))
    samples, failures = measure_rounds(console, present, options.pairs, options.seconds)
    results = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "seconds": options.seconds,
        "pairs": options.pairs,
        "window": WINDOW,
        "fixed_rate": FIXED_RATE,
        "limits": limits,
        "contenders": [_line(one, samples[one.name]) for one in present if samples[one.name]],
        "verdicts": verdicts(present, samples),
        "absent": [
            f"{one.name} is not measured: {absent[one.program.package]}" for one in wanted if one not in present
        ],
        "failures": failures,
        "unrest": unrest([sample for taken in samples.values() for sample in taken]),
    }
    show(console, results)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(_named(results), indent=2) + "\n")
        console.print(f"written to {options.json}")
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description="Measure Gapless and its peers, one publisher to one subscriber, interleaved, on this machine.",
        epilog="example:\n  python -m bench.peers --seconds 2 --pairs 2 --only nats",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=_positive, default=6.0, help="of each measurement (default: 6)")
    parser.add_argument("--pairs", type=_count, default=5, help="rounds, everybody once in each (default: 5)")
    parser.add_argument("--only", default="", help="only those whose name has one of these words, and Gapless")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything to this file")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 86_400:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of rounds from 1")
    return value


def _end(number: int, frame: object) -> NoReturn:
    """Leave as after Ctrl-C, so that every server is stopped on the way out."""
    sys.exit(128 + number)


def measure_rounds(
    console: Console, contenders: Sequence[Contender], pairs: int, seconds: float
) -> tuple[Samples, list[str]]:
    """Everybody's samples by name, and a sentence for each that failed; who failed once is left out from then on."""
    samples: Samples = {one.name: [] for one in contenders}
    failures: list[str] = []
    failed: list[Contender] = []
    for number, turn in enumerate(rounds_of(contenders, pairs), 1):
        for one in turn:
            if one in failed:
                continue
            try:
                sample = measure(one, seconds)
            except (Broken, CannotStart, OSError) as error:
                failed.append(one)
                failures.append(f"{one.name} could not be measured: {error}")
                continue
            samples[one.name].append(sample)
            remark = f" ({'; '.join(sample['faults'])})" if sample["faults"] else ""
            console.print(f"  {number}/{pairs} {one.name}: {sample['rate']:,.0f}/s{remark}")
    return samples, failures


def verdicts(contenders: Sequence[Contender], samples: Samples) -> list[str]:
    """What the rounds decide between Gapless and each that promises the same and is used in the same way."""
    said = []
    ours = samples.get(OURS.name, [])
    for other in contenders:
        theirs = samples[other.name]
        if other.program == OURS.program or not ours or not theirs:
            continue
        if other.promises.kind != OURS.promises.kind or other.form is not Form.SINGLES:
            said.append(f"{other.name} promises something else than {OURS.name}: nothing is compared.")
            continue
        ratios = [a["rate"] / b["rate"] for a, b in zip(ours, theirs, strict=False)]
        said.append(verdict(OURS.name, other.name, ratios, doubt(ours, theirs)))
        said.append(cpu_sentence(OURS.name, other.name, ours, theirs))
    return said


def _line(one: Contender, samples: list[dict[str, Any]]) -> dict[str, Any]:
    found = summary(samples)
    return {
        "name": one.name,
        "form": one.form.value,
        "versions": f"{one.program.package or 'gapless'} {version(one.program)}, "
        f"client {one.library} {metadata.version(one.library)}",
        "promises": one.promises.words(),
        **found,
        "full": who_decides(found),
        "objections": objections(found),
        "samples": samples,
    }


def _named(value: Any) -> Any:
    """Named tuples as tables, so that the file says which figure is the median."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, dict):
        return {key: _named(inner) for key, inner in value.items()}
    return [_named(inner) for inner in value] if isinstance(value, list) else value


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
