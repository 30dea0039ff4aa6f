"""What the model's messages cost, by our own table (prices.toml) or by what the settings say of one model."""

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
class Tokens:
    """What one message of the model has used."""

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
    """US dollars per million tokens. `beyond` holds for prompts of more than `beyond_tokens`."""

    input: Decimal
    output: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal
    cache_read: Decimal
    beyond: Price | None = None
    beyond_tokens: int = 0

    def of(self, tokens: Tokens) -> Decimal:
        """US dollars for one message."""
        if self.beyond is not None and tokens.prompt > self.beyond_tokens:
            return self.beyond.of(tokens)
        return (
            tokens.input * self.input
            + tokens.output * self.output
            + tokens.cache_write_5m * self.cache_write_5m
            + tokens.cache_write_1h * self.cache_write_1h
            + tokens.cache_read * self.cache_read
        ) / _MILLION


_NOTHING = Decimal(0)
FREE = Price(_NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING)


def said_price(said: str) -> Price:
    """`input/output`, or with `/5-minute cache write/1-hour cache write/cache read` behind, US dollars per million
    tokens. Caches that are left out cost what they cost of the input by the list: 1.25, 2 and 0.1 times."""
    given, output, *caches = (Decimal(figure) for figure in said.split("/"))
    write_5m, write_1h, read = caches or (given * Decimal("1.25"), given * 2, given * Decimal("0.1"))
    return Price(given, output, write_5m, write_1h, read)


@dataclass(frozen=True, slots=True)
class Prices:
    """What models cost here. `model` and `fallback` are those that the settings name, `said` the price of `model` if
    they state one; `offline`: the offline model answers, at no cost, whatever a run asks for."""

    model: str = ""
    said: Price | None = None
    offline: bool = False
    fallback: str | None = None

    def of(self, model: str) -> Price | None:
        """The price of the model that a run asks for, or None if nobody knows it."""
        if self.offline:
            return FREE
        if self.said is not None and model == self.model:
            return self.said
        return _listed().get(plain_name(model))

    def are_known(self, model: str) -> bool:
        """Whether the cost of a run with this model can be limited: its price is known, and the fallback's."""
        return all(self.of(one) is not None for one in (model, self.fallback) if one is not None)

    def of_message(self, asked: str, answered: str) -> Price | None:
        """The price of a message for which a run asked one model and another may have answered. An unknown name is
        taken for the asked model under another name, unless it is the fallback's."""
        if self.fallback is not None and plain_name(answered) == plain_name(self.fallback):
            return self.of(self.fallback)
        answered_by_another = plain_name(answered) != plain_name(asked)
        known = _listed().get(plain_name(answered))
        if answered_by_another and known is not None and not self.offline:
            return known
        return self.of(asked)


# us.anthropic.claude-opus-4-5-20251101-v1:0, vertex_ai/claude-haiku-4-5@20251001, anthropic/claude-sonnet-4.5, …[1m]
_ID = re.compile(
    r"(?:[\w./:-]*[./])?(?P<name>claude-[a-z0-9.-]+?)(?:[-@](?:\d{8}|latest|default))?(?:-v\d+(?::\d+)?)?(?:\[\w+\])?"
)


def plain_name(model: str) -> str:
    """A model's id without provider, region, date and version, as prices.toml names it."""
    found = _ID.fullmatch(model)
    name = found["name"].replace(".", "-") if found else model
    return re.sub(r"^(claude-(?:opus|sonnet)-4)-0$", r"\1", name)


@cache
def _listed() -> dict[str, Price]:
    text = (files("fieldmark.runs.billing") / "prices.toml").read_text()
    return {name: _price(given) for name, given in tomllib.loads(text, parse_float=Decimal).items()}


def _price(given: dict[str, Any]) -> Price:
    figures = dict(given)
    beyond: dict[str, Any] | None = figures.pop("beyond", None)
    if beyond is None:
        return Price(**figures)
    tokens: int = beyond.pop("tokens")
    return Price(**figures, beyond=_price(beyond), beyond_tokens=tokens)
