"""Comparing two readings, and whether two models are of one vendor."""

from __future__ import annotations

import pytest

from fieldmark.domain.second_reading import OtherValue, compare_readings, is_same_vendor

GATEWAY = "http://127.0.0.1:4000"


@pytest.mark.parametrize(
    ("model", "other", "url", "other_url", "expected"),
    [
        # One vendor's models behind two addresses, and two vendors' models behind one.
        ("claude-sonnet-5", "bedrock/eu.anthropic.claude-haiku-4-5-v1:0", None, GATEWAY, True),
        ("claude-sonnet-5", "gpt-6", GATEWAY, GATEWAY, False),
        ("gpt-6", "azure/gpt-4o", GATEWAY, "https://x.openai.azure.com", True),
        ("vertex_ai/claude-opus-5", "vertex_ai/gemini-3-pro", GATEWAY, GATEWAY, False),
        ("qwen3-vl", "qwq-32b", GATEWAY, GATEWAY, True),
        # A name without a family: the address, if it has models of one vendor only.
        ("claude-sonnet-5", "latest", GATEWAY, "https://api.deepseek.com/anthropic", False),
        ("large", "claude-haiku-4-5", None, GATEWAY, True),
        # Not known, so nothing is claimed: a gateway has any vendor's models, and `openai/` names a protocol.
        ("claude-sonnet-5", "local", None, GATEWAY, None),
        ("gpt-6", "openai/in-house", GATEWAY, GATEWAY, None),
        ("claude-sonnet-5", "latest", None, "https://anthropic.com.example.org", None),
        # The same model makes the same errors, wherever it runs.
        ("local", "local", GATEWAY, "http://127.0.0.1:8000", True),
    ],
)
def test_vendor_is_that_of_the_model_and_not_of_the_gateway(model, other, url, other_url, expected):
    assert is_same_vendor(model, other, url, other_url) is expected


def test_rows_are_those_of_the_second_reading_in_its_order():
    first = {"rows": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 9, "b": "total"}]}
    second = {"rows": [{"a": 3, "b": "z"}, {"a": 2, "b": "y"}, {"a": 1, "b": "w"}]}
    compared = compare_readings(first, second)
    assert compared.rows == {"rows": [OtherValue({"a": 3, "b": "z"}, "rows[0]"), 1, 0]}
    assert compared.differs == {"rows[0].b": OtherValue("w", "rows[2].b")}
    assert compared.unpaired == ["rows[2].a", "rows[2].b"]


def test_lists_in_rows_are_compared_with_the_row_that_is_paired():
    first = {"rows": [{"no": "A-1"}, {"no": "B-2", "parts": [{"p": 1}]}]}
    second = {"rows": [{"no": "B-2"}, {"no": "A-1", "parts": [{"p": 5}]}]}
    compared = compare_readings(first, second)
    # (In the first reading row 0 has no parts, in the second the row paired with row 1 has none.)
    assert compared.rows == {"rows[0].parts": [OtherValue({"p": 5}, "rows[1].parts[0]")], "rows[1].parts": []}
    assert (compared.unpaired, compared.differs) == (["rows[1].parts[0].p"], {})
