"""Configurations: what they mean, and for every mistake the message it gets, alone and together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gapless.model.errors import ConfigError
from gapless.model.types import AttributeType
from gapless.node.config import (
    REPEATED,
    SCHEMA,
    Address,
    Limits,
    Tuning,
    default_config,
    load_config,
    parse_config,
)
from gapless.node.tables import REQUIRED

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"

GOOD = """\
[cluster]
name = "demo"

[[broker]]
id = "b0"
listen = "127.0.0.1:7400"

[[broker]]
id = "b1"
listen = "127.0.0.1:7401"
http = "127.0.0.1:8401"
parent = "b0"

[[space]]
name = "quotes"
delivery = "direct"
attributes = { price = "float64" }

[limits]
body_bytes_max = 1000

[tuning]
heartbeat_ms = 500
"""

B0 = 'id = "b0"\nlisten = "127.0.0.1:7400"'
B1 = '[[broker]]\nid = "b1"\nlisten = "127.0.0.1:7401"\nhttp = "127.0.0.1:8401"\nparent = "b0"\n'


def problems_of(content: str) -> list[str]:
    """The problems of a configuration, without the name of its file."""
    with pytest.raises(ConfigError) as refused:
        parse_config(content, "here.toml")
    first, *others = str(refused.value).split("\n")
    if not others:
        return [first.removeprefix("here.toml: ")]
    assert first == f"here.toml has {len(others)} problems:"
    assert all(line.startswith("  here.toml: ") for line in others)
    return [line.removeprefix("  here.toml: ") for line in others]


def test_a_good_configuration_is_read_as_written() -> None:
    """What the file says is in the result, and what it leaves open has its default."""
    config = parse_config(GOOD, "/etc/gapless/cluster.toml")
    assert config.name == "demo"
    assert config.data == Path("/etc/gapless/data")
    assert [broker.id for broker in config.brokers] == ["b0", "b1"]
    b1 = config.broker("b1")
    assert (b1.listen, b1.http, b1.parent, b1.insecure) == (
        Address("127.0.0.1", 7401),
        Address("127.0.0.1", 8401),
        "b0",
        False,
    )
    assert (config.broker("b0").parent, config.broker("b0").http) == (None, None)
    assert config.tree().path("b1", "b0") == ("b1", "b0")
    assert config.limits == Limits(body_bytes_max=1000)
    assert config.tuning == Tuning(heartbeat_ms=500)
    (space,) = config.spaces
    assert (space.name, space.delivery, dict(space.attributes)) == (
        "quotes",
        "direct",
        {"price": AttributeType.FLOAT64},
    )


def test_a_space_sets_its_own_limits_or_takes_those_of_the_cluster() -> None:
    """A space has the cluster's body limit and credit, the file's rather than the built-in, unless it names its own."""
    config = parse_config(
        GOOD + 'credit_bytes = 9000000\n[[space]]\nname = "big"\ndelivery = "direct"\nbody_bytes_max = 5\n'
    )
    assert [(space.body_bytes_max, space.credit_bytes) for space in config.spaces] == [(1000, 9000000), (5, 9000000)]
    assert parse_config(GOOD.replace("body_bytes_max = 1000", "")).spaces[0].body_bytes_max == Limits().body_bytes_max


def test_every_attribute_type_can_be_declared() -> None:
    """The five types have the names that users know from the documentation."""
    declared = ", ".join(f'a_{name} = "{name}"' for name in ("bool", "int64", "float64", "string", "timestamp"))
    config = parse_config(GOOD.replace('price = "float64"', declared))
    assert list(config.spaces[0].attributes.values()) == list(AttributeType)


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("localhost:7400", Address("localhost", 7400)),
        ("127.9.9.9:1", Address("127.9.9.9", 1)),
        ("[::1]:65535", Address("::1", 65535)),
    ],
)
def test_loopback_addresses_need_no_permission(listen: str, address: Address) -> None:
    """Addresses of this machine alone are read without `insecure`, and written as they were."""
    read = parse_config(GOOD.replace("127.0.0.1:7400", listen)).broker("b0").listen
    assert read == address
    assert str(read) == listen


@pytest.mark.parametrize("listen", ["10.0.0.7:7400", "broker-7.example:7400", "[2001:db8::1]:7400"])
def test_other_addresses_are_allowed_when_insecurity_is_meant(listen: str) -> None:
    """With `insecure = true` a broker may listen where others can reach it."""
    b0 = B0.replace("127.0.0.1:7400", listen) + "\ninsecure = true"
    assert str(parse_config(GOOD.replace(B0, b0)).broker("b0").listen) == listen


def test_an_only_broker_may_listen_everywhere() -> None:
    """Nobody dials an only broker's listen address, so it may be every address of the machine."""
    b0 = B0.replace("127.0.0.1", "0.0.0.0") + "\ninsecure = true"
    assert parse_config(GOOD.replace(B1, "").replace(B0, b0)).broker("b0").listen.is_wildcard


