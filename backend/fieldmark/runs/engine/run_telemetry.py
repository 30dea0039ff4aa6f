"""Logs, spans and metrics of one attempt at a run. They contain ids, fixed names and numbers only."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from decimal import Decimal
from typing import Final

import structlog
from opentelemetry.trace import Span

from fieldmark.runs.message_parts import MessageDelta, MessagePart, MessageStarted, MessageStopped, TokenCounts
from fieldmark.stores.runs import RunRow
from fieldmark.telemetry.metrics import TOKENS, Metrics
from fieldmark.telemetry.traces import mark_failed, prefixed_attributes, span, tracer
from fieldmark.tools.toolset import ACTION_TYPES

log = structlog.get_logger()

_COUNTED: Final = {"searching": "searches", "reading": "reads"}
"""Counts of tool calls by kind, in the log record of an attempt's end."""
_COUNTS: Final = ("messages", "tool_calls", *_COUNTED.values(), *(f"{kind}_tokens" for kind in TOKENS.values()))


@contextmanager
def run_telemetry(metrics: Metrics, run: RunRow, model: str) -> Generator[RunTelemetry]:
    """Report an attempt during the block. If `run_ended` was not called, the attempt is reported as broken off."""
    attributes = {"agent": run.agent, "task": run.task, "fencing_token": run.fencing_token}
    with span("run", run_id=str(run.id), model=model, **attributes) as current:
        log.info("run claimed", **attributes)
        telemetry = RunTelemetry(metrics, run.agent, model, current)
        try:
            yield telemetry
        finally:
            telemetry.run_ended("broken_off")


class RunTelemetry:
    """An observer that reports the model's messages. The runner and the permission hook report the rest."""

    def __init__(self, metrics: Metrics, agent: str, model: str, current: Span) -> None:
        self._metrics = metrics
        self._agent = agent
        self.model = model
        self._span = current
        self._started = time.monotonic()
        self._model_call: _ModelCall | None = None
        self._has_ended = False
        self._counts = Counter[str](dict.fromkeys(_COUNTS, 0))

    def on_part(self, part: MessagePart) -> None:
        match part:
            case MessageStarted():
                self._end_interrupted_call()
                self._model_call = _ModelCall(self.model)
                self._model_call.update(part.counts)
            case MessageDelta() if self._model_call is not None:
                self._model_call.update(part.counts)
            case MessageStopped() if self._model_call is not None:
                self._counts["messages"] += 1
                for kind, number in self._model_call.end().items():
                    self._metrics.tokens.labels(TOKENS[kind]).inc(number)
                    self._counts[f"{TOKENS[kind]}_tokens"] += number
                self._model_call = None
            case _:
                pass

    def tool_called(self, tool: str, outcome: str, seconds: float | None = None) -> None:
        """Report a tool call. `outcome` is done, refused, failed or deferred; an undeclared `tool` is `unknown`."""
        self._metrics.calls.labels(tool, outcome).inc()
        self._counts["tool_calls"] += 1
        if (counted := _COUNTED.get(ACTION_TYPES.get(tool.partition("_")[0], ""))) is not None:
            self._counts[counted] += 1
        duration = {} if seconds is None else {"duration_ms": round(seconds * 1000)}
        log.info("tool call", tool=tool, outcome=outcome, **duration)

    def used_fallback(self, code: str, by: str) -> None:
        """Report that the agent gave no answer, with the reason `code`. `by` is the fallback used: `model` (one last
        question to the model) or `passages` (the best search results)."""
        self._metrics.fallbacks.labels(self._agent, code, by).inc()
        log.warning("the task falls back", code=code, by=by)

    def run_ended(self, status: str, code: str | None = None, cost: Decimal | None = None) -> None:
        """Report how the attempt ended, with its counts and the cost of the whole run. Only the first call counts."""
        if self._has_ended:
            return
        self._has_ended = True
        self._end_interrupted_call()
        seconds = time.monotonic() - self._started
        self._metrics.runs.labels(self._agent, status).inc()
        self._metrics.run_seconds.labels(self._agent, status).observe(seconds)
        self._span.set_attributes(prefixed_attributes({"status": status, "code": code}))
        if status in ("failed", "broken_off"):
            mark_failed(self._span, code or status)
        cost_usd = None if cost is None else float(cost)
        duration_ms = round(seconds * 1000)
        log.info("run ended", status=status, code=code, duration_ms=duration_ms, **self._counts, cost_usd=cost_usd)

    def _end_interrupted_call(self) -> None:
        if self._model_call is not None:
            self._model_call.end("cut_off")
            self._model_call = None


class _ModelCall:
    """A span for one message of the model, with its token counts."""

    def __init__(self, model: str) -> None:
        self._span = tracer.start_span("model call", attributes={"gen_ai.request.model": model})
        self._tokens: dict[str, int] = {}

    def update(self, counts: TokenCounts) -> None:
        """Replace the token counts by those that the service reported. None leaves a count unchanged."""
        reported = {
            "input_tokens": counts.input,
            "output_tokens": counts.output,
            "cache_creation_input_tokens": counts.cache_write,
            "cache_read_input_tokens": counts.cache_read,
        }
        self._tokens |= {kind: number for kind, number in reported.items() if number is not None}

    def end(self, fault: str | None = None) -> dict[str, int]:
        """End the span. Return the token counts by Anthropic's names."""
        self._span.set_attributes({f"gen_ai.usage.{kind}": number for kind, number in self._tokens.items()})
        if fault is not None:
            mark_failed(self._span, fault)
        self._span.end()
        return self._tokens
