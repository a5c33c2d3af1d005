"""The normal form: filters of equal meaning get equal text, as far as the steps below go; of different meaning, never.

Every step keeps all three truth values for every publication:

- NOT goes inwards past AND, OR, NOT, IS NULL and BETWEEN. It stays before comparisons, LIKE and IN, whose opposites
  differ from them on values of unlike types (see `evaluate`).
- BETWEEN becomes two comparisons; LIKE without wildcards and IN of one string become = or <>.
- A literal stands right of what it is compared with; two operands of = <> + * stand in the order of their text, and
  so decide the direction of < and >.
- Whole floats below 2**53 are compared as integers; arithmetic on literals is done; so are comparisons between them.
- AND and OR are flat, without duplicates and neutral parts, ended by FALSE and TRUE, in the order of their text; in
  them, = and IN on one attribute become one IN.
"""

from __future__ import annotations

from itertools import repeat
from math import isfinite

from gapless.filters.evaluate import ARITHMETIC, compare_scalars, decider, negate
from gapless.filters.like import split_pattern
from gapless.filters.syntax import (
    LITERALS,
    And,
    Between,
    Comparison,
    Condition,
    Constant,
    Identifier,
    In,
    Integer,
    IsNull,
    Like,
    Not,
    Or,
    Product,
    Real,
    Sign,
    Sum,
    Text,
    Truth,
    Value,
    chain_of,
    real,
    text_of,
)

_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EXACT_FLOATS = 1 << 53
_ESCAPE = "\\"


def normalise(node: Condition, negated: bool = False) -> Condition:
    """The normal form of a condition, or of its NOT."""
    if isinstance(node, Comparison):
        node = _comparison(node.operator, normal_value(node.left), normal_value(node.right))
        if isinstance(node, Constant):
            return Constant(node.value is not negated)
        return Not(node) if negated else node
    if isinstance(node, And | Or):
        parts = list(map(normalise, node.parts, repeat(negated)))
        return joined(parts, isinstance(node, And) is not negated)
    if isinstance(node, Not):
        return normalise(node.operand, not negated)
    if isinstance(node, Between):
        return _between(node, negated)
    if isinstance(node, IsNull):
        return IsNull(node.operand, node.negated is not negated)
    if isinstance(node, Like):
        node = _like(node)
    elif isinstance(node, In):
        node = _in(node.operand, node.choices, node.negated)
    if isinstance(node, Constant):
        return Constant(node.value is not negated)
    return Not(node) if negated else node


def joined(parts: list[Condition], conjunction: bool) -> Condition:
    """AND or OR of normal forms, as a normal form."""
    kind = And if conjunction else Or
    flat: list[Condition] = []
    for part in parts:
        if isinstance(part, kind):
            flat.extend(part.parts)
        elif isinstance(part, Constant):
            if part.value is not conjunction:
                return part
        else:
            flat.append(part)
    if len(flat) == 1:
        return flat[0]
    ordered = {text_of(part): part for part in _with_sets(flat, conjunction)}
    if not ordered:
        return Constant(conjunction)
    if len(ordered) == 1:
        return next(iter(ordered.values()))
    return kind(tuple([ordered[text] for text in sorted(ordered)]))


def _with_sets(parts: list[Condition], conjunction: bool) -> list[Condition]:
    """The strings that one attribute must equal, or must not, become one set.

    Under OR those of = and IN; under AND those of <> and NOT IN, and those of = and IN that stand behind a NOT.
    """
    kept: list[Condition] = []
    sets: dict[tuple[str, bool], dict[str, None]] = {}
    for part in parts:
        behind_not = isinstance(part, Not)
        found = _strings_of(part.operand if isinstance(part, Not) else part)
        if found is not None and (found[1] or behind_not) is conjunction and not (found[1] and behind_not):
            sets.setdefault((found[0], behind_not), {}).update(dict.fromkeys(found[2]))
        else:
            kept.append(part)
    for (name, behind_not), choices in sets.items():
        part = _in(Identifier(name), tuple(choices), conjunction and not behind_not)
        kept.append(Not(part) if behind_not else part)
    return kept


def _strings_of(node: Condition) -> tuple[str, bool, tuple[str, ...]] | None:
    """Attribute, whether excluded, and strings of a condition that is = <> or [NOT] IN on an attribute and strings."""
    if isinstance(node, In) and isinstance(node.operand, Identifier):
        return node.operand.name, node.negated, node.choices
    if isinstance(node, Comparison) and isinstance(node.left, Identifier) and isinstance(node.right, Text):
        return node.left.name, node.operator == "<>", (node.right.value,)
    return None


def _between(node: Between, negated: bool) -> Condition:
    operand, low, high = normal_value(node.operand), normal_value(node.low), normal_value(node.high)
    below, above = ("<", ">") if node.negated else (">=", "<=")
    both = [_comparison(below, operand, low), _comparison(above, operand, high)]
    if negated:
        both = [normalise(part, True) for part in both]
    return joined(both, node.negated is negated)


