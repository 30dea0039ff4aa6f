"""Validate fields against a JSON Schema (Draft 2020-12) with the library `jsonschema`: complete, or in progress.

The schema is a tenant's and may be hostile: references are not fetched, patterns have a time limit, and the work that
one validation may do is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from itertools import islice
from typing import Any, Final, TypeAlias, cast

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import UndefinedTypeCheck, UnknownType, ValidationError
from jsonschema.exceptions import best_match as _best_match  # pyright: ignore[reportUnknownVariableType]
from jsonschema.validators import extend  # pyright: ignore[reportUnknownVariableType]
from pydantic import JsonValue
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from fieldmark.domain import paths
from fieldmark.domain.days import is_iso_date
from fieldmark.domain.ecma_patterns import PatternError, compile_pattern
from fieldmark.domain.formatting import short_json
from fieldmark.domain.numbers import is_number
from fieldmark.domain.paths import Path
from fieldmark.domain.violations import Violation
from fieldmark.errors import InvalidSchema

MAX_VIOLATIONS: Final = 200
MAX_STEPS: Final = 5_000_000
"""Maximum steps of one validation, about one for each name or item compared: a schema of 1 KB can branch without
end."""
STEPS_PER_VALUE: Final = 500
MIN_STEPS: Final = 200_000
PATTERN_SECONDS: Final = 0.1

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema, whose keywords have been checked."""
Keyword: TypeAlias = Callable[[Any, Any, Any, Schema], Iterator[ValidationError]]


def validate(schema: Schema, fields: JsonValue) -> list[Violation]:
    """Return the violations of the schema, at most 200. Raise InvalidSchema if the schema cannot be applied."""
    with _errors(_Validator, schema, fields) as errors:
        return _violations(islice(errors, MAX_VIOLATIONS))


def follow_references(schema: Schema, references: Iterable[str]) -> None:
    """Raise InvalidSchema if a reference of the schema does not resolve or is circular."""
    with _errors(_Validator, schema, {}, ("#", *references)) as errors:
        for _ in errors:
            pass


def validate_partial(schema: Schema, fields: JsonValue) -> list[Violation]:
    """Return the violations that remain even if objects gain properties and lists gain items at their end."""
    with _errors(_Validator, schema, fields) as errors:
        return _violations(islice(filter(_is_final, errors), MAX_VIOLATIONS))


def grounded(schema: Schema, fields: JsonValue) -> list[Path]:
    """Return the paths of `fields` that any branch of the schema marks `"x-fieldmark": {"grounded": true}`."""
    with _errors(_GroundedFinder, schema, fields) as errors:
        return list(dict.fromkeys(tuple(error.absolute_path) for error in errors))


_steps_left: ContextVar[list[int]] = ContextVar("steps left")


@contextmanager
def _errors(
    kind: Any, schema: Schema, fields: JsonValue, references: Sequence[str] = ()
) -> Generator[Iterator[ValidationError], None, None]:
    budget = _steps_left.set([min(MAX_STEPS, MIN_STEPS + STEPS_PER_VALUE * _count(fields))])
    try:
        # A "$schema" would make a reference to the root use the library's own validator in place of ours.
        plain = {key: value for key, value in schema.items() if key != "$schema"}
        resource = DRAFT202012.create_resource(cast(Any, plain))
        # Fetches nothing, and finds all anchors now: the library would search them again for each reference.
        registry = Registry[Any]().with_resource(resource.id() or "", resource).crawl()
        resolver = registry.resolver(resource.id() or "")
        validator = kind(plain, registry=registry, format_checker=_FORMATS, _resolver=resolver)
        if references:
            validator = validator.evolve(schema={"allOf": [{"$ref": reference} for reference in references]})
        yield validator.iter_errors(fields)
    except Unresolvable as error:
        raise InvalidSchema(f"The schema refers to {str(error.ref)[:100]!r}, which is not in it.") from None
    except RecursionError:
        raise InvalidSchema("The schema's references form a circle.") from None
    except (UnknownType, UndefinedTypeCheck):
        raise InvalidSchema("The schema is not a valid JSON Schema: it names an unknown type.") from None
    finally:
        _steps_left.reset(budget)


def _spend(steps: int) -> None:
    left = _steps_left.get()
    left[0] -= steps
    if left[0] < 0:
        raise InvalidSchema("The schema takes too long on these fields: it has too many branches, lists or patterns.")


def _count(value: JsonValue) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 1


def _count_children(value: JsonValue) -> int:
    return len(value) if isinstance(value, list | dict) else 0


# Violations -----------------------------------------------------------------------------------------------------------

