"""The small worlds that are explored when nobody names another: for any delivery, and each of them to its end."""

from __future__ import annotations

from gapless.delivery.port import Tuning
from gapless.sim.explore.world import Client, SmallWorld

TWO = ("b0", "b1 b0")
THREE = ("b0", "b1 b0", "b2 b1")
ONE_ROOM = Tuning(window_bytes=10)  # one publication fills it
PUBLISH = ("publish p n=1", "publish p n=2")
LATER = ("subscribe late n > 0",)
AGAIN = ("publish q n=3",)


def _there(*steps: str, servers: tuple[str, ...] = ("b1",)) -> Client:
    """A subscriber that is there from the beginning, and another subscription when all is over."""
    return Client(name="c1", servers=servers, first=("subscribe s n > 0",), steps=steps, later=LATER)


def _publisher(*servers: str, steps: tuple[str, ...] = PUBLISH) -> Client:
    """Publishes twice, and again in the end; it stands behind the subscriber, whose later steps are earlier."""
    return Client(name="c2", servers=servers, steps=steps, later=AGAIN)


WORLDS: dict[str, SmallWorld] = {
    "start": SmallWorld(
        about="two brokers and two clients start and connect in any order; one subscribes, the other publishes",
        brokers=TWO,
        cold=True,
        client=(
            Client(name="c1", servers=("b1",), steps=("subscribe s n > 0",)),
            _publisher("b0", steps=PUBLISH[:1]),
        ),
    ),
    "meet": SmallWorld(
        about="three brokers in a row; a client subscribes while another publishes",
        brokers=THREE,
        client=(
            Client(name="c1", servers=("b2",), steps=("subscribe s n > 0",), later=LATER),
            _publisher("b0"),
        ),
    ),
    "share": SmallWorld(
        about="two clients want the same and one of them stops wanting it, while publications fill the room there is",
        brokers=TWO,
        tuning=ONE_ROOM,
        client=(
            _there("unsubscribe s"),
            Client(name="c3", servers=("b1",), first=("subscribe t n > 0",)),
            _publisher("b0"),
        ),
    ),
    "several": SmallWorld(
        about="one client has several subscriptions, and one more comes",
        brokers=TWO,
        client=(
            Client(
                name="c1",
                servers=("b1",),
                first=("subscribe s n > 1", "subscribe t n < 2"),
                steps=("subscribe u n > 0",),
            ),
            _publisher("b0", steps=("publish p n=1; n=2", "publish p n=3")),
        ),
    ),
    "narrow": SmallWorld(
        about="three publications and room for one at a time, both ways",
        brokers=TWO,
        tuning=ONE_ROOM,
        client=(
            _there(),
            Client(name="c3", servers=("b0",), first=("subscribe t n > 0",), steps=("publish r n=1",)),
            Client(name="c2", servers=("b1",), steps=PUBLISH, later=AGAIN),
        ),
    ),
    "crash": SmallWorld(
        about="the broker of the subscriber dies, and comes back",
        brokers=TWO,
        client=(_there(), _publisher("b0")),
        fault=("crash b1",),
    ),
    "crash-near": SmallWorld(
        about="the broker of the publisher dies, and comes back",
        brokers=TWO,
        client=(_there(), _publisher("b0")),
        fault=("crash b0",),
    ),
    "crash-subscriber": SmallWorld(
        about="the subscriber dies, and comes back",
        brokers=TWO,
        client=(_there(), _publisher("b0")),
        fault=("crash c1",),
    ),
    "crash-publisher": SmallWorld(
        about="the publisher dies, and comes back",
        brokers=TWO,
        client=(_there(), _publisher("b0")),
        fault=("crash c2",),
    ),
    "part": SmallWorld(
        about="the session between two brokers, or one with a client, breaks while somebody subscribes",
        brokers=TWO,
        client=(
            Client(name="c1", servers=("b1",), steps=("subscribe s n > 0",), later=LATER),
            _publisher("b0"),
        ),
        fault=("reset b0 b1", "reset c1 b1", "reset c2 b0"),
    ),
    "offer-again": SmallWorld(
        about="the session of a publisher breaks, and it offers again whatever has ended unknown",
        brokers=TWO,
        client=(_there(), _publisher("b0", "b1", steps=("publish p n=1", "again p"))),
        fault=("reset c2 b0", "move c2"),
    ),
    "cut": SmallWorld(
        about="the link between two brokers fails, and is there again",
        brokers=TWO,
        client=(_there(), _publisher("b0")),
        fault=("link b0 b1", "suspicion b0 b1", "suspicion b1 c1"),
    ),
    "move": SmallWorld(
        about="publisher or subscriber goes over to another broker, and closes its old session whenever it does",
        brokers=TWO,
        client=(_there(servers=("b1", "b0")), _publisher("b0", "b1")),
        fault=("move c1", "move c2"),
    ),
}
