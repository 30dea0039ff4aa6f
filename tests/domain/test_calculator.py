"""The calculator, compared with fractions; and what it refuses."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as draw

from fieldmark.domain.calculator import DIGITS, Calculation, Fault, calculate
from fieldmark.errors import InvalidExpression


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("0.1 + 0.2", "0.3"),
        ("10 - 2 - 3", "5"),
        ("100 / 8 / 2", "6.25"),
        ("1 / 3 * 3", "1"),
        ("7 ÷ 2 × 3 − 1", "9.5"),
        ("-2^2", "-4"),
        ("(-2)^2", "4"),
        ("2^3^2", "512"),
        ("2^-2", "0.25"),
        ("2 * -3", "-6"),
        ("--3", "3"),
        ("19%", "0.19"),
        ("200 * 19%", "38"),
        ("200 * (1 + 19%)", "238"),
        ("50% ^ 2", "0.25"),
        ("10% - 3", "-2.9"),
        ("7 % 3", "1"),
        ("-7 % 3", "2"),
        ("7.5 % 2", "1.5"),
        ("10 % (2 + 1)", "1"),
        ("sum(1, 2, 3.5)", "6.5"),
        ("SUM(1; 2)", "3"),
        ("max(1, min(5, 3))", "3"),
        ("avg(1, 2)", "1.5"),
        ("round(2.345, 2)", "2.35"),
        ("round(-2.5)", "-3"),
        ("round(1250, -2)", "1300"),
        ("round(1 / 3, 4)", "0.3333"),
        ("0 - 0.0", "0"),
        ("1000000 * 1000000", "1000000000000"),
        ("963.12", "963.12"),
    ],
)
def test_it_reckons_exactly(expression, result):
    calculation = calculate(expression)
    assert (calculation.text, calculation.is_rounded) == (result, False)


def test_what_does_not_end_is_rounded_and_said_to_be():
    third = calculate("2 / 3")
    assert third == Calculation(Decimal("0." + "6" * (DIGITS - 1) + "7"), "0." + "6" * 49 + "7", True, "2 / 3")
    assert not calculate("2 / 3 * 3").is_rounded


def test_it_tells_how_it_has_understood():
    assert calculate("7%3 + 19% × 2").expression == "7%3 + 19% * 2"
    assert calculate("Sum(1; 2)").expression == "sum(1, 2)"


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("", Fault.SYNTAX),
        ("   ", Fault.SYNTAX),
        ("1 +", Fault.SYNTAX),
        ("* 2", Fault.SYNTAX),
        ("(1", Fault.SYNTAX),
        ("1)", Fault.SYNTAX),
        ("2(3)", Fault.SYNTAX),
        ("2 ** 3", Fault.SYNTAX),
        ("sum()", Fault.SYNTAX),
        ("sum 1", Fault.SYNTAX),
        ("19%%", Fault.SYNTAX),
        ("$5 + 1", Fault.SYNTAX),
        ("5 € + 1", Fault.SYNTAX),
        ("１ + 1", Fault.SYNTAX),
        ("1 == 1", Fault.SYNTAX),
        ("1\0", Fault.SYNTAX),
        ("2(3)(4)", Fault.SYNTAX),
        ("sum(*1)", Fault.SYNTAX),
        ("(1, 2)", Fault.SYNTAX),
        ("2 // 3", Fault.SYNTAX),
        ("n0 + 1", Fault.NAME),
        ("1,000", Fault.NUMBER),
        ("1.000,50", Fault.NUMBER),
        ("1.000.000", Fault.NUMBER),
        ("1'000", Fault.NUMBER),
        ("1 000", Fault.NUMBER),
        ("max(1,500)", Fault.NUMBER),
        ("max(1,500, 2)", Fault.NUMBER),
        ("max(007, 1)", Fault.NUMBER),
        (".5", Fault.NUMBER),
        ("5.", Fault.NUMBER),
        ("1_000", Fault.NUMBER),
        ("1e5", Fault.NAME),
        ("NaN", Fault.NAME),
        ("Infinity", Fault.NAME),
        ("__import__('os')", Fault.NAME),
        ("eval(1)", Fault.NAME),
        ("pow(2, 3)", Fault.NAME),
        ("round(1, 2, 3)", Fault.NAME),
        ("round(1, 0.5)", Fault.NAME),
        ("1 / 0", Fault.ZERO),
        ("1 % (2 - 2)", Fault.ZERO),
        ("0 ^ -1", Fault.ZERO),
        ("2 ^ 0.5", Fault.EXPONENT),
        ("2 ^ 1001", Fault.EXPONENT),
        ("9^9^9^9", Fault.EXPONENT),
        ("9" * 51, Fault.TOO_LARGE),
    ],
)
def test_what_it_refuses_it_names(expression, fault):
    with pytest.raises(InvalidExpression) as refused:
        calculate(expression)
    assert refused.value.details["fault"] is fault
    assert 1 <= refused.value.details["at"] <= len(expression) + 1


_NINES = "9" * 40


@pytest.mark.parametrize(
    "bomb",
    [
        "9^9^9^9",
        "9" * 9_000,
        "(" * 4_000,
        "-" * 7_000 + "1",
        "2^" * 3_000 + "2",
        "1+" * 3_000 + "1",
        "sum(" * 1_500,
        "+".join(f"1/{number}" for number in range(900, 1_700)),
        f"{_NINES}^999",
        f"(1/{_NINES})^-999",
        "*".join([f"({_NINES}^12)"] * 150),
        "((((9^500)^9)^9)^9)",
        "(9^520)^0 + " + "%".join([f"{_NINES}"] * 180) + "(",
        "sum(" + ", ".join(f"1/{'7' * 30}{number}" for number in range(100, 250)) + ")",
    ],
)
def test_expression_that_would_compute_for_hours_is_refused(bomb):
    with pytest.raises(InvalidExpression):
        calculate(bomb)


_NUMBERS = draw.decimals(min_value=0, max_value=10**9, places=3, allow_nan=False, allow_infinity=False)


@draw.composite
def _expressions(drawn, depth: int = 3) -> tuple[str, Fraction]:
    kind = drawn(draw.sampled_from(["number", "+", "-", "*", "/", "^", "minus", "%", "sum", "max", "round"]))
    if depth == 0 or kind == "number":
        number = drawn(_NUMBERS)
        return format(number, "f"), Fraction(number)
    left, value = drawn(_expressions(depth - 1))
    if kind == "minus":
        return f"-({left})", -value
    if kind == "%":
        return f"({left})%", value / 100
    if kind == "^":
        exponent = drawn(draw.integers(0, 3))
        return f"({left})^{exponent}", value**exponent
    if kind == "round":
        with localcontext(Context(prec=400, rounding=ROUND_HALF_UP)):
            exact = Decimal(value.numerator) / Decimal(value.denominator)
            return f"round({left}, 2)", Fraction(exact.quantize(Decimal("0.01")))
    right, other = drawn(_expressions(depth - 1))
    if kind == "/" and other == 0:
        kind = "+"
    match kind:
        case "+":
            return f"({left}) + ({right})", value + other
        case "-":
            return f"({left}) - ({right})", value - other
        case "*":
            return f"({left}) × ({right})", value * other
        case "/":
            return f"({left}) ÷ ({right})", value / other
        case "sum":
            return f"sum({left}, {right}, {left})", value + other + value
        case _:
            return f"max({left}, {right})", max(value, other)


@given(_expressions())
def test_it_says_what_fractions_say(drawn):
    expression, truth = drawn
    calculation = calculate(expression)
    context = Context(prec=DIGITS, rounding=ROUND_HALF_UP)
    assert calculation.value == context.divide(Decimal(truth.numerator), Decimal(truth.denominator))
    assert calculation.is_rounded == (Fraction(calculation.value) != truth)
    # What it has understood says the same.
    assert calculate(calculation.expression).value == calculation.value


@given(draw.text(alphabet="0123456789.,+-*/%^() sumaxroundé", max_size=60))
def test_any_text_has_a_result_or_is_refused(text):
    try:
        calculation = calculate(text)
    except InvalidExpression:
        return
    assert Decimal(calculation.text) == calculation.value
