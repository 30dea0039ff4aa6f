"""Costs of messages: the price list, model names, and prices from the settings."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from importlib.resources import files

import pytest
from pydantic import ValidationError

from fieldmark.runs.billing.prices import FREE, Price, Prices, TokenUsage, parse_price, plain_name
from fieldmark.settings import Settings

LISTED = tomllib.loads((files("fieldmark.runs.billing") / "prices.toml").read_text(), parse_float=Decimal)
KINDS = {"input", "output", "cache_write_5m", "cache_write_1h", "cache_read"}


@pytest.mark.parametrize("name", LISTED)
def test_price_list_is_complete_and_proportional(name):
    price = LISTED[name]
    for figures in (price, price.get("beyond")):
        if figures is not None:
            assert figures.keys() - {"tokens", "beyond"} == KINDS
            assert figures["cache_write_5m"] == figures["input"] * Decimal("1.25")
            assert figures["cache_write_1h"] == figures["input"] * 2
            assert figures["cache_read"] <= figures["input"] / 10
    assert plain_name(name) == name and Prices().of(name) is not None


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("claude-sonnet-5", "claude-sonnet-5"),
        ("claude-sonnet-5[1m]", "claude-sonnet-5"),
        ("claude-opus-4-0", "claude-opus-4"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("vertex_ai/claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5"),
    ],
)
def test_model_is_priced_under_all_its_names(model, name):
    assert plain_name(model) == name and Prices().of(model) == Prices().of(name) is not None


@pytest.mark.parametrize(
    "model",
    ["", "sonnet", "my-claude-sonnet-5", "claude-sonnet-5-mini", "claude-sonnet-99", "claude-sonnet-5@eu@20250929"],
)
def test_unlisted_model_has_no_price(model):
    assert Prices().of(model) is None


TOKENS = TokenUsage(input=1_000, output=100, cache_write_5m=10_000, cache_write_1h=3_000, cache_read=50_000)


@pytest.mark.parametrize(
    ("model", "tokens", "cost"),
    [
        ("claude-sonnet-5", TokenUsage(), "0"),
        ("claude-sonnet-5", TOKENS, "0.05"),  # .002 + .001 + .025 + .012 + .01
        ("claude-opus-4-1", TOKENS, "0.375"),  # .015 + .0075 + .1875 + .09 + .075
        ("claude-haiku-5-5", TokenUsage(input=100_000), "0.01"),
        # Every token of a longer prompt costs more, and so does the answer; caches count as prompt.
        ("claude-haiku-5-5", TokenUsage(input=100_001), "0.0500005"),
        ("claude-haiku-5-5", TokenUsage(input=1, cache_read=60_000, cache_write_5m=40_000, output=1_000), "0.0305005"),
    ],
)
def test_cost_is_exact(model, tokens, cost):
    price = Prices().of(model)
    assert price is not None and price.of(tokens) == Decimal(cost)


def test_price_in_settings_applies_only_to_the_settings_model():
    prices = Prices("claude-sonnet-5", parse_price("1/2"))
    assert prices.of("claude-sonnet-5") == parse_price("1/2")
    assert prices.of("claude-opus-5") == Prices().of("claude-opus-5")
    assert Prices("mine", parse_price("1/2")).of("mine") == parse_price("1/2")
    assert Prices("mine", parse_price("1/2")).of("yours") is None


def test_missing_cache_prices_are_derived_from_the_input_price():
    assert parse_price("4/20") == parse_price("4/20/5/8/0.4")
    assert parse_price("0/0") == FREE
    assert parse_price("4/20/1/2/3") == Price(*map(Decimal, (4, 20, 1, 2, 3)))


@pytest.mark.parametrize("setting", ["3", "3/", "3/15/1", "a/b", "-1/2", "nan/1", "1e9/2", "3/15/1/2/3/4"])
def test_invalid_price_setting_is_refused_at_the_start(setting):
    assert Settings(_env_file=None, model_price="3/15").model_price == "3/15"
    with pytest.raises(ValidationError) as refused:
        Settings(_env_file=None, model_price=setting)
    assert [error["loc"] for error in refused.value.errors()] == [("model_price",)]


def test_message_is_priced_by_the_answering_model_if_known():
    prices = Prices("claude-sonnet-5", parse_price("1/2"))
    configured, haiku = parse_price("1/2"), Prices().of("claude-haiku-4-5")
    assert prices.of_message("claude-sonnet-5", "claude-sonnet-5-20260630") == configured
    assert prices.of_message("claude-sonnet-5", "claude-haiku-4-5-20251001") == haiku
    assert prices.of_message("claude-sonnet-5", "who-knows") == configured
    assert prices.of_message("sonnet", "claude-haiku-4-5") == haiku
    assert prices.of_message("sonnet", "who-knows") is None
    assert prices.are_known("claude-sonnet-5") and not prices.are_known("sonnet")


def test_unpriced_fallback_model_prevents_a_cost_limit():
    haiku, unknown = (Prices("m", parse_price("1/2"), fallback=name) for name in ("claude-haiku-4-5", "who-knows"))
    assert haiku.of_message("m", "claude-haiku-4-5-20251001") == Prices().of("claude-haiku-4-5")
    assert haiku.of_message("m", "another-name-of-m") == parse_price("1/2")
    assert unknown.of_message("m", "who-knows") is None
    assert haiku.are_known("m") and not unknown.are_known("m")


def test_offline_model_is_free():
    prices = Prices("claude-opus-5", parse_price("1/2"), offline=True)
    assert prices.of("claude-opus-5") == prices.of("x") == prices.of_message("x", "claude-opus-5") == FREE
    assert FREE.of(TOKENS) == 0
