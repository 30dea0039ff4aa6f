"""The order of fields: those of the schema as it lists them, then the others by their place on the page, then by name.

Items of a list keep their order. (The database does not keep the order of the keys in an extraction's fields.)
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.numbers import is_number
from fieldmark.domain.paths import EACH, Path, Pattern
from fieldmark.domain.schema_walk import SchemaProperties

_Place: TypeAlias = tuple[float, float, float]
"""Page, top and left edge."""
_NOWHERE: Final[_Place] = (math.inf, 0.0, 0.0)


class FieldOrder:
    """The order of the fields of an extraction. The schema and the evidence may be hostile."""

    def __init__(self, schema: JsonObject | None, evidence: JsonObject) -> None:
        self._properties = SchemaProperties(schema or {})
        self._evidence = evidence

    def arrange(self, fields: JsonObject) -> JsonObject:
        """Return the fields in order."""
        return as_object(self._arrange(fields, "", ()))

    def position(self, path: Path) -> tuple[float, ...]:
        """Return the position in the schema, the same for all items of a list. Fields outside it have the last."""
        at: Pattern = ()
        found: list[float] = []
        for step in path:
            position = 0 if isinstance(step, int) else self._properties.positions(at).get(step, math.inf)
            found.append(position)
            if position == math.inf:
                break
            at = (*at, EACH if isinstance(step, int) else step)
        return tuple(found)

    def _arrange(self, value: JsonValue, name: str, at: Pattern) -> JsonValue:
        if isinstance(value, list):
            return [self._arrange(item, paths.child_name(name, index), (*at, EACH)) for index, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        positions = self._properties.positions(at)
        outside = [key for key in value if key not in positions]
        places = {key: self._place(value[key], paths.child_name(name, key)) for key in outside if len(outside) > 1}
        order = sorted(value, key=lambda key: (positions.get(key, math.inf), places.get(key, _NOWHERE), key))
        return {
            key: self._arrange(one, paths.child_name(name, key), (*at, key)) if isinstance(one, dict | list) else one
            for key, one in ((key, value[key]) for key in order)
        }

    def _place(self, value: JsonValue, name: str) -> _Place:
        """Return the place of the first value: of an object on the page, of a list in its first item with a place."""
        if isinstance(value, list):
            found = (self._place(item, paths.child_name(name, index)) for index, item in enumerate(value))
            return next((place for place in found if place != _NOWHERE), _NOWHERE)
        if isinstance(value, dict):
            return min((self._place(one, paths.child_name(name, key)) for key, one in value.items()), default=_NOWHERE)
        evidence = as_object(self._evidence.get(name))
        page, box = evidence.get("page"), as_list(next(iter(as_list(evidence.get("boxes"))), None))
        left, top = box[:2] if len(box) == 4 else (None, None)
        return (page, round(top, 2), left) if is_number(page) and is_number(left) and is_number(top) else _NOWHERE
