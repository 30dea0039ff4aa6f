"""Checks that every request passes before its body is read, in this order:

1. The number of running requests: of all, then of the caller. Health checks and cancelling a run are not limited.
2. The token or API key. Only `PUBLIC_PATHS` and the web UI's own files, which contain no data, need none.
3. The Content-Length, against the route's limit. Public paths accept no body.
4. The body as it arrives: its size and speed.

Every response gets `nosniff`, and below /api `no-store` unless the route sets its own Cache-Control.

`api/connections.py` limits connections without a request. The proxy in front of the service handles slow responses.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from uuid import UUID

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fieldmark.api.docs_pages import LIST_PATH, PAGE_PREFIX
from fieldmark.api.mcp import METADATA_PATHS, challenge
from fieldmark.api.permissions import SAFE_METHODS, required_scope
from fieldmark.api.problems import error_response
from fieldmark.api.reference import REFERENCE_PATH
from fieldmark.api.request_log import path_in_app, route_template
from fieldmark.domain.permissions import Permission
from fieldmark.errors import FieldmarkError, RequestTimeout, TooLarge, TooManyAtOnce, Unauthenticated, Unavailable
from fieldmark.identity.tokens import Person, Tokens
from fieldmark.services.api_keys import KEY_PREFIX, ApiKeys, KeyCaller

PUBLIC_PATHS = frozenset(
    {"/healthz", "/readyz", "/metrics", "/openapi.json", REFERENCE_PATH, LIST_PATH, "/api/config", *METADATA_PATHS}
)

UI_PATHS = (
    "home",
    "quality",
    "documents",
    "records",
    "stacks",
    "tables",
    "review",
    "inbox",
    "runs",
    "approvals",
    "threads",
    "ask",
    "search",
    "schemas",
    "settings",
    "members",
    "keys",
    "inbox",
    "tables",
    "invitation",
)
"""The first part of every path of the web UI (frontend/src/router.tsx). Each path below returns the UI."""

_SCOPES_RETURNING_DATA = frozenset(
    {
        Permission.DOCUMENTS_WRITE,
        Permission.DOCUMENTS_ADD,
        Permission.EXTRACTIONS_WRITE,
        Permission.SCHEMAS_WRITE,
        Permission.MEMBERS_WRITE,
    }
)
"""Write scopes of routes that return what they changed. (`runs:write` is not one of them: a key may see the runs that
it starts.)"""

MAX_REQUESTS = 700
"""Requests that run at the same time, including event streams. Leaves room for the service's own files below the usual
limit of 1,024 descriptors."""
MAX_REQUESTS_OF_CALLER = 350
_UNLIMITED = re.compile(r"GET /(?:healthz|readyz)|POST /api/runs/[^/]+/cancel")

JSON_BYTES = 2 * 1024 * 1024
FORM_BYTES = 1024 * 1024
"""Bytes that a multipart upload may have in addition to its file."""

BYTES_PER_SECOND = 16 * 1024
BODY_SECONDS = 10
"""Time limit of a body in seconds. It grows by one second for each `BYTES_PER_SECOND` received."""


class RequestGuard:
    """ASGI middleware that refuses requests with 401, 413 or 408. `form_limits`: the largest body in bytes of each
    multipart route, by method and path; every other body is limited to `JSON_BYTES`. `seconds`: see `BODY_SECONDS`."""

    def __init__(self, app: ASGIApp, form_limits: Mapping[tuple[str, str], int], seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._seconds = seconds
        self._form_limits = form_limits
        self._running = Counter[UUID | None]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_unlimited = _UNLIMITED.fullmatch(f"{scope['method']} {path_in_app(scope)}") is not None
        callers: list[UUID | None] = []

        def count(caller: UUID | None, limit: int, refusal: FieldmarkError) -> None:
            if not is_unlimited:
                if self._running[caller] >= limit:
                    raise refusal
                self._running[caller] += 1
                callers.append(caller)

        try:
            await self._handle(scope, receive, send, count)
        finally:
            self._running.subtract(callers)
            self._running += Counter()  # drops zeros

    async def _handle(
        self, scope: Scope, receive: Receive, send: Send, count: Callable[[UUID | None, int, FieldmarkError], None]
    ) -> None:
        request = Request(scope)
        if _is_navigation(request):
            scope = {**scope, "path": f"{scope.get('root_path', '')}/"}
            request = Request(scope)
        send = _with_common_headers(send, request)
        try:
            count(None, MAX_REQUESTS, Unavailable("The server has as many requests as it can serve. Retry later."))
            if not _is_public(request):
                caller = request.state.caller = await _authenticate(request)
                refusal = TooManyAtOnce(
                    f"{MAX_REQUESTS_OF_CALLER} requests of yours are running. Wait until some have ended."
                )
                count(caller.id if isinstance(caller, KeyCaller) else caller.user_id, MAX_REQUESTS_OF_CALLER, refusal)
            body = _LimitedBody(receive, self._limit(request), self._seconds)
            body.check_content_length(request.headers.get("content-length", "0"))
        except FieldmarkError as error:
            response = error_response(error)
            if isinstance(error, Unauthenticated):
                response.headers.update(challenge(request))
            await response(scope, receive, send)
            return
        has_started = False
        with_stream = ExitStack()

        async def send_unless_refused(message: Message) -> None:
            nonlocal has_started
            # The reader of the body may turn the refusal into an error response of its own: that one is dropped.
            if has_started or body.refused is None:
                if not has_started and Headers(scope=message).get("content-type", "").startswith("text/event-stream"):
                    with_stream.enter_context(_as_stream(scope["app"]))
                has_started = True
                await send(message)

        try:
            await self._app(scope, body.receive, send_unless_refused)
        except (TooLarge, RequestTimeout):
            if has_started:
                raise
        except asyncio.CancelledError:  # the server stops, and this request took too long
            if has_started:
                raise
            await error_response(Unavailable("The server is stopping. Send the request again."))(scope, receive, send)
        finally:
            with_stream.close()
        if body.refused is not None and not has_started:
            await error_response(body.refused)(scope, receive, send)

    def _limit(self, request: Request) -> int:
        if _is_public(request):
            return 0
        is_form = request.headers.get("content-type", "").startswith("multipart/form-data")
        route = request.method, path_in_app(request.scope)
        return self._form_limits.get(route, JSON_BYTES) if is_form else JSON_BYTES


@contextmanager
def _as_stream(app: Starlette) -> Generator[None]:
    """List the request's task among those that end at once if the server stops."""
    task = asyncio.current_task()
    app.state.streams.add(task)
    try:
        yield
    finally:
        app.state.streams.discard(task)


