"""What a write would change: shown to a person before it is approved, and checked again when it is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

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
