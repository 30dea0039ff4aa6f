"""Charges what the model uses while a run goes on, and ends the run where there is nothing left to spend."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from types import TracebackType
from typing import Any, Self, cast
from uuid import uuid4

import structlog
from claude_agent_sdk import AssistantMessage, Message, StreamEvent, ToolUseBlock

from fieldmark.errors import FieldmarkError
from fieldmark.runs.billing.prices import Prices, Tokens
from fieldmark.runs.lifecycle.outcome import NO_TURNS_LEFT, Outcome
from fieldmark.stores import usage
from fieldmark.tools.toolset import ToolContext

log = structlog.get_logger()

WAIT_SECONDS = 10
"""How long a call waits for the message it stands in to be charged."""

CHARACTERS_PER_TOKEN = 4
_MOST_TOKENS = 1_000_000_000
_LAST = ("end_turn", "stop_sequence", "refusal")
_SYNTHETIC = "<synthetic>"  # the CLI's own words, which nobody pays for

REFUSALS = {
    "max_cost": "The run reached its limit of cost (max_cost_usd). What it wrote stays.",
    "out_of_credit": "The organisation's credit for this month is used up, or set aside for its other runs. "
    "What the run wrote stays.",
    "model_unpriced": "The price of the run's model is not known, so its cost cannot be limited: ask for a model of "
    "the price list, or have FIELDMARK_MODEL_PRICE set.",
}


class BudgetExceeded(Exception):
    """The run may not spend more: max_cost, out_of_credit or max_turns."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


@dataclass(slots=True)
class _Message:
    """One message of the model as far as it has come."""

    id: str
    model: str
    usage: dict[str, Any]
    calls: list[str] = field(default_factory=list[str])
    characters: int = 0
    stop_reason: str | None = None


class Meter:
    """Sees all messages of one run; whatever ends the block, what has been used is charged.

    `asked` is the model that the run asks for, `turns` how many messages it may have; `paid` a call whose message was
    charged by an earlier attempt.
    """

    def __init__(
        self, context: ToolContext, agent: str, prices: Prices, asked: str, turns: int, paid: str | None = None
    ) -> None:
        self._context = context
        self._agent = agent
        self._prices = prices
        self._asked = asked
        self._turns = turns
        self._now: _Message | None = None
        self._charged: set[str] = set()
        self._paid_calls = {paid}
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._now is None:
            return
        try:
            await self._charge(self._now)
        except FieldmarkError as fault:
            log.warning("a message that broke off was not charged", reason=str(fault))

    async def saw(self, message: Message) -> None:
        """Take note of a message, and charge what is complete. Raises BudgetExceeded."""
        if isinstance(message, StreamEvent):
            await self._saw_part(message.event)
        elif isinstance(message, AssistantMessage) and message.usage is not None and message.model != _SYNTHETIC:
            # Comes without parts where the CLI asked again without streaming; else it is one that is known.
            whole = _Message(_name(message.message_id), _name(message.model), message.usage)
            if whole.id not in self._charged and (self._now is None or self._now.id != whole.id):
                whole.calls = [block.id for block in message.content if isinstance(block, ToolUseBlock)]
                whole.stop_reason = message.stop_reason
                await self._settle(whole)

    async def charged(self, call_id: str | None) -> None:
        """Wait until the message with this call is charged: what follows it must not begin before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while call_id not in self._paid_calls:
                    self._news.clear()
                    await self._news.wait()

    async def _saw_part(self, event: dict[str, Any]) -> None:
        kind, now = event.get("type"), self._now
        if kind == "message_start":
            if now is not None:
                await self._settle(now)  # the stream broke, and the CLI asks again
            begun = _dict(event.get("message"))
            self._now = _Message(_name(begun.get("id")), _name(begun.get("model")), _dict(begun.get("usage")))
            if self._turns <= 0:  # the CLI counts too, and ends before it asks again; this does not rely on it
                raise BudgetExceeded(NO_TURNS_LEFT)
        elif now is None:
            return
        elif kind == "content_block_start":
            block = _dict(event.get("content_block"))
            if block.get("type") == "tool_use":
                now.calls.append(str(block.get("id")))
        elif kind == "content_block_delta":
            delta = _dict(event.get("delta"))
            now.characters += sum(len(str(delta.get(part, ""))) for part in ("text", "thinking", "partial_json"))
        elif kind == "message_delta":
            now.usage = _merged(now.usage, _dict(event.get("usage")))
            now.stop_reason = _dict(event.get("delta")).get("stop_reason") or now.stop_reason
        elif kind == "message_stop":
            await self._settle(now)

    async def _settle(self, message: _Message) -> None:
        # One that broke off is asked for again, which is no new turn.
        if message.stop_reason is not None and message.id not in self._charged:
            self._turns -= 1
        refusal = await self._charge(message)
        # The last message's work is done already: it is not undone for what it cost.
        if refusal is not None and message.stop_reason not in _LAST:
            raise BudgetExceeded(Outcome("failed", error=REFUSALS[refusal], code=refusal))
        self._paid_calls.update(message.calls)
        self._news.set()

    async def _charge(self, message: _Message) -> str | None:
        if self._now is message:
            self._now = None
        self._charged.add(message.id)
        tokens = _tokens(message)
        price = self._prices.of_message(self._asked, message.model)
        last = message.stop_reason in _LAST
        async with self._context.database.as_user(self._context.scope) as conn:
            return await usage.charge(
                conn,
                run_id=self._context.run_id,
                org_id=self._context.scope.org_id,
                agent=self._agent,
                message_id=message.id,
                model=message.model,
                input_tokens=tokens.input,
                output_tokens=tokens.output,
                cache_write_5m_tokens=tokens.cache_write_5m,
                cache_write_1h_tokens=tokens.cache_write_1h,
                cache_read_tokens=tokens.cache_read,
                cost_usd=None if price is None else price.of(tokens),
                wanted_usd=None if price is None else Decimal(0) if last else price.of_next(tokens),
            )


def _tokens(message: _Message) -> Tokens:
    used = message.usage
    hour = _number(_dict(used.get("cache_creation")).get("ephemeral_1h_input_tokens"))
    written = _number(used.get("cache_creation_input_tokens"))
    output = _number(used.get("output_tokens"))
    if message.stop_reason is None:  # it broke off before it said: what came was made, and is paid for
        output = max(output, message.characters // CHARACTERS_PER_TOKEN)
    return Tokens(
        input=_number(used.get("input_tokens")),
        output=output,
        cache_write_5m=max(written - hour, 0),
        cache_write_1h=hour,
        cache_read=_number(used.get("cache_read_input_tokens")),
    )


def _merged(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The counts of a message's beginning and of its end. The prompt is counted at the one, the other or at both; of
    the answer the end knows more."""
    merged = {**before, "output_tokens": _number(after.get("output_tokens"))}
    for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"):
        merged[name] = max(_number(before.get(name)), _number(after.get(name)))
    if after.get("cache_creation"):
        merged["cache_creation"] = after["cache_creation"]
    return merged


def _dict(value: object) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _number(value: object) -> int:
    return min(max(value, 0), _MOST_TOKENS) if isinstance(value, int) else 0


def _name(value: object) -> str:
    """An id or a model's name, if Postgres can hold it; else one of our own."""
    return value if isinstance(value, str) and value.isprintable() and 0 < len(value) <= 200 else f"unnamed-{uuid4()}"
