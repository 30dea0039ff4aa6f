"""Enclosed files: files attached to an email or packed in an archive. They become separate documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pagewords.errors import OverLimit, PasswordProtected
from pagewords.jobs import ReadJob
from pagewords.pages import MIB, Limits, clean
from pagewords.reading_warnings import (
    SKIPPED_FILE_CODES,
    ReadingWarning,
    WarningCode,
    skipped_files_warning,
)

MAX_NAME = 255
MAX_RATIO = 80
"""The files of an upload have at most this many times its bytes, or 1 MiB."""
MAX_PAGES = 2_000
"""Pages of all files of an upload, which bounds the time of their reading."""
MAX_DEPTH = 2
"""An archive in a mail is unpacked. What lies in an archive that lies in that one is not."""


class Enclosed(NamedTuple):
    """A file inside a document: its name, and a function that unpacks at most a given number of bytes. The function
    raises OverLimit for a larger file, PasswordProtected, or any exception for a damaged file."""

    name: str
    unpack: Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Container:
    """A file that encloses others: its own text, and the enclosed files."""

    parts: Sequence[Sequence[str]]
    enclosed: Iterable[Enclosed] = ()


def max_enclosed_bytes(upload_bytes: int, limits: Limits) -> int:
    """Return how many bytes all files of an upload may have, at any depth."""
    return min(limits.max_decoded_bytes, max(MIB, MAX_RATIO * upload_bytes))


def unpack(
    enclosed: Iterable[Enclosed], limits: Limits, job: ReadJob
) -> tuple[list[tuple[str, bytes]], list[ReadingWarning]]:
    """Return name and content of the enclosed files within the limits, and warnings about the others."""
    left: dict[WarningCode, list[str]] = {code: [] for code in SKIPPED_FILE_CODES}
    files: list[tuple[str, bytes]] = []
    room = job.max_bytes
    for one in enclosed:
        name = shown_name(one.name)
        if job.is_too_deep or len(files) >= job.max_files:
            left[WarningCode.ENCLOSED_TOO_DEEP if job.is_too_deep else WarningCode.ENCLOSED_TOO_MANY].append(name)
            continue
        content, code = b"", WarningCode.ENCLOSED_DAMAGED
        try:
            content = one.unpack(min(limits.max_bytes, room))
        except PasswordProtected:
            code = WarningCode.ENCLOSED_PROTECTED
        except (OverLimit, MemoryError):
            code = WarningCode.ENCLOSED_TOO_LARGE
        except Exception:  # noqa: BLE001, S110 - whatever is wrong with one file, the others are taken
            pass
        if content:
            files.append((name, content))
            room -= len(content)
        else:
            left[code].append(name)
    return files, [skipped_files_warning(code, names) for code, names in left.items() if names]


def shown_name(name: str) -> str:
    """Return the last component of a path on one line, without invisible characters."""
    last = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    return " ".join(clean(last).split())[:MAX_NAME] or "without a name"