_MESSAGES: Final[Mapping[str | None, str]] = {
    None: "no value is allowed here",
    "additionalProperties": "the schema has no such field here; it has {known}",
    "anyOf": "{value} fits none of the allowed forms",
    "const": "{value} is not {wanted}",
    "dependentRequired": "is missing, and the schema requires it here",
    "enum": "{value} is not one of {wanted}",
    "exclusiveMaximum": "{value} is not less than {wanted}",
    "exclusiveMinimum": "{value} is not more than {wanted}",
    "format": "{value} is not a date written as YYYY-MM-DD",
    "maxItems": "{value} is too long: at most {wanted} items are allowed",
    "maxLength": "{value} is too long: at most {wanted} characters are allowed",
    "maximum": "{value} is more than {wanted}",
    "minItems": "{value} is too short: at least {wanted} items are required",
    "minLength": "{value} is too short: at least {wanted} characters are required",
    "minimum": "{value} is less than {wanted}",
    "multipleOf": "{value} is not a multiple of {wanted}",
    "not": "{value} is not allowed here",
    "oneOf": "{value} does not fit exactly one of the allowed forms",
    "pattern": "{value} does not match the pattern {wanted}",
    "required": "is missing, and the schema requires it",
    "type": "{value} is not of type {wanted}",
    "uniqueItems": "{value} has equal items",
}


def _violations(errors: Iterable[ValidationError]) -> list[Violation]:
    return sorted(
        map(_violation, errors), key=lambda one: [(isinstance(step, str), str(step).rjust(9)) for step in one.path]
    )


def _violation(error: ValidationError) -> Violation:
    """Return an error as a violation. For `anyOf` and `oneOf`, return the error of the best matching branch."""
    error = cast(ValidationError, cast(Any, _best_match)([error]))
    path, keyword = tuple(error.absolute_path), _keyword(error)
    message = error.message[:300]
    instance, wanted = cast(Any, error.instance), cast(Any, error.validator_value)
    if keyword in _MESSAGES:
        message = _MESSAGES[keyword].format(
            value=short_json(instance),
            wanted=_listed(cast(list[Any], wanted)) if isinstance(wanted, list) else short_json(wanted),
            known=_listed(_property_names(cast(Any, error.schema))),
        )
    if error.instance is None:
        message += " (leave the field out if the document leaves it blank)"
    named = f"{paths.name(path) or 'fields'}: {message}"
    params = {} if (expected := _expected(wanted)) is None else {"expected": expected}
    return Violation(path, keyword or "false", named, tuple(error.absolute_schema_path), params=params)


def _expected(wanted: Any) -> JsonValue:
    """Return a keyword's value for the violation's `params`, at most 20 items of a list. None for objects."""
    if isinstance(wanted, list):
        return [_expected(item) for item in cast(list[Any], wanted)[:20]]
    return wanted[:200] if isinstance(wanted, str) else wanted if isinstance(wanted, int | float) else None


def _property_names(schema: Any) -> list[Any]:
    return list(cast(dict[str, Any], schema).get("properties", {})) if isinstance(schema, dict) else []


def _listed(values: list[Any]) -> str:
    return (", ".join(map(short_json, values[:20])) or "none") + (" …" if len(values) > 20 else "")


def _keyword(error: ValidationError) -> str | None:
    return cast("str | None", error.validator)


_MAY_STILL_HOLD: Final = frozenset(
    (
        *("required", "dependentRequired", "minItems", "minProperties", "contains", "minContains", "maxContains"),
        *("unevaluatedProperties", "unevaluatedItems", "not", "const", "enum", "uniqueItems"),
    )
)
"""Keywords that an incomplete object or list violates, and may satisfy once it is complete."""
_MAY_STILL_CHANGE: Final = frozenset(("then", "else"))
"""Subschemas whose condition may have another result once the value is complete."""


def _is_final(error: ValidationError) -> bool:
    """Return whether an error remains even if objects gain properties and lists gain items."""
    keyword = _keyword(error)
    if isinstance(error.instance, dict | list) and (
        keyword in _MAY_STILL_HOLD or (keyword == "oneOf" and not error.context)
    ):
        return False
    if _MAY_STILL_CHANGE & {step for step in error.absolute_schema_path if isinstance(step, str)}:
        return False
    if error.context:  # anyOf, oneOf: final if the errors of every branch are
        branches: dict[str | int | None, bool] = {}
        for one in error.context:
            branch = one.schema_path[0] if one.schema_path else None
            branches[branch] = branches.get(branch, False) or _is_final(one)
        return all(branches.values())
    return True


# Keywords that differ from the library's ------------------------------------------------------------------------------


