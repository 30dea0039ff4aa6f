"""What a JSON Schema says of one place, however it says it: behind a reference, in `allOf`, or in one of several forms.

A place is reached from the root by keys and items. Two schemas can be compared place by place, whatever they call their
`$defs`. They may be hostile: what they refer to is followed once for each place, and all of it is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final
from urllib.parse import unquote

from pydantic import JsonValue

from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.paths import Path
from fieldmark.errors import InvalidSchema

MAX_STEPS: Final = 300_000
"""How many keywords and values are looked at for one comparison, on either side."""

_NAMED: Final = frozenset(("properties", "dependentSchemas", "patternProperties"))
_ONE: Final = frozenset(
    (
        *("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"),
        *("unevaluatedProperties", "unevaluatedItems"),
    )
)
_SEVERAL: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_FORMS: Final = ("anyOf", "oneOf")
_NULLABLE: Final = "or null"
"""In the place of a digest: the one form that there is, where the other is null."""
# What says nothing of a value, and asks nothing of who reads it. (A description does: it tells what is meant.)
_UNSAID: Final = frozenset(
    (
        *("$schema", "$id", "$anchor", "$dynamicAnchor", "$defs", "definitions", "$comment", "title"),
        *("examples", "example", "default", "deprecated", "readOnly", "writeOnly"),
    )
)
# What is looked at part by part, or is said of what stands below.
_NOT_OF_ITSELF: Final = frozenset(
    (*_UNSAID, *_FORMS, "$ref", "allOf", "then", "else", "dependentSchemas", "properties", "prefixItems", "required")
)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One place of a schema. `parts` are all that says something of it: with None what always holds, with a digest what
    holds in one of several forms, which are in the digest. `said` is the same as it was found, behind no reference yet.
    `is_told`: nothing of it lies behind what cannot be followed."""

    said: tuple[tuple[JsonValue, str | None], ...]
    parts: tuple[tuple[JsonObject, str | None], ...]
    is_told: bool


