"""The changes a write would make: shown before approval, and checked again when the write is applied."""

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
    """One changed path, from `old` to `new`. JSON null is a value: `added`: the path had no value before.
    `removed`: it has no value afterwards."""

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
    """The changes of a write. `target` is the data that must be unchanged when the write is applied, such as its rows;
    `version` is the version of the changed object, if it has one."""

    changes: Sequence[Change] = ()
    target: JsonValue = None
    version: int | None = None

    @property
    def target_hash(self) -> str:
        """SHA-256 of the target's canonical JSON."""
        return hashlib.sha256(canonical(self.target)).hexdigest()

    def covers(self, other: Preview) -> bool:
        """Return whether this preview's target includes all of the other's."""
        if isinstance(self.target, dict) and isinstance(other.target, dict):
            return other.target.items() <= self.target.items()
        return self.target == other.target


def differences(old: JsonValue, new: JsonValue, at: Path) -> Iterator[Change]:
    """Yield the differences of two values at a path: objects key by key, all other values as a whole.

    >>> [(change.path, change.new) for change in differences({"a": {"b": 1}}, {"a": {"b": 2}, "c": 3}, ("s",))]
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
