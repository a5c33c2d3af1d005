"""What the operating system says of addresses, in the words of people."""

from __future__ import annotations

import os
import socket


def family_of(host: str) -> int:
    """The kind of address to listen on."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def cause_of(error: OSError) -> str:
    """Why a connection or an address could not be had, without the rest that event loops add in their own ways."""
    if isinstance(error, TimeoutError):
        return "no answer"
    said = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
    return said.lower() or "unknown error"
