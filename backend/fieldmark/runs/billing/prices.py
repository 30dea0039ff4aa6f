"""Prices of model messages, from prices.toml or, for one model, from the settings."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens used by one message."""

    input: int = 0
    output: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0

    @property
    def prompt(self) -> int:
        return self.input + self.cache_write_5m + self.cache_write_1h + self.cache_read


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens. `beyond` is the price for prompts of more than `beyond_tokens`."""

    input: Decimal
    output: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal
    cache_read: Decimal
    beyond: Price | None = None
    beyond_tokens: int = 0

    def of(self, tokens: TokenUsage) -> Decimal:
        """Return the cost of one message in US dollars."""
        if self.beyond is not None and tokens.prompt > self.beyond_tokens:
            return self.beyond.of(tokens)
        return (
            tokens.input * self.input
            + tokens.output * self.output
            + tokens.cache_write_5m * self.cache_write_5m
            + tokens.cache_write_1h * self.cache_write_1h
            + tokens.cache_read * self.cache_read
        ) / _MILLION


_ZERO = Decimal(0)
FREE = Price(_ZERO, _ZERO, _ZERO, _ZERO, _ZERO)


def parse_price(text: str) -> Price:
    """Parse a price: `input/output`, optionally followed by `/5-minute cache write/1-hour cache write/cache read`, in
    US dollars per million tokens. Without these, cache prices are 1.25, 2 and 0.1 times the input price."""
    given, output, *caches = (Decimal(number) for number in text.split("/"))
    write_5m, write_1h, read = caches or (given * Decimal("1.25"), given * 2, given * Decimal("0.1"))
    return Price(given, output, write_5m, write_1h, read)


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of all models. `model`, `fallback` and `second` are the models in the settings; `override` is the price of
    `model` there, if any, and `second_override` that of `second`. If `offline`, the offline model answers and every
    price of the service is 0."""

    model: str = ""
    override: Price | None = None
    offline: bool = False
    fallback: str | None = None
    second: str | None = None
    second_override: Price | None = None

    def of(self, model: str) -> Price | None:
        """Return the price of a requested model, or None if it is unknown."""
        if self.second_override is not None and model == self.second:
            return self.second_override
        if self.offline:
            return FREE
        if self.override is not None and model == self.model:
            return self.override
        return _price_list().get(plain_name(model))

    def listed(self) -> dict[str, Price | None]:
        """Return the models to choose from, with their prices: that of the settings first, then the price list."""
        return {name: self.of(name) for name in dict.fromkeys((self.model, *_price_list()))}

    def are_known(self, model: str) -> bool:
        """Whether the prices of this model and of its fallback model are known, so that a run's cost can be limited."""
        fallback = None if model == self.second else self.fallback
        return all(self.of(one) is not None for one in (model, fallback) if one is not None)

    def of_message(self, requested: str, used: str) -> Price | None:
        """Return the price of a message, which another model than the requested one may have written. An unknown name
        counts as another name of the requested model, unless it is the fallback model's."""
        if self.fallback is not None and plain_name(used) == plain_name(self.fallback):
            return self.of(self.fallback)
        is_other_model = plain_name(used) != plain_name(requested)
        listed = _price_list().get(plain_name(used))
        if is_other_model and listed is not None and not self.offline:
            return listed
        return self.of(requested)


# us.anthropic.claude-opus-4-5-20251101-v1:0, vertex_ai/claude-haiku-4-5@20251001, anthropic/claude-sonnet-4.5, …[1m]
_ID = re.compile(
    r"(?:[\w./:-]*[./])?(?P<name>claude-[a-z0-9.-]+?)(?:[-@](?:\d{8}|latest|default))?(?:-v\d+(?::\d+)?)?(?:\[\w+\])?"
)


def plain_name(model: str) -> str:
    """Return a model's name in prices.toml: its id without provider, region, date and version."""
    found = _ID.fullmatch(model)
    name = found["name"].replace(".", "-") if found else model
    return re.sub(r"^(claude-(?:opus|sonnet)-4)-0$", r"\1", name)


@cache
def _price_list() -> dict[str, Price]:
    text = (files("fieldmark.runs.billing") / "prices.toml").read_text()
    return {name: _price(values) for name, values in tomllib.loads(text, parse_float=Decimal).items()}


def _price(values: dict[str, Any]) -> Price:
    prices = dict(values)
    beyond: dict[str, Any] | None = prices.pop("beyond", None)
    if beyond is None:
        return Price(**prices)
    tokens: int = beyond.pop("tokens")
    return Price(**prices, beyond=_price(beyond), beyond_tokens=tokens)
