"""A configuration to begin with, as text that a person would like to read and change."""

from __future__ import annotations

from collections.abc import Callable

from gapless.model.errors import ConfigError

# Health and metrics of each broker are this far above the port it listens on.
HTTP_PORT_ABOVE = 1000

# Of each shape: whom broker number n > 0 hangs on, and the shape in words.
SHAPES: dict[str, tuple[Callable[[int], int], str]] = {
    "chain": (lambda number: number - 1, "each broker hangs on the one before it"),
    "star": (lambda number: 0, "every broker hangs on b0"),
    "tree": (lambda number: (number - 1) // 2, "every broker has up to two below it"),
}

_HEAD = """\
# A Gapless cluster: {count} on this machine{shape}.
# docs/configuration.md describes every key there is.

[cluster]
name = "demo"
data = "./data"                # brokers keep their files below here
"""

_BROKER = """
[[broker]]
id = "{id}"
listen = "127.0.0.1:{port}"      # clients and other brokers connect here
http = "127.0.0.1:{http}"        # /healthz, /metrics and /status
"""

_SPACE = """
[[space]]
name = "quotes"
delivery = "direct"            # at most once, along the tree, nothing stored
# attributes = { symbol = "string", price = "float64" }   # declare types and they are enforced
"""


def default_config(brokers: int, shape: str = "chain", base_port: int = 7400) -> str:
    """The text of a cluster.toml with this many brokers on loopback: b0 listens at the base port, b1 at the next."""
    if shape not in SHAPES:
        raise ConfigError(f'there is no shape "{shape}"; there are {", ".join(SHAPES)}')
    if not 1 <= brokers <= HTTP_PORT_ABOVE:
        raise ConfigError(f"a cluster of {brokers} brokers cannot be made; ask for 1 to {HTTP_PORT_ABOVE}")
    highest = 65535 - HTTP_PORT_ABOVE - (brokers - 1)
    if not 1 <= base_port <= highest:
        raise ConfigError(f"{brokers} brokers do not fit from port {base_port} on; begin between 1 and {highest}")
    parent_of, words = SHAPES[shape]
    count = "1 broker" if brokers == 1 else f"{brokers} brokers"
    parts = [_HEAD.format(count=count, shape="" if brokers == 1 else f"; {words}")]
    for number in range(brokers):
        port = base_port + number
        broker = _BROKER.format(id=f"b{number}", port=port, http=port + HTTP_PORT_ABOVE)
        if number > 0:
            broker += f'parent = "b{parent_of(number)}"\n'
        # Said once is enough; the other brokers look the same.
        parts.append(broker if number == 0 else "\n".join(line.split("  ")[0] for line in broker.split("\n")))
    parts.append(_SPACE)
    return "".join(parts)
