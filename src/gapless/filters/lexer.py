"""From the text of a filter to its tokens."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from unicodedata import category

from gapless.model.errors import FilterError
from gapless.model.types import INT64_MAX

NAME: Final = "attribute"
NUMBER: Final = "number"
STRING: Final = "string"
END: Final = "the end"
KEYWORDS: Final = dict.fromkeys(
    ("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"),
)
EXCERPT_SIDE: Final = 32  # characters shown on either side of an error


class Token(NamedTuple):
    """A word of a filter. `kind` is NAME, NUMBER, STRING, END, or the keyword or sign itself."""

    kind: str
    value: int | float | str
    at: int


_TOKEN = re.compile(
    r"""[ \t\n\r\f]*+(?:
      (?P<name>(?:[A-Za-z_$]|[^\x00-\x7f])(?:[A-Za-z0-9_$]|[^\x00-\x7f])*+)
    | (?P<number>0[xX][A-Za-z0-9_$]*+|(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[A-Za-z0-9_$]*+)
    | (?P<string>'[^']*+(?:''[^']*+)*+')
    | (?P<sign><>|<=|>=|[=<>()+\-*/,])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_BLANKS = re.compile(r"[ \t\n\r\f]*")
_HEX = re.compile(r"0[xX]([0-9A-Fa-f]+)[lL]?\Z")
_OCTAL = re.compile(r"0([0-7]+)[lL]?\Z")
_DECIMAL = re.compile(r"(0|[1-9][0-9]*)[lL]?\Z")
_FLOAT = re.compile(r"((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?\Z")

# What Java calls identifier start and identifier part, without the invisible characters it ignores.
_START = frozenset(("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"))
_PART = _START | frozenset(("Nd", "Mn", "Mc"))

_HINTS = {
    '"': "a string is written in single quotes: 'NY'",
    "!": "unequal is written <>",
    "&": "write AND",
    "|": "write OR",
    "%": "there is no remainder operator",
    ".": "names have letters, digits, _ and $ only",
}


def error_at(text: str, at: int, message: str) -> FilterError:
    """The error at this offset: its column, what is wrong, and the place in the text."""
    start = max(0, at - EXCERPT_SIDE)
    end = min(len(text), at + EXCERPT_SIDE)
    excerpt = "".join(char if char.isprintable() else " " for char in text[start:end])
    before, after = ("…" if start else ""), ("…" if end < len(text) else "")
    caret = " " * (len(before) + at - start) + "^"
    return FilterError(f"column {at + 1}: {message}\n  {before}{excerpt}{after}\n  {caret}", at + 1)


def shown(text: str) -> str:
    """A piece of a filter as messages show it."""
    return text if len(text) <= 40 else text[:37] + "…"


def tokens_of(text: str, limit: int) -> list[Token]:
    """All tokens, the last one END. Raises FilterError where no token starts, or beyond `limit` tokens."""
    tokens: list[Token] = []
    append = tokens.append
    at = 0
    match = _TOKEN.match
    while True:
        found = match(text, at)
        if found is None:
            raise _no_token(text, at)
        group = found.lastgroup
        assert group is not None
        start = found.start(group)
        at = found.end()
        word = found.group(group)
        if group == "name":
            keyword = word.upper()
            if keyword in KEYWORDS:
                append(Token(keyword, keyword, start))
            else:
                if not word.isascii():
                    _check_name(text, word, start)
                append(Token(NAME, word, start))
        elif group == "sign":
            append(Token(word, word, start))
        elif group == "number":
            append(Token(NUMBER, _number(text, word, start), start))
        elif group == "string":
            append(Token(STRING, word[1:-1].replace("''", "'"), start))
        else:
            append(Token(END, "", start))
            return tokens
        if len(tokens) > limit:
            raise error_at(text, start, f"the filter has more than {limit} words: split it into several subscriptions")


def _no_token(text: str, at: int) -> FilterError:
    blanks = _BLANKS.match(text, at)
    at = blanks.end() if blanks else at
    char = text[at]
    if char == "'":
        return error_at(text, at, "this string has no closing quote; a quote inside a string is written twice")
    hint = _HINTS.get(char)
    return error_at(text, at, f"unexpected character {char!r}" + (f"; {hint}" if hint else ""))


def _check_name(text: str, word: str, start: int) -> None:
    for offset, char in enumerate(word):
        if category(char) not in (_PART if offset else _START):
            raise error_at(text, start + offset, f"unexpected character {char!r} (U+{ord(char):04X}) in a name")


def _number(text: str, word: str, start: int) -> int | float:
    """The value of a literal of Java's syntax. An integer may be one above int64: a minus before it makes it fit."""
    for pattern, base in ((_DECIMAL, 10), (_HEX, 16), (_OCTAL, 8)):
        found = pattern.match(word)
        if found:
            digits = found.group(1)
            value = int(digits, base) if len(digits) <= 64 else INT64_MAX + 2
            if value > INT64_MAX + (base == 10):
                raise error_at(text, start, f"{shown(word)} is outside the 64-bit integers; a float is written 1e30")
            return value
    found = _FLOAT.match(word)
    if not found:
        raise error_at(text, start, f"{shown(word)} is not a number; a name does not start with a digit")
    digits = found.group(1)
    if digits.isdigit() and word == digits:
        raise error_at(text, start, f"{shown(word)} starts with 0 as an octal number does, but has an 8 or 9")
    number = float(digits)
    if number == float("inf") or (number == 0.0 and digits.lower().partition("e")[0].strip("0.")):
        raise error_at(text, start, f"{shown(word)} is outside the 64-bit floating-point numbers")
    return number
