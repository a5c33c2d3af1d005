"""Who may talk to a broker: what a peer says of itself is looked at before anything else it says."""

from __future__ import annotations

from gapless.delivery.port import Role
from gapless.model.errors import ConfigError, Refused, Unreachable
from gapless.node.config import ClusterConfig
from gapless.node.control import Hello, Welcome

NODE_CHARACTERS_MAX = 255


class Doorkeeper:
    """Knows the cluster, and one broker's place in it."""

    def __init__(self, config: ClusterConfig, me: str) -> None:
        self.config = config
        self.me = me
        self.brokers = [broker.id for broker in config.brokers]
        self.children = [broker.id for broker in config.brokers if broker.parent == me]

    def check_hello(self, hello: Hello) -> None:
        """Raise unless who dialled us may: a client with a name of its own, or a broker that hangs on this one."""
        self._check_cluster(hello.cluster)
        node = hello.node
        if not node or len(node) > NODE_CHARACTERS_MAX or not node.isprintable():
            raise ConfigError(f"{node[:40]!r} cannot name a peer: use 1 to {NODE_CHARACTERS_MAX} printable characters")
        if hello.role is Role.CLIENT:
            if node in self.brokers:
                raise ConfigError(f"{node!r} is a broker of this cluster: give the client another name")
            return
        if node not in self.children:
            known = f"those that do are: {', '.join(self.children)}" if self.children else "no broker does"
            raise ConfigError(
                f"broker {node!r} does not hang on {self.me!r} in cluster {self.config.name!r}; {known}: "
                "start every broker with the same configuration"
            )

    def check_welcome(self, welcome: Welcome, expected: str) -> None:
        """Raise unless who answered is the broker that we dialled."""
        self._check_cluster(welcome.cluster)
        if welcome.node != expected:
            raise ConfigError(
                f"{welcome.node!r} answered where broker {expected!r} should be: correct `listen`, or what runs there"
            )

    def check_open(self, draining: bool) -> None:
        """Raise when nobody is let in any more."""
        if draining:
            raise Unreachable(f"broker {self.me!r} is going down: use another server")

    def check_room(self, connections: int, reserved: int = 0) -> None:
        """Raise when there are so many connections beside this one that it is one too many."""
        most = self.config.limits.connections_max + reserved
        if connections >= most:
            raise Refused(f"broker {self.me!r} has {most} connections, the most it takes: use another server")

    def _check_cluster(self, cluster: str) -> None:
        if cluster and cluster != self.config.name:
            raise ConfigError(f"broker {self.me!r} belongs to cluster {self.config.name!r}, not to {cluster[:64]!r}")
