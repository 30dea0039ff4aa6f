"""Log one line for each event to standard error, without document text, tokens or local variables."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import Iterator
from typing import cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from fieldmark.errors import Misconfigured, Unavailable


def set_up_logs(level: str) -> None:
    """Log events of at least `level`: readable on a terminal, otherwise as JSON lines. Warnings and errors of libraries
    are logged in the same format, with the same ids."""
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    shown: Processor = (
        structlog.dev.ConsoleRenderer(pad_event_to=0) if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[*shared, redact_exception, shown],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_StandardErrorLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, _redact_library_event, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, redact_exception, shown],
        )
    )
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler], force=True)


class _StandardErrorLogger(structlog.PrintLogger):
    """Writes to standard error. Write errors (broken pipe, full disk) are ignored: they must not fail the caller."""

    def __init__(self, *_: object) -> None:
        super().__init__(sys.stderr)

    def msg(self, message: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            super().msg(message)

    log = debug = info = warn = warning = fatal = failure = err = error = critical = exception = msg


# Libraries that log only ids, addresses and states. Others may log exceptions or messages with document text, so for
# those only the module and line are logged.
_LIBRARIES_WITHOUT_TEXTS = ("opentelemetry", "procrastinate", "psycopg", "uvicorn")


def _redact_library_event(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    record: logging.LogRecord = event["_record"]
    if record.name.split(".")[0] not in _LIBRARIES_WITHOUT_TEXTS:
        event["event"] = f"{record.module}:{record.lineno}"
    return event


def redact_exception(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Add an exception's traceback to an event: types and positions, and only messages without document values."""
    error = event.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()
    if isinstance(error, tuple):
        error = cast(tuple[object, ...], error)[1]
    if isinstance(error, BaseException):
        event["exception"] = "\n".join(_format_exception(error))
    return event


def _format_exception(error: BaseException) -> Iterator[str]:
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier is not None:
        yield from _format_exception(earlier)
        yield "which led to:"
    # Source lines are omitted: Python 3.13 also prints lines of code given with -c. Local variables and exception
    # messages are omitted because they may contain document text.
    frames = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), lookup_lines=False)
    bare = [traceback.FrameSummary(frame.filename, frame.lineno, frame.name, line="") for frame in frames]
    yield "".join(traceback.StackSummary.from_list(bare).format()).rstrip()
    yield f"{type(error).__module__}.{type(error).__qualname__}{_safe_message(error)}"
    if isinstance(error, BaseExceptionGroup):
        for one in cast(BaseExceptionGroup[BaseException], error).exceptions:
            yield from _format_exception(one)


def _safe_message(error: BaseException) -> str:
    if isinstance(error, (Unavailable, Misconfigured)):
        return f": {error}"
    if isinstance(error, OSError) and error.strerror:
        return f": {error.strerror}"
    state = getattr(error, "sqlstate", None)
    if state is None:
        return ""
    # Messages of data exceptions, constraint violations and our own SQL functions may quote the value.
    quotes = state.startswith(("22", "23", "P0", "PT"))
    return f" {state}" if quotes else f" {state}: {error.diag.message_primary}"  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
