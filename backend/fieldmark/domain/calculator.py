"""Exact arithmetic on decimal numbers. Python's parser reads the expression; `eval` is never called.

`-2^2` is -4 and `2^3^2` is 2^9. `19%` is 0.19; `7 % 3`, with an operand right after it, is the remainder 1, which has
the sign of the second operand. Intermediate results are exact (1/3*3 is 1); a result of more than DIGITS digits is
rounded. A number is written as 1234.5. Ambiguous spellings (`1,000`, `1.000,50`) are refused.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact
from enum import StrEnum
from fractions import Fraction
from math import log2
from operator import add, mod, mul, sub
from typing import Final, NoReturn

from fieldmark.errors import InvalidExpression

DIGITS: Final = 50
"""Significant digits of a result. A longer result is rounded, half away from zero, and marked as rounded."""
MAX_CHARACTERS: Final = 8_000
MAX_OPERANDS: Final = 1_000
MAX_DEPTH: Final = 50
MAX_EXPONENT: Final = 1_000
MAX_PLACES: Final = 50
MAX_INTERMEDIATE_DIGITS: Final = 500
"""Digits of a numerator or a denominator."""
_MAX_BITS: Final = MAX_INTERMEDIATE_DIGITS * log2(10)


class Fault(StrEnum):
    """Why an expression has no result."""

    SYNTAX = "syntax"
    NUMBER = "number"  # ambiguous, or not in the form 1234.5
    NAME = "name"  # an unknown function, or wrong arguments
    ZERO = "division_by_zero"
    EXPONENT = "exponent"  # not a whole number, or too large
    TOO_LARGE = "too_large"  # too long, too deep, or too many digits


@dataclass(frozen=True, slots=True)
class Calculation:
    """A result: `value`, and `text`, the same number without an exponent. `expression` has plain signs and spaces."""

    value: Decimal
    text: str
    is_rounded: bool
    expression: str


def calculate(expression: str) -> Calculation:
    """Return the result of an expression. Raise InvalidExpression.

    >>> calculate("round(1200.50 * 19%, 2)").text
    '228.1'
    """
    if len(expression) > MAX_CHARACTERS:
        _refuse(Fault.TOO_LARGE, f"The expression has more than {MAX_CHARACTERS:,} characters", MAX_CHARACTERS)
    plain = " ".join(expression.translate(_SIGNS).lower().split())
    value, is_rounded = as_decimal(_Expression(expression.translate(_SIGNS)).result())
    return Calculation(value, spelt(value), is_rounded, plain)


def as_decimal(exact: Fraction) -> tuple[Decimal, bool]:
    """Return a rational number with at most DIGITS digits, and whether it was rounded."""
    context = Context(prec=DIGITS, rounding=ROUND_HALF_UP, Emin=-999_999, Emax=999_999)
    value = context.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return value, bool(context.flags[Inexact])


def spelt(value: Decimal) -> str:
    """Return the number without an exponent and without trailing zeros."""
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


_SIGNS: Final = str.maketrans({"−": "-", "–": "-", "×": "*", "·": "*", "÷": "/", "∕": "/", ";": ","})
_TOKEN: Final = re.compile(r"(?P<number>\.?[0-9](?:[0-9._'’]|,(?=[0-9]))*)|(?P<name>[A-Za-z_]\w*)|[-+*/%^(),]")
_NUMBER: Final = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_OPERAND: Final = re.compile(r"\s*[0-9A-Za-z_.(]")
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.Div: lambda dividend, divisor: dividend / divisor,
    ast.Mod: mod,
}


class _Expression:
    """An expression as Python source: each number is a name (`n0`), `^` is `**`, and a percent sign is `.percent`."""

    def __init__(self, text: str) -> None:
        self._numbers: dict[str, Fraction] = {}
        self._source = ""
        self._starts: list[tuple[int, int]] = []  # of each token, in the source and in the text
        at = depth = minus = 0
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            found = _TOKEN.match(text, at)
            if found is None:
                _refuse(Fault.SYNTAX, f"{text[at]!r} is not allowed: write numbers, + - * / % ^ and parentheses", at)
            depth += (found[0] == "(") - (found[0] == ")")
            minus = minus + 1 if found[0] == "-" else 0
            if depth > MAX_DEPTH or minus > MAX_DEPTH:
                _refuse(Fault.TOO_LARGE, f"It is nested more than {MAX_DEPTH} deep", at)
            self._starts.append((len(self._source), at))
            self._source += self._in_python(found) + " "
            at = found.end()

    def _in_python(self, token: re.Match[str]) -> str:
        text, at = token[0], token.start()
        if token["name"]:
            if text.lower() not in _FUNCTIONS:
                _refuse(Fault.NAME, f"There is no function {text[:40]!r}: there are {', '.join(_FUNCTIONS)}", at)
            return text.lower()
        if token["number"]:
            self._numbers[name := f"n{len(self._numbers)}"] = _number(text, at)
            if len(self._numbers) > MAX_OPERANDS:
                _refuse(Fault.TOO_LARGE, f"There are more than {MAX_OPERANDS:,} numbers", at)
            return name
        if text == "%" and not _OPERAND.match(token.string, token.end()):
            if self._source.endswith(".percent "):
                _refuse(Fault.SYNTAX, "One percent sign is enough", at)
            return ".percent"
        return "**" if text == "^" else text

    def result(self) -> Fraction:
        """Return the exact value."""
        try:
            tree = ast.parse(self._source.strip(), mode="eval").body
        except SyntaxError as error:
            _refuse(Fault.SYNTAX, "A number, sign or parenthesis is missing here", self._at((error.offset or 1) - 1))
        except (MemoryError, RecursionError):
            _refuse(Fault.TOO_LARGE, "It is nested too deeply", 0)
        return self._value(tree, 0)

    def _at(self, column: int) -> int:
        before = bisect_right(self._starts, (max(column, 0), MAX_CHARACTERS)) - 1
        return self._starts[before][1] if self._starts else 0

    def _value(self, node: ast.expr, depth: int) -> Fraction:
        if depth > MAX_DEPTH:
            _refuse(Fault.TOO_LARGE, f"It is nested more than {MAX_DEPTH} deep", self._at(node.col_offset))
        steps: list[ast.BinOp] = []  # 1 + 2 + … nests to the left, a thousand levels deep
        while isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            steps.append(node)
            node = node.left
        value = self._operand(node, depth)
        for step in reversed(steps):
            right = self._value(step.right, depth + 1)
            at = self._at(step.right.col_offset)
            if right == 0 and isinstance(step.op, ast.Div | ast.Mod):
                _refuse(Fault.ZERO, "Nothing can be divided by zero", at)
            value = _bounded(_OPERATORS[type(step.op)](value, right), at)
        return value

    def _operand(self, node: ast.expr, depth: int) -> Fraction:
        at = self._at(node.col_offset)
        match node:
            case ast.Name(id=name) if name in self._numbers:
                return self._numbers[name]
            case ast.UnaryOp(op=ast.USub()):
                return -self._value(node.operand, depth + 1)
            case ast.Attribute():
                return _bounded(self._value(node.value, depth + 1) / 100, at)
            case ast.BinOp(op=ast.Pow()):
                return _power(self._value(node.left, depth + 1), self._value(node.right, depth + 1), at)
            case ast.Call(func=ast.Name(id=name)) if name in _FUNCTIONS and node.args:
                return _bounded(_FUNCTIONS[name]([self._value(one, depth + 1) for one in node.args], at), at)
            case _:
                pass
        return _refuse(Fault.SYNTAX, "Only numbers, + - * / % ^, parentheses and functions are allowed", at)


def _number(text: str, at: int) -> Fraction:
    if len(text) > DIGITS:
        _refuse(Fault.TOO_LARGE, f"A number has at most {DIGITS} digits", at)
    if not _NUMBER.fullmatch(text):
        _refuse(
            Fault.NUMBER,
            f"{text!r} is ambiguous: write 1000.50, without separators between thousands, with a point before the "
            "fraction, and a space after a comma between two numbers",
            at,
        )
    return Fraction(text)


def _power(base: Fraction, exponent: Fraction, at: int) -> Fraction:
    if exponent.denominator != 1 or abs(exponent) > MAX_EXPONENT:
        _refuse(Fault.EXPONENT, f"An exponent is a whole number from -{MAX_EXPONENT:,} to {MAX_EXPONENT:,}", at)
    if base == 0 and exponent < 0:
        _refuse(Fault.ZERO, "Nothing can be divided by zero", at)
    if abs(exponent) * log2(max(abs(base.numerator), base.denominator)) > _MAX_BITS:
        _refuse(Fault.TOO_LARGE, f"The power has more than {MAX_INTERMEDIATE_DIGITS} digits", at)
    return _bounded(base ** int(exponent), at)


def _bounded(value: Fraction, at: int) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
        _refuse(Fault.TOO_LARGE, f"An intermediate result has more than {MAX_INTERMEDIATE_DIGITS} digits", at)
    return value


def _sum(values: Sequence[Fraction], at: int) -> Fraction:
    total = Fraction()
    for value in values:
        total = _bounded(total + value, at)
    return total


def _round(values: Sequence[Fraction], at: int) -> Fraction:
    """Round half away from zero, as people round money."""
    places = values[1] if len(values) == 2 else Fraction()
    if len(values) > 2 or places.denominator != 1 or abs(places) > MAX_PLACES:
        _refuse(Fault.NAME, f"round takes a number and its places, from -{MAX_PLACES} to {MAX_PLACES}", at)
    shift = Fraction(10) ** int(places)
    whole, half = divmod(abs(values[0]) * shift, 1)
    rounded = (whole + (half >= Fraction(1, 2))) / shift
    return -rounded if values[0] < 0 else rounded


_FUNCTIONS: Final[Mapping[str, Callable[[Sequence[Fraction], int], Fraction]]] = {
    "sum": _sum,
    "min": lambda values, _: min(values),
    "max": lambda values, _: max(values),
    "avg": lambda values, at: _sum(values, at) / len(values),
    "round": _round,
}


def _refuse(fault: Fault, what: str, at: int) -> NoReturn:
    raise InvalidExpression(f"{what} (character {at + 1}).", {"fault": fault, "at": at + 1})
