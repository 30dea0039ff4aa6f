from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as draw

from fieldmark.domain.calculator import DIGITS, Calculation, calculate
from fieldmark.errors import InvalidExpression


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1 + 2 * 3", "7"),
        ("0.1 + 0.2", "0.3"),
        ("1 / 3 * 3", "1"),
        ("7 ÷ 2 × 3 − 1", "9.5"),
        ("-2^2", "-4"),
        ("2^3^2", "512"),
        ("200 * (1 + 19%)", "238"),
        ("7 % 3", "1"),
        ("-7 % 3", "2"),
        ("sum(1, 2, 3.5)", "6.5"),
        ("SUM(1; 2)", "3"),
        ("max(1, min(5, 3))", "3"),
        ("avg(1, 2)", "1.5"),
        ("round(2.345, 2)", "2.35"),
        ("round(-2.5)", "-3"),
        ("round(1250, -2)", "1300"),
        ("0 - 0.0", "0"),
    ],
)
def test_result_is_exact(expression, result):
    calculation = calculate(expression)
    assert (calculation.text, calculation.is_rounded) == (result, False)


def test_repeating_decimal_is_rounded_and_marked():
    third = calculate("2 / 3")
    assert third == Calculation(Decimal("0." + "6" * (DIGITS - 1) + "7"), "0." + "6" * 49 + "7", True, "2 / 3")
    assert not calculate("2 / 3 * 3").is_rounded
    assert calculate("7%3 + Sum(19%; 2) × 2").expression == "7%3 + sum(19%, 2) * 2"


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "(1",
        "19%%",
        "sum(*1)",
        "n0 + 1",
        "1,000",
        "1'000",
        "1 000",
        ".5",
        "1_000",
        "1e5",
        "__import__('os')",
        "round(1, 2, 3)",
        "1 / 0",
        "2 ^ 0.5",
        "9^9^9^9",
        "9" * 51,
    ],
)
def test_invalid_or_ambiguous_expression_is_refused(expression):
    with pytest.raises(InvalidExpression):
        calculate(expression)


FORTY_NINES = "9" * 40


@pytest.mark.parametrize(
    "bomb",
    [
        "9^9^9^9",
        "9" * 9_000,
        "(" * 4_000,
        "sum(" * 1_500,
        "+".join(f"1/{number}" for number in range(900, 1_700)),
        f"(1/{FORTY_NINES})^-999",
        "*".join([f"({FORTY_NINES}^12)"] * 150),
        "(9^520)^0 + " + "%".join([f"{FORTY_NINES}"] * 180) + "(",
        "sum(" + ", ".join(f"1/{'7' * 30}{number}" for number in range(100, 250)) + ")",
    ],
)
def test_expensive_expression_is_refused(bomb):
    with pytest.raises(InvalidExpression):
        calculate(bomb)


@given(draw.text(alphabet="0123456789.,+-*/%^() sumaxroundé", max_size=60))
def test_any_text_is_calculated_or_refused(text):
    try:
        calculation = calculate(text)
    except InvalidExpression:
        return
    assert Decimal(calculation.text) == calculation.value
