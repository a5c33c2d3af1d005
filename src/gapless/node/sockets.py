"""What the operating system says of addresses, in the words of people."""

from __future__ import annotations

import os
import re
import socket

# How asyncio begins what it puts in the place of the operating system's words; the address is in it once more.
ADDED = ("Connect call failed", "error while attempting to bind")


def family_of(host: str) -> int:
    """The kind of address to listen on."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def cause_of(error: OSError | ValueError) -> str:
    """Why a connection or an address could not be had, without the rest that event loops add in their own ways."""
    if isinstance(error, ValueError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "no answer"
    if error.errno and error.errno > 0:
        said = error.strerror or ADDED[0]
        return (os.strerror(error.errno) if said.startswith(ADDED) else said).lower()
    # A name with several addresses fails once for each; event loops put all of them into one text.
    numbers = re.findall(r"\[Errno (\d+)\]", str(error))
    if numbers:
        return ", ".join(dict.fromkeys(os.strerror(int(number)).lower() for number in numbers))
    return (error.strerror or str(error)).lower() or "unknown error"


def is_free(host: str, port: int) -> bool:
    """Whether one could listen there at this moment."""
    with socket.socket(family_of(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
