"""Filters on documents: by name, tags, type, dates, and the values of extracted fields.

    DocumentFilters(document_type="invoice", fields=[FieldCondition.parse("total > 1000")])

`stores/document_filters.py` translates them to SQL, with every value and path as a parameter.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictStr,
    WithJsonSchema,
    model_validator,
)

from fieldmark.domain import paths
from fieldmark.domain.days import is_iso_date
from fieldmark.domain.numbers import is_number
from fieldmark.domain.paths import Each, Pattern
from fieldmark.domain.values import value_problem
from fieldmark.errors import Invalid, InvalidPath
from valuegrounding.decimals import MAX_DIGITS, canonical_decimal

MAX_CONDITIONS: Final = 20
MAX_IDS: Final = 200
MAX_TAGS: Final = 20
MAX_TEXT: Final = 500
MAX_LISTS: Final = 3
"""Maximum number of lists in a path: `a[].b[].c[].d`."""


class FilterOp(StrEnum):
    """A comparison operator. EXISTS and MISSING take no value."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    CONTAINS = "contains"
    EXISTS = "exists"
    MISSING = "missing"

    @property
    def is_ordering(self) -> bool:
        return self in (FilterOp.LT, FilterOp.LE, FilterOp.GT, FilterOp.GE)

    @property
    def takes_value(self) -> bool:
        return self not in (FilterOp.EXISTS, FilterOp.MISSING)


def field_path(text: str) -> str:
    """Return the canonical text of a path. Raise ValueError if it is not a valid path."""
    try:
        steps = paths.parse_pattern(text)
    except InvalidPath as error:
        raise ValueError(str(error)) from None
    if sum(isinstance(step, Each) for step in steps) > MAX_LISTS:
        raise ValueError(f"A path goes through at most {MAX_LISTS} lists.")
    return paths.name(steps)


FieldPath = Annotated[str, Field(max_length=paths.MAX_CHARACTERS), AfterValidator(field_path)]
"""A path such as `total`, `vendor.name` or `items[].total`. `[]` means every item of a list."""


def field_value(value: object) -> bool | Decimal | str:
    """Return the value to compare a field with. A float counts as written: 0.1, not the nearest binary fraction.

    Raise ValueError unless it is a number, a text, a date or a boolean.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, Decimal) or is_number(value):
        number = canonical_decimal(value)
        if number is None:
            raise ValueError(f"A number must have at most {MAX_DIGITS} digits before and after the decimal point.")
        return Decimal(number)
    if isinstance(value, str):
        return _check_text(value)
    raise ValueError("A value must be a number, a text, a date such as 2024-03-12, true or false.")


def _check_text(text: str) -> str:
    if not 1 <= len(text) <= MAX_TEXT:
        raise ValueError(f"A text must have 1 to {MAX_TEXT} characters.")
    if problem := value_problem(text):
        raise ValueError(problem)
    return text


Text = Annotated[
    StrictStr, AfterValidator(_check_text), Field(json_schema_extra={"minLength": 1, "maxLength": MAX_TEXT})
]


def _as_json(value: bool | Decimal | str) -> bool | int | float | str:
    """Return a Decimal as a JSON number: as text it would be compared as text."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


FieldValue = Annotated[
    bool | Decimal | str,
    PlainValidator(field_value),
    PlainSerializer(_as_json, when_used="json"),
    WithJsonSchema(
        {"anyOf": [{"type": "boolean"}, {"type": "number"}, {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}]}
    ),
]
_STRICT: Final = ConfigDict(frozen=True, extra="forbid")


