"""Commands with a mutant in place: `python -O -m gapless.cli.mutated DELIVERY MUTANT COMMAND ...`.

A mutant must be in place before the cores are imported, so it gets a process of its own, without asserts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys


def run_mutated(arguments: argparse.Namespace, delivery: str, *positional: str) -> int:
    """Run the same command in a process with the mutant that it names; its exit status."""
    from gapless.sim.mutants import mutant_named

    mutant = mutant_named(delivery, arguments.mutant).name
    words = [arguments.command, *(str(getattr(arguments, name)) for name in positional)]
    for name, value in vars(arguments).items():
        if name in ("command", "mutant", "run", *positional) or value in (None, False):
            continue
        words.append(f"--{name.replace('_', '-')}")
        words += [] if value is True else [str(value)]
    command = [sys.executable, "-O", "-m", "gapless.cli.mutated", delivery, mutant]
    return subprocess.run([*command, *words], check=False).returncode


def _main(delivery: str, mutant: str, words: list[str]) -> int:
    from gapless.sim.mutants import become, mutant_named

    become(mutant_named(delivery, mutant))
    from gapless.cli.main import main  # behind the mutant, as whatever it imports must be

    return main(words)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1], sys.argv[2], sys.argv[3:]))
