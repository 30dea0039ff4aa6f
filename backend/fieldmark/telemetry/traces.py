"""Spans: the work that is timed, the ids it bears, never what a document or an exception says; and where they go."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec

import structlog
from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, ProxyTracerProvider, Span, StatusCode

log = structlog.get_logger()

tracer = trace.get_tracer("fieldmark")
"""Does nothing until the process has an exporter: ours (`export_to`), or one that whoever started it has set up."""

EXPORT_SECONDS = 3
"""What a collector may take for what it is sent: a command that ends waits so long for one that is away."""

Attribute = str | int | float | bool | None


@contextmanager
def span(name: str, **attributes: Attribute) -> Generator[Span]:
    """Time the block as `name`, below the span that it stands in. Attributes are ids, names of ours, and figures."""
    if _nobody_listens():  # a transaction is too short for the price of a span that goes nowhere
        yield INVALID_SPAN
        return
    with tracer.start_as_current_span(
        name,
        attributes=named(attributes),
        # An exception's text may hold a value or a DSN: its type has to do.
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield current
        except BaseException as error:
            failed(current, type(error).__name__)
            raise


def failed(current: Span, why: str) -> None:
    """Mark a span as failed. `why` is a code or a type, no sentence."""
    current.set_attribute("error.type", why)
    current.set_status(StatusCode.ERROR)


def named(attributes: dict[str, Attribute]) -> dict[str, str | int | float | bool]:
    """Attributes under our own prefix, those without a value left out."""
    return {f"fieldmark.{name}": value for name, value in attributes.items() if value is not None}


def export_to(endpoint: str) -> None:
    """Send spans to an OTLP collector (HTTP) at `endpoint`, in batches and from a thread of its own; the rest of the
    standard OTEL_* variables is read by OpenTelemetry itself. Once a process; what is set up already stays."""
    if not _nobody_listens():
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


def _nobody_listens() -> bool:
    return isinstance(trace.get_tracer_provider(), ProxyTracerProvider)
