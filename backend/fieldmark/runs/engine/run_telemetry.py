"""The course of one attempt at a run, as logs, spans and metrics tell of it: ids, names of ours and figures."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

import structlog
from opentelemetry.trace import Span

from fieldmark.runs.parts import MessageDelta, MessageStarted, MessageStopped, Part, TokenCounts
from fieldmark.stores.runs import RunRow
from fieldmark.telemetry.metrics import TOKENS, Metrics
from fieldmark.telemetry.traces import failed, named, span, tracer

log = structlog.get_logger()


@contextmanager
def run_telemetry(metrics: Metrics, run: RunRow, model: str) -> Generator[RunTelemetry]:
    """Tell of an attempt while the block lasts; one that never says how it ended was broken off."""
    particulars = {"agent": run.agent, "task": run.task, "fencing_token": run.fencing_token}
    with span("run", run_id=str(run.id), model=model, **particulars) as current:
        log.info("run taken up", **particulars)
        course = RunTelemetry(metrics, run.agent, model, current)
        try:
            yield course
        finally:
            course.ended("broken_off")


class RunTelemetry:
    """An observer of one attempt, which the runner and the permission hook tell the rest of what happens.

    `model` is the one that is asked from now on."""

    def __init__(self, metrics: Metrics, agent: str, model: str, current: Span) -> None:
        self._metrics = metrics
        self._agent = agent
        self.model = model
        self._span = current
        self._begun = time.monotonic()
        self._model_call: _ModelCall | None = None
        self._ended = False

    def on_part(self, part: Part) -> None:
        """Take note of a part: the model's calls are known from these, from MessageStarted to MessageStopped."""
        match part:
            case MessageStarted():
                self._cut_off()
                self._model_call = _ModelCall(self.model)
                self._model_call.add(part.counts)
            case MessageDelta() if self._model_call is not None:
                self._model_call.add(part.counts)
            case MessageStopped() if self._model_call is not None:
                for kind, number in self._model_call.end().items():
                    self._metrics.tokens.labels(TOKENS[kind]).inc(number)
                self._model_call = None
            case _:
                pass

    def called(self, tool: str, outcome: str, seconds: float | None = None) -> None:
        """A call of a tool that there is (or `unknown`) was done, refused, failed or deferred."""
        self._metrics.calls.labels(tool, outcome).inc()
        took = {} if seconds is None else {"duration_ms": round(seconds * 1000)}
        log.info("tool call", tool=tool, outcome=outcome, **took)

    def fell_back(self, code: str, by: str) -> None:
        """The agent came to no answer of its own, for the reason `code`; `by` says who has made it: model, passages."""
        self._metrics.fallbacks.labels(self._agent, code, by).inc()
        log.warning("the task falls back", code=code, by=by)

    def ended(self, status: str, code: str | None = None) -> None:
        """How the attempt ended; the first word holds."""
        if self._ended:
            return
        self._ended = True
        self._cut_off()
        seconds = time.monotonic() - self._begun
        self._metrics.runs.labels(self._agent, status).inc()
        self._metrics.run_seconds.labels(self._agent, status).observe(seconds)
        self._span.set_attributes(named({"status": status, "code": code}))
        if status in ("failed", "broken_off"):
            failed(self._span, code or status)
        log.info("run ended", status=status, code=code, duration_ms=round(seconds * 1000))

    def _cut_off(self) -> None:
        if self._model_call is not None:
            self._model_call.end("cut_off")
            self._model_call = None


class _ModelCall:
    """One answer of the model as it streams in: a span with the tokens that it took."""

    def __init__(self, model: str) -> None:
        self._span = tracer.start_span("model call", attributes={"gen_ai.request.model": model})
        self._tokens: dict[str, int] = {}

    def add(self, counts: TokenCounts) -> None:
        """What a message, or its end, tells: the sums so far, of some kinds of tokens."""
        told = {
            "input_tokens": counts.input,
            "output_tokens": counts.output,
            "cache_creation_input_tokens": counts.cache_write,
            "cache_read_input_tokens": counts.cache_read,
        }
        self._tokens |= {kind: number for kind, number in told.items() if number is not None}

    def end(self, fault: str | None = None) -> dict[str, int]:
        """End the span; answers the tokens by the model's own names of their kinds."""
        self._span.set_attributes({f"gen_ai.usage.{kind}": number for kind, number in self._tokens.items()})
        if fault is not None:
            failed(self._span, fault)
        self._span.end()
        return self._tokens
