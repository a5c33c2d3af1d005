"""From tokens to a tree: operator precedence with stacks of its own, so that no depth of nesting reaches Python's.

From loose to tight: OR, AND, NOT, comparisons with BETWEEN LIKE IN IS, + -, * /, signs. A chain of one precedence is
kept open until something looser ends it and then becomes one node, so long chains cost no height and no copying.
"""

from __future__ import annotations

from typing import Final, NoReturn

from gapless.filters.lexer import END, NAME, NUMBER, STRING, Token, error_at, shown, tokens_of
from gapless.filters.like import MAX_PATTERN
from gapless.filters.shortcut import parse_usual
from gapless.filters.syntax import (
    VALUES,
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
    Node,
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
    height_of,
    quoted,
    real,
)
from gapless.model.errors import FilterError
from gapless.model.types import INT64_MAX, INT64_MIN

MAX_TEXT: Final = 1 << 16  # characters
MAX_TOKENS: Final = 1 << 15
MAX_PARENTHESES: Final = 200  # open at once
MAX_HEIGHT: Final = 200  # of the tree: bounds the recursion of everything that walks it

_OPEN, _OR, _AND, _NOT, _COMPARE, _ADD, _MULTIPLY, _SIGN = range(8)
_BINARY: Final = {
    "OR": _OR, "AND": _AND, "=": _COMPARE, "<>": _COMPARE, "<": _COMPARE, "<=": _COMPARE, ">": _COMPARE, ">=": _COMPARE,
    "+": _ADD, "-": _ADD, "*": _MULTIPLY, "/": _MULTIPLY,
}  # fmt: skip
_TESTS: Final = dict.fromkeys(("NOT", "BETWEEN", "LIKE", "IN", "IS"))
_BETWEEN: Final = "BETWEEN"  # waits for its lower bound; with " AND" behind it, for the upper one
_NOT_BETWEEN: Final = "NOT BETWEEN"


def parse_condition(text: str) -> Condition:
    """The tree of a filter; a blank one is TRUE. Raises FilterError."""
    usual = parse_usual(text)
    return parse_any(text) if usual is None else usual


def parse_any(text: str) -> Condition:
    """The same, by the whole grammar."""
    if len(text) > MAX_TEXT:
        raise FilterError(f"the filter has {len(text)} characters; the limit is {MAX_TEXT}: split it into several")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise error_at(text, error.start, f"{text[error.start]!r} is half a character, not valid text") from None
    tokens = tokens_of(text, MAX_TOKENS)
    if len(tokens) == 1:
        return Constant(True)
    return _Parser(text, tokens).parse()


