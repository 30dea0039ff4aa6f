"""Find field names that were written instead of JSON Schema keywords.

People who write a schema by hand often write the fields themselves: `{"total": "number"}`. JSON Schema ignores unknown
keywords, so that schema would accept every document, and nothing would be extracted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.paths import Path

TYPES: Final = ("string", "number", "integer", "boolean", "object", "array", "null")
_TYPE_NAMES: Final = frozenset(
    (*TYPES, "str", "text", "date", "float", "decimal", "amount", "int", "bool", "list"),
)
_SCHEMAS_BY_NAME: Final = ("properties", "$defs", "definitions", "dependentSchemas", "patternProperties")
"""Keywords with schemas under names."""
_SINGLE_SCHEMAS: Final = (
    *("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema", "additionalItems"),
)
_SCHEMA_LISTS: Final = ("anyOf", "allOf", "oneOf", "prefixItems")
_OTHER_KEYWORDS: Final = (
    *("type", "enum", "const", "required", "dependentRequired", "dependencies", "format", "pattern", "default"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties"),
    *("contentEncoding", "contentMediaType", "title", "description", "examples", "deprecated", "readOnly", "writeOnly"),
    "id",
)
_KEYWORDS: Final = frozenset((*_SCHEMAS_BY_NAME, *_SINGLE_SCHEMAS, *_SCHEMA_LISTS, *_OTHER_KEYWORDS))
# Keywords of other dialects, mostly OpenAPI. They have no effect and are not mistakes.
_OTHER_DIALECTS: Final = frozenset(("example", "nullable", "discriminator", "xml", "externalDocs", "name", "options"))
_DESCRIBES_FIELDS: Final = frozenset(
    (*_SCHEMAS_BY_NAME, *_SCHEMA_LISTS, "items", "additionalProperties", "$ref", "if", "not")
)


def misplaced_names(schema: JsonValue, at: Path = ()) -> Iterator[Path]:
    """Return the path of each unknown keyword that seems to be the name of a field, at any depth.

    An unknown keyword beside keywords that describe fields is accepted, and so is one that begins with `x-` or `$`.
    """
    if isinstance(schema, dict):
        unknown = _unknown(schema)
        fieldless = schema.get("type", "object") == "object" and not schema.keys() & _DESCRIBES_FIELDS
        for word in unknown:
            is_odd = fieldless and word not in _OTHER_DIALECTS
            if is_odd or len(unknown) == len(schema) or _is_type_name(schema[word]):
                yield (*at, word)
        for path, below in _subschemas(schema):
            yield from misplaced_names(below, (*at, *path))


def _unknown(schema: JsonObject) -> list[str]:
    return [word for word in schema if word not in _KEYWORDS and not word.startswith(("x-", "$"))]


def _is_type_name(value: JsonValue) -> bool:
    return isinstance(value, str) and value.strip().lower() in _TYPE_NAMES


def _subschemas(schema: JsonObject) -> Iterator[tuple[Path, JsonValue]]:
    for word, value in schema.items():
        if word in _SCHEMAS_BY_NAME and isinstance(value, dict):
            yield from (((word, name), below) for name, below in value.items())
        elif word in _SINGLE_SCHEMAS:
            yield (word,), value
        elif word in _SCHEMA_LISTS and isinstance(value, list):
            yield from (((word, index), below) for index, below in enumerate(value))
