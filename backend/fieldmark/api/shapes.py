"""Shapes of the API that are told to clients as more than what is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, ParamSpec
from uuid import UUID

from fastapi import Header, Query, Response
from pydantic import AwareDatetime, BaseModel, Field, GetJsonSchemaHandler, JsonValue
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from fieldmark.db.aside import aside
from fieldmark.errors import Invalid

P = ParamSpec("P")

STORABLE: Final = r"^[^\x00]*$"
"""What a text may be that Postgres is asked for."""

Filename = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=255,
        pattern=STORABLE,
        description="Only where this stands in the file's name, in capitals or not.",
    ),
]
Since = Annotated[AwareDatetime | None, Query(description="Only what is from then or later.")]
Until = Annotated[AwareDatetime | None, Query(description="Only what is from before then.")]

Text = Annotated[str, Query(min_length=1, max_length=500, pattern=STORABLE)]
"""A word of a filter: a tag's name, a type."""

Limit = Annotated[int, Query(ge=1, le=200, description="How many at most.")]
Before = Annotated[str | None, Query(description="The `next` of the last answer: those that follow.")]
BeforeVersion = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="The `next` of the last answer.")]

Name = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description="One line without what nobody sees. No other of its kind has it, in capitals or not.",
        # Told and not checked here: the database says what is wrong.
        json_schema_extra={"pattern": r"^[!-~]([ -~]{0,198}[!-~])?$"},
    ),
]
PartOfName = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        pattern=STORABLE,
        description="Only where this stands in the name, in capitals or not.",
    ),
]
Named = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        pattern=STORABLE,
        description="Only the one of this name, in capitals or not; nothing else narrows then.",
    ),
]
IfMatchRevid = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=100,
        description="The version that you saw: 409 if there is a newer one.",
        json_schema_extra={"pattern": r'^(\*|"?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"?)$'},
    ),
]


def revid_in(if_match: str | None) -> UUID | None:
    """The version that a caller saw, of their If-Match; None for any. Raises Invalid for what is none."""
    if if_match is None or if_match.strip() == "*":
        return None
    try:
        return UUID(if_match.strip().removeprefix('"').removesuffix('"'))
    except ValueError:
        raise Invalid("If-Match is the id of a version in quotation marks, or *.") from None


async def json_of(make: Callable[P, BaseModel], *args: P.args, **kwargs: P.kwargs) -> Response:
    """An answer of thousands of values: made and spelt once, and not on the event loop."""
    return Response(await aside(_json, make, *args, **kwargs), media_type="application/json")


def _json(make: Callable[P, BaseModel], *args: P.args, **kwargs: P.kwargs) -> str:
    return make(*args, **kwargs).model_dump_json()


@dataclass(frozen=True, slots=True)
class ShownAs:
    """For a value that passes as it is, and that OpenAPI describes as a model: `Annotated[Any, ShownAs(Evidence)]`."""

    model: type[BaseModel]

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # Pydantic would write the model out in every place: `refer` makes one schema of it that all refer to.
        return {_SHOWN: self.model.__name__}


def schemas_of(model: type[BaseModel]) -> dict[str, Any]:
    """For the OpenAPI: a model, and those that it is made of, by name."""
    shape = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return shape.pop("$defs", {}) | {model.__name__: shape}


def refer(description: JsonValue) -> None:
    """Let all that is `ShownAs` a model refer to its schema, all through an OpenAPI."""
    if isinstance(description, dict):
        if (name := description.pop(_SHOWN, None)) is not None:
            description["$ref"] = f"#/components/schemas/{name}"
        for below in description.values():
            refer(below)
    elif isinstance(description, list):
        for below in description:
            refer(below)


_SHOWN: Final = "x-shown-as"
