"""Every error as RFC 9457 problem+json: a stable code, a title, one sentence of detail."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from fieldmark.api.request_log import route_of
from fieldmark.domain import paths
from fieldmark.errors import FieldmarkError, Misconfigured, QueueFull, TooManyAtOnce, Unauthenticated, Unavailable

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"
_MAX_DETAIL_CHARACTERS = 2000


class FieldError(BaseModel):
    """One thing that is wrong in what came, or in fields."""

    path: str = Field(description="Where: document_id, items[2].price. Empty for the whole.")
    code: str = Field(examples=["missing"], description="Stable: programs may compare it.")
    message: str


class Problem(BaseModel):
    """What went wrong, as RFC 9457 has it."""

    type: str = Field(examples=["urn:fieldmark:problem:not_found"])
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["There is no such document."])
    code: str = Field(examples=["not_found"], description="Stable: programs may compare it.")
    errors: list[FieldError] | None = Field(
        default=None, description="With `invalid` and `invalid_schema`: what is wrong, the first ones. Else left out."
    )
    suggestion: dict[str, Any] | None = Field(
        default=None, description="With `invalid_schema`, where one is near: the JSON Schema that was probably meant."
    )
    changes: list[dict[str, Any]] | None = Field(
        default=None,
        description="With `target_changed`, else left out: for each path what stands there now (`old`), what stood "
        "there when it was shown (`shown`), and what the call would write (`new`).",
    )


def problem(
    status: int,
    code: str,
    title: str,
    detail: str,
    headers: dict[str, str] | None = None,
    details: Mapping[str, Any] | None = None,
) -> JSONResponse:
    """One problem as a response. `details` are further members of its object."""
    body = Problem(
        type=f"urn:fieldmark:problem:{code}",
        title=title,
        status=status,
        detail=detail[:_MAX_DETAIL_CHARACTERS],  # a sentence may repeat what came in
        code=code,
    ).model_dump(exclude_none=True) | dict(details or {})
    return JSONResponse(body, status, headers, MEDIA_TYPE)


def problem_codes() -> list[str]:
    """Every code that a problem may have."""

    def codes(kind: type[FieldmarkError]) -> set[str]:
        return {kind.code}.union(*map(codes, kind.__subclasses__()))

    return sorted(codes(FieldmarkError) | {"method_not_allowed"})  # the framework's own, beside `not_found`


def _error_responses() -> dict[int | str, dict[str, Any]]:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        "4XX": {"description": "The request is refused", "content": content},
        "default": {"description": "The service failed", "content": content},
    }


ERRORS: Final = _error_responses()
"""The responses to an error, for every route's OpenAPI."""


def problem_schemas() -> dict[str, Any]:
    """Return the OpenAPI schemas of a problem, by name."""
    shape = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    shape["properties"]["code"] = {"$ref": "#/components/schemas/ProblemCode"}
    about = "What went wrong, for programs. More may come."
    codes = {"type": "string", "enum": problem_codes(), "description": about}
    return {**shape.pop("$defs"), "Problem": shape, "ProblemCode": codes}


def add_handlers(app: FastAPI) -> None:
    """Let every error of this application leave as a problem."""
    app.add_exception_handler(FieldmarkError, _expected)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


async def _expected(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, FieldmarkError)  # what it is registered for
    return problem_of(error)


def problem_of(known: FieldmarkError) -> JSONResponse:
    """An expected error as a response."""
    if isinstance(known, Misconfigured):
        log.error("misconfigured", reason=str(known))
        return problem(500, known.code, known.title, "The service is misconfigured; its log says how.")
    headers: dict[str, str] = {}
    if isinstance(known, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(known, Unavailable):
        if not isinstance(known, TooManyAtOnce):  # the request log has those
            log.warning("unavailable", reason=str(known))
        headers["Retry-After"] = "2"
    if isinstance(known, QueueFull):
        headers["Retry-After"] = "30"
    return problem(known.status, known.code, known.title, str(known), headers, known.details)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    faults = error.errors()[:10]
    told = [_in_words(fault) for fault in faults]
    errors = [
        FieldError(path=where, code=fault["type"], message=what).model_dump()
        for fault, (where, what) in zip(faults, told, strict=True)
    ]
    sentence = "; ".join(f"{where or 'body'}: {what}" for where, what in told) + "."
    return problem(422, "invalid", "Invalid request", sentence, details={"errors": errors})


def _in_words(fault: dict[str, Any]) -> tuple[str, str]:
    """Where something is wrong, and what."""
    # (`<several>` and its like are no part of what came.)
    where, what = tuple(step for step in fault["loc"][1:] if not str(step).startswith("<")), fault["msg"]
    if fault["type"] == "json_invalid" and where:  # its place is a character's number, or in the words already
        return "", f"it is no JSON at character {where[0]}: {fault['ctx']['error']}"
    if not where and fault["type"] == "model_attributes_type":
        what = "it must be a JSON object, sent as Content-Type: application/json"
    return paths.name(where), what


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    known = error
    if known.status_code == 400:  # the framework's, for a body that it cannot take apart: as for any other such body
        return problem(422, "invalid", "Invalid request", _OF_THE_FRAMEWORK.get(str(known.detail), str(known.detail)))
    phrase = HTTPStatus(known.status_code).phrase
    code = phrase.lower().replace(" ", "_").replace("-", "_")
    detail = _OF_THE_FRAMEWORK.get(str(known.detail), str(known.detail))
    return problem(known.status_code, code, phrase, detail, dict(known.headers or {}))


_OF_THE_FRAMEWORK = {
    "There was an error parsing the body": "body: it is no JSON in UTF-8, is nested too deep, or a number in it is too "
    "long.",
    "Invalid multipart data.": "body: it is no form (multipart/form-data) as its Content-Type says.",
    "Not Found": "There is nothing at this address.",
    "Method Not Allowed": "This address does not take this method; the header Allow says which it takes.",
}


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    # What it says may hold a DSN or somebody's value: it goes into the log only.
    log.error("unexpected", route=route_of(request.scope), exc_info=error)
    return problem(500, "internal", "Internal error", "Something went wrong here; the service's log says what.")
