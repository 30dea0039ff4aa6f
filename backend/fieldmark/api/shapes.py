"""Shapes of the API that are told to clients as more than what is checked."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class ShownAs:
    """For a value that passes as it is, and that OpenAPI describes as a model: `Annotated[Any, ShownAs(Evidence)]`."""

    model: type[BaseModel]

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(self.model.__pydantic_core_schema__)
