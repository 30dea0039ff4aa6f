from __future__ import annotations

import json
from decimal import Decimal
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as draw
from pydantic import ValidationError

from fieldmark.domain import paths
from fieldmark.domain.document_filters import DocumentFilters, FieldCondition, FilterOp
from fieldmark.domain.paths import EACH
from fieldmark.errors import Invalid


@pytest.mark.parametrize(
    ("text", "path", "op", "value"),
    [
        ("total > 1000", "total", ">", Decimal(1000)),
        ('vendor.name = "Acme"', "vendor.name", "=", "Acme"),
        ('vendor.name != "Acme \\"& Co\\""', "vendor.name", "!=", 'Acme "& Co"'),
        ('items[].unit price contains "x = y"', "items[].unit price", "contains", "x = y"),
        ("paid = true", "paid", "=", True),
        ("items[2].total exists", "items[2].total", "exists", None),
        ("  due date   missing ", "due date", "missing", None),
        ('["a < b"].c = 1', "a < b.c", "=", Decimal(1)),
        ('["a\\"] = 1"] missing', '["a\\"] = 1"]', "missing", None),
        ('number = "1,000"', "number", "=", "1,000"),
        ("total = 100000000000000000000000000000.01", "total", "=", Decimal("100000000000000000000000000000.01")),
    ],
)
def test_condition_is_parsed(text, path, op, value):
    condition = FieldCondition.parse(text)
    assert (condition.path, condition.op, condition.value) == (path, FilterOp(op), value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "total",
        "total > 1,000",
        "total > 1e3",
        "total > " + "9" * 42,
        'total > "a"',
        "total > 2024-02-30",
        "total = Acme",
        'total = "a" or 1 = 1',
        "total contains 3",
        "total exists 3",
        "a[].b[].c[].d[].e = 1",
        'total = "\\u0000"',
        'total = "' + "x" * 501 + '"',
        "x" * 5000 + " = 1",
    ],
)
def test_invalid_condition_is_refused(text):
    with pytest.raises(Invalid) as refused:
        FieldCondition.parse(text)
    assert str(refused.value)


@given(draw.text(max_size=80))
def test_any_text_is_parsed_or_refused(text):
    try:
        condition = FieldCondition.parse(text)
    except Invalid:
        return
    assert paths.name(condition.pattern) == condition.path


@given(
    draw.lists(draw.one_of(draw.text(min_size=1, max_size=8), draw.integers(0, 99), draw.just(EACH)), max_size=6),
    draw.one_of(draw.decimals(allow_nan=False, allow_infinity=False, places=3), draw.text(min_size=1, max_size=20)),
)
def test_formatted_condition_parses_to_the_same_condition(steps, value):
    path = paths.name(("a", *steps))
    try:
        given = FieldCondition(path=path, op=FilterOp.EQ, value=value)
    except ValidationError:
        return
    quoted = "".join(f"[{json.dumps(step)}]" if isinstance(step, str) else paths.name([step]) for step in given.pattern)
    said = json.dumps(given.value) if isinstance(given.value, str) else format(given.value, "f")
    assert FieldCondition.parse(f"{quoted} = {said}") == given


@pytest.mark.parametrize(
    "values",
    [
        {"document_ids": [str(uuid4()) for _ in range(201)]},
        {"fields": [{"path": "a", "op": "exists"}] * 21},
        {"fields": [{"path": "a", "op": "or 1=1", "value": 1}]},
        {"fields": [{"path": "a", "op": "=", "value": {"$ne": None}}]},
        {"fields": [{"path": "a", "op": "=", "value": "\ud800"}]},
        {"uploaded_after": "2024-01-01T00:00:00"},
    ],
)
def test_filters_are_bounded_and_strict(values):
    with pytest.raises(ValidationError):
        DocumentFilters.model_validate(values)


def test_numbers_are_exact_and_texts_stay_texts():
    given = '{"fields": [{"path": "a", "op": ">", "value": 0.1}, {"path": "a", "op": "=", "value": "12.30"}]}'
    assert [one.value for one in DocumentFilters.model_validate_json(given).fields] == [Decimal("0.1"), "12.30"]
