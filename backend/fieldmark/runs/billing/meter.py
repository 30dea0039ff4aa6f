"""Charges each message of a run, and ends the run once its budget, credit or turns are used up."""

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
from fieldmark.runs.billing.prices import Prices, TokenUsage
from fieldmark.runs.message_parts import (
    AssistantBlocks,
    BlockDelta,
    BlockStarted,
    MessageDelta,
    MessagePart,
    MessageStarted,
    MessageStopped,
    TokenCounts,
    ToolReturned,
    ToolUseBlock,
)
from fieldmark.runs.outcome import NO_TURNS_LEFT, Outcome, RunEnded
from fieldmark.stores import usage
from fieldmark.tools.context import RunContext

log = structlog.get_logger()

WAIT_SECONDS = 10
"""Limit of how long a call waits until its message is charged."""

CHARACTERS_PER_TOKEN = 4
_MAX_ID_CHARACTERS = 170
_FINAL_STOP_REASONS = ("end_turn", "stop_sequence", "refusal")
_SYNTHETIC = "<synthetic>"  # the CLI's own text, which is free

LIMIT_MESSAGES: Mapping[str, str] = {
    RunError.MAX_COST: "The run reached its cost limit (max_cost_usd). What it wrote is kept.",
    RunError.OUT_OF_CREDIT: "The organisation's credit for this month is used up. What the run wrote is kept.",
    RunError.MODEL_UNPRICED: "The price of the model is unknown, so the cost can't be limited. Use a model from the "
    "price list, or set FIELDMARK_MODEL_PRICE.",
}


@dataclass(slots=True)
class _MeteredMessage:
    """A message of the model so far. `key` is our own unique id: the service may repeat its ids."""

    key: str
    model: str
    counts: TokenCounts
    calls: list[str] = field(default_factory=list[str])
    characters: int = 0
    stop_reason: str | None = None


