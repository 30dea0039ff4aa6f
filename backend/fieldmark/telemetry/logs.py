"""What the process logs: one line an event on standard error, never a document's text, a token or a local variable."""

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
    """Log from `level` on: to a terminal for people, elsewhere as JSON lines. What libraries log (their warnings at
    most) goes the same way, so it bears the same ids."""
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
        processors=[*shared, without_texts, shown],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_Lines,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, _of_library, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, without_texts, shown],
        )
    )
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler], force=True)


class _Lines(structlog.PrintLogger):
    """Writes to standard error. A line that cannot be written (its reader is gone, the disk is full) is lost: whoever
    logs is in the middle of something else, which must not end with it."""

    def __init__(self, *_: object) -> None:
        super().__init__(sys.stderr)

    def msg(self, message: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            super().msg(message)

    log = debug = info = warn = warning = fatal = failure = err = error = critical = exception = msg


# Libraries that say nothing in their lines but ids, addresses and states. Others repeat the exception that they met, or
# the message that they could not read: of those only the place is told.
_DISCREET = ("opentelemetry", "procrastinate", "psycopg", "uvicorn")


def _of_library(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    record: logging.LogRecord = event["_record"]
    if record.name.split(".")[0] not in _DISCREET:
        event["event"] = f"{record.module}:{record.lineno}"
    return event


def without_texts(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Puts an exception's traceback into the line: types and places, and texts only of those that hold no values."""
    error = event.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()
    if isinstance(error, tuple):
        error = cast(tuple[object, ...], error)[1]
    if isinstance(error, BaseException):
        event["exception"] = "\n".join(_told(error))
    return event


def _told(error: BaseException) -> Iterator[str]:
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier is not None:
        yield from _told(earlier)
        yield "which led to:"
    # Frames name places. Their source lines are left out: Python 3.13 has them of code too that stands in no file of
    # ours, such as what was given with -c. The lines that print local variables, and the exceptions' own texts, may
    # repeat what a document says.
    places = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), lookup_lines=False)
    bare = [traceback.FrameSummary(place.filename, place.lineno, place.name, line="") for place in places]
    yield "".join(traceback.StackSummary.from_list(bare).format()).rstrip()
    yield f"{type(error).__module__}.{type(error).__qualname__}{_text_of(error)}"
    if isinstance(error, BaseExceptionGroup):
        for one in cast(BaseExceptionGroup[BaseException], error).exceptions:
            yield from _told(one)


def _text_of(error: BaseException) -> str:
    if isinstance(error, (Unavailable, Misconfigured)):
        return f": {error}"
    if isinstance(error, OSError) and error.strerror:
        return f": {error.strerror}"
    state = getattr(error, "sqlstate", None)
    if state is None:
        return ""
    # Data exceptions and violated constraints quote the value; so may what our own functions refuse.
    quotes = state.startswith(("22", "23", "P0", "PT"))
    return f" {state}" if quotes else f" {state}: {error.diag.message_primary}"  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
