"""What a write would change: shown to a person before it is approved, and checked again when it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.paths import Path
from fieldmark.domain.values import canonical


@dataclass(frozen=True, slots=True)
class Change:
    """One place that a write changes, from `old` to `new`. JSON null is a value: `added` says that nothing stands there
    yet, `removed` that nothing will."""

    path: str
    old: JsonValue
    new: JsonValue
    added: bool = False
    removed: bool = False

    def as_json(self) -> dict[str, JsonValue]:
        marks: dict[str, JsonValue] = {name: True for name in ("added", "removed") if getattr(self, name)}
        return {"path": self.path, "old": self.old, "new": self.new, **marks}


@dataclass(frozen=True, slots=True)
class Preview:
    """The changes of a write, and its `target`: what must still stand when it is done, such as the rows it is in.
    `version` is that of what it changes, where that has one."""

    changes: Sequence[Change] = ()
    target: JsonValue = None
    version: int | None = None

    @property
    def target_hash(self) -> str:
        """SHA-256 over the target in one spelling."""
        return hashlib.sha256(canonical(self.target)).hexdigest()

    def covers(self, other: Preview) -> bool:
        """Whether whoever was shown this one was shown all that the other would change."""
        if isinstance(self.target, dict) and isinstance(other.target, dict):
            return other.target.items() <= self.target.items()
        return self.target == other.target


def differences(old: JsonValue, new: JsonValue, at: Path) -> Iterator[Change]:
    """Where two values differ, below a path: objects key by key, anything else as a whole.

    >>> [(one.path, one.new) for one in differences({"a": {"b": 1}}, {"a": {"b": 2}, "c": 3}, ("s",))]
    [('s.a.b', 2), ('s.c', 3)]
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            path = (*at, key)
            if key not in old:
                yield Change(paths.name(path), None, new[key], added=True)
            elif key not in new:
                yield Change(paths.name(path), old[key], None, removed=True)
            else:
                yield from differences(old[key], new[key], path)
    elif canonical(old) != canonical(new):
        yield Change(paths.name(at), old, new)