def test_one_port_on_two_machines_is_no_clash() -> None:
    """Brokers on different hosts may use the same ports, for every address of their own machine too."""
    ours = [f'id = "b{n}"\nlisten = "10.0.0.{n}:7400"\nhttp = "0.0.0.0:8400"\ninsecure = true\n' for n in range(2)]
    content = GOOD.replace(B0, ours[0]).replace(B1, f'[[broker]]\nparent = "b0"\n{ours[1]}')
    assert len(parse_config(content).brokers) == 2


def mistakes() -> list[tuple[str, str, str]]:
    """What config_mistakes.txt has: text of the good configuration, what it is replaced by, and the message."""
    blocks = (Path(__file__).parent / "config_mistakes.txt").read_text(encoding="utf-8").split("\n\n")
    found = []
    for block in blocks:
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines:
            old, new, message = ("\n".join(line[2:] for line in lines if line[0] == mark) for mark in "-+!")
            found.append((old, new, message))
    return found


MISTAKES = mistakes()


@pytest.mark.parametrize(("old", "new", "problem"), MISTAKES, ids=range(len(MISTAKES)))
def test_one_mistake_gives_one_message(old: str, new: str, problem: str) -> None:
    """A configuration with one mistake is refused with one message that names file, key and remedy."""
    assert old in GOOD
    assert problems_of(GOOD.replace(old, new, 1)) == [problem]


def test_all_mistakes_are_told_at_once() -> None:
    """A configuration that is wrong in many places names all of them, and no consequence of one as another."""
    content = """\
speed = 9
[cluster]
nmae = "demo"
[[broker]]
id = "b 0"
listen = "127.0.0.1"
[[broker]]
id = "b1"
listen = "127.0.0.1:7400"
parent = 3
[[broker]]
listen = "127.0.0.1:7400"
parent = "b2"
[[space]]
name = "a"
delivery = "stream"
attributes = { x = "int", y = "str" }
[tuning]
heartbeat_ms = -1
"""
    wrong = [line.split(": ")[0] for line in problems_of(content)]
    assert wrong == [
        'key "speed"',
        '[cluster] key "nmae"',
        '[cluster] key "name"',
        '[[broker]] #1 ("b 0") key "id"',
        '[[broker]] #1 ("b 0") key "listen"',
        '[[broker]] #2 ("b1") key "parent"',
        '[[broker]] #3 key "id"',
        '[[space]] #1 ("a") key "delivery"',
        '[[space]] #1 ("a") key "attributes"',
        '[[space]] #1 ("a") key "attributes"',
        '[tuning] key "heartbeat_ms"',
        '[[broker]] #3 key "parent"',
        '[[broker]] #3 key "listen"',
    ]


