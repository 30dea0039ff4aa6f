"""Arithmetic on decimal numbers, by a grammar and never by `eval`.

    sum     = product (("+" | "-") product)*
    product = signed (("*" | "/" | "%" before an operand) signed)*
    signed  = "-" signed | power
    power   = percent ("^" signed)?
    percent = operand "%"?
    operand = number | "(" sum ")" | name "(" sum ("," sum)* ")"

`-2^2` is -4, `2^3^2` is 2^9. `19%` is 0.19; `7 % 3`, with an operand right behind it, is the remainder 1, which has the
sign of the second. Between, all is exact (1/3*3 is 1); the result is rounded if it has more than DIGITS digits. Numbers
are written as 1234.5: what could be read in two ways (`1,000`, `1.000,50`) is refused and not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact
from enum import StrEnum
from fractions import Fraction
from math import log2
from typing import Final, NamedTuple, NoReturn

from fieldmark.errors import InvalidExpression

DIGITS: Final = 50
"""So many significant digits a result has at most. One with more is rounded, half away from zero, and says so."""
MAX_CHARACTERS: Final = 8_000
MAX_OPERANDS: Final = 1_000
MAX_DEPTH: Final = 50
MAX_EXPONENT: Final = 1_000
MAX_PLACES: Final = 50
MAX_INTERMEDIATE_DIGITS: Final = 500
"""Of a numerator or a denominator."""


class Fault(StrEnum):
    """Why an expression has no result."""

    SYNTAX = "syntax"
    NUMBER = "number"  # it could be read in two ways, or is written as no number is here
    NAME = "name"  # a function that there is not, or with other arguments
    ZERO = "division_by_zero"
    EXPONENT = "exponent"  # it is no whole number, or is too large
    TOO_LARGE = "too_large"  # too long, too deep, or with too many digits


@dataclass(frozen=True, slots=True)
class Calculation:
    """A result: `value`, and `text`, its one spelling without an exponent. `expression` is how it was understood."""

    value: Decimal
    text: str
    is_rounded: bool
    expression: str


def calculate(expression: str) -> Calculation:
    """The result of an expression. Raises InvalidExpression.

    >>> calculate("round(1200.50 * 19%, 2)").text
    '228.1'
    """
    if len(expression) > MAX_CHARACTERS:
        _refuse(Fault.TOO_LARGE, f"The expression has more than {MAX_CHARACTERS:,} characters.", MAX_CHARACTERS)
    parser = _Parser(_tokens(expression))
    exact, said = parser.whole()
    value, is_rounded = as_decimal(exact)
    return Calculation(value, spelt(value), is_rounded, said)


def as_decimal(exact: Fraction) -> tuple[Decimal, bool]:
    """A rational number with at most DIGITS digits, and whether it had to be rounded."""
    context = Context(prec=DIGITS, rounding=ROUND_HALF_UP, Emin=-999_999, Emax=999_999)
    value = context.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return value, bool(context.flags[Inexact])


def spelt(value: Decimal) -> str:
    """The number without an exponent and without zeros behind its last digit."""
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


class _Token(NamedTuple):
    kind: str  # number, name, sign, end
    text: str
    at: int


_TOKEN: Final = re.compile(r"(?P<number>[0-9][0-9.,_'’]*|\.[0-9]+)|(?P<name>[A-Za-z_]\w*)|(?P<sign>[-+*/%^(),;])|\s+")
_NUMBER: Final = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_SIGNS: Final = str.maketrans({"−": "-", "–": "-", "×": "*", "·": "*", "÷": "/", "∕": "/"})


def _tokens(text: str) -> list[_Token]:
    said, tokens, at = text.translate(_SIGNS), list[_Token](), 0
    while at < len(said):
        found = _TOKEN.match(said, at)
        if found is None:
            _refuse(Fault.SYNTAX, f"{text[at]!r} says nothing here: write numbers, + - * / % ^ and parentheses", at)
        if found.lastgroup is not None:
            kind, word = found.lastgroup, found[0]
            if (
                kind == "number"
                and word.endswith(",")
                and word.count(",") == 1
                and not said[found.end() :][:1].isdigit()
            ):
                word = word[:-1]  # the comma between two arguments, with a space behind it
            tokens.append(_Token(kind, word, at))
            at += len(word)
        else:
            at = found.end()
    tokens.append(_Token("end", "", len(said)))
    return tokens


class _Parser:
    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0
        self._operands = 0

    def whole(self) -> tuple[Fraction, str]:
        value, said = self._sum()
        if self._peek.kind != "end":
            self._unexpected()
        return value, said

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._peek
        self._next += 1
        return token

    def _is(self, *signs: str) -> bool:
        return self._peek.kind == "sign" and self._peek.text in signs

    def _sum(self) -> tuple[Fraction, str]:
        self._deeper()
        value, said = self._product()
        while self._is("+", "-"):
            sign = self._take()
            right, right_said = self._product()
            value = _bounded(value + right if sign.text == "+" else value - right, sign.at)
            said = f"{said} {sign.text} {right_said}"
        self._depth -= 1
        return value, said

    def _product(self) -> tuple[Fraction, str]:
        value, said = self._signed()
        while self._is("*", "/", "%"):
            sign = self._take()
            right, right_said = self._signed()
            if sign.text != "*" and right == 0:
                _refuse(Fault.ZERO, "Nothing can be divided by zero", sign.at)
            match sign.text:
                case "*":
                    value *= right
                case "/":
                    value /= right
                case _:
                    value %= right
            value = _bounded(value, sign.at)
            said = f"{said} {sign.text} {right_said}"
        return value, said

    def _signed(self) -> tuple[Fraction, str]:
        if not self._is("-"):
            return self._power()
        self._take()
        self._deeper()
        value, said = self._signed()
        self._depth -= 1
        return -value, f"-{said}"

    def _power(self) -> tuple[Fraction, str]:
        base, said = self._percent()
        if not self._is("^"):
            return base, said
        at = self._take().at
        self._deeper()
        exponent, exponent_said = self._signed()
        self._depth -= 1
        return _raised(base, exponent, at), f"{said}^{exponent_said}"

    def _percent(self) -> tuple[Fraction, str]:
        value, said = self._operand()
        if self._is("%") and not self._begins_operand(self._tokens[self._next + 1]):
            at = self._take().at
            value, said = _bounded(value / 100, at), f"{said}%"
        return value, said

    @staticmethod
    def _begins_operand(token: _Token) -> bool:
        return token.kind in ("number", "name") or (token.kind, token.text) == ("sign", "(")

    def _operand(self) -> tuple[Fraction, str]:
        self._operands += 1
        if self._operands > MAX_OPERANDS:
            _refuse(Fault.TOO_LARGE, f"There are more than {MAX_OPERANDS:,} numbers", self._peek.at)
        if self._is("("):
            self._take()
            value, said = self._sum()
            self._close()
            return value, f"({said})"
        token = self._take()
        if token.kind == "number":
            return _number(token), token.text
        if token.kind == "name":
            return self._call(token)
        self._next -= 1
        return self._unexpected()

    def _call(self, name: _Token) -> tuple[Fraction, str]:
        function = _FUNCTIONS.get(name.text.lower())
        if function is None:
            known = ", ".join(_FUNCTIONS)
            _refuse(Fault.NAME, f"There is no function {name.text[:40]!r}: there are {known}", name.at)
        if not self._is("("):
            _refuse(Fault.SYNTAX, f"Behind {name.text} its numbers stand in parentheses", self._peek.at)
        self._take()
        values = list[Fraction]()
        words = list[str]()
        while not values or self._is(",", ";"):
            if values:
                self._take()
            value, said = self._sum()
            values.append(value)
            words.append(said)
        self._close()
        return _bounded(function(values, name.at), name.at), f"{name.text.lower()}({', '.join(words)})"

    def _close(self) -> None:
        if not self._is(")"):
            if self._peek.kind == "end":
                _refuse(Fault.SYNTAX, "A closing parenthesis is missing", self._peek.at)
            self._unexpected()
        self._take()

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            _refuse(Fault.TOO_LARGE, f"It is nested more than {MAX_DEPTH} deep", self._peek.at)

    def _unexpected(self) -> NoReturn:
        token = self._peek
        if token.kind == "end":
            _refuse(Fault.SYNTAX, "A number is missing at the end", token.at)
        before = self._tokens[self._next - 1] if self._next else None
        if token.kind == "number" and before is not None and before.kind == "number":
            _refuse(Fault.NUMBER, "Two numbers stand side by side: thousands have no separator, 1000", token.at)
        if token.kind in ("number", "name") or token.text == "(":
            _refuse(Fault.SYNTAX, f"A sign such as * is missing before {token.text[:40]!r}", token.at)
        _refuse(Fault.SYNTAX, f"A number is missing before {token.text!r}", token.at)


def _number(token: _Token) -> Fraction:
    if len(token.text) > DIGITS:
        _refuse(Fault.TOO_LARGE, f"A number has at most {DIGITS} digits", token.at)
    if not _NUMBER.fullmatch(token.text):
        _refuse(
            Fault.NUMBER,
            f"{token.text!r} could be read in several ways: write 1000.50, without separators between thousands, with "
            "a point before the fraction, and a space behind a comma between two numbers",
            token.at,
        )
    return Fraction(token.text)


def _raised(base: Fraction, exponent: Fraction, at: int) -> Fraction:
    if exponent.denominator != 1 or abs(exponent) > MAX_EXPONENT:
        _refuse(Fault.EXPONENT, f"An exponent is a whole number from -{MAX_EXPONENT:,} to {MAX_EXPONENT:,}", at)
    if base == 0 and exponent < 0:
        _refuse(Fault.ZERO, "Nothing can be divided by zero", at)
    larger = max(abs(base.numerator), base.denominator)
    if abs(exponent) * log2(larger) > _MAX_BITS:
        _refuse(Fault.TOO_LARGE, f"The power has more than {MAX_INTERMEDIATE_DIGITS} digits", at)
    return _bounded(base ** int(exponent), at)


_MAX_BITS: Final = MAX_INTERMEDIATE_DIGITS * log2(10)


def _bounded(value: Fraction, at: int) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
        _refuse(Fault.TOO_LARGE, f"What stands here comes to more than {MAX_INTERMEDIATE_DIGITS} digits", at)
    return value


def _sum_of(values: Sequence[Fraction], at: int) -> Fraction:
    total = Fraction()
    for value in values:
        total = _bounded(total + value, at)
    return total


def _average(values: Sequence[Fraction], at: int) -> Fraction:
    return _sum_of(values, at) / len(values)


def _rounded(values: Sequence[Fraction], at: int) -> Fraction:
    """Half away from zero, as people round money."""
    places = values[1] if len(values) == 2 else Fraction()
    if len(values) > 2 or places.denominator != 1 or abs(places) > MAX_PLACES:
        _refuse(Fault.NAME, f"round takes a number and how many places, from -{MAX_PLACES} to {MAX_PLACES}", at)
    shift = Fraction(10) ** int(places)
    whole, half = divmod(abs(values[0]) * shift, 1)
    rounded = (whole + (half >= Fraction(1, 2))) / shift
    return -rounded if values[0] < 0 else rounded


_FUNCTIONS: Final[Mapping[str, Callable[[Sequence[Fraction], int], Fraction]]] = {
    "sum": _sum_of,
    "min": lambda values, _: min(values),
    "max": lambda values, _: max(values),
    "avg": _average,
    "round": _rounded,
}


def _refuse(fault: Fault, what: str, at: int) -> NoReturn:
    raise InvalidExpression(f"{what.rstrip('.')} (character {at + 1}).", {"fault": fault, "at": at + 1})
