"""Becomes another program, kept on one core, that ends when the one who started it ends, however that ends.

Run by path and with nothing imported from here: `python launch.py CORE PARENT PROGRAM ARGUMENT...`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Pin, tie to the parent, and go over into the program."""
    core, parent, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if hasattr(os, "sched_getaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[core % len(cores)]})
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(1)  # it was gone before the tie was made
    os.execv(program[0], program)


if __name__ == "__main__":
    main()