@pytest.mark.parametrize(("old", "new", "problem"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_second_mistake_hides_none(old: str, new: str, problem: str) -> None:
    """Each mistake is still reported, in the same words, when there is another one in the file."""
    found = problems_of(GOOD.replace(old, new, 1) + "\n[[cell]]\nid = 1\n")
    assert len(found) == 2
    assert problem in found
    assert 'table "cell": there is no such table at the top; there are cluster, broker, space, limits, tuning' in found


def test_an_unreadable_permission_is_one_mistake() -> None:
    """Where `insecure` cannot be read, the address it was meant for is not held against its author as well."""
    found = problems_of(GOOD.replace("127.0.0.1:7401", '10.0.0.7:7401"\ninsecure = "yes'))
    assert [line.split(": ")[0] for line in found] == ['[[broker]] #2 ("b1") key "insecure"']


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "[cluster]\nname = demo\n",
            "here.toml: line 2, column 8: invalid value; correct it, the file has to be TOML.",
        ),
        (
            '[cluster]\nname = """a\n\n\n',
            "here.toml: line 2: unterminated string; correct it, the file has to be TOML.",
        ),
        ('[cluster]\nname = "a', "here.toml: line 2: unterminated string; correct it, the file has to be TOML."),
        (
            "[cluster]\n[cluster]\n",
            "here.toml: line 2, column 9: cannot declare ('cluster',) twice; correct it, the file has to be TOML.",
        ),
    ],
)
def test_what_is_not_toml_is_refused_with_its_line(content: str, message: str) -> None:
    """A mistake in the syntax names file, line and what was met."""
    with pytest.raises(ConfigError) as refused:
        parse_config(content, "here.toml")
    assert str(refused.value) == message


def test_a_number_too_long_to_read_is_a_clear_error() -> None:
    """A number of thousands of digits is refused like any other nonsense, not with a traceback."""
    with pytest.raises(ConfigError, match="the file has to be TOML"):
        parse_config(GOOD.replace("500", "9" * 5000))


