"""The calculator: exact results, and what it refuses."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as draw

from fieldmark.domain.calculator import DIGITS, Calculation, Fault, calculate
from fieldmark.errors import InvalidExpression


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1 + 2 * 3", "7"),
        ("0.1 + 0.2", "0.3"),
        ("100 / 8 / 2", "6.25"),
        ("1 / 3 * 3", "1"),
        ("7 ÷ 2 × 3 − 1", "9.5"),
        ("-2^2", "-4"),
        ("2^3^2", "512"),
        ("2 * -3", "-6"),
        ("200 * 19%", "38"),
        ("200 * (1 + 19%)", "238"),
        ("7 % 3", "1"),
        ("-7 % 3", "2"),
        ("10 % (2 + 1)", "1"),
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


def test_endless_fraction_is_rounded_and_marked():
    third = calculate("2 / 3")
    assert third == Calculation(Decimal("0." + "6" * (DIGITS - 1) + "7"), "0." + "6" * 49 + "7", True, "2 / 3")
    assert not calculate("2 / 3 * 3").is_rounded
    assert calculate("7%3 + Sum(19%; 2) × 2").expression == "7%3 + sum(19%, 2) * 2"


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("", Fault.SYNTAX),
        ("1 +", Fault.SYNTAX),
        ("(1", Fault.SYNTAX),
        ("2(3)", Fault.SYNTAX),
        ("2 ** 3", Fault.SYNTAX),
        ("sum 1", Fault.SYNTAX),
        ("19%%", Fault.SYNTAX),
        ("sum(*1)", Fault.SYNTAX),
        ("n0 + 1", Fault.NAME),
        ("1,000", Fault.NUMBER),
        ("1.000,50", Fault.NUMBER),
        ("1'000", Fault.NUMBER),
        ("1 000", Fault.NUMBER),
        ("max(007, 1)", Fault.NUMBER),
        (".5", Fault.NUMBER),
        ("1_000", Fault.NUMBER),
        ("1e5", Fault.NAME),
        ("__import__('os')", Fault.NAME),
        ("round(1, 2, 3)", Fault.NAME),
        ("round(1, 0.5)", Fault.NAME),
        ("1 / 0", Fault.ZERO),
        ("0 ^ -1", Fault.ZERO),
        ("2 ^ 0.5", Fault.EXPONENT),
        ("9^9^9^9", Fault.EXPONENT),
        ("9" * 51, Fault.TOO_LARGE),
    ],
)
def test_refusal_names_fault_and_position(expression, fault):
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
        "sum(" * 1_500,
        "+".join(f"1/{number}" for number in range(900, 1_700)),
        f"(1/{_NINES})^-999",
        "*".join([f"({_NINES}^12)"] * 150),
        "(9^520)^0 + " + "%".join([f"{_NINES}"] * 180) + "(",
        "sum(" + ", ".join(f"1/{'7' * 30}{number}" for number in range(100, 250)) + ")",
    ],
)
def test_expression_that_would_compute_for_hours_is_refused(bomb):
    with pytest.raises(InvalidExpression):
        calculate(bomb)


@given(draw.text(alphabet="0123456789.,+-*/%^() sumaxroundé", max_size=60))
def test_any_text_has_a_result_or_is_refused(text):
    try:
        calculation = calculate(text)
    except InvalidExpression:
        return
    assert Decimal(calculation.text) == calculation.value
