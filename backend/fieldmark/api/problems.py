"""Error responses as RFC 9457 problem+json."""

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

from fieldmark.api.request_log import route_template
from fieldmark.domain import paths
from fieldmark.errors import (
    FieldmarkError,
    Misconfigured,
    NotFound,
    QueueFull,
    TooManyAtOnce,
    Unauthenticated,
    Unavailable,
)
from pagewords.errors import NoSuchPage, PagewordsError, ReadersUnavailable, Unreadable

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"
_MAX_DETAIL_CHARACTERS = 2000


class FieldError(BaseModel):
    """One error in a request or in fields."""

    path: str = Field(description="The path of the invalid value: document_id, items[2].price. Empty for the whole.")
    code: str = Field(examples=["missing"], description="Stable, for programs.")
    message: str


class RequestError(FieldError):
    """One error in a request."""

    params: dict[str, Any] | None = Field(default=None, description="The values in `message`, if any.")


class Problem(BaseModel):
    """An error, as defined by RFC 9457."""

    type: str = Field(examples=["urn:fieldmark:problem:not_found"])
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["There is no such document."])
    code: str = Field(examples=["not_found"], description="Stable, for programs.")
    errors: list[RequestError] | None = Field(
        default=None, description="Only with `invalid` and `invalid_schema`: the first errors."
    )
    changes: list[dict[str, Any]] | None = Field(
        default=None,
        description="Only with `target_changed`: for each path the current value (`old`), the value when the call was "
        "shown (`shown`), and the value that the call would write (`new`).",
    )


def problem_response(
    status: int,
    code: str,
    title: str,
    detail: str,
    headers: dict[str, str] | None = None,
    details: Mapping[str, Any] | None = None,
) -> JSONResponse:
    """Return a problem as a response. `details` are added to its JSON object."""
    body = Problem(
        type=f"urn:fieldmark:problem:{code}",
        title=title,
        status=status,
        detail=detail[:_MAX_DETAIL_CHARACTERS],  # may quote the request
        code=code,
    ).model_dump(exclude_none=True) | dict(details or {})
    return JSONResponse(body, status, headers, MEDIA_TYPE)


def problem_codes() -> list[str]:
    """Return every code that a problem may have."""

    def codes(error_class: type[FieldmarkError | Unreadable]) -> set[str]:
        return {error_class.code}.union(*map(codes, error_class.__subclasses__()))

    return sorted(codes(FieldmarkError) | codes(Unreadable) | {"method_not_allowed"})  # the framework's own code


def _error_responses() -> dict[int | str, dict[str, Any]]:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        "4XX": {"description": "The request is refused", "content": content},
        "default": {"description": "The service failed", "content": content},
    }


ERRORS: Final = _error_responses()
"""The error responses in every route's OpenAPI."""


def problem_schemas() -> dict[str, Any]:
    """Return the OpenAPI schemas of a problem, by name."""
    shape = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    shape["properties"]["code"] = {"$ref": "#/components/schemas/ProblemCode"}
    description = "The error's code. Later versions may add codes."
    codes = {"type": "string", "enum": problem_codes(), "description": description}
    return {**shape.pop("$defs"), "Problem": shape, "ProblemCode": codes}


def add_error_handlers(app: FastAPI) -> None:
    """Return every error of the application as a problem."""
    app.add_exception_handler(FieldmarkError, _handle_fieldmark_error)
    app.add_exception_handler(PagewordsError, _handle_pagewords_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_exception_handler(Exception, _handle_unexpected_error)


async def _handle_fieldmark_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, FieldmarkError)  # registered for this class
    return error_response(error)


async def _handle_pagewords_error(request: Request, error: Exception) -> JSONResponse:
    match error:
        case NoSuchPage():
            return error_response(NotFound(str(error)))
        case ReadersUnavailable():
            return error_response(Unavailable(str(error)))
        case _:
            assert isinstance(error, Unreadable)
            return problem_response(422, error.code, "The file cannot be read", str(error))


def error_response(error: FieldmarkError) -> JSONResponse:
    """Return an error as a problem response, and log it if the service is at fault."""
    if isinstance(error, Misconfigured):
        log.error("misconfigured", reason=str(error))
        return problem_response(
            500, error.code, error.title, "The service is misconfigured. The administrator finds the reason in its log."
        )
    headers: dict[str, str] = {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, Unavailable):
        if not isinstance(error, TooManyAtOnce):  # already in the request log
            log.warning("unavailable", reason=str(error))
        headers["Retry-After"] = "2"
    if isinstance(error, QueueFull):
        headers["Retry-After"] = "30"
    return problem_response(error.status, error.code, error.title, str(error), headers, error.details)


async def _handle_validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors: list[dict[str, Any]] = []
    for one in error.errors()[:10]:
        path, message = _path_and_message(one)
        errors.append(FieldError(path=path, code=one["type"], message=message).model_dump())
    detail = "; ".join(f"{one['path'] or 'body'}: {one['message']}" for one in errors) + "."
    return problem_response(422, "invalid", "Invalid request", detail, details={"errors": errors})


def _path_and_message(error: dict[str, Any]) -> tuple[str, str]:
    # Tags of unions, such as `<several>`, are not part of the request.
    path, message = tuple(step for step in error["loc"][1:] if not str(step).startswith("<")), error["msg"]
    if error["type"] == "json_invalid" and path:  # the "path" is then the number of a character
        return "", f"invalid JSON at character {path[0]}: {error['ctx']['error']}"
    if not path and error["type"] == "model_attributes_type":
        message = "must be a JSON object, sent with Content-Type: application/json"
    return paths.name(path), message


async def _handle_http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    detail = _FRAMEWORK_MESSAGES.get(str(error.detail), str(error.detail))
    if error.status_code == 400:  # the framework's status for a malformed body; ours is 422
        return problem_response(422, "invalid", "Invalid request", detail)
    phrase = HTTPStatus(error.status_code).phrase
    code = phrase.lower().replace(" ", "_").replace("-", "_")
    return problem_response(error.status_code, code, phrase, detail, dict(error.headers or {}))


_FRAMEWORK_MESSAGES = {
    "There was an error parsing the body": "body: must be JSON in UTF-8, not nested too deeply and without overlong "
    "numbers.",
    "Invalid multipart data.": "body: must be a form (multipart/form-data), as its Content-Type says.",
    "Not Found": "There is no route at this path.",
    "Method Not Allowed": "This path does not support the method. The header Allow lists the methods that it supports.",
}


async def _handle_unexpected_error(request: Request, error: Exception) -> JSONResponse:
    # Its text may contain a connection string or a value: it is only logged.
    log.error("unexpected", route=route_template(request.scope), exc_info=error)
    return problem_response(
        500,
        "internal",
        "Internal error",
        "The service failed unexpectedly. The administrator finds the reason in its log.",
    )