def test_files_are_read_or_the_reason_is_told(tmp_path: Path) -> None:
    """A file is read with its folder as the place of data; one that is missing, a folder or not UTF-8 says so."""
    path = tmp_path / "cluster.toml"
    path.write_text("\ufeff" + GOOD, encoding="utf-8")
    assert load_config(path).data == tmp_path / "data"
    assert load_config(str(path)).name == "demo"
    path.write_text(GOOD.replace('"demo"', '"demo"\ndata = "/var/x"'), encoding="utf-8")
    assert load_config(path).data == Path("/var/x")
    with pytest.raises(ConfigError, match=r"there is no file .*none\.toml"):
        load_config(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read: is a directory"):
        load_config(tmp_path)
    path.write_bytes(b'[cluster]\nname = "\xff"\n')
    with pytest.raises(ConfigError, match=r"cluster.toml: line 2: this is not UTF-8"):
        load_config(path)
    path.write_text("[cluster]", encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(f"{path}: [cluster] key")):
        load_config(path)


def test_an_unknown_broker_is_answered_with_the_nearest() -> None:
    """Asking for a broker that is not there names the one that was probably meant."""
    with pytest.raises(ConfigError, match=r'no broker "B1"; did you mean "b1"\?'):
        parse_config(GOOD).broker("B1")


def test_long_lists_of_names_are_cut() -> None:
    """In a cluster of many brokers, a name near none of them is not answered with all."""
    with pytest.raises(ConfigError, match="b10, b11 and 28 more"):
        parse_config(default_config(40)).broker("zzzzz")


@pytest.mark.parametrize("shape", ["chain", "star", "tree"])
@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_the_default_configuration_is_accepted(shape: str, count: int) -> None:
    """What we write for a beginner is a good configuration of the shape that was asked for."""
    config = parse_config(default_config(count, shape, 9000))
    tree = config.tree()
    assert len(tree) == count
    assert [str(broker.listen) for broker in config.brokers] == [f"127.0.0.1:{9000 + n}" for n in range(count)]
    assert [str(broker.http) for broker in config.brokers] == [f"127.0.0.1:{10000 + n}" for n in range(count)]
    longest = max(tree.distance(tree.root, node) for node in tree.nodes)
    widest = max(len(tree.children(node)) for node in tree.nodes)
    expected = {
        "chain": (count - 1, min(1, count - 1)),
        "star": (min(1, count - 1), count - 1),
        "tree": (count.bit_length() - 1, min(2, count - 1)),
    }
    assert (longest, widest) == expected[shape]


def test_a_default_configuration_reads_well() -> None:
    """The text for two brokers is the one below, comments included."""
    assert (
        default_config(2, "chain", 7400)
        == """\
# A Gapless cluster: 2 brokers on this machine; each broker hangs on the one before it.
# docs/configuration.md describes every key there is.

[cluster]
name = "demo"
data = "./data"                # brokers keep their files below here

[[broker]]
id = "b0"
listen = "127.0.0.1:7400"      # clients and other brokers connect here
http = "127.0.0.1:8400"        # /healthz, /metrics and /status

[[broker]]
id = "b1"
listen = "127.0.0.1:7401"
http = "127.0.0.1:8401"
parent = "b0"

[[space]]
name = "quotes"
delivery = "direct"            # at most once, along the tree, nothing stored
# attributes = { symbol = "string", price = "float64" }   # declare types and they are enforced
"""
    )


@pytest.mark.parametrize(
    ("count", "shape", "port", "words"),
    [
        (0, "chain", 7400, "cluster of 0 brokers cannot be made; ask for 1 to 1000"),
        (1001, "chain", 7400, "cluster of 1001 brokers cannot be made"),
        (3, "ring", 7400, 'no shape "ring"; there are chain, star, tree'),
        (3, "star", 64534, "3 brokers do not fit from port 64534 on; begin between 1 and 64533"),
        (3, "star", 0, "do not fit from port 0 on"),
    ],
)
def test_a_default_configuration_that_cannot_be_is_refused(count: int, shape: str, port: int, words: str) -> None:
    """Too few or too many brokers, an unknown shape and ports that do not exist are refused in words."""
    with pytest.raises(ConfigError) as refused:
        default_config(count, shape, port)
    assert words in str(refused.value)
    assert len(parse_config(default_config(3, "star", 64533)).brokers) == 3


def documented() -> dict[tuple[str, str], tuple[str, str]]:
    """Of each key in the page, by table, its type and default."""
    keys: dict[tuple[str, str], tuple[str, str]] = {}
    title = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            title = line[3:]
        elif row := re.fullmatch(r"\| `(\w+)` \| (\w+) \| ([^|]+) \| [^|]+ \|", line):
            keys[title, row[1]] = (row[2], row[3])
    return keys


def test_the_page_has_every_key_with_its_type_and_default() -> None:
    """docs/configuration.md has exactly the keys that are read, with the type and default that they have."""
    words = {REQUIRED: "required", None: "none", "{}": "empty", "False": "`false`"}
    inherited = {"body_bytes_max": "`limits.body_bytes_max`"}
    inherited |= {key: f"`tuning.{key}`" for key in ("credit_bytes", "patience_ms", "grace_ms", "sources_max")}
    expected: dict[tuple[str, str], tuple[str, str]] = {}
    for table, keys in SCHEMA.items():
        for key in keys:
            shown = words.get(key.default if key.default in (REQUIRED, None) else str(key.default), f"`{key.default}`")
            default = inherited[key.name] if table == "space" and key.name in inherited else shown
            expected[f"[[{table}]]" if table in REPEATED else f"[{table}]", key.name] = (key.kind, default)
    assert documented() == expected


def test_the_examples_of_the_page_are_accepted() -> None:
    """Every example of a configuration in the page is one."""
    examples = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) >= 4
    for example in examples:
        assert parse_config(example).brokers


def test_the_mistake_of_the_page_gets_the_message_of_the_page() -> None:
    """The message that the page shows is the one that the mistake it speaks of gets."""
    (shown,) = re.findall(r"```text\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with pytest.raises(ConfigError) as refused:
        parse_config(GOOD.replace('listen = "127.0.0.1:7401"', 'listn = "127.0.0.1:7401"'))
    assert str(refused.value) == shown