@dataclass(slots=True)
class Places:
    """The places of one schema."""

    schema: JsonObject
    _left: int = MAX_STEPS
    _digests: dict[int, str] = field(default_factory=dict[int, str])
    _targets: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    # A place of each row of a list is the same one: told by what was found to be said of it.
    _places: dict[tuple[tuple[int, str | None], ...], Place] = field(
        default_factory=dict[tuple[tuple[int, str | None], ...], Place]
    )
    _digests_of_places: dict[Place, str] = field(default_factory=dict[Place, str])

    @property
    def root(self) -> Place:
        """The place of the fields as a whole."""
        return self._kept([(self.schema, None)])

    def at(self, path: Path) -> Place | None:
        """The place at a path; None where the schema says nothing of it."""
        place: Place | None = self.root
        for step in path:
            if place is None:
                return None
            place = self.child(place, step) if isinstance(step, str) else self.item(place, step)
        return place

    def keys(self, place: Place) -> list[str]:
        """The keys that it names below a place, in their order."""
        return list(dict.fromkeys(key for part, _ in place.parts for key in as_object(part.get("properties"))))

    def required(self, place: Place) -> set[str]:
        """The keys that must always be there."""
        named = (as_list(part.get("required")) for part, form in place.parts if form in (None, _NULLABLE))
        return {key for keys in named for key in keys if isinstance(key, str)}

    def child(self, place: Place, key: str) -> Place | None:
        """What it says of a key below a place: by its name, else as of every other key. None for nothing, and where
        nothing may stand."""
        found: list[tuple[JsonValue, str | None]] = []
        for part, form in place.parts:
            named, others = as_object(part.get("properties")), part.get("additionalProperties")
            if key in named:
                found.append((named[key], form))
            elif isinstance(others, dict):
                found.append((others, form))
        return self._found(found)

    def item(self, place: Place, index: int) -> Place | None:
        """What it says of an item below a place. None for nothing, and where nothing may stand."""
        found: list[tuple[JsonValue, str | None]] = []
        for part, form in place.parts:
            first = as_list(part.get("prefixItems"))
            if index < len(first):
                found.append((first[index], form))
            elif "items" in part:
                found.append((part["items"], form))
        return self._found(found)

    def digest(self, place: Place) -> str:
        """The same for two places if the same is said of them and of all below."""
        if place not in self._digests_of_places:
            found = sorted(json.dumps([self._digest(said, ())[0], form]) for said, form in place.said)
            self._digests_of_places[place] = _hash(found)
        return self._digests_of_places[place]

    def own(self, place: Place) -> str:
        """The same for two places if the same is said of their own values, whatever of what is below."""
        return _hash(sorted(json.dumps([self._own(part), form is None]) for part, form in place.parts))

    def spend(self, steps: int = 1) -> None:
        """Count steps. Raises InvalidSchema where they are too many."""
        self._left -= steps
        if self._left < 0:
            raise InvalidSchema("The schema takes too long to compare: its references and forms are too many.")

    def _found(self, found: list[tuple[JsonValue, str | None]]) -> Place | None:
        if not found or any(said is False and form is None for said, form in found):
            return None
        return self._kept([one for one in found if one[0] is not False])

    def _kept(self, found: list[tuple[JsonValue, str | None]]) -> Place:
        # (Each is a part of the schema, and lives as long as that.)
        name = tuple((id(said), form) for said, form in found)
        if name not in self._places:
            self._places[name] = self._place(found)
        return self._places[name]

    def _place(self, said: list[tuple[JsonValue, str | None]]) -> Place:
        parts: list[tuple[JsonObject, str | None]] = []
        seen: set[tuple[str, str | None]] = set()
        is_told, waiting = True, list(reversed(said))
        while waiting:
            part, form = waiting.pop()
            if not isinstance(part, dict):
                continue
            self.spend(1 + len(part))
            parts.append((part, form))
            beside: list[tuple[JsonValue, str | None]] = []
            if isinstance(reference := part.get("$ref"), str) and (reference, form) not in seen:
                seen.add((reference, form))
                target = self._target(reference)
                is_told = is_told and target is not None
                beside.append((target, form))
            is_told = is_told and "$dynamicRef" not in part
            beside += [(one, form) for one in as_list(part.get("allOf"))]
            for kind, several in _forms(part):
                name = form or (
                    _NULLABLE
                    if _is_nullable(several)
                    else _hash([kind, *(self._digest(one, ())[0] for one in several)])
                )
                beside += [(one, name) for one in several]
            waiting += reversed(beside)
        return Place(tuple(said), tuple(parts), is_told)

    def _target(self, reference: str) -> JsonValue:
        """What a reference leads to; None for nothing that can be followed."""
        if reference not in self._targets:
            self._targets[reference] = self._looked_up(unquote(reference.removeprefix("#")), reference)
        return self._targets[reference]

    def _looked_up(self, pointer: str, reference: str) -> JsonValue:
        if not reference.startswith("#"):
            return None
        if pointer and not pointer.startswith("/"):
            return next((part for part in self._all(self.schema) if part.get("$anchor") == pointer), None)
        found: JsonValue = self.schema
        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = found.get(key)
            elif isinstance(found, list) and key.isdecimal() and len(key) < 7 and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return found if isinstance(found, dict | bool) else None

    def _all(self, node: JsonValue) -> Iterator[JsonObject]:
        if isinstance(node, dict):
            self.spend()
            yield node
        for below in node.values() if isinstance(node, dict) else as_list(node):
            yield from self._all(below)

    def _digest(self, said: JsonValue, behind: tuple[str, ...]) -> tuple[str, bool]:
        """A digest of a part of the schema with all that it refers to, and whether it holds wherever the part stands:
        not within a circle of references."""
        if not isinstance(said, dict):
            return _hash(said), True
        known = self._digests.get(id(said))
        if known is not None:
            return known, True
        self.spend(1 + len(said))
        told, everywhere = dict[str, JsonValue](), True
        for word, value in said.items():
            if word in _UNSAID:
                continue
            if word in _NAMED and isinstance(value, dict):
                named = {key: self._digest(one, behind) for key, one in value.items()}
                told[word] = {key: digest for key, (digest, _) in named.items()}
                everywhere = everywhere and all(whole for _, whole in named.values())
            elif word in _SEVERAL and isinstance(value, list):
                several = [self._digest(one, behind) for one in value]
                told[word] = [digest for digest, _ in several]
                everywhere = everywhere and all(whole for _, whole in several)
            elif word in _ONE:
                told[word], whole = self._digest(value, behind)
                everywhere = everywhere and whole
            elif word == "$ref" and isinstance(value, str):
                if value in behind:
                    told[word], everywhere = value, False
                else:
                    told[word], whole = self._digest(self._target(value), (*behind, value))
                    everywhere = everywhere and whole
            else:
                told[word] = _plain(word, value)
        digest = _hash(told)
        if everywhere:
            self._digests[id(said)] = digest
        return digest, everywhere

    def _own(self, part: JsonObject) -> JsonValue:
        told: JsonObject = {}
        for word, value in part.items():
            if word not in _NOT_OF_ITSELF and not (word == "items" and isinstance(value, dict)):
                told[word] = self._digest(value, ())[0] if word in _ONE else _plain(word, value)
        return told


def _forms(part: JsonObject) -> Iterator[tuple[str, list[JsonValue]]]:
    """The forms of which one or more hold, with what they are; the condition of two stands with them."""
    for word in _FORMS:
        if isinstance(several := part.get(word), list):
            yield word, several
    if "if" in part:
        # (What the condition itself says of a place holds where `then` does.)
        yield "if", [part[word] for word in ("if", "then", "else") if word in part]
    if isinstance(dependent := part.get("dependentSchemas"), dict):
        yield "dependentSchemas", list(dependent.values())


def _is_nullable(several: list[JsonValue]) -> bool:
    return len(several) == 2 and {"type": "null"} in several


def _plain(word: str, value: JsonValue) -> JsonValue:
    """What a word says beside the parts of a schema. Of rules nothing: they are said of the whole."""
    if word == "x-fieldmark":
        return as_object(value).get("grounded") is True
    if word in ("enum", "required", "type") and isinstance(value, list):
        return [*sorted(json.dumps(one, sort_keys=True) for one in value)]
    return value


def _hash(said: object) -> str:
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
