"""How two versions of a schema differ. `private.compare_schemas` decides it by top-level field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Self

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.paths import EACH, Pattern
from fieldmark.errors import InvalidPath

MAX_FIELDS: Final = 100
"""A run reads up to this many changed fields by name. If more changed, it reads all fields."""


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """How two versions differ in their top-level fields. `everything`: a root keyword differs that may affect any
    field, such as `allOf`. `rules`: the rules differ."""

    added: list[str]
    removed: list[str]
    changed: list[str]
    everything: bool
    rules: bool

    @classmethod
    def of(cls, old: JsonObject, new: JsonObject, found: JsonObject) -> Self:
        """Return the difference that `private.compare_schemas` found, with the removed fields."""
        added, changed = as_list(found.get("added")), as_list(found.get("changed"))
        wanted = as_object(new.get("properties"))  # in this order, which `jsonb` loses
        return cls(
            added=[key for key in wanted if key in added],
            removed=[paths.name(pattern) for pattern in _dropped(old, new)],
            changed=[key for key in wanted if key in changed],
            everything="everything" in found,
            rules="rules" in found,
        )

    @property
    def needs_reading(self) -> bool:
        """Whether documents are read again."""
        return bool(self.everything or self.added or self.changed)

    @property
    def fields(self) -> list[str] | None:
        """The path names to read again, or None to read all fields."""
        names = [paths.name((key,)) for key in (*self.added, *self.changed)]
        is_all = self.everything or len(names) > MAX_FIELDS or not all(map(_is_path, names))
        return None if is_all else names


def stale_columns(columns: Iterable[str], found: JsonObject) -> list[str]:
    """Return the columns whose fields differ, in a difference that `private.compare_schemas` found."""
    differing = [*as_list(found.get("added")), *as_list(found.get("changed"))]
    return [name for name in columns if "everything" in found or paths.parse_pattern(name)[0] in differing]


def _dropped(old: JsonValue, new: JsonValue, at: Pattern = ()) -> Iterator[Pattern]:
    """Yield the fields of a subschema that its new version lacks, without those below them."""
    old, new = as_object(old), as_object(new)
    before, after = as_object(old.get("properties")), as_object(new.get("properties"))
    for key, field in before.items():
        if key not in after:
            yield (*at, key)
        else:
            yield from _dropped(field, after[key], (*at, key))
    if "items" in old and "items" in new:
        yield from _dropped(old["items"], new["items"], (*at, EACH))


def _is_path(name: str) -> bool:
    try:
        return bool(paths.parse(name))
    except InvalidPath:
        return False
