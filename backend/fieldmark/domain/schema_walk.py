"""Walk over a JSON Schema: the subschemas in it, and the fields that it describes. The schema may be hostile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, cast

from pydantic import JsonValue
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.paths import EACH, Path, Pattern

MAX_FIELDS: Final = 1_000
"""Fields of a schema that are walked."""
MAX_DEPTH: Final = 8
_MAX_VISITS: Final = 5_000

SCHEMAS_BY_NAME: Final = ("properties", "$defs", "definitions", "dependentSchemas", "patternProperties")
"""Keywords with schemas under names."""
SINGLE_SCHEMAS: Final = (
    *("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema", "additionalItems"),
)
SCHEMA_LISTS: Final = ("anyOf", "allOf", "oneOf", "prefixItems")
REFERENCES: Final = ("$ref", "$dynamicRef")
BESIDE: Final = ("allOf", "anyOf", "oneOf", "then", "else", "dependentSchemas")
"""Keywords whose subschemas apply to the same value, always or in some cases. What `if` names need not be a field."""
_CHOICES: Final = frozenset(("anyOf", "oneOf", "if", "dependentSchemas"))
_SCALARS: Final = frozenset(("string", "number", "integer", "boolean"))


def subschemas(schema: JsonObject) -> Iterator[tuple[Path, JsonValue]]:
    """Yield the path and the value of each direct subschema. Values of `const`, `default` or `examples` are data."""
    for word, value in schema.items():
        if word in SCHEMAS_BY_NAME and isinstance(value, dict):
            yield from (((word, name), below) for name, below in value.items())
        elif word in SINGLE_SCHEMAS:
            yield (word,), value
        elif word in SCHEMA_LISTS and isinstance(value, list):
            yield from (((word, index), below) for index, below in enumerate(value))


def reachable_schemas(schema: JsonObject) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return all schemas in a schema, itself first. Return also which of them only a reference makes schemas, such as
    `#/x-shared/vendor`."""
    references = References(schema)
    found: list[JsonObject] = []
    outside: list[JsonObject] = []
    seen, targets = set[int](), list[_Part]()
    waiting = [_Part(schema)]
    while waiting or targets:
        if not waiting:  # all others are seen
            waiting = [targets.pop()]
            if id(waiting[0].schema) not in seen:
                outside.append(waiting[0].schema)
        part = waiting.pop()
        if id(part.schema) not in seen:
            seen.add(id(part.schema))
            found.append(part.schema)
            waiting += [_Part(one) for _, one in subschemas(part.schema) if isinstance(one, dict)]
            targets += references.targets(part)[0]
    return found, outside


@dataclass(slots=True)
class SchemaFields:
    """The fields of a schema: the pattern of each with the keywords that apply to it. `is_complete`: whether these are
    all that the schema describes, except repetitions of a reference to itself."""

    fields: list[tuple[Pattern, JsonObject]] = field(default_factory=list[tuple[Pattern, JsonObject]])
    is_complete: bool = True


def walk_fields(schema: JsonObject) -> SchemaFields:
    """Return the single values that a schema describes, and lists and objects without described content.

    References are followed, and all branches of `allOf`, `anyOf`, `oneOf` and conditions count. At most 1,000 fields, 8
    levels deep, in bounded time. A reference inside its own target is not followed.
    """
    walk = _Walk(References(schema))
    walk.visit((), [_Part(schema)])
    return walk.found


def unknown_fields(schema: JsonObject, wanted: Iterable[Path]) -> Iterator[Path]:
    """Yield the paths whose field a schema neither describes nor allows, as far as bounded work finds out. Below a
    choice, any field is taken as allowed."""
    walk = _Walk(References(schema))
    for path in wanted:
        parts = [_Part(schema)]
        for step in path:
            place = walk.at_one_place(parts)
            if place.is_cut or not walk.found.is_complete or any(_CHOICES & part.schema.keys() for part in place.parts):
                break
            named = place.properties()
            if isinstance(step, int):
                parts = place.items()
            elif step in named:
                parts = named[step]
            else:
                if named and not any(part.schema.get("additionalProperties") for part in place.parts):
                    yield path
                break


class SchemaProperties:
    """The properties of a schema at each place, as far as bounded work finds them."""

    def __init__(self, schema: JsonObject) -> None:
        self._walk = _Walk(References(schema))
        self._places: dict[Pattern, _Place] = {(): self._walk.at_one_place([_Part(schema)])}
        self._positions: dict[Pattern, dict[str, int]] = {}

    def positions(self, at: Pattern) -> dict[str, int]:
        """Return the position of each property of the objects at a place, in the order of the schema."""
        if at not in self._positions:
            self._positions[at] = {name: position for position, name in enumerate(self._place(at).properties())}
        return self._positions[at]

    def _place(self, at: Pattern) -> _Place:
        if at not in self._places:
            around = self._place(at[:-1])
            parts = around.items() if at[-1] is EACH else around.properties().get(str(at[-1]), [])
            self._places[at] = self._walk.at_one_place(parts)
        return self._places[at]


