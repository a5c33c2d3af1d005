"""A short way through the usual filters: predicates on one attribute and literals, joined by AND, OR, NOT and ( ).

One regular expression reads a whole predicate with the word that follows it. What it does not know (arithmetic,
suffixes, exponents, ESCAPE, names beyond ASCII) and what is wrong is left to `parser`, which decides what a filter
means; where this answers at all, it answers the same.
"""

from __future__ import annotations

import re
from typing import Final

from gapless.filters.lexer import KEYWORDS
from gapless.filters.syntax import (
    And,
    Between,
    Comparison,
    Condition,
    Identifier,
    In,
    Integer,
    IsNull,
    Like,
    Not,
    Or,
    Real,
    Text,
    Truth,
    real,
)

MAX_TEXT: Final = 1024  # characters; within it no other limit of the parser can be reached
MAX_OPEN: Final = 20  # parentheses

_B = r"[ \t\n\r\f]"
_NUMBER = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?![A-Za-z0-9_$.])"
_STRING = r"'[^']*+(?:''[^']*+)*+'"
_PREFIX = re.compile(rf"{_B}*+(?:(NOT)(?![A-Za-z0-9_$])|(\())", re.IGNORECASE)
_NEXT = rf"{_B}*+(?:(AND|OR)(?![A-Za-z0-9_$])|(\))|\Z)"
_PREDICATE = re.compile(
    rf"""{_B}*+([A-Z_$][A-Z0-9_$]*+){_B}*+(?:
        (<>|<=|>=|[=<>]){_B}*+(?:({_NUMBER})|({_STRING})|(TRUE|FALSE)(?![A-Za-z0-9_$]))
      | (NOT{_B}++)?+BETWEEN{_B}++({_NUMBER}){_B}++AND{_B}++({_NUMBER})
      | (NOT{_B}++)?+IN{_B}*+\(({_B}*+{_STRING}{_B}*+(?:,{_B}*+{_STRING}{_B}*+)*+)\)
      | (NOT{_B}++)?+LIKE{_B}*+({_STRING})
      | IS{_B}++(NOT{_B}++)?+(NULL)(?![A-Za-z0-9_$])
      |
    ){_NEXT}""",
    re.IGNORECASE | re.VERBOSE | re.ASCII,
)
_JOINT = re.compile(_NEXT, re.IGNORECASE)
_CHOICE = re.compile(_STRING)


def parse_usual(text: str) -> Condition | None:
    """The tree that the parser makes of this text, or None when it has to be asked."""
    if len(text) > MAX_TEXT or not text.isascii():
        return None
    groups: list[_Group] = []
    group = _Group(0)
    nots = 0
    at = 0
    while True:
        prefix = _PREFIX.match(text, at)
        if prefix is not None:
            at = prefix.end()
            if prefix[1]:
                nots += 1
            elif len(groups) == MAX_OPEN:
                return None
            else:
                groups.append(group)
                group, nots = _Group(nots), 0
            continue
        found = _PREDICATE.match(text, at)
        node = None if found is None else _predicate(found)
        if found is None or node is None:
            return None
        joint, closing, at = found[15], found[16], found.end()
        group.add(node, nots)
        nots = 0
        while closing:
            if not groups:
                return None
            closed, group = group, groups.pop()
            group.add(closed.whole(), closed.nots)
            after = _JOINT.match(text, at)
            if after is None:
                return None
            joint, closing, at = after[1], after[2], after.end()
        if joint is None:
            return None if groups else group.whole()
        if len(joint) == 2:
            group.end_of_conjunction()


class _Group:
    """What stands between two parentheses, as far as it has been read."""

    __slots__ = ("conjunction", "disjunction", "nots")

    def __init__(self, nots: int) -> None:
        self.nots = nots  # before the opening parenthesis
        self.conjunction: list[Condition] = []
        self.disjunction: list[Condition] = []

    def add(self, node: Condition, nots: int) -> None:
        """One more operand of AND, behind so many NOT."""
        if nots & 1:
            node = node.operand if isinstance(node, Not) else Not(node)
        self.conjunction.append(node)

    def end_of_conjunction(self) -> None:
        """An OR follows."""
        conjunction = self.conjunction
        self.disjunction.append(conjunction[0] if len(conjunction) == 1 else And(tuple(conjunction)))
        self.conjunction = []

    def whole(self) -> Condition:
        """All of it."""
        self.end_of_conjunction()
        disjunction = self.disjunction
        return disjunction[0] if len(disjunction) == 1 else Or(tuple(disjunction))


def _predicate(found: re.Match[str]) -> Condition | None:
    name, sign, number, string, truth, out, low, high, none_of, choices, unlike, pattern, present, null, _, _ = (
        found.groups()
    )
    if name.upper() in KEYWORDS:
        return None
    operand = Identifier(name)
    if sign is not None:
        if number is not None:
            return Comparison(sign, operand, _number(number))
        if sign not in ("=", "<>"):
            return None  # the parser says what is wrong
        if string is not None:
            return Comparison(sign, operand, Text(_unquoted(string)))
        return Comparison(sign, operand, Truth(len(truth) == 4))
    if low is not None:
        return Between(operand, _number(low), _number(high), out is not None)
    if choices is not None:
        return In(operand, tuple(map(_unquoted, _CHOICE.findall(choices))), none_of is not None)
    if pattern is not None:
        return Like(operand, _unquoted(pattern), "", unlike is not None)
    if null is not None:
        return IsNull(operand, present is not None)
    return Comparison("=", operand, Truth(True))


def _number(text: str) -> Integer | Real:
    return real(float(text)) if "." in text else Integer(int(text))


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")
