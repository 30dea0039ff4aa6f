"""What the reading subprocess is asked to do. A job is handed over as one JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fieldmark.documents.reading.pages import Limits


@dataclass(frozen=True, slots=True)
class ReadJob:
    """Read a document. If `scans` is given, recognise the text of those pages only.

    `media_type` is None until the document's content has shown it. `is_too_deep` says that no file inside it is taken.
    """

    filename: str
    media_type: str | None = None
    scans: Sequence[int] | None = None
    is_too_deep: bool = True


@dataclass(frozen=True, slots=True)
class DrawJob:
    """Draw pages of a document as PNGs. `longest_side` is in pixels."""

    media_type: str
    numbers: Sequence[int]
    dpi: float
    longest_side: int


@dataclass(frozen=True, slots=True)
class UnlockJob:
    """Make a copy of a document without its password. That comes by a pipe, whose descriptor this is: an argument could
    be read in the list of processes."""

    password_from: int


Job = ReadJob | DrawJob | UnlockJob
_KINDS: dict[str, type[Job]] = {"read": ReadJob, "draw": DrawJob, "unlock": UnlockJob}


def job_to_json(job: Job, limits: Limits, parent: int, user: int | None) -> dict[str, Any]:
    """The job with its limits, the id of the process that asks for it, and the user to do it as."""
    kind = next(name for name, kind in _KINDS.items() if isinstance(job, kind))
    return {"kind": kind, "job": asdict(job), "limits": asdict(limits), "parent": parent, "user": user}


def job_from_json(value: dict[str, Any]) -> Job:
    """The job that `job_to_json` made this of."""
    return _KINDS[value["kind"]](**value["job"])
