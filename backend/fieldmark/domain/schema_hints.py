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
from fieldmark.domain.schema_walk import SCHEMA_LISTS, SCHEMAS_BY_NAME, SINGLE_SCHEMAS, subschemas

TYPES: Final = ("string", "number", "integer", "boolean", "object", "array", "null")
_TYPE_NAMES: Final = frozenset(
    (*TYPES, "str", "text", "date", "float", "decimal", "amount", "int", "bool", "list"),
)
_OTHER_KEYWORDS: Final = (
    *("type", "enum", "const", "required", "dependentRequired", "dependencies", "format", "pattern", "default"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties"),
    *("contentEncoding", "contentMediaType", "title", "description", "examples", "deprecated", "readOnly", "writeOnly"),
    "id",
)
_KEYWORDS: Final = frozenset((*SCHEMAS_BY_NAME, *SINGLE_SCHEMAS, *SCHEMA_LISTS, *_OTHER_KEYWORDS))
# Keywords of other dialects, mostly OpenAPI. They have no effect and are not mistakes.
_OTHER_DIALECTS: Final = frozenset(("example", "nullable", "discriminator", "xml", "externalDocs", "name", "options"))
_DESCRIBES_FIELDS: Final = frozenset(
    (*SCHEMAS_BY_NAME, *SCHEMA_LISTS, "items", "additionalProperties", "$ref", "if", "not")
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
        for path, below in subschemas(schema):
            yield from misplaced_names(below, (*at, *path))


def _unknown(schema: JsonObject) -> list[str]:
    return [word for word in schema if word not in _KEYWORDS and not word.startswith(("x-", "$"))]


def _is_type_name(value: JsonValue) -> bool:
    return isinstance(value, str) and value.strip().lower() in _TYPE_NAMES