@dataclass(frozen=True, slots=True)
class _Part:
    """A subschema that applies to a value. `way`: the targets of the references that led to it."""

    schema: JsonObject
    way: frozenset[int] = frozenset()

    def below(self, value: JsonValue) -> list[_Part]:
        return [_Part(one, self.way) for one in _schemas((value,))]


@dataclass(frozen=True, slots=True)
class _Place:
    """The subschemas that apply to one value. `is_cut`: some of them are not here: a reference repeats, or leads
    nowhere."""

    parts: list[_Part]
    is_cut: bool

    def properties(self) -> dict[str, list[_Part]]:
        """Return the subschemas of each property, in the order of the schema."""
        named: dict[str, list[_Part]] = {}
        for part in self.parts:
            for key, value in as_object(part.schema.get("properties")).items():
                if below := part.below(value):
                    named.setdefault(key, []).extend(below)
        return named

    def items(self) -> list[_Part]:
        return [one for part in self.parts for one in part.below(part.schema.get("items"))]

    def merged(self) -> JsonObject:
        """Return all keywords. The outermost is taken if several schemas have one; `null` beside another type is left
        out."""
        found: JsonObject = {}
        for part in sorted(self.parts, key=lambda one: one.schema.get("type") == "null"):
            extension = {**as_object(part.schema.get("x-fieldmark")), **as_object(found.get("x-fieldmark"))}
            found = {**part.schema, **found, **({"x-fieldmark": extension} if extension else {})}
        return found

    def has_scalar(self) -> bool:
        types = (part.schema.get("type") for part in self.parts)
        return any(one in _SCALARS for named in types for one in (named if isinstance(named, list) else [named]))


class References:
    """Resolves the references of a schema, each once."""

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._targets: dict[str, JsonObject | None] = {}

    @cached_property
    def _root(self) -> Any:
        resource = DRAFT202012.create_resource(cast(Any, self._schema))
        try:
            return Registry[Any]().with_resource(resource.id() or "", resource).crawl().resolver(resource.id() or "")
        except (AttributeError, TypeError, ValueError):  # on Supabase, a front end may store an unchecked schema
            return Registry[Any]().resolver()

    def targets(self, part: _Part) -> tuple[list[_Part], bool]:
        """Return what a subschema refers to, and whether one of its references leads nowhere or to its own way."""
        found: list[_Part] = []
        is_cut = False
        for reference in [part.schema[word] for word in REFERENCES if word in part.schema]:
            target = self.find(reference) if isinstance(reference, str) else None
            if target is None or id(target) in part.way:
                is_cut = True
            else:
                found.append(_Part(target, part.way | {id(target)}))
        return found, is_cut

    def find(self, reference: str) -> JsonObject | None:
        """Return the schema that a reference leads to. None if it leads to no object in this schema."""
        if reference not in self._targets:
            target: JsonValue = None
            with suppress(Unresolvable, AttributeError, LookupError, TypeError, ValueError):
                target = self._root.lookup(reference).contents
            self._targets[reference] = target if isinstance(target, dict) else None
        return self._targets[reference]


@dataclass(slots=True)
class _Walk:
    references: References
    found: SchemaFields = field(default_factory=SchemaFields)
    visits: int = 0

    def visit(self, at: Pattern, parts: list[_Part]) -> None:
        place = self.at_one_place(parts)
        if not self.found.is_complete:
            return
        properties, items = place.properties(), place.items()
        if at and ((not properties and not items and not place.is_cut) or place.has_scalar()):
            if len(self.found.fields) == MAX_FIELDS:
                self.found.is_complete = False
                return
            self.found.fields.append((at, place.merged()))
        if len(at) == MAX_DEPTH and (properties or items):
            return
        for key, below in properties.items():
            self.visit((*at, key), below)
        if items:
            self.visit((*at, EACH), items)

    def at_one_place(self, parts: list[_Part]) -> _Place:
        """Return all subschemas that apply where these do."""
        place = _Place([], is_cut=False)
        is_cut, seen, waiting = False, set[int](), parts[::-1]
        while waiting:
            self.visits += 1
            if self.visits > _MAX_VISITS:
                self.found.is_complete = False
                break
            part = waiting.pop()
            if id(part.schema) in seen:
                continue
            seen.add(id(part.schema))
            place.parts.append(part)
            referred, leads_nowhere = self.references.targets(part)
            is_cut = is_cut or leads_nowhere
            beside = (one for word in BESIDE if word in part.schema for one in _beside(word, part.schema[word]))
            waiting += reversed([*referred, *(_Part(one, part.way) for one in beside)])
        return _Place(place.parts, is_cut)


def _beside(word: str, value: JsonValue) -> Iterator[JsonObject]:
    return _schemas(as_object(value).values() if word == "dependentSchemas" else as_list(value) or (value,))


def _schemas(values: Iterable[JsonValue]) -> Iterator[JsonObject]:
    for value in values:
        if isinstance(value, dict):
            yield value
        elif value is True:
            yield {}
