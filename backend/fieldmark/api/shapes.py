"""Shapes of the API that are told to clients as more than what is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, ParamSpec

from fastapi import Query, Response
from pydantic import AwareDatetime, BaseModel, GetJsonSchemaHandler, JsonValue
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from fieldmark.db.aside import aside

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
