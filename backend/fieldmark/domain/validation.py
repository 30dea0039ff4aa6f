"""JSON Schema (Draft 2020-12) over fields, complete or as far as they have come: violations in words that mend."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from itertools import islice
from typing import Any, Final, TypeAlias, cast

import regex
from jsonschema import Draft202012Validator
from jsonschema.exceptions import UndefinedTypeCheck, UnknownType, ValidationError
from jsonschema.validators import create  # pyright: ignore[reportUnknownVariableType]
from pydantic import JsonValue
from referencing import Registry
from referencing.exceptions import Unresolvable

from fieldmark.domain import paths
from fieldmark.domain.days import is_day
from fieldmark.domain.numbers import is_number
from fieldmark.domain.paths import Path
from fieldmark.domain.sentences import shown
from fieldmark.domain.violations import Violation
from fieldmark.errors import InvalidSchema

MAX_VIOLATIONS: Final = 200
"""How many violations one validation looks for."""
MAX_STEPS: Final = 5_000_000
"""How much it compares at the most, in names and items: a schema of 1 KB can branch without end."""
STEPS_A_VALUE: Final = 500
STEPS_AT_LEAST: Final = 200_000
PATTERN_SECONDS: Final = 0.1

_WORDS = {
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
_NOTHING = "nothing may stand here"
"""What a schema says that is just `false`, which is no keyword."""

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema, whose keywords have been checked."""
Keyword: TypeAlias = Callable[[Any, Any, Any, Schema], Iterator[ValidationError]]


def validate(
    schema: Schema, fields: JsonValue, below: str = "#", limit: int | None = MAX_VIOLATIONS
) -> list[Violation]:
    """Every way in which `fields` do not follow the schema, or its part `below` a reference; the first 200 of them, or
    as many as are asked. Raises Invalid if the schema cannot be applied."""
    return _violations(_Complete, schema, fields, below=below, limit=limit)


def validate_partial(schema: Schema, fields: JsonValue) -> list[Violation]:
    """The violations that no growth mends: objects may still gain properties, and lists items at their end. What cannot
    be decided before the end (`not`, `oneOf` with several that fit, `unevaluatedProperties` …) is none."""
    return _violations(_Partial, schema, fields)


def grounded(schema: Schema, fields: JsonValue) -> list[Path]:
    """Where the schema says `"x-fieldmark": {"grounded": true}` of what stands in `fields`, in any of its branches."""
    return list(dict.fromkeys(found.path for found in _violations(_Grounded, schema, fields, limit=None)))


_left: ContextVar[list[int]] = ContextVar("keywords left")


@contextmanager
def one_budget() -> Generator[None]:
    """Several validations of next to nothing that share the steps of one: a schema may hold thousands of references."""
    token = _left.set([STEPS_AT_LEAST])
    try:
        yield
    finally:
        _left.reset(token)


def _violations(
    kind: Any, schema: Schema, fields: JsonValue, *, below: str = "#", limit: int | None = MAX_VIOLATIONS
) -> list[Violation]:
    budget = None
    if _left.get(None) is None:
        budget = _left.set([min(MAX_STEPS, STEPS_AT_LEAST + STEPS_A_VALUE * _count(fields))])
    try:
        # Without its "$schema": that would make a reference to the root leave these validators for the library's own.
        plain = {key: value for key, value in schema.items() if key != "$schema"}
        validator = kind(plain, registry=Registry[Any]())  # an empty registry: nothing is fetched
        validator = validator if below == "#" else validator.evolve(schema={"$ref": below})
        return sorted(
            (
                _violation(error)
                for error in islice(cast(Iterator[ValidationError], validator.iter_errors(fields)), limit)
            ),
            key=lambda found: [(isinstance(step, str), str(step).rjust(9)) for step in found.path],
        )
    except Unresolvable as error:
        raise InvalidSchema(f"The schema refers to {str(error.ref)[:100]!r}, which is not in it.") from None
    except RecursionError:
        raise InvalidSchema("The schema's references lead round in a circle.") from None
    except (UnknownType, UndefinedTypeCheck):
        raise InvalidSchema("The schema is not a valid JSON Schema: it names a type that there is not.") from None
    finally:
        if budget is not None:
            _left.reset(budget)


