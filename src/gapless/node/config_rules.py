"""What the keys of a configuration have to be to each other: one tree, distinct places and names, sizes that fit."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.node.tables import Table, nearest, shown
from gapless.overlay import FlawKind, flaws_of
from gapless.overlay.flaws import cycle_in_words

# Room in a frame beside the largest body: the header of its batch, and attributes.
FRAME_BYTES_BESIDE_BODY = 64 * 1024


def check_brokers(brokers: Sequence[Table]) -> None:
    """Brokers have ids and places of their own, form one tree, and are open to others only when that is meant."""
    _check_repeats(brokers, "id")
    _check_tree(brokers)
    _check_reach(brokers)
    _check_clashes(brokers)


def check_spaces(spaces: Sequence[Table], limits: Table) -> None:
    """Spaces have names of their own, and declare no more attributes than a publication may have."""
    _check_repeats(spaces, "name")
    most = limits.values.get("attributes_max")
    for table in spaces:
        declared = table.values.get("attributes", ())
        if most is not None and len(declared) > most:
            table.wrong("attributes", f"declares {len(declared)}, and attributes_max is {most}; raise that in [limits]")


def check_sizes(limits: Table, tuning: Table, spaces: Sequence[Table]) -> None:
    """Numbers that only make sense together do."""
    frame = limits.values.get("frame_bytes_max")
    body_most = None if frame is None else frame - FRAME_BYTES_BESIDE_BODY
    for table in (limits, *spaces):
        body = table.values.get("body_bytes_max")
        if body is not None and body_most is not None and body > body_most:
            advice = f"write at most {body_most}, or raise frame_bytes_max in [limits]"
            table.wrong(
                "body_bytes_max", f"{body} does not fit into a frame of {frame} bytes beside its attributes; {advice}"
            )
    heartbeat, suspect = tuning.values.get("heartbeat_ms"), tuning.values.get("suspect_after_ms")
    if heartbeat is not None and suspect is not None and suspect < 2 * heartbeat:
        advice = f"write at least {2 * heartbeat}, twice heartbeat_ms"
        tuning.wrong(
            "suspect_after_ms", f"{suspect} would suspect every peer whose heartbeat is a little late; {advice}"
        )
    first, last = tuning.values.get("redial_min_ms"), tuning.values.get("redial_max_ms")
    if first is not None and last is not None and last < first:
        tuning.wrong("redial_max_ms", f"{last} is less than redial_min_ms, {first}; write at least that")


def _check_repeats(tables: Sequence[Table], key: str) -> None:
    first: dict[str, Table] = {}
    for table in tables:
        value = table.raw.get(key)
        if isinstance(value, str) and (holder := first.setdefault(value, table)) is not table:
            table.wrong(key, f"is that of {holder.title} already; give each {key} once")


def _check_tree(brokers: Sequence[Table]) -> None:
    """The parents make one tree. What could not be read stands under a node of its own, so that it misleads nobody."""
    unread = "\0"
    by_id: dict[str, Table] = {}
    parents: dict[str, str | None] = {unread: None}
    for number, table in enumerate(brokers):
        given = table.raw.get("id")
        node = given if isinstance(given, str) else f"{unread}{number}"
        if node not in by_id:
            by_id[node] = table
            parents[node] = table.values.get("parent", unread)
    for flaw in flaws_of(parents.items()):
        match flaw.kind, [node for node in flaw.nodes if node != unread]:
            case FlawKind.UNKNOWN_PARENT, [node, parent]:
                others = [one for one in by_id if one != node and not one.startswith(unread)]
                advice = nearest(parent, others) if others else "leave it out, an only broker has none"
                by_id[node].wrong("parent", f"there is no broker {shown(parent)}; {advice}")
            case FlawKind.CYCLE, [first, *_] as cycle:
                circle = cycle_in_words(cycle)
                by_id[first].wrong(
                    "parent", f"goes round in a cycle, {circle}; give one of them a parent outside it, or none"
                )
            case FlawKind.SEVERAL_ROOTS, [root, *others]:
                for node in others:
                    advice = f"{by_id[root].title} is the root already; name the broker that this one hangs on"
                    by_id[node].wrong("parent", f"is missing, and {advice}")


def _check_reach(brokers: Sequence[Table]) -> None:
    """What other machines can reach has to be asked for, and what other brokers dial has to be an address."""
    for table in brokers:
        for key in ("listen", "http"):
            where = table.values.get(key)
            if where is None:
                continue
            if not where.is_loopback and table.values.get("insecure") is False:
                advice = "write 127.0.0.1, or beside it insecure = true if you trust everyone on that network"
                table.wrong(key, f"{where} can be reached from other machines, and nothing is encrypted yet; {advice}")
            if key == "listen" and where.is_wildcard and len(brokers) > 1:
                table.wrong(
                    key, f"{where} is nothing that the other brokers can dial; write the address they reach it by"
                )


def _check_clashes(brokers: Sequence[Table]) -> None:
    """No two things listen at one place. What means every address of a machine clashes with that machine's broker."""
    taken: dict[tuple[str, int], str] = {}
    for table in brokers:
        listen = table.values.get("listen")
        for key in ("listen", "http"):
            where = table.values.get(key)
            if where is None:
                continue
            host = listen.host if where.is_wildcard and listen is not None else where.host
            spot = ("127.0.0.1" if host.lower() == "localhost" else host.lower(), where.port)
            here = f'{table.title} key "{key}"'
            if (holder := taken.setdefault(spot, here)) != here:
                table.wrong(key, f"{where} is taken by {holder}; give each a port of its own")
