"""Charges what the model uses while a run goes on, and ends the run where there is nothing left to spend."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from secrets import token_hex
from types import TracebackType
from typing import Self
from uuid import uuid4

import structlog

from fieldmark.domain.statuses import RunError
from fieldmark.errors import FieldmarkError
from fieldmark.runs.billing.prices import Prices, Tokens
from fieldmark.runs.outcome import NO_TURNS_LEFT, Outcome, RunEnded
from fieldmark.runs.parts import (
    AssistantBlocks,
    BlockDelta,
    BlockStarted,
    MessageDelta,
    MessageStarted,
    MessageStopped,
    Part,
    TokenCounts,
    ToolReturned,
    ToolUseBlock,
)
from fieldmark.stores import usage
from fieldmark.tools.context import RunContext

log = structlog.get_logger()

WAIT_SECONDS = 10
"""How long a call waits for the message it stands in to be charged."""

CHARACTERS_PER_TOKEN = 4
_MOST_ID_CHARACTERS = 170
_LAST = ("end_turn", "stop_sequence", "refusal")
_SYNTHETIC = "<synthetic>"  # the CLI's own words, which nobody pays for

REFUSALS: Mapping[str, str] = {
    RunError.MAX_COST: "The run reached its limit of cost (max_cost_usd). What it wrote stays.",
    RunError.OUT_OF_CREDIT: "The organisation's credit for this month is used up. What the run wrote stays.",
    RunError.MODEL_UNPRICED: "The price of the run's model is not known, so its cost cannot be limited: ask for a "
    "model of the price list, or have FIELDMARK_MODEL_PRICE set.",
}


@dataclass(slots=True)
class _Message:
    """One message of the model as far as it has come. `key` is ours, and its own: the service may repeat its ids."""

    key: str
    model: str
    counts: TokenCounts
    calls: list[str] = field(default_factory=list[str])
    characters: int = 0
    stop_reason: str | None = None


class Meter:
    """An observer that charges all messages of one run; whatever ends the block, what has been used is charged.

    `asked` is the model that the run asks for, `turns` how many messages it may have; `paid` a call whose message was
    charged by an earlier attempt.
    """

    def __init__(
        self, context: RunContext, agent: str, prices: Prices, asked: str, turns: int, paid: str | None = None
    ) -> None:
        self._context = context
        self._agent = agent
        self._prices = prices
        self._asked = asked
        self._turns = turns
        self._now: _Message | None = None
        self._messages = 0
        # A run may have two conversations under one fencing token: its own, and that of its last question.
        self._conversation = token_hex(3)
        # What the service called the answer that came last in pieces, and the one that has come since without.
        self._in_pieces: set[str | None] = set()
        self._at_once: set[str | None] = set()
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

    async def on_part(self, part: Part) -> None:
        """Take note of a part, and charge the message that it ends. Raises RunEnded."""
        now = self._now
        match part:
            case MessageStarted():
                if now is not None:
                    await self._settle(now)  # the stream broke, and the CLI asks again
                self._in_pieces, self._at_once = {part.id}, set()
                self._now = self._new(part.id, part.model, part.counts)
                if self._turns <= 0:  # the CLI counts too, and ends before it asks again; this does not rely on it
                    raise RunEnded(NO_TURNS_LEFT)
            case BlockStarted(call_id=str(call_id)) if now is not None:
                now.calls.append(call_id)
            case BlockDelta() if now is not None:
                now.characters += len(part.text)
            case MessageDelta() if now is not None:
                now.counts = _merged(now.counts, part.counts)
                now.stop_reason = part.stop_reason or now.stop_reason
            case MessageStopped() if now is not None:
                await self._settle(now)
            case AssistantBlocks(counts=TokenCounts() as counts) if part.model != _SYNTHETIC:
                # Without pieces where the CLI asked again without streaming; else it repeats what came in pieces.
                # Either way there may be one for each block.
                if part.id not in self._in_pieces | self._at_once:
                    self._at_once = {part.id}
                    whole = self._new(part.id, part.model, counts)
                    whole.calls = [block.id for block in part.blocks if isinstance(block, ToolUseBlock)]
                    whole.stop_reason = part.stop_reason
                    await self._settle(whole)
            case ToolReturned():
                self._at_once = set()  # what follows is another answer, whatever it calls itself
            case _:
                pass

    async def charged(self, call_id: str | None) -> None:
        """Wait until the message with this call is charged: what follows it must not begin before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while call_id not in self._paid_calls:
                    self._news.clear()
                    await self._news.wait()

    def _new(self, message_id: str | None, model: str | None, counts: TokenCounts) -> _Message:
        self._messages += 1
        named = _name(message_id, _MOST_ID_CHARACTERS)
        key = f"{self._context.fencing_token}.{self._conversation}.{self._messages} {named}"
        return _Message(key, _name(model), counts)

    async def _settle(self, message: _Message) -> None:
        # One that broke off is asked for again, which is no new turn.
        if message.stop_reason is not None:
            self._turns -= 1
        refusal = await self._charge(message)
        # The last message's work is done already: it is not undone for what it cost.
        if refusal is not None and message.stop_reason not in _LAST:
            raise RunEnded(Outcome("failed", error=REFUSALS[refusal], code=RunError(refusal)))
        self._paid_calls.update(message.calls)
        self._news.set()

    async def _charge(self, message: _Message) -> str | None:
        if self._now is message:
            self._now = None
        tokens = _tokens(message)
        price = self._prices.of_message(self._asked, message.model)
        async with self._context.database.as_user(self._context.scope) as conn:
            charged = usage.ChargedMessage(
                run_id=self._context.run_id,
                org_id=self._context.scope.org_id,
                agent=self._agent,
                message_id=message.key if message.stop_reason is not None else f"{usage.BROKEN_OFF}{message.key}",
                model=message.model,
                input_tokens=tokens.input,
                output_tokens=tokens.output,
                cache_write_5m_tokens=tokens.cache_write_5m,
                cache_write_1h_tokens=tokens.cache_write_1h,
                cache_read_tokens=tokens.cache_read,
                cost_usd=None if price is None else price.of(tokens),
            )
            return await usage.charge(conn, charged)


def _tokens(message: _Message) -> Tokens:
    counts = message.counts
    hour = counts.cache_write_1h or 0
    output = counts.output or 0
    if message.stop_reason is None:  # it broke off before it said: what came was made, and is paid for
        output = max(output, message.characters // CHARACTERS_PER_TOKEN)
    return Tokens(
        input=counts.input or 0,
        output=output,
        cache_write_5m=max((counts.cache_write or 0) - hour, 0),
        cache_write_1h=hour,
        cache_read=counts.cache_read or 0,
    )


def _merged(before: TokenCounts, after: TokenCounts) -> TokenCounts:
    """The counts of a message's beginning and of its end. The prompt is counted at the one, the other or at both; of
    the answer the end knows more."""
    return replace(
        before,
        input=max(before.input or 0, after.input or 0),
        output=after.output or 0,
        cache_write=max(before.cache_write or 0, after.cache_write or 0),
        cache_write_1h=before.cache_write_1h if after.cache_write_1h is None else after.cache_write_1h,
        cache_read=max(before.cache_read or 0, after.cache_read or 0),
    )


def _name(given: str | None, most_characters: int = 200) -> str:
    """An id or a model's name, if Postgres can hold it; else one of our own."""
    fits = given is not None and given.isprintable() and 0 < len(given) <= most_characters
    return given if given is not None and fits else f"unnamed-{uuid4()}"