def _violation(error: ValidationError) -> Violation:
    path, keyword = tuple(error.absolute_path), _keyword(error)
    what = _NOTHING if keyword is None else error.message[:1000]
    message = f"{paths.name(path) or 'fields'}: {what}"
    return Violation(path, keyword or "false", message, tuple(error.absolute_schema_path))


def _keyword(error: ValidationError) -> str | None:
    return cast("str | None", error.validator)


def _spend(steps: int) -> None:
    left = _left.get()
    left[0] -= steps
    if left[0] < 0:
        raise InvalidSchema("The schema takes too long on these fields: its branches, lists or patterns are too many.")


def _count(value: JsonValue) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 1


def _size(value: JsonValue) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _counted(name: str, keyword: Keyword) -> Keyword:
    cost = 25 if name in ("$ref", "$dynamicRef") else 5  # about in proportion to what they take

    def apply(validator: Any, value: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
        _spend(cost + _size(value) + _size(instance))
        return keyword(validator, value, instance, schema)

    return apply


# What is said of one value --------------------------------------------------------------------------------------------


def _type(validator: Any, kinds: str | list[str], instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    if not any(validator.is_type(instance, kind) for kind in _kinds(kinds)):
        yield ValidationError(_wanted(instance, _kinds(kinds)))


def _kinds(kinds: Any) -> list[str]:
    return [kinds] if isinstance(kinds, str) else kinds


def _wanted(instance: JsonValue, kinds: Sequence[str]) -> str:
    wanted = " or ".join(_WORDS.get(kind, kind) for kind in kinds)
    said = f"{shown(instance)} stands there, but {wanted} is wanted"
    if instance is None:
        return f"{said}: leave a field out that the document leaves blank, the schema does not allow null here"
    if isinstance(instance, str) and {"number", "integer"} & set(kinds):
        return f"{said}: a JSON number, without quotes, currency signs or thousands separators"
    if isinstance(instance, str) and "boolean" in kinds:
        return f"{said}, without quotes"
    if isinstance(instance, int | float) and "string" in kinds:
        return f"{said}: in quotes, as printed"
    return said


def _enum(validator: Any, allowed: list[Any], instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    if not any(_same(instance, one) for one in allowed):
        yield ValidationError(_none_of(instance, allowed))


def _const(validator: Any, wanted: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    if not _same(instance, wanted):
        yield ValidationError(_none_of(instance, [wanted]))


def _none_of(instance: JsonValue, allowed: list[Any]) -> str:
    listed = ", ".join(shown(one) for one in allowed[:20]) + (" …" if len(allowed) > 20 else "")
    blank = "; leave a field out that the document leaves blank" if instance is None else ""
    return f"{shown(instance)} stands there, but allowed is only {listed}{blank}"


def _pattern(validator: Any, pattern: str, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    # A pattern may take longer than the age of the world.
    if not isinstance(instance, str):
        return
    try:
        if regex.search(pattern, instance, timeout=PATTERN_SECONDS) is None:
            yield ValidationError(f"{shown(instance)} does not match the pattern {pattern[:100]}")
    except TimeoutError:
        _spend(STEPS_AT_LEAST // 5)
        yield ValidationError(f"the pattern {pattern[:100]!r} takes too long on {shown(instance)}")
    except regex.error:
        raise InvalidSchema(f"The pattern {pattern[:100]!r} in the schema cannot be used.") from None


def _format(validator: Any, name: str, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    # Of all formats only this one is asserted: the others tell what a text is, as the draft has it.
    if name == "date" and isinstance(instance, str) and not is_day(instance):
        yield ValidationError(f"{shown(instance)} is no date: YYYY-MM-DD is wanted, such as 2024-03-12")


def _bound(what: str, holds: Callable[[Any, Any], bool]) -> Keyword:
    def keyword(validator: Any, bound: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
        if is_number(instance) and not holds(instance, bound):
            yield ValidationError(f"{shown(instance)} stands there, but {what} {shown(bound)} is wanted")

    return keyword


def _multiple_of(validator: Any, step: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    # In fractions of what is printed: to binary floats 19.99 is no multiple of 0.01.
    if is_number(instance) and Fraction(repr(instance)) % Fraction(repr(step)) != 0:
        yield ValidationError(f"{shown(instance)} stands there, but a multiple of {shown(step)} is wanted")


def _length(kind: type, words: str, holds: Callable[[int, int], bool]) -> Keyword:
    def keyword(validator: Any, bound: int, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
        if not isinstance(instance, kind) or not isinstance(instance, str | list | dict):
            return
        if not holds(count := len(instance), bound):
            yield ValidationError(f"{shown(instance)} stands there with {count} {words.format(bound)}")

    return keyword


def _unique_items(validator: Any, wanted: bool, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    yield from _twice(instance if wanted else None, scalars_only=False)


def _unique_partial(validator: Any, wanted: bool, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    yield from _twice(instance if wanted else None, scalars_only=True)  # rows may still come to differ


def _twice(instance: JsonValue, *, scalars_only: bool) -> Iterator[ValidationError]:
    seen: dict[Any, int] = {}
    for index, item in enumerate(instance if isinstance(instance, list) else []):
        if scalars_only and isinstance(item, dict | list):
            continue
        first = seen.setdefault(_key(item), index)
        if first != index:
            yield ValidationError(f"{shown(item)} stands in the list already, at [{first}]", path=(index,))


def _key(value: JsonValue) -> Any:
    """What two values have in common if and only if JSON Schema calls them equal (1 is 1.0, true is not 1)."""
    _spend(1 + _size(value))
    if isinstance(value, dict):
        return ("object", frozenset((key, _key(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("list", *(_key(item) for item in value))
    return (isinstance(value, bool), value)


def _same(one: JsonValue, other: JsonValue) -> bool:
    return type(one) is type(other) and one == other if isinstance(one, str) else _key(one) == _key(other)


# What objects and lists hold ------------------------------------------------------------------------------------------


def _required(validator: Any, names: list[str], instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for name in names:
            if name not in instance:
                yield ValidationError("is missing, and the schema requires it", path=(name,))


def _dependent_required(
    validator: Any, names: dict[str, list[str]], instance: JsonValue, schema: Schema
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for name, others in names.items():
            for other in others if name in instance else []:
                if other not in instance:
                    yield ValidationError(f"is missing, and the schema requires it beside {name[:100]}", path=(other,))


def _properties(
    validator: Any, known: dict[str, Any], instance: JsonValue, schema: Schema
) -> Iterator[ValidationError]:
    for name, value in instance.items() if isinstance(instance, dict) else ():
        if name in known:
            yield from _below(validator, value, known[name], name, name)


def _items(validator: Any, wanted: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    first = len(schema.get("prefixItems", []))
    for index, item in enumerate(instance[first:] if isinstance(instance, list) else (), first):
        yield from _below(validator, item, wanted, index)


def _prefix_items(validator: Any, wanted: list[Any], instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    items = instance if isinstance(instance, list) else []
    for index, (item, one) in enumerate(zip(items, wanted, strict=False)):
        yield from _below(validator, item, one, index, index)


def _below(
    validator: Any, value: Any, schema: Any, step: str | int, rule: str | int | None = None
) -> Iterator[ValidationError]:
    if schema is False:  # (the library would forget where)
        yield ValidationError(_NOTHING, path=(step,))
    else:
        yield from validator.descend(value, schema, path=step, schema_path=rule)


def _additional_properties(
    validator: Any, wanted: Any, instance: JsonValue, schema: Schema
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict) or wanted is True:
        return
    known: dict[str, Any] = schema.get("properties", {})
    for name, value in instance.items():
        if name in known:
            continue
        if wanted is False:
            listed = ", ".join(list(known)[:20]) + (" …" if len(known) > 20 else "")
            yield ValidationError(f"the schema has no such field here; it has {listed or 'none'}", path=(name,))
        else:
            yield from _below(validator, value, wanted, name)


def _contains(validator: Any, wanted: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    if not isinstance(instance, list):
        return
    fits = validator.evolve(schema=wanted).is_valid
    count = sum(1 for item in instance if fits(item))
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    if count < least or (most is not None and count > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        yield ValidationError(f"{count} of the items are of a kind of which {bounds} are wanted")


# Branches -------------------------------------------------------------------------------------------------------------


def _any_of(validator: Any, branches: list[Any], instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    tried: list[list[ValidationError]] = []
    for index, branch in enumerate(branches):
        errors = _some(validator.descend(instance, branch, schema_path=index))
        if not errors:
            return
        tried.append(errors)
    yield from _of_the_nearest(tried, instance)


def _some(errors: Iterator[ValidationError]) -> list[ValidationError]:
    return list(islice(errors, 20))


def _one_of(validator: Any, branches: list[Any], instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    yield from _any_of(validator, branches, instance, schema)
    if sum(1 for branch in branches if validator.evolve(schema=branch).is_valid(instance)) > 1:
        yield ValidationError(f"{shown(instance)} fits several of the forms of which exactly one is wanted")


def _one_of_partial(
    validator: Any, branches: list[Any], instance: JsonValue, schema: Schema
) -> Iterator[ValidationError]:
    # Of several that an object fits now, its growth can still rule out all but one.
    return (_any_of if _grows(instance) else _one_of)(validator, branches, instance, schema)


def _of_the_nearest(tried: list[list[ValidationError]], instance: JsonValue) -> Iterator[ValidationError]:
    """The violations of the one branch that was meant, if its kind tells it; else what all branches want."""
    meant = [errors for errors in tried if not any(_is_of_another_kind(error) for error in errors)]
    if len(meant) == 1:
        yield from meant[0]
    elif all(_keyword(errors[0]) == "type" and not errors[0].path for errors in tried):
        kinds = list(dict.fromkeys(kind for errors in tried for kind in _kinds(errors[0].validator_value)))
        yield ValidationError(_wanted(instance, kinds), validator="type", validator_value=kinds)
    else:
        firsts = [errors[0] for errors in (meant or tried)[:3]]
        reasons = "; ".join(f"{paths.name(tuple(first.path))} {first.message[:150]}".strip() for first in firsts)
        yield ValidationError(f"{shown(instance)} fits none of the forms allowed here: {reasons}")


def _is_of_another_kind(error: ValidationError) -> bool:
    if _keyword(error) == "type":
        return not error.path
    return _keyword(error) in ("const", "enum") and len(error.path) <= 1


def _not(validator: Any, unwanted: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    if validator.evolve(schema=unwanted).is_valid(instance):
        yield ValidationError(f"{shown(instance)} stands there, which the schema rules out")


def _not_partial(validator: Any, unwanted: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    return iter(()) if _grows(instance) else _not(validator, unwanted, instance, schema)


def _if(validator: Any, condition: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    branch = "then" if validator.evolve(schema=condition).is_valid(instance) else "else"
    if branch in schema:
        yield from validator.descend(instance, schema[branch], schema_path=branch)


def _if_partial(validator: Any, condition: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    # A condition that fails now fails for good. One that holds may still come to fail: then either branch will do.
    if not _grows(instance) or not validator.evolve(schema=condition).is_valid(instance):
        yield from _if(validator, condition, instance, schema)
        return
    ways = [
        _some(validator.descend(instance, schema.get(branch, True), schema_path=branch)) for branch in ("then", "else")
    ]
    if all(ways):
        yield from ways[0]


def _enum_partial(validator: Any, allowed: list[Any], instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    if not any(_can_become(instance, one) for one in allowed):
        yield ValidationError(_none_of(instance, allowed))


def _const_partial(validator: Any, wanted: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    return _enum_partial(validator, [wanted], instance, schema)


def _grows(instance: JsonValue) -> bool:
    return isinstance(instance, dict | list)


def _can_become(now: JsonValue, then: JsonValue) -> bool:
    if isinstance(now, dict) and isinstance(then, dict):
        grown = then
        return all(key in grown and _can_become(value, grown[key]) for key, value in now.items())
    if isinstance(now, list) and isinstance(then, list):
        items, later = now, then
        return len(items) <= len(later) and all(map(_can_become, items, later))
    return _same(now, then)


def _says_grounded(validator: Any, said: JsonValue, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    if isinstance(said, dict) and said.get("grounded") is True:
        yield ValidationError("must be found in the document")


def _every_branch(
    validator: Any, branches: JsonValue, instance: JsonValue, schema: Schema
) -> Iterator[ValidationError]:
    for branch in branches if isinstance(branches, list) else [branches]:
        if isinstance(branch, dict):
            yield from validator.descend(instance, branch)


def _further_properties(validator: Any, wanted: Any, instance: JsonValue, schema: Schema) -> Iterator[ValidationError]:
    return _additional_properties(validator, wanted, instance, schema) if isinstance(wanted, dict) else iter(())


def _kind(keywords: Mapping[str, Keyword]) -> Any:
    return cast(Any, create)(
        meta_schema=Draft202012Validator.META_SCHEMA,
        validators={name: _counted(name, keyword) for name, keyword in keywords.items()},
        type_checker=Draft202012Validator.TYPE_CHECKER,
        format_checker=Draft202012Validator.FORMAT_CHECKER,
        id_of=Draft202012Validator.ID_OF,
    )


# What only completeness satisfies, or only the whole can tell.
_FOR_THE_END: Final = (
    *("required", "dependentRequired", "minItems", "minProperties", "contains"),
    *("unevaluatedProperties", "unevaluatedItems"),
)
_DESCENDING: Final = ("$ref", "$dynamicRef", "properties", "prefixItems", "items", "allOf", "dependentSchemas")
_STANDARD = cast("Mapping[str, Keyword]", Draft202012Validator.VALIDATORS)
_COMPLETE_KEYWORDS: Final[Mapping[str, Keyword]] = {
    **_STANDARD,
    "type": _type,
    "enum": _enum,
    "const": _const,
    "pattern": _pattern,
    "format": _format,
    "minimum": _bound("at least", lambda value, bound: value >= bound),
    "maximum": _bound("at most", lambda value, bound: value <= bound),
    "exclusiveMinimum": _bound("more than", lambda value, bound: value > bound),
    "exclusiveMaximum": _bound("less than", lambda value, bound: value < bound),
    "multipleOf": _multiple_of,
    "minLength": _length(str, "characters; at least {:,} are wanted", lambda count, bound: count >= bound),
    "maxLength": _length(str, "characters; at most {:,} are allowed", lambda count, bound: count <= bound),
    "minItems": _length(list, "items; at least {:,} are wanted", lambda count, bound: count >= bound),
    "maxItems": _length(list, "items; at most {:,} are allowed", lambda count, bound: count <= bound),
    "minProperties": _length(dict, "fields; at least {:,} are wanted", lambda count, bound: count >= bound),
    "maxProperties": _length(dict, "fields; at most {:,} are allowed", lambda count, bound: count <= bound),
    "uniqueItems": _unique_items,
    "properties": _properties,
    "items": _items,
    "prefixItems": _prefix_items,
    "required": _required,
    "dependentRequired": _dependent_required,
    "additionalProperties": _additional_properties,
    "contains": _contains,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
}
_PARTIAL_KEYWORDS: Final[Mapping[str, Keyword]] = {
    **{name: keyword for name, keyword in _COMPLETE_KEYWORDS.items() if name not in _FOR_THE_END},
    "uniqueItems": _unique_partial,
    "enum": _enum_partial,
    "const": _const_partial,
    "oneOf": _one_of_partial,
    "not": _not_partial,
    "if": _if_partial,
}
_GROUNDED: Final[Mapping[str, Keyword]] = {
    **{name: _COMPLETE_KEYWORDS[name] for name in _DESCENDING},
    **dict.fromkeys(("anyOf", "oneOf", "then", "else"), _every_branch),
    "additionalProperties": _further_properties,
    "x-fieldmark": _says_grounded,
}
_Complete, _Partial, _Grounded = _kind(_COMPLETE_KEYWORDS), _kind(_PARTIAL_KEYWORDS), _kind(_GROUNDED)
