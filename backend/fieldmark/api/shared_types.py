"""Types that several routes share: base models, pages of lists, and query parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Final, ParamSpec, Self
from uuid import UUID

from fastapi import Header, Query, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter

from fieldmark.db.worker_thread import run_in_thread
from fieldmark.errors import Invalid

P = ParamSpec("P")

STORABLE: Final = r"^[^\x00]*$"
"""Pattern of the texts that Postgres accepts."""


class RequestBody(BaseModel):
    """The JSON body of a request. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class ResponseModel(BaseModel):
    """A response made from a row of a store."""

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def of(cls, row: object) -> Self:
        return cls.model_validate(row)


StackId = Annotated[UUID | None, Query(description="Only documents of this stack.")]
Filename = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=255,
        pattern=STORABLE,
        description="Only if the file's name contains this. Case-insensitive.",
    ),
]
Since = Annotated[AwareDatetime | None, Query(description="Only items created at or after this time.")]
Until = Annotated[AwareDatetime | None, Query(description="Only items created before this time.")]

FilterText = Annotated[str, Query(min_length=1, max_length=500, pattern=STORABLE)]

MaxError = Annotated[float, Field(ge=0.001, le=1)]

Limit = Annotated[int, Query(ge=1, le=200, description="The most items to return.")]
Before = Annotated[str | None, Query(description="The `next` of the previous page.")]
BeforeVersion = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="The `next` of the previous page.")]

Name = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description="One line without invisible characters, unique among items of its kind. Case-insensitive.",
        # Only for clients. The database checks names, and its errors say what is wrong.
        json_schema_extra={"pattern": r"^[!-~]([ -~]{0,198}[!-~])?$"},
    ),
]
NameEquals = Annotated[
    str | None,
    Query(
        min_length=1, max_length=200, pattern=STORABLE, description="Only the item with this name. Case-insensitive."
    ),
]
NameContains = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        pattern=STORABLE,
        description="Only items whose name contains this. Case-insensitive.",
    ),
]
IfMatchRevid = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=100,
        description="The version that you saw. 409 if there is a newer one.",
        json_schema_extra={"pattern": r'^(\*|"?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"?)$'},
    ),
]


def parse_if_match_revid(if_match: str | None) -> UUID | None:
    """Return the version id in an If-Match header; None if any version matches. Raise Invalid if it is malformed."""
    if if_match is None or if_match.strip() == "*":
        return None
    try:
        return UUID(if_match.strip().removeprefix('"').removesuffix('"'))
    except ValueError:
        raise Invalid('If-Match must be the id of a version in quotation marks, or "*".') from None


async def json_response(make: Callable[P, BaseModel], *args: P.args, **kwargs: P.kwargs) -> Response:
    """Return a JSON response, built and serialised in a worker thread because it may have thousands of values."""
    return Response(await run_in_thread(_json, make, *args, **kwargs), media_type="application/json")


async def dataclass_response(kind: type[object], value: object) -> Response:
    """Return a JSON response of a dataclass, serialised in a worker thread because it may have thousands of values."""
    return Response(await run_in_thread(_dump, kind, value), media_type="application/json")


@cache
def _adapter(kind: type[object]) -> TypeAdapter[object]:
    return TypeAdapter(kind)


def _dump(kind: type[object], value: object) -> bytes:
    return _adapter(kind).dump_json(value, warnings=False)


def _json(make: Callable[P, BaseModel], *args: P.args, **kwargs: P.kwargs) -> str:
    # No warnings: a front end may have written values of other types directly to the table.
    return make(*args, **kwargs).model_dump_json(warnings=False)
