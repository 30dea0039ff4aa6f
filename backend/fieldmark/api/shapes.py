"""Shapes that several routes of the API share: pages of lists, query parameters, names, and the two base models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, Generic, ParamSpec, Self, TypeVar
from uuid import UUID

from fastapi import Header, Query, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from fieldmark.db.worker_thread import run_in_thread
from fieldmark.errors import Invalid

P = ParamSpec("P")
Item = TypeVar("Item")

STORABLE: Final = r"^[^\x00]*$"
"""What a text may be that Postgres is asked for."""


class Body(BaseModel):
    """The JSON body of a request. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class Shown(BaseModel):
    """What a response contains, made from a row of a store."""

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def of(cls, row: object) -> Self:
        """Return the row as the API shows it."""
        return cls.model_validate(row)


class ListPage(Shown, Generic[Item]):
    """A page of a list, newest first."""

    model_config = ConfigDict(json_schema_extra={"description": "A page of a list, newest first."})

    items: list[Item]
    next: str | None = Field(description="Pass it as `before` to get the next page. null at the end.")


class NumberedListPage(Shown, Generic[Item]):
    """A page of a numbered list, highest number first."""

    model_config = ConfigDict(json_schema_extra={"description": "A page of a numbered list, highest number first."})

    items: list[Item]
    next: int | None = Field(description="Pass it as `before` to get the next page. null at the end.")


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
Before = Annotated[str | None, Query(description="The `next` of the last page.")]
BeforeVersion = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="The `next` of the last page.")]

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
    """Return a response of thousands of values, built and serialised in a worker thread."""
    return Response(await run_in_thread(_json, make, *args, **kwargs), media_type="application/json")


def _json(make: Callable[P, BaseModel], *args: P.args, **kwargs: P.kwargs) -> str:
    # No warnings: what a front end has written to a table itself may have another type than the model says.
    return make(*args, **kwargs).model_dump_json(warnings=False)
