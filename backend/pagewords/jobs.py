"""Jobs of the reading subprocess. A job is sent as one JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pagewords.pages import Limits

WHOLE_PAGE: Final = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class ReadJob:
    """Read a document's own text, and find the pages that need OCR. At most `max_files` enclosed files are unpacked, of
    `max_bytes` together; none with `is_too_deep`."""

    filename: str
    max_files: int = 0
    max_bytes: int = 0
    is_too_deep: bool = True


@dataclass(frozen=True, slots=True)
class OcrJob:
    """Read one page of a document by OCR. `media_type` is None for a picture inside a document."""

    media_type: str | None
    number: int


@dataclass(frozen=True, slots=True)
class DrawJob:
    """Draw pages of a document as PNGs, as many as fit into `max_bytes`. `longest_side` is in pixels.

    `box` is the part of each page that is drawn (x0, y0, x1, y1 as fractions of the page). `width` is its width in
    pixels and overrides `dpi`.
    """

    media_type: str
    numbers: Sequence[int]
    dpi: float
    longest_side: int
    max_bytes: int
    box: Sequence[float] = WHOLE_PAGE
    width: int | None = None


@dataclass(frozen=True, slots=True)
class UnlockJob:
    """Make a copy of a document without its password."""

    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class MailJob:
    """Find the sender, the subject and the attachments of an email."""


Job = ReadJob | OcrJob | DrawJob | UnlockJob | MailJob
_KINDS: dict[str, type[Job]] = {
    "read": ReadJob,
    "ocr": OcrJob,
    "draw": DrawJob,
    "unlock": UnlockJob,
    "mail": MailJob,
}


def job_to_json(job: Job, limits: Limits, user: int | None) -> dict[str, Any]:
    """Return the job with its limits and the id of the user to run it as."""
    kind = next(name for name, kind in _KINDS.items() if isinstance(job, kind))
    return {"kind": kind, "job": asdict(job), "limits": asdict(limits), "user": user}


def job_from_json(value: dict[str, Any]) -> Job:
    return _KINDS[value["kind"]](**value["job"])
