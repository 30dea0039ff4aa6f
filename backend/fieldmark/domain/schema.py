"""Check a tenant's JSON Schema (Draft 2020-12), and an extraction's fields against it. The schema may be hostile.

The keyword `"x-fieldmark"` is our extension: `{"rules": [...]}` at the root (`fieldmark.domain.rules`), and
`{"grounded": true}` on a field whose values must be found in the document, including all fields below it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any, Final

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError
from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.ecma_patterns import PatternError, compile_pattern
from fieldmark.domain.fields import Missing, value_at
from fieldmark.domain.formatting import short_json
from fieldmark.domain.json_values import JsonObject
from fieldmark.domain.paths import Path
from fieldmark.domain.rules import KEYWORD, check_rules, rule_violations
from fieldmark.domain.schema_hints import TYPES, misplaced_names
from fieldmark.domain.schema_walk import REFERENCES, reachable_schemas
from fieldmark.domain.statuses import SecondReadingMode
from fieldmark.domain.validation import follow_references, grounded, validate, validate_partial
from fieldmark.domain.violations import Violation
from fieldmark.errors import InvalidSchema
from valuegrounding.measures import UNITS, unit_name
from valuegrounding.paths import walk

MAX_VIOLATIONS = 20
MAX_DISPLAYED = 200
MAX_PATTERN_CHARACTERS = 500
MAX_CACHED_SCHEMAS = 1000

_usable_schemas: Final = OrderedDict[bytes, None]()
"""Hashes of schemas recently found valid: all documents of a batch share one."""


def check_schema(schema: JsonObject) -> None:
    """Raise InvalidSchema, with the path of the first error, if `schema` is not a usable JSON Schema for an object.

    References may only point inside the schema: nothing is fetched. Patterns are bounded in length and time.
    """
    try:
        digest = hashlib.sha256(json.dumps(schema).encode()).digest()
        if digest in _usable_schemas:
            return
        _check_form(schema)
    except RecursionError:  # also raised for a pattern of many open brackets
        raise InvalidSchema("The schema, or a pattern in it, is nested too deeply.") from None
    _usable_schemas[digest] = None
    if len(_usable_schemas) > MAX_CACHED_SCHEMAS:
        _usable_schemas.popitem(last=False)


def _check_form(schema: JsonObject) -> None:
    _check_keywords(schema)
    if misplaced := list(islice(misplaced_names(schema), MAX_VIOLATIONS)):
        errors = [(paths.name(at), "unknown_keyword", _describe_keyword(at)) for at in misplaced]
        raise InvalidSchema(f"The schema is not a valid JSON Schema: {errors[0][2]}.", _error_details(*errors))
    if schema.get("type", "object") != "object":
        raise InvalidSchema('The schema must describe an object: its "type" must be "object".')
    nodes, outside = reachable_schemas(schema)
    for node in outside:
        _check_keywords(node)
    if any("patternProperties" in node for node in nodes):
        raise InvalidSchema("The schema uses patternProperties, which is not supported: name the properties.")
    references = [node[word] for node in nodes for word in REFERENCES if word in node]
    for reference in references:
        if not str(reference).startswith("#"):
            raise InvalidSchema(
                f"The schema refers to {str(reference)[:100]!r}; only references inside it (#/…) are followed."
            )
    if any("$schema" in node for node in nodes if node is not schema):
        raise InvalidSchema('The schema has a "$schema" below its root. Only the root may name a draft.')
    for node in nodes:
        if isinstance(pattern := node.get("pattern"), str):
            _check_pattern(pattern)
        if KEYWORD in node:
            _check_extension(node[KEYWORD], is_root=node is schema)
    check_rules(schema)
    follow_references(schema, dict.fromkeys(map(str, references)))


def _check_keywords(schema: JsonObject) -> None:
    """Check a schema against the schema of JSON Schema itself. Raise InvalidSchema."""
    try:
        # Without formats: the library would check a pattern as one of Python's.
        Draft202012Validator.check_schema(schema, format_checker=FormatChecker(formats=()))
    except SchemaError as error:
        where = paths.name(tuple(error.absolute_path))
        what = f"The schema is not a valid JSON Schema at {error.json_path}: {_describe_error(error)}."
        raise InvalidSchema(what, _error_details((where, str(error.validator), what))) from None


def _describe_error(error: SchemaError) -> str:
    value: Any = error.instance
    if error.absolute_path and error.absolute_path[-1] == "type" and isinstance(value, str):
        return f"{short_json(value)} is not a type. The types are {', '.join(TYPES[:-1])} and {TYPES[-1]}"
    if error.validator == "type" and error.validator_value == ["object", "boolean"]:
        return f'{short_json(value)} is not a schema. Write a schema such as {{"type": "string"}}'
    return error.message[:300]


def _describe_keyword(at: Path) -> str:
    where, word = paths.name(at), short_json(at[-1])
    return f'at {where}, {word} is not a keyword. Name the fields under "properties", each with its schema'


def _error_details(*errors: tuple[str, str, str]) -> JsonObject:
    return {"errors": [{"path": path, "code": code, "message": message} for path, code, message in errors]}


def violations(
    schema: JsonObject,
    fields: JsonObject,
    evidence: JsonObject | None = None,
    locks: Collection[str] = (),
    max_count: int = MAX_VIOLATIONS,
) -> list[Violation]:
    """Return up to `max_count` violations that prevent completion: of the schema, of its rules, and of "grounded".

    "grounded" fields must be found in the document according to `evidence` ({path name: {"state", …}}), or be locked by
    a user (`locks`). Raise InvalidSchema if the schema cannot be used.
    """
    check_schema(schema)  # on Supabase, a front end may insert an extraction with an unchecked schema
    found = [*validate(schema, fields), *_ungrounded_violations(schema, fields, evidence or {}, locks)]
    return _limit([*found, *rule_violations(schema, fields)], max_count)


def violations_for_display(
    schema: JsonObject | None, fields: JsonObject, evidence: JsonObject, locks: Collection[str]
) -> list[Violation]:
    """Return up to 200 violations to show to a user, or one `unusable_schema` violation if the schema cannot be used.
    Empty if there is no schema."""
    try:
        return [] if schema is None else violations(schema, fields, evidence, locks, MAX_DISPLAYED)
    except InvalidSchema as error:
        return [Violation((), "unusable_schema", str(error))]


def write_violations(
    schema: JsonObject, before: JsonObject, after: JsonObject, written: Collection[Path]
) -> list[Violation]:
    """Return why a write from `before` to `after` is refused.

    Reports violations at or below a `written` path, and violations that the write causes elsewhere. Existing violations
    elsewhere do not block it, and missing fields are not violations yet.
    """
    check_schema(schema)
    found = validate_partial(schema, after)
    if not found:
        return []
    # Without indexes, since items move up when an item is removed.
    older = Counter(map(_violation_kind, validate_partial(schema, before)))
    new: list[Violation] = []
    for one in found:
        is_written = any(one.path[:steps] in written for steps in range(1, len(one.path) + 1))
        if is_written or not older[_violation_kind(one)]:
            new.append(one)
        else:
            older[_violation_kind(one)] -= 1
    return _limit(new)


def _violation_kind(violation: Violation) -> tuple[Any, ...]:
    return tuple("" if isinstance(step, int) else step for step in violation.path), violation.rule


def _limit(found: list[Violation], max_count: int = MAX_VIOLATIONS) -> list[Violation]:
    more = len(found) - max_count
    return (
        found if more <= 0 else [*found[:max_count], Violation((), "more", f"and {more} more", params={"count": more})]
    )


def _ungrounded_violations(
    schema: JsonObject, fields: JsonObject, evidence: JsonObject, locks: Collection[str]
) -> Iterator[Violation]:
    for grounded_path in grounded(schema, fields):
        below = value_at(fields, grounded_path)
        for path, value in () if isinstance(below, Missing) else walk(below, grounded_path):
            name = paths.name(path)
            proof = evidence.get(name)
            state = proof.get("state") if isinstance(proof, dict) else None
            # Null and empty values have nothing to find in the document. The schema decides whether they are allowed.
            if value not in (None, [], {}) and state != "found" and name not in locks:
                message = (
                    f"{name}: {short_json(value)} was not found in the document, which the schema requires. Read the "
                    "document again and write the value as printed on the page, with a quote, or remove it"
                )
                yield Violation(path, "grounded", message)


def _check_extension(value: JsonValue, *, is_root: bool) -> None:
    columns = value.get("columns", []) if isinstance(value, dict) else None
    required = value.get("required", {}) if isinstance(value, dict) else None
    if (
        not isinstance(value, dict)
        or value.keys() - {"rules", "grounded", "columns", "unit", "required", "second_reading"}
        or value.get("second_reading", "off") not in [*SecondReadingMode]
        or not isinstance(value.get("grounded", False), bool)
        or not (isinstance(columns, list) and all(isinstance(name, str) for name in columns))
        or not (
            isinstance(required := value.get("required", {}), dict)
            and all(v in (True, False) for v in required.values())
        )
        or ("unit" in value and (is_root or not isinstance(unit := value["unit"], str) or unit_name(unit) is None))
    ):
        raise InvalidSchema(
            f'A "{KEYWORD}" in the schema is invalid. It may contain "grounded": true, at a number field "unit" '
            f'({", ".join(UNITS)}), and at the root "rules", "columns" (a list of path names), "required" (true or '
            'false by path name) and "second_reading" ("off", "unsure" or "all").'
        )
    if not is_root and (misplaced := {"rules", "columns", "required", "second_reading"} & value.keys()):
        raise InvalidSchema(
            f'The schema has "{min(misplaced)}" below its root. Move it into the "{KEYWORD}" at the root.'
        )


def _check_pattern(pattern: str) -> None:
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise InvalidSchema(
            f"A pattern in the schema has {len(pattern)} characters; the limit is {MAX_PATTERN_CHARACTERS}."
        )
    try:
        compile_pattern(pattern)
    except PatternError as error:
        raise InvalidSchema(f"The pattern {pattern[:100]!r} in the schema cannot be used: {error}.") from None
