"""Servers of peers: found or installed, started on a free port, their data in a folder of their own, and stopped."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.peers.contract import Program
from gapless.cli.benches.processes import free_ports

START_S = 20.0
STOP_S = 5.0
APT_S = 600.0
SYSTEM_PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin")  # what a user's PATH may leave out
LAUNCH = Path(__file__).with_name("launch.py")
TICKS_S = os.sysconf("SC_CLK_TCK")


class CannotStart(Exception):
    """A server did not come up; a sentence."""


def find(program: Program) -> str | None:
    """The path of its binary, if it is here."""
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_PLACES])
    return shutil.which(program.binary, path=places)


def install(programs: Iterable[Program]) -> dict[str, str]:
    """Fetch what is missing through Debian's packages; for each package that cannot be had, a sentence saying why."""
    absent: dict[str, str] = {}
    for package in dict.fromkeys(program.package for program in programs if find(program) is None):
        why = _apt_install(package)
        if why:
            absent[package] = f"{why}: install Debian's package {package}, or put its program on the PATH."
    return absent


def _apt_install(package: str) -> str:
    """Empty when it is installed; else why not."""
    if not shutil.which("apt-get"):
        return "it is not installed and this machine has no apt-get"
    rights = _rights()
    if rights is None:
        return "it is not installed, and installing takes root or a sudo that asks for no password"
    apt = [*rights, "apt-get", "-q", "-y", "--no-install-recommends"]
    print(f"bench-peers: installing {package}, which Debian may also start as a service of its own", flush=True)
    # A fresh machine has no lists of packages: the second try fetches them first.
    for command in ([*apt, "install", package], [*apt, "update"], [*apt, "install", package]):
        try:
            done = subprocess.run(
                command,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=APT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"apt-get did not end within {APT_S:.0f} s"
        if command[-1] == package and done.returncode == 0:
            return ""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return f"apt-get could not install it ({lines[-1] if lines else 'it gave no reason'})"


def _rights() -> list[str] | None:
    """What makes a command run as root: nothing for root, sudo where it asks for no password; None if neither."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo and subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode == 0:
        return [sudo, "-n"]
    return None


def version(program: Program) -> str:
    """What its program says, cut down to the number."""
    binary = find(program)
    if binary is None:
        return "unknown"
    said = subprocess.run([binary, *program.version], capture_output=True, text=True, timeout=START_S, check=False)
    number = re.search(r"\d+(\.\d+)+\S*", said.stdout + said.stderr)
    return number.group() if number else "unknown"


def cpu_s(pid: int) -> float:
    """Seconds of CPU a process has used in all its threads, in itself and in the kernel for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_S


def busy_s() -> float:
    """Seconds of CPU that anybody has used on the cores this process may run on."""
    cores = [f"cpu{core}" for core in sorted(os.sched_getaffinity(0))]
    lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    # user, nice, system, idle, iowait, irq, softirq, steal: all but the two that are waiting
    return sum(sum(map(int, (*line[1:4], *line[6:9]))) for line in lines if line[0] in cores) / TICKS_S


class Server:
    """A running server."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, output: Path) -> None:
        self.pid = process.pid
        self.port = port
        self._process = process
        self._output = output

    def await_ready(self) -> None:
        """Until somebody answers at its port."""
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise CannotStart(f"the server ended at once: {self._last_words()}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
                return
            time.sleep(0.02)
        raise CannotStart(f"the server did not listen within {START_S:.0f} s: {self._last_words()}")

    def stop(self) -> None:
        """End it: by asking, then by force."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _last_words(self) -> str:
        lines = [line for line in self._output.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"


@contextlib.contextmanager
def running(program: Program, core: int) -> Iterator[Server]:
    """The server, ready, on this core; gone with its data afterwards, whatever happens in between."""
    binary = find(program)
    if binary is None:
        raise CannotStart(f"{program.binary} is not here")
    with tempfile.TemporaryDirectory(prefix="gapless-peers-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (port,) = free_ports(1)
        output = folder / "output"
        command = program.command(binary, folder, port)
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-I", str(LAUNCH), str(core), str(os.getpid()), *command],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is ours to handle: clients leave first
            )
        server = Server(process, port, output)
        try:
            server.await_ready()
            yield server
        finally:
            server.stop()
