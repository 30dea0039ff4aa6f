"""Prometheus metrics. Every label has a small fixed set of values."""

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
"""The `kind` label for each token count in the model's usage."""

_RUN_SECONDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200)


class Metrics:
    """The metrics of one service in one process. Sum counters over processes. Gauges that are read from the database
    (queue, waiting runs) have the same value in every process: use the maximum."""

    def __init__(self) -> None:
        # Not the library's global registry: a process may run several services.
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.runs = Counter(
            "fieldmark_runs",
            "Runs executed by this process, by their status afterwards.",
            ("agent", "status"),
            registry=self.registry,
        )
        self.run_seconds = Histogram(
            "fieldmark_run_seconds",
            "Seconds from the start of a run until it ended or began to wait for a person.",
            ("agent", "status"),
            buckets=_RUN_SECONDS,
            registry=self.registry,
        )
        self.calls = Counter(
            "fieldmark_tool_calls",
            "Tool calls by outcome: done, refused, failed, deferred (waiting for a person).",
            ("tool", "outcome"),
            registry=self.registry,
        )
        self.fallbacks = Counter(
            "fieldmark_fallbacks",
            "Runs whose agent gave no answer, by error code and by source of the fallback answer: model or passages.",
            ("agent", "code", "by"),
            registry=self.registry,
        )
        self.tokens = Counter(
            "fieldmark_model_tokens", "Tokens of the model's answers.", ("kind",), registry=self.registry
        )
        self.live_clis = Gauge("fieldmark_live_clis", "Agent processes that execute a run.", registry=self.registry)
        self.warm_clis = Gauge(
            "fieldmark_warm_clis",
            "Agent processes that wait for a run: idle (kept for the organisation that used them) or spare.",
            ("state",),
            registry=self.registry,
        )
        self.clis_taken = Counter(
            "fieldmark_clis_taken",
            "Agent processes assigned to runs, by source: used_before, spare, new.",
            ("source",),
            registry=self.registry,
        )
        self.clis_ended = Counter(
            "fieldmark_clis_ended",
            "Agent processes ended, by reason: run (its run was not completed), room (replaced by another), idle, "
            "runs, memory, cpu (a limit was reached), uncleared (its conversation could not be cleared), tainted "
            "(activity between runs), died, closed (shutdown).",
            ("reason",),
            registry=self.registry,
        )
        self.queue_jobs = Gauge(
            "fieldmark_queue_jobs",
            "Jobs in the queue, of all processes. Missing if the database does not answer.",
            ("queue", "status"),
            registry=self.registry,
        )
        self.waiting_runs = Gauge(
            "fieldmark_waiting_runs",
            "Runs that wait for a person, of all processes. NaN if the database does not answer.",
            registry=self.registry,
        )
        self.pool_connections = Gauge(
            "fieldmark_pool_connections", "Database connections.", ("state",), registry=self.registry
        )
        self.pool_waiting = Gauge(
            "fieldmark_pool_waiting", "Transactions that wait for a connection.", registry=self.registry
        )
        self.stream_readers = Gauge("fieldmark_event_stream_readers", "Open event streams.", registry=self.registry)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format 0.0.4."""
        return generate_latest(self.registry)
