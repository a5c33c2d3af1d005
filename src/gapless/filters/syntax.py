"""The nodes of a filter, and their text. Immutable; equal nodes are written alike.

Values are Identifier, Integer, Real, Text, Truth, Sign, Sum and Product; all other nodes are conditions. Chains of
AND, OR, + - and * / are one node each, however long, so that the height of a tree is that of its parentheses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

Terms = tuple[tuple[str, "Value"], ...]


class Identifier(msgspec.Struct, frozen=True):
    """The value of an attribute; null when the publication does not have it."""

    name: str


class Integer(msgspec.Struct, frozen=True):
    """A number of int64."""

    value: int


class Real(msgspec.Struct, frozen=True):
    """A number of float64. The text tells -0.0 from 0.0."""

    value: float
    text: str


class Text(msgspec.Struct, frozen=True):
    """A string."""

    value: str


class Truth(msgspec.Struct, frozen=True):
    """TRUE or FALSE as a value, to be compared."""

    value: bool


class Sign(msgspec.Struct, frozen=True):
    """Unary + and -. A plus stays only before an identifier, where it makes what is no number null."""

    negative: bool
    operand: Value


class Sum(msgspec.Struct, frozen=True):
    """`first`, then what is added or subtracted, from left to right."""

    first: Value
    rest: Terms


class Product(msgspec.Struct, frozen=True):
    """`first`, then what it is multiplied with or divided by, from left to right."""

    first: Value
    rest: Terms


class Constant(msgspec.Struct, frozen=True):
    """TRUE or FALSE as a condition."""

    value: bool


class Comparison(msgspec.Struct, frozen=True):
    """`left` and `right` compared by one of = <> < <= > >=. A boolean attribute alone is compared with TRUE."""

    operator: str
    left: Value
    right: Value


class Between(msgspec.Struct, frozen=True):
    """[NOT] BETWEEN."""

    operand: Value
    low: Value
    high: Value
    negated: bool


class Like(msgspec.Struct, frozen=True):
    """[NOT] LIKE."""

    operand: Identifier | Text
    pattern: str
    escape: str
    negated: bool


class In(msgspec.Struct, frozen=True):
    """[NOT] IN."""

    operand: Identifier | Text
    choices: tuple[str, ...]
    negated: bool


class IsNull(msgspec.Struct, frozen=True):
    """IS [NOT] NULL."""

    operand: Identifier
    negated: bool


class Not(msgspec.Struct, frozen=True):
    """NOT."""

    operand: Condition


class And(msgspec.Struct, frozen=True):
    """Two or more conditions joined by AND."""

    parts: tuple[Condition, ...]


class Or(msgspec.Struct, frozen=True):
    """Two or more conditions joined by OR."""

    parts: tuple[Condition, ...]


Literal = Integer | Real | Text | Truth
Value = Identifier | Literal | Sign | Sum | Product
Condition = Constant | Comparison | Between | Like | In | IsNull | Not | And | Or
Node = Value | Condition

VALUES = (Identifier, Integer, Real, Text, Truth, Sign, Sum, Product)
LITERALS = (Integer, Real, Text, Truth)


def real(value: float) -> Real:
    """The node of this number."""
    return Real(value, repr(value))


def chain_of(node: Value, kind: type[Sum | Product]) -> Sum | Product | None:
    """The node, if it is a chain of this kind."""
    return node if isinstance(node, Sum | Product) and type(node) is kind else None


def children_of(node: Node) -> tuple[Node, ...]:
    """The nodes directly under this one."""
    if isinstance(node, And | Or):
        return node.parts
    if isinstance(node, Sum | Product):
        return (node.first, *(operand for _, operand in node.rest))
    if isinstance(node, Comparison):
        return (node.left, node.right)
    if isinstance(node, Between):
        return (node.operand, node.low, node.high)
    if isinstance(node, Sign | Not | Like | In | IsNull):
        return (node.operand,)
    return ()


def height_of(node: Node) -> int:
    """How many nodes lie on the longest way down; found without recursion, so that it can guard the rest against it."""
    height = 0
    level: list[Node] = [node]
    while level:
        height += 1
        level = [child for parent in level for child in children_of(parent)]
    return height


def identifiers_of(node: Node) -> tuple[str, ...]:
    """The attributes named in a tree, each once, in the order of the text."""
    names: dict[str, None] = {}
    stack: list[Node] = [node]
    while stack:
        node = stack.pop()
        if isinstance(node, Identifier):
            names[node.name] = None
        stack.extend(reversed(children_of(node)))
    return tuple(names)


def quoted(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"


def text_of(node: Node) -> str:
    """The text of a tree; parsed again it gives the same tree."""
    return _WRITERS[type(node)](node)


def _sign(node: Sign) -> str:
    return ("-" if node.negative else "+") + _wrapped(node.operand, (Sum, Product))


def _chain(node: Sum | Product) -> str:
    product = isinstance(node, Product)
    words = [_wrapped(node.first, (Sum,) if product else ())]
    for operator, operand in node.rest:
        words += (operator, _wrapped(operand, (Sum, Product) if product else (Sum,)))
    return " ".join(words)


def _wrapped(node: Node, loose: tuple[type, ...]) -> str:
    text = _WRITERS[type(node)](node)
    return f"({text})" if isinstance(node, loose) else text


def _between(node: Between) -> str:
    word = _word("BETWEEN", node.negated)
    return f"{text_of(node.operand)} {word} {text_of(node.low)} AND {text_of(node.high)}"


def _like(node: Like) -> str:
    escape = f" ESCAPE {quoted(node.escape)}" if node.escape else ""
    return f"{text_of(node.operand)} {_word('LIKE', node.negated)} {quoted(node.pattern)}{escape}"


def _in(node: In) -> str:
    return f"{text_of(node.operand)} {_word('IN', node.negated)} ({', '.join(map(quoted, node.choices))})"


def _null(node: IsNull) -> str:
    return f"{node.operand.name} IS NOT NULL" if node.negated else f"{node.operand.name} IS NULL"


def _comparison(node: Comparison) -> str:
    """The comparison; what stands alone as a condition is written so, and read back as compared with TRUE."""
    if node.operator == "=" and node.right == Truth(True) and not isinstance(node.left, Truth):
        return text_of(node.left)
    return f"{text_of(node.left)} {node.operator} {text_of(node.right)}"


def _not(node: Not) -> str:
    text = _WRITERS[type(node.operand)](node.operand)
    return f"NOT ({text})" if isinstance(node.operand, And | Or) else f"NOT {text}"


def _joined(node: And | Or) -> str:
    # Few frames for each level of nesting: a deep filter may be written far down the stack.
    joiner, loose = (" AND ", (Or, And)) if isinstance(node, And) else (" OR ", (Or,))
    texts = list(map(text_of, node.parts))
    return joiner.join(
        [f"({text})" if isinstance(part, loose) else text for part, text in zip(node.parts, texts, strict=True)]
    )


def _word(word: str, negated: bool) -> str:
    return f"NOT {word}" if negated else word


_WRITERS: dict[type, Callable[[Any], str]] = {
    Comparison: _comparison,
    Identifier: lambda node: node.name,
    Integer: lambda node: str(node.value),
    Real: lambda node: node.text,
    Text: lambda node: quoted(node.value),
    Truth: lambda node: "TRUE" if node.value else "FALSE",
    Constant: lambda node: "TRUE" if node.value else "FALSE",
    Sign: _sign,
    Sum: _chain,
    Product: _chain,
    Between: _between,
    Like: _like,
    In: _in,
    IsNull: _null,
    Not: _not,
    And: _joined,
    Or: _joined,
}
