"""Where servers are: `gapless://HOST:PORT[,HOST:PORT…]`, or a list of `HOST:PORT`."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.model.errors import ConfigError

SCHEME = "gapless://"
Address = tuple[str, int]


def parse_servers(servers: str | Sequence[str]) -> tuple[Address, ...]:
    """The addresses in a text or list; raises ConfigError."""
    parts = servers.removeprefix(SCHEME).split(",") if isinstance(servers, str) else list(servers)
    addresses = [_parse_one(part.removeprefix(SCHEME).strip()) for part in parts if part.strip()]
    if not addresses:
        raise ConfigError("no server is named: give at least one as HOST:PORT, for example 127.0.0.1:7400")
    return tuple(dict.fromkeys(addresses))


def _parse_one(text: str) -> Address:
    scheme, has_scheme, _ = text.partition("://")
    if has_scheme:
        raise ConfigError(
            f"{text!r} has the scheme {scheme}://, and brokers are reached by {SCHEME} only: write {SCHEME}HOST:PORT, "
            "with the port of `listen`, or HOST:PORT alone"
        )
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or "/" in host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"{text!r} is not the address of a server: write HOST:PORT, for example 127.0.0.1:7400")
    try:
        resolvable = host.isprintable() and bool(host.encode("idna"))
    except UnicodeError:
        resolvable = False
    if not resolvable:
        raise ConfigError(f"{text!r} is not the address of a server: {host!r} cannot name a host; write HOST:PORT")
    return host, int(port)


def shown(address: Address) -> str:
    """The address as a person writes it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
