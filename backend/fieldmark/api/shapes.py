"""Shapes of the API that are told to clients as more than what is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec

from fastapi import Response
from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from fieldmark.db.aside import aside

P = ParamSpec("P")


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
        return handler(self.model.__pydantic_core_schema__)
