"""Exact arithmetic on decimal numbers. Python's parser reads the expression; `eval` is never called.

`-2^2` is -4 and `2^3^2` is 2^9. `19%` is 0.19; `7 % 3`, with an operand right after it, is the remainder 1, which has
the sign of the second operand. Intermediate results are exact (1/3*3 is 1); a result of more than DIGITS digits is
rounded. A number is written as 1234.5. Ambiguous spellings (`1,000`, `1.000,50`) are refused.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact
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
        _refuse(f"The expression has more than {MAX_CHARACTERS:,} characters")
    plain = " ".join(expression.translate(_SIGNS).lower().split())
    value, is_rounded = as_decimal(_evaluate(plain))
    return Calculation(value, format_decimal(value), is_rounded, plain)


def as_decimal(exact: Fraction) -> tuple[Decimal, bool]:
    """Return a rational number with at most DIGITS digits, and whether it was rounded."""
    context = Context(prec=DIGITS, rounding=ROUND_HALF_UP, Emin=-999_999, Emax=999_999)
    value = context.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return value, bool(context.flags[Inexact])


def format_decimal(value: Decimal) -> str:
    """Return the number without an exponent and without trailing zeros."""
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


_SIGNS: Final = str.maketrans({"−": "-", "–": "-", "×": "*", "·": "*", "÷": "/", "∕": "/", ";": ","})
_FORBIDDEN: Final = re.compile(r"[^0-9a-z_.,+\-*/%^() '’]|%\s*%(?!\s*[0-9a-z_.(])")
_NUMBER_LIKE: Final = re.compile(r"\.?[0-9](?:[0-9._'’]|,(?=[0-9]))*")
_NUMBER: Final = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_NAME: Final = re.compile(r"[a-z_]+")
_PERCENT: Final = re.compile(r"%(?!\s*[0-9a-z_.(])")
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.Div: lambda dividend, divisor: dividend / divisor,
    ast.Mod: mod,
}


def _evaluate(text: str) -> Fraction:
    if found := _FORBIDDEN.search(text):
        _refuse(f"{found[0]!r} is not allowed: write numbers, + - * / % ^ and parentheses")
    numbers = _NUMBER_LIKE.findall(text)
    for number in numbers:
        if len(number) > DIGITS:
            _refuse(f"A number has at most {DIGITS} digits")
        if not _NUMBER.fullmatch(number):
            _refuse(
                f"{number!r} is ambiguous: write 1000.50, without separators between thousands, with a point before "
                "the fraction, and a space after a comma between two numbers"
            )
    if len(numbers) > MAX_OPERANDS:
        _refuse(f"The expression has more than {MAX_OPERANDS:,} numbers")
    for name in _NAME.findall(text):
        if name not in _FUNCTIONS:
            _refuse(f"The function {name[:40]!r} does not exist. Use {', '.join(_FUNCTIONS)}")
    # A percent sign binds more tightly than a power, as an attribute does in Python.
    source = _PERCENT.sub(" .percent", text).replace("^", "**")
    try:
        return _value(ast.parse(source, mode="eval").body, source, 0)
    except SyntaxError:
        _refuse("A number, sign or parenthesis is missing, or a parenthesis is in the wrong place")
    except (MemoryError, RecursionError):
        _refuse("The expression is nested too deeply")


def _value(node: ast.expr, source: str, depth: int) -> Fraction:
    if depth > MAX_DEPTH:
        _refuse(f"The expression is nested more than {MAX_DEPTH} deep")
    steps: list[ast.BinOp] = []  # 1 + 2 + … nests to the left, a thousand levels deep
    while isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        steps.append(node)
        node = node.left
    value = _operand(node, source, depth)
    for step in reversed(steps):
        right = _value(step.right, source, depth + 1)
        if right == 0 and isinstance(step.op, ast.Div | ast.Mod):
            _refuse("The expression divides by zero")
        value = _bounded(_OPERATORS[type(step.op)](value, right))
    return value


def _operand(node: ast.expr, source: str, depth: int) -> Fraction:
    def value_of(inner: ast.expr) -> Fraction:
        return _value(inner, source, depth + 1)

    match node:
        case ast.Constant(value=int() | float()):
            return Fraction(source[node.col_offset : node.end_col_offset])  # the source text, in ASCII on one line
        case ast.UnaryOp(op=ast.USub()):
            return -value_of(node.operand)
        case ast.Attribute():
            return _bounded(value_of(node.value) / 100)
        case ast.BinOp(op=ast.Pow()):
            return _power(value_of(node.left), value_of(node.right))
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS and node.args:
            return _bounded(_FUNCTIONS[name]([value_of(one) for one in node.args]))
        case _:
            return _refuse("Only numbers, + - * / % ^, parentheses and functions are allowed")


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1 or abs(exponent) > MAX_EXPONENT:
        _refuse(f"An exponent must be a whole number from -{MAX_EXPONENT:,} to {MAX_EXPONENT:,}")
    if base == 0 and exponent < 0:
        _refuse("The expression divides by zero")
    if abs(exponent) * log2(max(abs(base.numerator), base.denominator)) > _MAX_BITS:
        _refuse(f"The power has more than {MAX_INTERMEDIATE_DIGITS} digits")
    return _bounded(base ** int(exponent))


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
        _refuse(f"An intermediate result has more than {MAX_INTERMEDIATE_DIGITS} digits")
    return value


def _sum(values: Sequence[Fraction]) -> Fraction:
    total = Fraction()
    for value in values:
        total = _bounded(total + value)
    return total


def _round(values: Sequence[Fraction]) -> Fraction:
    """Round half away from zero, as people round money."""
    places = values[1] if len(values) == 2 else Fraction()
    if len(values) > 2 or places.denominator != 1 or abs(places) > MAX_PLACES:
        _refuse(f"round takes a number and its decimal places, from -{MAX_PLACES} to {MAX_PLACES}")
    shift = Fraction(10) ** int(places)
    whole, half = divmod(abs(values[0]) * shift, 1)
    rounded = (whole + (half >= Fraction(1, 2))) / shift
    return -rounded if values[0] < 0 else rounded


_FUNCTIONS: Final[Mapping[str, Callable[[Sequence[Fraction]], Fraction]]] = {
    "sum": _sum,
    "min": min,
    "max": max,
    "avg": lambda values: _sum(values) / len(values),
    "round": _round,
}


def _refuse(problem: str) -> NoReturn:
    raise InvalidExpression(f"{problem}.")
