"""OpenTelemetry spans with ids and figures, never document text or exception messages."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec

import structlog
from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, ProxyTracerProvider, Span, StatusCode

log = structlog.get_logger()

tracer = trace.get_tracer("fieldmark")
"""Does nothing until an exporter is set up, by `export_to` or by the embedding application."""

EXPORT_SECONDS = 3
"""Timeout of an export. A command that ends waits this long for an unavailable collector."""

Attribute = str | int | float | bool | None


@contextmanager
def span(name: str, **attributes: Attribute) -> Generator[Span]:
    """Record the block as a span `name` below the current span. Attributes are ids, names and figures."""
    if not _has_exporter():  # a span costs too much for a short transaction
        yield INVALID_SPAN
        return
    with tracer.start_as_current_span(
        name,
        attributes=prefixed_attributes(attributes),
        # An exception's message may contain a value or a DSN, so only its type is recorded.
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield current
        except BaseException as error:
            mark_failed(current, type(error).__name__)
            raise


def mark_failed(current: Span, reason: str) -> None:
    """Mark a span as failed. `reason` is a code or a type, not a message."""
    current.set_attribute("error.type", reason)
    current.set_status(StatusCode.ERROR)


def prefixed_attributes(attributes: dict[str, Attribute]) -> dict[str, str | int | float | bool]:
    """Return the attributes with the prefix `fieldmark.`, without those that are None."""
    return {f"fieldmark.{name}": value for name, value in attributes.items() if value is not None}


def export_to(endpoint: str) -> None:
    """Export spans to an OTLP collector (HTTP) at `endpoint`, in batches from a background thread. Do nothing if an
    exporter is set up already. OpenTelemetry reads the other OTEL_* variables."""
    if _has_exporter():
        return
    if find_spec("opentelemetry.sdk") is None or find_spec("opentelemetry.exporter") is None:
        log.warning("no spans are sent: install fieldmark[otel]")
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create()
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "fieldmark"}))
    provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter(endpoint.rstrip("/") + "/v1/traces", timeout=EXPORT_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def _has_exporter() -> bool:
    return not isinstance(trace.get_tracer_provider(), ProxyTracerProvider)
