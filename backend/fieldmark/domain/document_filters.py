"""What narrows documents: their name, tags, type and dates, and what stands in the fields that were read from them.

    DocumentFilters(document_type="invoice", fields=[FieldCondition.parse("total > 1000")])

`stores/document_filters.py` makes SQL of it, in which every value and every path is a parameter.
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
from fieldmark.domain.numbers import MAX_DIGITS, canonical_decimal, is_number
from fieldmark.domain.paths import Each, Pattern
from fieldmark.domain.values import value_problem
from fieldmark.errors import Invalid, InvalidPath

MAX_CONDITIONS: Final = 20
MAX_IDS: Final = 200
MAX_TAGS: Final = 20
MAX_TEXT: Final = 500
MAX_LISTS: Final = 3
"""So many lists a path may go through: `a[].b[].c[].d`."""


class FilterOp(StrEnum):
    """How a field is compared. EXISTS and MISSING need no value."""

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
    """The path in its canonical spelling. Raises ValueError for what is no path of fields."""
    try:
        steps = paths.parse_pattern(text)
    except InvalidPath as error:
        raise ValueError(str(error)) from None
    if sum(isinstance(step, Each) for step in steps) > MAX_LISTS:
        raise ValueError(f"A path goes through at most {MAX_LISTS} lists.")
    return paths.name(steps)


FieldPath = Annotated[str, Field(max_length=paths.MAX_CHARACTERS), AfterValidator(field_path)]
"""A path such as `total`, `vendor.name`, or `items[].total`, where `[]` is every item of a list."""


def field_value(value: object) -> bool | Decimal | str:
    """The value that a field is compared with. A number counts as it is written: 0.1, and not as the nearest binary
    fraction. Raises ValueError for anything else than a number, a text, a day, true or false."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Decimal) or is_number(value):
        spelt = canonical_decimal(value)
        if spelt is None:
            raise ValueError(f"A number has at most {MAX_DIGITS} digits before or behind the point.")
        return Decimal(spelt)
    if isinstance(value, str):
        return _check_text(value)
    raise ValueError("A value is a number, a text, a day as 2024-03-12, or true or false.")


def _check_text(text: str) -> str:
    if not 1 <= len(text) <= MAX_TEXT:
        raise ValueError(f"A text has 1 to {MAX_TEXT} characters.")
    if problem := value_problem(text):
        raise ValueError(problem)
    return text


Text = Annotated[
    StrictStr, AfterValidator(_check_text), Field(json_schema_extra={"minLength": 1, "maxLength": MAX_TEXT})
]


def _as_json(value: bool | Decimal | str) -> bool | int | float | str:
    """A number is one in JSON too, and not a text that would be compared as such."""
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
    """What a field must be like. Any of the values at its path will do; with `!=` none may be that value.

    A number is compared with JSON numbers, true and false with such, a text with what stands there as text: in capitals
    or not, spaces told once. `<` to `>=` compare numbers and days (YYYY-MM-DD).
    """

    model_config = _STRICT

    path: FieldPath
    op: FilterOp
    value: FieldValue | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.op.takes_value == (self.value is None):
            raise ValueError(f"`{self.op}` needs a value." if self.op.takes_value else f"`{self.op}` takes no value.")
        if self.op.is_ordering and not isinstance(self.value, Decimal) and self.day is None:
            raise ValueError(f"`{self.op}` compares numbers and days: 1000, or 2024-03-12.")
        if self.op is FilterOp.CONTAINS and not isinstance(self.value, str):
            raise ValueError("`contains` takes a text.")
        return self

    @property
    def pattern(self) -> Pattern:
        return paths.parse_pattern(self.path)

    @property
    def day(self) -> str | None:
        """The value if it is a day, YYYY-MM-DD."""
        return self.value if isinstance(self.value, str) and is_iso_date(self.value) else None

    @classmethod
    def parse(cls, text: str) -> FieldCondition:
        """The condition of a text such as `total > 1000`, `vendor.name = "Acme"`, `items[].total exists`. Raises
        Invalid, which says what is wrong."""
        if len(text) > 2 * MAX_TEXT + paths.MAX_CHARACTERS:
            raise Invalid(f"The condition has {len(text):,} characters: too many.")
        found = _CONDITION.fullmatch(text.strip())
        if found is None:
            raise Invalid(
                f"{json.dumps(text[:200], ensure_ascii=False)} is no condition: write a field, one of {_OPS}, and a "
                'value, such as total > 1000 or vendor.name = "Acme".'
            )
        op, said = FilterOp(found["op"] or found["bare"]), found["value"]
        return validate_model(
            cls, {"path": found["path"], "op": op, "value": None if said is None else _parse_value(said)}
        )


class DocumentFilters(BaseModel):
    """Which documents: those that meet all of it. Nothing asked is every document.

    `tags` are names, and a document has all of them. `document_type` is that of its current extraction. `filename` is a
    part of its name. Of the names, capitals do not matter. `uploaded_before` is the first moment that is too late.
    """

    model_config = _STRICT

    document_ids: tuple[UUID, ...] = Field(default=(), max_length=MAX_IDS)
    tags: tuple[Text, ...] = Field(default=(), max_length=MAX_TAGS)
    document_type: Text | None = None
    uploaded_after: AwareDatetime | None = None
    uploaded_before: AwareDatetime | None = None
    filename: Text | None = None
    fields: tuple[FieldCondition, ...] = Field(default=(), max_length=MAX_CONDITIONS)


def validate_model(model: type[Any], values: Any) -> Any:
    """The value of a model. Raises Invalid with the first thing that is wrong."""
    try:
        return model.model_validate(values)
    except ValueError as error:
        raise Invalid(_first_message(error)) from None


def _first_message(error: ValueError) -> str:
    told = getattr(error, "errors", None)
    if told is None:
        return str(error)
    first = told(include_url=False, include_context=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    what = str(first["msg"]).removeprefix("Value error, ")
    return f"{where}: {what}" if where else what


_SYMBOLS: Final = ("!=", "<=", ">=", "=", "<", ">")
_OPS: Final = ", ".join(FilterOp)
# A key that is quoted in brackets may hold what would end the path.
_CONDITION: Final = re.compile(
    r"(?P<path>(?:\[\"(?:[^\"\\]|\\.)*+\"\]|[^\[<>=!]|\[[0-9]*\])+?)(?<!\s)\s*+"
    rf"(?:(?P<op>{'|'.join(_SYMBOLS)}|(?<=\s)contains(?=[\s\"]))\s*(?P<value>\S.*)|(?<=\s)(?P<bare>exists|missing))",
    re.DOTALL,
)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")


def _parse_value(said: str) -> str | bool | Decimal:
    """What the text behind the sign says: a JSON text, a number, true, false, or a day."""
    if said.startswith('"'):
        try:
            value = json.loads(said)
        except json.JSONDecodeError:
            raise Invalid(f'{said[:200]} is no text in double quotes: a quote inside it is written \\".') from None
        return str(value)
    if said in ("true", "false"):
        return said == "true"
    if is_iso_date(said):
        return said
    if len(said) <= MAX_TEXT and _NUMBER.fullmatch(said):
        return Decimal(said)
    raise Invalid(
        f"{said[:200]} is no value: write a number as 1234.5, without thousands separators or a currency, a day as "
        "2024-03-12, a text in double quotes, or true or false."
    )
