"""What was meant by a schema that is none: which words of it JSON Schema does not know, and the nearest schema.

People who write a schema by hand often write the fields themselves: `{"total": "number"}`. JSON Schema ignores words
that it does not know, so that would hold for every document, and nothing would be extracted for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import JsonValue
from rapidfuzz import fuzz, process

from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.paths import Path

TYPES: Final = ("string", "number", "integer", "boolean", "object", "array", "null")
_ALSO_CALLED: Final = {
    **dict.fromkeys(("str", "text", "char", "date", "datetime", "time", "uuid", "email", "url"), "string"),
    **dict.fromkeys(("float", "decimal", "double", "amount", "money", "currency"), "number"),
    "int": "integer",
    "bool": "boolean",
    **dict.fromkeys(("dict", "map"), "object"),
    "list": "array",
    "none": "null",
}
_NAMED: Final = ("properties", "$defs", "definitions", "dependentSchemas", "patternProperties")
"""Words with schemas under names."""
_ONE: Final = (
    *("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema", "additionalItems"),
)
_SEVERAL: Final = ("anyOf", "allOf", "oneOf", "prefixItems")
_PLAIN: Final = (
    *("type", "enum", "const", "required", "dependentRequired", "dependencies", "format", "pattern", "default"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties"),
    *("contentEncoding", "contentMediaType", "title", "description", "examples", "deprecated", "readOnly", "writeOnly"),
    *("id", "$id", "$ref", "$schema", "$anchor", "$comment", "$vocabulary", "$dynamicRef", "$dynamicAnchor"),
)
_KEYWORDS: Final = frozenset((*_NAMED, *_ONE, *_SEVERAL, *_PLAIN))
# What other dialects say beside the keywords, OpenAPI above all: they change nothing, and are no mistake.
_OF_OTHERS: Final = frozenset(("example", "nullable", "discriminator", "xml", "externalDocs", "name", "options"))
_SAYS_OF_FIELDS: Final = frozenset((*_NAMED, *_SEVERAL, "items", "additionalProperties", "$ref", "if", "not"))
_MOST_CHARACTERS: Final = 40
_MISSPELT: Final = ("properties", "required", "items", "type", "enum", "description")


def unknown_words(schema: JsonValue, at: Path = ()) -> Iterator[tuple[Path, str | None]]:
    """Each word of the schema that is none of JSON Schema's and seems to be meant as one or as a field, by its path;
    and the keyword that it is a misspelling of, if it is.

    A word beside keywords that say enough is let be: others may know it. So is what begins with `x-` or `$`.
    """
    if isinstance(schema, dict):
        unknown = [word for word in schema if not _is_known(word)]
        alone = len(unknown) == len(schema)
        fieldless = schema.get("type", "object") == "object" and not schema.keys() & _SAYS_OF_FIELDS
        for word in unknown:
            meant = _meant(word, schema)
            if meant is not None or alone or (fieldless and word not in _OF_OTHERS) or _is_type(schema[word]):
                yield (*at, word), meant
        for word, below in _parts(schema):
            yield from unknown_words(below, (*at, *word))


def nearest(schema: JsonObject) -> JsonObject:
    """The JSON Schema that was probably meant. It need not be one that can be used."""
    found = _nearest_of(schema, is_root=True)
    assert isinstance(found, dict)
    return found


def _is_known(word: str) -> bool:
    return word in _KEYWORDS or word.startswith(("x-", "$"))


def _is_type(value: JsonValue) -> bool:
    return isinstance(value, str) and (value.lower() in TYPES or value.lower() in _ALSO_CALLED)


def _meant(word: str, schema: JsonObject) -> str | None:
    """The keyword that a word is a misspelling of. One that is there already is not meant."""
    near = _near(word.lower(), _MISSPELT, 80)
    return near if near not in schema and word not in _OF_OTHERS else None


def _parts(schema: JsonObject) -> Iterator[tuple[Path, JsonValue]]:
    for word, value in schema.items():
        if word in _NAMED and isinstance(value, dict):
            yield from (((word, name), below) for name, below in value.items())
        elif word in _ONE:
            yield (word,), value
        elif word in _SEVERAL and isinstance(value, list):
            yield from (((word, index), below) for index, below in enumerate(value))


def _nearest_of(said: JsonValue, *, is_root: bool = False) -> JsonValue:
    match said:
        case bool():
            return said
        case str():
            return _of_words(said)
        case int() | float():
            return {"type": "number"}
        case None:
            return {}
        case list():
            return _of_list(said)
        case _:
            return _of_object(said, is_root=is_root)


def _of_words(said: str) -> JsonObject:
    kind = _type_named(said)
    if kind is None:
        return {"type": "string", "description": said}
    return {"type": kind, "format": "date"} if said.lower() == "date" else {"type": kind}


def _of_list(said: list[JsonValue]) -> JsonObject:
    if len(said) > 1 and all(_is_type(one) for one in said):
        return {"type": [_type_named(str(one)) for one in said]}
    if len(said) > 1 and all(isinstance(one, str | int | float) for one in said):
        return {"enum": said}
    return {"type": "array", "items": _nearest_of(said[0])} if said else {"type": "array"}


def _of_object(said: JsonObject, *, is_root: bool) -> JsonObject:
    words = {_meant(word, said) or word if not _is_known(word) else word: value for word, value in said.items()}
    if _is_of_fields(words, is_root=is_root):
        kept = {word: value for word, value in words.items() if _is_about_all(word, value)}
        fields = {word: _nearest_of(value) for word, value in words.items() if word not in kept}
        return {"type": "object", **kept, "properties": fields}
    mended: JsonObject = {"type": "object"} if is_root and "type" not in words else {}
    for word, value in words.items():
        if word == "type":
            mended[word] = _of_type(value)
        elif word in _NAMED and isinstance(value, dict):
            mended[word] = {name: _nearest_of(below) for name, below in value.items()}
        elif word in _NAMED and isinstance(value, list):  # names alone
            mended[word] = {str(name): {"type": "string"} for name in value}
        elif word in _ONE:
            mended[word] = _nearest_of(value)
        elif word in _SEVERAL and isinstance(value, list):
            mended[word] = [_nearest_of(below) for below in value]
        elif word == "required" and isinstance(value, str):
            mended[word] = [value]
        elif word != "required" or isinstance(value, list):  # `required: true` on a field says nothing there
            mended[word] = value
    return mended


def _is_of_fields(words: JsonObject, *, is_root: bool) -> bool:
    """Whether the words are names of fields, not keywords."""
    unknown = [word for word in words if not _is_known(word)]
    if not unknown or "properties" in words:
        return False
    known = {word for word, value in words.items() if _is_known(word) and not _is_about_all(word, value)}
    return is_root or not known or any(_is_type(words[one]) for one in unknown)


def _is_about_all(word: str, value: JsonValue) -> bool:
    """Whether a word beside fields is a keyword all the same."""
    if word in ("title", "description"):
        return isinstance(value, str) and not _is_type(value)
    return word.startswith(("x-", "$")) or (word == "type" and value == "object")


def _of_type(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_of_type(one) for one in value]
    return (_type_named(value, 60) or value) if isinstance(value, str) else value


def _type_named(said: str, like: int = 80) -> str | None:
    name = said.strip().lower()
    if name in TYPES:
        return name
    if name in _ALSO_CALLED:
        return _ALSO_CALLED[name]
    near = _near(name, (*TYPES, *_ALSO_CALLED), like)
    return None if near is None else _ALSO_CALLED.get(near, near)


def _near(word: str, words: Sequence[str], like: int) -> str | None:
    """The one of `words` that is most like `word`, if one is at least so much (100: the same)."""
    found = process.extractOne(word[:_MOST_CHARACTERS], words, scorer=fuzz.ratio, score_cutoff=like)
    return None if found is None else found[0]