def _pattern(validator: Any, pattern: str, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    if not isinstance(instance, str):
        return
    try:
        if compile_pattern(pattern).search(instance, timeout=PATTERN_SECONDS) is None:
            yield ValidationError("does not match")
    except TimeoutError:
        _spend(MIN_STEPS // 5)
        yield ValidationError("takes too long")
    except PatternError as error:
        raise InvalidSchema(f"The pattern {pattern[:100]!r} in the schema cannot be used: {error}.") from None


def _multiple_of(validator: Any, step: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    # Exact fractions: as binary floats, 19.99 is not a multiple of 0.01.
    if is_number(instance) and Fraction(repr(instance)) % Fraction(repr(step)) != 0:
        yield ValidationError("is not a multiple")


def _is_date(value: object) -> bool:
    return not isinstance(value, str) or is_iso_date(value)


def _unique_items(validator: Any, wanted: bool, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    # The library compares each pair of items.
    if wanted and isinstance(instance, list) and len(set(map(_key, instance))) < len(instance):
        yield ValidationError("has equal items")


def _key(value: JsonValue) -> Any:
    """Return a key that is equal for values that are equal in JSON Schema: 1 equals 1.0, true does not equal 1."""
    _spend(1 + _count_children(value))
    if isinstance(value, dict):
        return ("object", frozenset((key, _key(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("list", *map(_key, value))
    return (isinstance(value, bool), value)


# The library names the object; these name each field that is missing or unknown.


def _required(validator: Any, names: list[str], instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        yield from (ValidationError("is missing", path=(name,)) for name in names if name not in instance)


def _dependent_required(
    validator: Any, names: dict[str, list[str]], instance: JsonValue, schema: Schema
) -> Iterator[ValidationError]:
    for name, others in names.items() if isinstance(instance, dict) else ():
        if name in cast(dict[str, Any], instance):
            yield from _required(validator, others, instance, schema)


def _additional_properties(
    validator: Any, wanted: Any, instance: JsonValue, schema: Schema
) -> Iterator[ValidationError]:
    known = schema.get("properties", {})
    for name, value in instance.items() if isinstance(instance, dict) else ():
        if name in known:
            continue
        if wanted is False:
            yield ValidationError("is unknown", path=(name,))
        else:
            yield from validator.descend(value, wanted, path=name)


def _counted(name: str, keyword: Keyword) -> Keyword:
    cost = 25 if name in ("$ref", "$dynamicRef") else 5  # roughly proportional to the time they take
    compares_all = name in ("enum", "const")

    def apply(validator: Any, value: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
        _spend(cost + _count_children(value) * (_count(instance) if compares_all else 1) + _count_children(instance))
        return keyword(validator, value, instance, schema) or iter(())

    return apply


def _validator(keywords: Mapping[str, Keyword]) -> Any:
    return cast(Any, extend)(
        Draft202012Validator, {name: _counted(name, keyword) for name, keyword in keywords.items()}
    )


_FORMATS: Final = FormatChecker(formats=())
"""Only the format `date` is asserted. All others are annotations, the default of the draft."""
_FORMATS.checkers["date"] = (_is_date, ())

_Validator: Final = _validator(
    {
        **cast("Mapping[str, Keyword]", Draft202012Validator.VALIDATORS),
        "pattern": _pattern,
        "multipleOf": _multiple_of,
        "uniqueItems": _unique_items,
        "required": _required,
        "dependentRequired": _dependent_required,
        "additionalProperties": _additional_properties,
    }
)


# Which fields must be found -------------------------------------------------------------------------------------------


def _report_grounded_path(
    validator: Any, value: JsonValue, instance: JsonValue, schema: Schema
) -> Iterator[ValidationError]:
    if isinstance(value, dict) and value.get("grounded") is True:
        yield ValidationError("must be found in the document")


def _every_branch(
    validator: Any, branches: JsonValue, instance: JsonValue, schema: Schema
) -> Iterator[ValidationError]:
    for branch in branches if isinstance(branches, list) else [branches]:
        if isinstance(branch, dict):
            yield from validator.descend(instance, branch)


def _other_properties(validator: Any, wanted: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    return _additional_properties(validator, wanted, instance, schema) if isinstance(wanted, dict) else iter(())


def _nothing(validator: Any, value: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    return iter(())


_DESCENDING: Final = ("$ref", "$dynamicRef", "properties", "prefixItems", "items", "allOf", "dependentSchemas")
_GroundedFinder: Final = _validator(
    {
        **{
            name: keyword if name in _DESCENDING else _nothing
            for name, keyword in cast("Mapping[str, Keyword]", Draft202012Validator.VALIDATORS).items()
        },
        **dict.fromkeys(("anyOf", "oneOf", "then", "else"), _every_branch),
        "additionalProperties": _other_properties,
        "x-fieldmark": _report_grounded_path,
    }
)
