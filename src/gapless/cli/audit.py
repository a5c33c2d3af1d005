"""`gapless audit`: judge the journals of a run with Spark."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

EXAMPLE = """\
examples:
  gapless audit ./journals
  gapless audit ./journals --json --report ./verdict

Exit status: 0 every promise was kept, 1 one was broken, 2 wrong use."""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "audit",
        help="judge journals on Spark",
        description="Read the journals that brokers and clients wrote (`--journal`, `connect(journal=…)`), as NDJSON "
        "or Parquet, and judge no-invention, no-duplicate and publisher-order, and all-delivered where nothing "
        "failed, with Spark in local mode.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("journals", metavar="JOURNALS", type=Path, nargs="+", help="files, or folders of them")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.add_argument("--report", metavar="DIR", type=Path, help="also write verdict.json and verdict.txt there")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Judge and print."""
    if importlib.util.find_spec("pyspark") is None:
        print("gapless audit: Spark is not installed; install it with: pip install 'gapless[spark]'", file=sys.stderr)
        return 2
    from gapless.spark.audit import audit
    from gapless.spark.audit.errors import JournalError
    from gapless.spark.session import interruptible

    try:
        verdict = interruptible(lambda: audit(arguments.journals, report=arguments.report))
    except JournalError as error:
        print(f"gapless audit: {error}", file=sys.stderr)
        return 2
    print(verdict.to_json() if arguments.json else verdict.render())
    return 0 if verdict.kept else 1
