"""What is counted, for Prometheus: names and labels in one place, every label out of a short list."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

TOKENS: Mapping[str, str] = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
}
"""The model's names of what it counts, and the label each has here."""

_RUN_SECONDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200)


class Metrics:
    """The counters of one service in one process. Those of all processes together are their sum; what is read from the
    database (the queue) each process tells alike: take the greatest."""

    def __init__(self) -> None:
        # Its own registry and not the library's global one: a process may hold several services.
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.runs = Counter(
            "fieldmark_runs",
            "Runs that this process has worked on, by how they ended, or that they wait for a person.",
            ("agent", "status"),
            registry=self.registry,
        )
        self.run_seconds = Histogram(
            "fieldmark_run_seconds",
            "Seconds from taken up to ended, or to waiting for a person.",
            ("agent", "status"),
            buckets=_RUN_SECONDS,
            registry=self.registry,
        )
        self.calls = Counter(
            "fieldmark_tool_calls",
            "Tool calls by what became of them: done, refused, failed, deferred (they wait for a person).",
            ("tool", "outcome"),
            registry=self.registry,
        )
        self.fallbacks = Counter(
            "fieldmark_fallbacks",
            "Runs whose agent came to no answer of its own, by why, and by what has made the answer: model (asked once "
            "more) or passages.",
            ("agent", "code", "by"),
            registry=self.registry,
        )
        self.tokens = Counter(
            "fieldmark_model_tokens", "Tokens of the model's answers.", ("kind",), registry=self.registry
        )
        self.live_clis = Gauge("fieldmark_live_clis", "Agent processes at work.", registry=self.registry)
        self.warm_clis = Gauge(
            "fieldmark_warm_clis",
            "Agent processes that wait for a run: idle (of an organisation that used them) or spare (of none).",
            ("state",),
            registry=self.registry,
        )
        self.clis_taken = Counter(
            "fieldmark_clis_taken",
            "Agent processes that runs were given: used_before, spare, new.",
            ("source",),
            registry=self.registry,
        )
        self.clis_ended = Counter(
            "fieldmark_clis_ended",
            "Agent processes that were not kept any longer, and why: run (it was not completed), room, idle, runs, "
            "memory, cpu, changed, uncleared, tainted, died, closed.",
            ("reason",),
            registry=self.registry,
        )
        self.queue_jobs = Gauge(
            "fieldmark_queue_jobs",
            "Jobs in the queue, of all processes together. Missing where the database does not answer.",
            ("queue", "status"),
            registry=self.registry,
        )
        self.waiting_runs = Gauge(
            "fieldmark_waiting_runs",
            "Runs that wait for a person now, of all processes together. NaN where the database does not answer.",
            registry=self.registry,
        )
        self.pool_connections = Gauge(
            "fieldmark_pool_connections", "Connections to the database.", ("state",), registry=self.registry
        )
        self.pool_waiting = Gauge(
            "fieldmark_pool_waiting", "Transactions that wait for a connection.", registry=self.registry
        )
        self.stream_readers = Gauge(
            "fieldmark_event_stream_readers", "Readers of event streams.", registry=self.registry
        )

    def text(self) -> bytes:
        """All of it as Prometheus reads it (text format 0.0.4)."""
        return generate_latest(self.registry)