class FieldCondition(BaseModel):
    """A condition on a field. If its path leads to several values, one match is enough; for `!=`, no value may match.

    Numbers are compared with numbers, booleans with booleans, and texts with texts, ignoring case and repeated spaces.
    `<`, `<=`, `>` and `>=` compare numbers and dates (YYYY-MM-DD).
    """

    model_config = _STRICT

    path: FieldPath
    op: FilterOp
    value: FieldValue | None = None

    @model_validator(mode="after")
    def _check_value(self) -> Self:
        if self.op.takes_value == (self.value is None):
            raise ValueError(f"`{self.op}` needs a value." if self.op.takes_value else f"`{self.op}` takes no value.")
        if self.op.is_ordering and not isinstance(self.value, Decimal) and self.day is None:
            raise ValueError(f"`{self.op}` compares numbers and dates, such as 1000 or 2024-03-12.")
        if self.op is FilterOp.CONTAINS and not isinstance(self.value, str):
            raise ValueError("`contains` takes a text.")
        return self

    @property
    def pattern(self) -> Pattern:
        return paths.parse_pattern(self.path)

    @property
    def day(self) -> str | None:
        """The value if it is a date (YYYY-MM-DD), else None."""
        return self.value if isinstance(self.value, str) and is_iso_date(self.value) else None

    @classmethod
    def parse(cls, text: str) -> FieldCondition:
        """Parse a condition such as `total > 1000`, `vendor.name = "Acme"` or `items[].total exists`. Raise Invalid."""
        most = 2 * MAX_TEXT + paths.MAX_CHARACTERS
        if len(text) > most:
            raise Invalid(f"The condition has {len(text):,} characters; the limit is {most:,}.")
        found = _CONDITION.fullmatch(text.strip())
        if found is None:
            raise Invalid(
                f"{json.dumps(text[:200], ensure_ascii=False)} is not a condition. Write a field, one of {_OPS}, and a "
                'value, such as total > 1000 or vendor.name = "Acme".'
            )
        op, value = FilterOp(found["op"] or found["bare"]), found["value"]
        return validate_model(
            cls, {"path": found["path"], "op": op, "value": None if value is None else _parse_value(value)}
        )


class DocumentFilters(BaseModel):
    """Filters that a document must all match. Without filters, every document matches.

    A document must be in the stack `stack_id` and have all `tags`. `document_type` is the type of its current
    extraction. `filename` matches a part of its name. Names ignore case. `uploaded_after` is inclusive,
    `uploaded_before` exclusive.
    """

    model_config = _STRICT

    document_ids: tuple[UUID, ...] = Field(default=(), max_length=MAX_IDS)
    stack_id: UUID | None = None
    tags: tuple[Text, ...] = Field(default=(), max_length=MAX_TAGS)
    document_type: Text | None = None
    uploaded_after: AwareDatetime | None = None
    uploaded_before: AwareDatetime | None = None
    filename: Text | None = None
    fields: tuple[FieldCondition, ...] = Field(default=(), max_length=MAX_CONDITIONS)


def validate_model(model: type[Any], values: Any) -> Any:
    """Return an instance of a model. Raise Invalid with the first validation error."""
    try:
        return model.model_validate(values)
    except ValueError as error:
        raise Invalid(_first_message(error)) from None


def _first_message(error: ValueError) -> str:
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    first = errors(include_url=False, include_context=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    what = str(first["msg"]).removeprefix("Value error, ")
    return f"{where}: {what}" if where else what


_SYMBOLS: Final = ("!=", "<=", ">=", "=", "<", ">")
_OPS: Final = ", ".join(FilterOp)
# A key that is quoted in brackets may contain operators.
_CONDITION: Final = re.compile(
    r"(?P<path>(?:\[\"(?:[^\"\\]|\\.)*+\"\]|[^\[<>=!]|\[[0-9]*\])+?)(?<!\s)\s*+"
    rf"(?:(?P<op>{'|'.join(_SYMBOLS)}|(?<=\s)contains(?=[\s\"]))\s*(?P<value>\S.*)|(?<=\s)(?P<bare>exists|missing))",
    re.DOTALL,
)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")


def _parse_value(text: str) -> str | bool | Decimal:
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except json.JSONDecodeError:
            raise Invalid(f'{text[:200]} is not a quoted text. Write a quote inside it as \\".') from None
    if text in ("true", "false"):
        return text == "true"
    if is_iso_date(text):
        return text
    if len(text) <= MAX_TEXT and _NUMBER.fullmatch(text):
        return Decimal(text)
    raise Invalid(
        f"{text[:200]} is not a value. Write a number as 1234.5, without thousands separators or currency, a date as "
        "2024-03-12, a text in double quotes, true or false."
    )