class _Parser:
    """Two stacks: operands with their places, and the operators that wait for their right side."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.next = 0
        self.operands: list[tuple[Node, int]] = []
        self.operators: list[tuple[int, str, int]] = []
        self.open = 0
        self.deepest = (0, 0)

    def parse(self) -> Condition:
        """Read operand, operator, operand … until the end."""
        while True:
            self.read_operand()
            while True:
                token = self.tokens[self.next]
                self.next += 1
                kind = token.kind
                if kind in _BINARY:
                    self.push_binary(kind, token.at)
                    break
                if kind in _TESTS:
                    if self.read_test(token):
                        break
                elif kind == ")":
                    self.close(token)
                elif kind == END:
                    return self.finish(token)
                else:
                    self.fail(token, "an operator such as =, AND or OR")

    def finish(self, token: Token) -> Condition:
        """Everything read: what is left must be one condition."""
        self.reduce(_OPEN)
        if self.operators:
            raise error_at(self.text, token.at, "expected ) to close the ( of column " + str(self.operators[-1][2] + 1))
        node, at = self.operands.pop()
        condition = self.condition(node, at)
        depth, deepest_at = self.deepest
        if depth > MAX_HEIGHT // 8 and height_of(condition) > MAX_HEIGHT:
            raise error_at(self.text, deepest_at, f"the filter nests more than {MAX_HEIGHT} operations in one another")
        return condition

    def fail(self, token: Token, expected: str) -> NoReturn:
        """Raise: something else was expected here."""
        found = token.kind
        if token.kind in (NAME, NUMBER, STRING):
            found = f"the {token.kind} {shown(quoted(str(token.value)) if token.kind == STRING else str(token.value))}"
        raise error_at(self.text, token.at, f"expected {expected}, found {found}")

    # ---------------------------------------------------------------- operands

    def read_operand(self) -> None:
        """Read prefixes and one operand."""
        while True:
            token = self.tokens[self.next]
            self.next += 1
            kind, value, at = token
            if kind == NAME:
                self.operands.append((Identifier(str(value)), at))
            elif kind == STRING:
                self.operands.append((Text(str(value)), at))
            elif kind == NUMBER:
                self.operands.append((self.number(token), at))
            elif kind == "TRUE" or kind == "FALSE":
                self.operands.append((Truth(kind == "TRUE"), at))
            else:
                self.push_prefix(token)
                continue
            return

    def number(self, token: Token) -> Integer | Real:
        """The literal; a minus directly before it belongs to it, or int64 would lack its lowest number."""
        value = token.value
        if isinstance(value, float):
            return real(value)
        assert isinstance(value, int)
        if self.operators and self.operators[-1][:2] == (_SIGN, "-") and self.tokens[self.next - 2].kind == "-":
            self.operators.pop()
            return Integer(-value)
        if value > INT64_MAX:
            raise error_at(self.text, token.at, f"{value} is outside the 64-bit integers; a float is written 1e30")
        return Integer(value)

    def push_prefix(self, token: Token) -> None:
        """( or NOT or a sign; anything else cannot stand before an operand."""
        kind, _, at = token
        if kind == "(":
            self.open += 1
            if self.open > MAX_PARENTHESES:
                raise error_at(self.text, at, f"more than {MAX_PARENTHESES} parentheses are open here")
            if self.open > self.deepest[0]:
                self.deepest = (self.open, at)
            self.operators.append((_OPEN, "(", at))
        elif kind == "+" or kind == "-":
            self.operators.append((_SIGN, kind, at))
        elif kind == "NOT" and (not self.operators or self.operators[-1][0] <= _NOT):
            self.operators.append((_NOT, kind, at))
        else:
            self.fail(token, "an attribute, a literal or (")

    def close(self, token: Token) -> None:
        """A closing parenthesis."""
        self.reduce(_OPEN)
        if not self.operators:
            raise error_at(self.text, token.at, "this ) closes nothing")
        self.operators.pop()
        self.open -= 1

    # ---------------------------------------------------------------- operators

    def push_binary(self, kind: str, at: int) -> None:
        """An operator with two sides; its left side is complete."""
        precedence = _BINARY[kind]
        if precedence == _AND:
            self.reduce(_COMPARE)
            if self.operators and self.operators[-1][1] in (_BETWEEN, _NOT_BETWEEN):
                # This AND belongs to BETWEEN: the lower bound is complete and the upper one follows.
                _, word, start = self.operators.pop()
                self.operators.append((_COMPARE, word + " AND", start))
                return
        self.reduce(precedence)
        if precedence == _COMPARE:
            self.check_uncompared(at)
        self.operators.append((precedence, kind, at))

    def check_uncompared(self, at: int) -> None:
        """What stands left of a comparison must be a value."""
        compared = bool(self.operators) and self.operators[-1][0] == _COMPARE
        if compared or not isinstance(self.operands[-1][0], VALUES):
            raise error_at(self.text, at, "expected AND or OR: a condition cannot be compared again")

    def read_test(self, token: Token) -> bool:
        """BETWEEN, LIKE, IN or IS after an operand. True when another operand must follow."""
        self.reduce(_COMPARE)
        self.check_uncompared(token.at)
        negated = token.kind == "NOT"
        if negated:
            token = self.take("BETWEEN", "LIKE", "IN")
        if token.kind == "BETWEEN":
            self.operators.append((_COMPARE, _NOT_BETWEEN if negated else _BETWEEN, token.at))
            return True
        node, at = self.operands.pop()
        if token.kind == "IS":
            if not isinstance(node, Identifier):
                raise error_at(self.text, at, "expected an attribute before IS")
            negated = self.take("NOT", "NULL").kind == "NOT"
            if negated:
                self.take("NULL")
            self.operands.append((IsNull(node, negated), at))
            return False
        if not isinstance(node, Identifier | Text):
            raise error_at(self.text, at, f"expected an attribute before {token.kind}")
        self.operands.append((self.like(node, negated) if token.kind == "LIKE" else self.inside(node, negated), at))
        return False

    def take(self, *kinds: str) -> Token:
        """The next token, which must be of one of these kinds."""
        token = self.tokens[self.next]
        if token.kind not in kinds:
            names = [f"a {kind}" if kind == STRING else kind for kind in kinds]
            self.fail(token, " or ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0])
        self.next += 1
        return token

    def like(self, operand: Identifier | Text, negated: bool) -> Like:
        """The pattern and its escape."""
        pattern = self.take(STRING)
        escape = ""
        if self.tokens[self.next].kind == "ESCAPE":
            self.next += 1
            token = self.take(STRING)
            escape = str(token.value)
            if len(escape) != 1:
                raise error_at(self.text, token.at, "expected a string of one character after ESCAPE")
        if len(str(pattern.value)) > MAX_PATTERN:
            raise error_at(self.text, pattern.at, f"a LIKE pattern has at most {MAX_PATTERN} characters")
        node = Like(operand, str(pattern.value), escape, negated)
        self.check_escapes(node, pattern.at)
        return node

    def check_escapes(self, node: Like, at: int) -> None:
        """What an escape stands before must be % or _ or the escape."""
        if not node.escape:
            return
        characters = iter(node.pattern)
        for character in characters:
            if character == node.escape:
                escaped = next(characters, "")
                if escaped not in ("%", "_", node.escape):
                    followed = f"by {escaped!r}" if escaped else "by nothing"
                    raise error_at(
                        self.text,
                        at,
                        f"in this pattern {node.escape!r} is followed {followed}; it escapes %, _ and itself",
                    )

    def inside(self, operand: Identifier | Text, negated: bool) -> In:
        """The list after IN."""
        self.take("(")
        choices = [str(self.take(STRING).value)]
        while self.take(",", ")").kind == ",":
            choices.append(str(self.take(STRING).value))
        return In(operand, tuple(choices), negated)

    # ---------------------------------------------------------------- reductions

    def reduce(self, precedence: int) -> None:
        """Complete all operators that are tighter than this one."""
        while self.operators and self.operators[-1][0] > precedence:
            level = self.operators[-1][0]
            first = len(self.operators) - 1
            while first and self.operators[first - 1][0] == level:
                first -= 1
            run = self.operators[first:]
            del self.operators[first:]
            if level <= _AND:
                self.reduce_logic(run, And if level == _AND else Or)
            elif level == _NOT:
                self.reduce_not(len(run))
            elif level == _COMPARE:
                self.reduce_comparison(run[0])
            elif level == _SIGN:
                self.reduce_sign(run)
            else:
                self.reduce_arithmetic(run, Sum if level == _ADD else Product)

    def pop(self, count: int) -> list[tuple[Node, int]]:
        """The topmost operands, in the order of the text."""
        operands = self.operands[-count:]
        del self.operands[-count:]
        return operands

    def reduce_logic(self, run: list[tuple[int, str, int]], kind: type[And | Or]) -> None:
        operands = self.pop(len(run) + 1)
        parts = tuple([self.condition(node, at) for node, at in operands])
        self.operands.append((kind(parts), operands[0][1]))

    def reduce_not(self, count: int) -> None:
        node, at = self.operands.pop()
        condition = self.condition(node, at)
        if count % 2:
            condition = condition.operand if isinstance(condition, Not) else Not(condition)
        self.operands.append((condition, at))

    def reduce_comparison(self, operator: tuple[int, str, int]) -> None:
        _, word, at = operator
        if word.endswith("AND"):
            (operand, at_operand), (low, at_low), (high, at_high) = self.pop(3)
            values = [self.numeric(*pair) for pair in ((operand, at_operand), (low, at_low), (high, at_high))]
            self.operands.append((Between(values[0], values[1], values[2], word.startswith("NOT")), at_operand))
            return
        if word in (_BETWEEN, _NOT_BETWEEN):
            self.fail(self.tokens[self.next - 1], "AND and the upper bound of BETWEEN")
        (left, at_left), (right, at_right) = self.pop(2)
        if word in ("=", "<>"):
            comparison = Comparison(word, self.value(left, at_left), self.value(right, at_right))
            self.check_truths(comparison, at)
        else:
            comparison = Comparison(word, self.numeric(left, at_left, word), self.numeric(right, at_right, word))
        self.operands.append((comparison, at_left))

    def check_truths(self, node: Comparison, at: int) -> None:
        """TRUE and FALSE are compared with one another and with attributes."""
        for truth, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(truth, Truth) and not isinstance(other, Truth | Identifier) and not _is_signed_name(other):
                raise error_at(self.text, at, "TRUE and FALSE can be compared with an attribute, not with this")

    def reduce_sign(self, run: list[tuple[int, str, int]]) -> None:
        node, at = self.operands.pop()
        value = self.numeric(node, at, run[-1][1])
        negative = sum(word == "-" for _, word, _ in run) % 2 == 1
        self.operands.append((_signed(negative, value), run[0][2]))

    def reduce_arithmetic(self, run: list[tuple[int, str, int]], kind: type[Sum | Product]) -> None:
        operands = self.pop(len(run) + 1)
        first = self.numeric(*operands[0], run[0][1])
        rest = tuple(
            [(word, self.numeric(node, at, word)) for (_, word, _), (node, at) in zip(run, operands[1:], strict=True)]
        )
        inner = chain_of(first, kind)
        if inner is not None:
            # (a + b) + c is a + b + c: both go from left to right.
            first, rest = inner.first, inner.rest + rest
        self.operands.append((kind(first, rest), operands[0][1]))

    # ---------------------------------------------------------------- what an operand may be

    def condition(self, node: Node, at: int) -> Condition:
        """The operand as a condition: an attribute alone asks whether it is TRUE."""
        if isinstance(node, Identifier) or _is_signed_name(node):
            assert isinstance(node, Identifier | Sign)
            return Comparison("=", node, Truth(True))
        if isinstance(node, Truth):
            return Constant(node.value)
        if isinstance(node, VALUES):
            what = "a string" if isinstance(node, Text) else "a number"
            raise error_at(self.text, at, f"expected a condition, found {what}: compare it with something")
        return node

    def value(self, node: Node, at: int) -> Value:
        """The operand as a value."""
        if isinstance(node, VALUES):
            return node
        raise error_at(self.text, at, "expected an attribute, a literal or arithmetic, found a condition")

    def numeric(self, node: Node, at: int, word: str = "BETWEEN") -> Value:
        """The operand as a value that can be a number."""
        value = self.value(node, at)
        if isinstance(value, Text | Truth):
            what = "a string" if isinstance(value, Text) else "TRUE or FALSE"
            raise error_at(self.text, at, f"expected a number, found {what}: {word} is for numbers")
        return value


def _is_signed_name(node: Node) -> bool:
    return isinstance(node, Sign) and isinstance(node.operand, Identifier)


def _signed(negative: bool, value: Value) -> Value:
    """The value with one sign at most, folded into a literal."""
    if isinstance(value, Integer):
        return Integer(-value.value if negative and value.value != INT64_MIN else value.value)
    if isinstance(value, Real):
        return real(-value.value if negative else value.value)
    if isinstance(value, Sign):
        return _signed(negative != value.negative, value.operand)
    if negative or isinstance(value, Identifier):
        return Sign(negative, value)
    return value
