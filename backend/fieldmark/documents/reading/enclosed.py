"""Files inside a file: what is attached to a mail or packed into an archive. They become documents of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fieldmark.documents.reading.pages import Limits, clean
from fieldmark.domain.reading_warnings import LEFT_OUT, MAX_ENCLOSED, ReadingWarning, WarningCode, left_out
from fieldmark.errors import OverLimit, PasswordProtected

MAX_NAME = 255
MAX_DEPTH = 2
"""An archive in a mail is unpacked. What lies in an archive that lies in that one is not."""


class Enclosed(NamedTuple):
    """A file inside a file: its name, and a function that unpacks it, to so many bytes at most.

    That raises OverLimit for what is larger, PasswordProtected, or anything for what is damaged.
    """

    name: str
    unpack: Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Container:
    """A file with files inside: its own text, and those files."""

    parts: Sequence[Sequence[str]]
    enclosed: Iterable[Enclosed] = ()


@dataclass(slots=True)
class Unpacking:
    """Unpacks files within the limits, one by one. What it leaves out is told in `warnings`."""

    limits: Limits
    is_too_deep: bool
    _left_out: dict[WarningCode, list[str]] = field(default_factory=lambda: {code: [] for code in LEFT_OUT})

    def files(self, enclosed: Iterable[Enclosed]) -> Iterator[tuple[str, bytes]]:
        """Name and content of each file that is taken."""
        count, room = 0, self.limits.max_decoded_bytes
        for one in enclosed:
            name = shown_name(one.name)
            if self.is_too_deep or count == MAX_ENCLOSED:
                code = WarningCode.ENCLOSED_TOO_DEEP if self.is_too_deep else WarningCode.ENCLOSED_TOO_MANY
                self._left_out[code].append(name)
                continue
            try:
                content = one.unpack(min(self.limits.max_bytes, room))
            except PasswordProtected:
                self._left_out[WarningCode.ENCLOSED_PROTECTED].append(name)
                continue
            except (OverLimit, MemoryError):
                self._left_out[WarningCode.ENCLOSED_TOO_LARGE].append(name)
                continue
            except Exception:  # noqa: BLE001 - whatever is wrong with one file, the others are taken
                content = b""
            if not content:
                self._left_out[WarningCode.ENCLOSED_DAMAGED].append(name)
                continue
            count, room = count + 1, room - len(content)
            yield name, content

    @property
    def warnings(self) -> list[ReadingWarning]:
        """What was left out so far, by reason."""
        return [left_out(code, names) for code, names in self._left_out.items() if names]


def shown_name(name: str) -> str:
    """The last step of a file's name, on one line and without what nobody sees."""
    last = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    return " ".join(clean(last).split())[:MAX_NAME] or "without a name"