class Meter:
    """An observer that charges all messages of one run. Tokens used so far are charged however the block ends.

    `requested_model` is the run's model, `turns` the number of messages it may have, `charged_call` a call whose
    message was charged by an earlier attempt.
    """

    def __init__(
        self,
        context: RunContext,
        agent: str,
        prices: Prices,
        requested_model: str,
        turns: int,
        charged_call: str | None = None,
    ) -> None:
        self._context = context
        self._agent = agent
        self._prices = prices
        self._requested_model = requested_model
        self._turns = turns
        self._current: _MeteredMessage | None = None
        self._messages = 0
        # An attempt may have two conversations: its own, and that of the last question.
        self._conversation = token_hex(3)
        # The service's ids of the last streamed message, and of a message since then that was not streamed.
        self._streamed_ids: set[str | None] = set()
        self._unstreamed_ids: set[str | None] = set()
        self._charged_calls = {charged_call}
        self._charge_event = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._current is None:
            return
        try:
            await self._charge(self._current)
        except FieldmarkError as fault:
            log.warning("a message that broke off was not charged", reason=str(fault))

    async def on_part(self, part: MessagePart) -> None:
        """Handle a part, and charge the message if it is complete. Raise RunEnded if the run may not continue."""
        current = self._current
        match part:
            case MessageStarted():
                if current is not None:
                    await self._settle(current)  # the message was interrupted, and the CLI retries
                self._streamed_ids, self._unstreamed_ids = {part.id}, set()
                self._current = self._metered_message(part.id, part.model, part.counts)
                if self._turns <= 0:  # the CLI has the same limit; this does not rely on it
                    raise RunEnded(NO_TURNS_LEFT)
            case BlockStarted(call_id=str(call_id)) if current is not None:
                current.calls.append(call_id)
            case BlockDelta() if current is not None:
                current.characters += len(part.text)
            case MessageDelta() if current is not None:
                current.counts = _merge_counts(current.counts, part.counts)
                current.stop_reason = part.stop_reason or current.stop_reason
            case MessageStopped() if current is not None:
                await self._settle(current)
            case AssistantBlocks(counts=TokenCounts() as counts) if part.model != _SYNTHETIC:
                # Repeats what was streamed, unless the CLI retried without streaming. There may be one per block.
                if part.id not in self._streamed_ids | self._unstreamed_ids:
                    self._unstreamed_ids = {part.id}
                    message = self._metered_message(part.id, part.model, counts)
                    message.calls = [block.id for block in part.blocks if isinstance(block, ToolUseBlock)]
                    message.stop_reason = part.stop_reason
                    await self._settle(message)
            case ToolReturned():
                self._unstreamed_ids = set()  # the next message is a new one, even with the same id
            case _:
                pass

    async def wait_until_charged(self, call_id: str | None) -> None:
        """Wait until the message with this call is charged. Give up after WAIT_SECONDS."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while call_id not in self._charged_calls:
                    self._charge_event.clear()
                    await self._charge_event.wait()

    def _metered_message(self, message_id: str | None, model: str | None, counts: TokenCounts) -> _MeteredMessage:
        self._messages += 1
        name = _storable_name(message_id, _MAX_ID_CHARACTERS)
        key = f"{self._context.fencing_token}.{self._conversation}.{self._messages} {name}"
        return _MeteredMessage(key, _storable_name(model), counts)

    async def _settle(self, message: _MeteredMessage) -> None:
        # An interrupted message is retried and doesn't count as a turn.
        if message.stop_reason is not None:
            self._turns -= 1
        refusal = await self._charge(message)
        # After the last message the run is done, so it is not failed for its cost.
        if refusal is not None and message.stop_reason not in _FINAL_STOP_REASONS:
            raise RunEnded(Outcome("failed", error=LIMIT_MESSAGES[refusal], code=RunError(refusal)))
        self._charged_calls.update(message.calls)
        self._charge_event.set()

    async def _charge(self, message: _MeteredMessage) -> str | None:
        if self._current is message:
            self._current = None
        tokens = _tokens(message)
        price = self._prices.of_message(self._requested_model, message.model)
        async with self._context.database.as_user(self._context.scope) as conn:
            charged = usage.ChargedMessage(
                run_id=self._context.run_id,
                org_id=self._context.scope.org_id,
                agent=self._agent,
                message_id=message.key
                if message.stop_reason is not None
                else f"{usage.INCOMPLETE_PREFIX}{message.key}",
                model=message.model,
                input_tokens=tokens.input,
                output_tokens=tokens.output,
                cache_write_5m_tokens=tokens.cache_write_5m,
                cache_write_1h_tokens=tokens.cache_write_1h,
                cache_read_tokens=tokens.cache_read,
                cost_usd=None if price is None else price.of(tokens),
            )
            return await usage.charge(conn, charged)


def _tokens(message: _MeteredMessage) -> TokenUsage:
    counts = message.counts
    hour = counts.cache_write_1h or 0
    output = counts.output or 0
    if message.stop_reason is None:  # interrupted before its final count: estimate the output from the text so far
        output = max(output, message.characters // CHARACTERS_PER_TOKEN)
    return TokenUsage(
        input=counts.input or 0,
        output=output,
        cache_write_5m=max((counts.cache_write or 0) - hour, 0),
        cache_write_1h=hour,
        cache_read=counts.cache_read or 0,
    )


def _merge_counts(before: TokenCounts, after: TokenCounts) -> TokenCounts:
    """Merge the counts from the start and the end of a message. The prompt's tokens are in either or both; the output's
    final count is at the end."""
    return replace(
        before,
        input=max(before.input or 0, after.input or 0),
        output=after.output or 0,
        cache_write=max(before.cache_write or 0, after.cache_write or 0),
        cache_write_1h=before.cache_write_1h if after.cache_write_1h is None else after.cache_write_1h,
        cache_read=max(before.cache_read or 0, after.cache_read or 0),
    )


def _storable_name(given: str | None, most_characters: int = 200) -> str:
    """Return an id or model name if Postgres can store it, otherwise a generated one."""
    fits = given is not None and given.isprintable() and 0 < len(given) <= most_characters
    return given if given is not None and fits else f"unnamed-{uuid4()}"