def _in(operand: Identifier | Text, choices: tuple[str, ...], negated: bool) -> Condition:
    if isinstance(operand, Text):
        return Constant((operand.value in choices) is not negated)
    ordered = tuple(sorted(dict.fromkeys(choices)))
    if len(ordered) == 1:
        return Comparison("<>" if negated else "=", operand, Text(ordered[0]))
    return In(operand, ordered, negated)


def _like(node: Like) -> Condition:
    if isinstance(node.operand, Text):
        return Constant(decider(node)({}) is True)
    first, *others = split_pattern(node.pattern, node.escape)
    if not others and all(first):
        return Comparison("<>" if node.negated else "=", node.operand, Text("".join(first)))
    # `%_` and `_%` ask for the same, so the blanks after a % go before it; nothing may be left between two %.
    pieces = [first]
    for piece in others:
        blanks = next((place for place, character in enumerate(piece) if character), len(piece))
        pieces[-1] = pieces[-1] + piece[:blanks]
        if blanks < len(piece):
            pieces.append(piece[blanks:])
    if others and not any(others[-1]):
        pieces.append([])
    return _like_of(node, pieces)


def _like_of(node: Like, pieces: list[list[str]]) -> Like:
    escape = _ESCAPE if any(character in ("%", "_") for piece in pieces for character in piece) else ""
    special = dict.fromkeys(("%", "_", _ESCAPE)) if escape else {}
    pattern = "%".join(
        "".join([escape + character if character in special else character or "_" for character in piece])
        for piece in pieces
    )
    return Like(node.operand, pattern, escape, node.negated)


def _comparison(operator: str, left: Value, right: Value) -> Condition:
    """The comparison of two normal values."""
    if not (isinstance(left, Identifier) and isinstance(right, LITERALS)):
        if isinstance(left, LITERALS) and isinstance(right, LITERALS):
            return Constant(compare_scalars(operator, left.value, right.value) is True)
        if isinstance(left, LITERALS) or (not isinstance(right, LITERALS) and text_of(right) < text_of(left)):
            left, right, operator = right, left, _FLIPPED[operator]
    if isinstance(right, Truth) and operator == "<>" and isinstance(left, Identifier):
        return Comparison("=", left, Truth(not right.value))
    if isinstance(right, Real) and right.value.is_integer() and abs(right.value) < _EXACT_FLOATS:
        right = Integer(int(right.value))
    return Comparison(operator, left, right)


def normal_value(node: Value) -> Value:
    """The normal form of a value."""
    if isinstance(node, Identifier):
        return node
    if isinstance(node, Sign):
        operand = normal_value(node.operand)
        negative = node.negative
        if isinstance(operand, Integer | Real):
            return _literal(negate(operand.value) if negative else operand.value) or node
        if isinstance(operand, Sign):
            negative, operand = negative is not operand.negative, operand.operand
        # Two minuses leave a plus, which only an identifier needs.
        return Sign(negative, operand) if negative or isinstance(operand, Identifier) else operand
    if not isinstance(node, Sum | Product):
        return node
    first = normal_value(node.first)
    rest: list[tuple[str, Value]] = []
    for operator, operand in node.rest:
        rest.append((operator, _unsigned(normal_value(operand))))
    return _arithmetic(type(node), first, rest)


def _arithmetic(kind: type[Sum | Product], first: Value, rest: list[tuple[str, Value]]) -> Value:
    inner = chain_of(first, kind)
    if inner is not None:
        first, rest = inner.first, [*inner.rest, *rest]
    while rest and isinstance(first, Integer | Real) and isinstance(rest[0][1], Integer | Real):
        folded = _literal(ARITHMETIC[rest[0][0]](first.value, rest[0][1].value))
        if folded is None:
            break
        first, rest = folded, rest[1:]
    if not rest:
        return first
    first = _unsigned(first)
    operator, second = rest[0]
    if operator in ("+", "*"):
        inner = chain_of(second, kind)
        if inner is not None:
            # a + (b + c) is (b + c) + a, and that is b + c + a.
            return kind(inner.first, (*inner.rest, (operator, first), *rest[1:]))
        if _rank(second) < _rank(first):
            first, rest = second, [(operator, first), *rest[1:]]
    return kind(first, tuple(rest))


def _literal(value: int | float | None) -> Integer | Real | None:
    """The literal of this number, if it can be written."""
    if isinstance(value, int):
        return Integer(value)
    return real(value) if value is not None and isfinite(value) else None


def _rank(node: Value) -> tuple[bool, str]:
    return isinstance(node, LITERALS), text_of(node)


def _unsigned(node: Value) -> Value:
    """The operand of arithmetic without its plus, which arithmetic implies."""
    return node.operand if isinstance(node, Sign) and not node.negative else node