def _with_common_headers(send: Send, request: Request) -> Send:
    """Return `send` with the common headers added. If a key may not read what it changed, the response becomes 204."""
    is_hidden = False

    async def send_with_headers(message: Message) -> None:
        nonlocal is_hidden
        if message["type"] == "http.response.start":
            is_hidden = message["status"] == 200 and _may_not_read(request)
            if is_hidden:
                message = {**message, "status": 204, "headers": []}
            headers = MutableHeaders(scope=message)
            headers.setdefault("x-content-type-options", "nosniff")
            if path_in_app(request.scope).startswith("/api"):
                headers.setdefault("cache-control", "private, no-store")
        elif is_hidden:
            message = {**message, "body": b""}
        await send(message)

    return send_with_headers


def _may_not_read(request: Request) -> bool:
    caller: Person | KeyCaller | None = getattr(request.state, "caller", None)
    scope = required_scope(request.method, route_template(request.scope))
    if not isinstance(caller, KeyCaller) or request.method in SAFE_METHODS or scope is None:
        return False
    return scope in _SCOPES_RETURNING_DATA and f"{scope.partition(':')[0]}:read" not in caller.scopes


def _is_public(request: Request) -> bool:
    path = path_in_app(request.scope)
    first = path.split("/", 2)[1] if path.startswith("/") else None
    is_ui = request.method in ("GET", "HEAD") and first in ("", "assets", *UI_PATHS)
    is_docs = path.startswith(PAGE_PREFIX) and path.endswith(".md")
    return path in PUBLIC_PATHS or is_ui or is_docs


def _is_navigation(request: Request) -> bool:
    """Return whether a browser opens an unknown path. The web UI then shows its "not found" page."""
    is_html = request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", "")
    return is_html and not _is_public(request) and not path_in_app(request.scope).startswith("/api/")


class _LimitedBody:
    """A request's body with limits of size and time. `refused` is the error once a limit is exceeded."""

    def __init__(self, receive: Receive, limit: int, seconds: float) -> None:
        self._receive = receive
        self._limit = limit
        self._received = 0
        self._seconds = seconds  # left for the rest of the body
        self._ended = False
        self.refused: FieldmarkError | None = None

    def check_content_length(self, length: str) -> None:
        """Raise TooLarge if the announced length exceeds the limit."""
        if length.isdigit() and (len(length) > 18 or int(length) > self._limit):
            raise self._too_large()

    async def receive(self) -> Message:
        if self._ended:  # the next message is the disconnect, for which a stream may wait without a limit
            return await self._receive()
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            async with asyncio.timeout(max(self._seconds, 0)):
                message = await self._receive()
        except TimeoutError:
            self.refused = RequestTimeout("The request's body came too slowly.")
            raise self.refused from None
        size = len(message.get("body", b""))
        self._received += size
        self._seconds += size / BYTES_PER_SECOND - (clock() - started)
        self._ended = not message.get("more_body", False)
        if self._received > self._limit:
            self.refused = self._too_large()
            raise self.refused
        return message

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The request's body is larger than this route's limit of {self._limit:,} bytes. Send less.")


async def _authenticate(request: Request) -> Person | KeyCaller:
    """Return the person or key that sends the request. Raise Unauthenticated, or Unavailable if the application is
    mounted in another one that has not entered its lifespan."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated(
            "The request has no token. Send a token or an API key in the header: Authorization: Bearer <token>."
        )
    token = token.strip()
    if not hasattr(request.app.state, "runtime"):
        raise Unavailable("The service is not started: the application that it is mounted in must enter its lifespan.")
    if token.startswith(KEY_PREFIX):
        keys: ApiKeys = request.app.state.api_keys
        return await keys.authenticate(token)
    tokens: Tokens = request.app.state.tokens
    return await tokens.authenticate_token(token)
