"""What a request must pass before anything of its body is read, in one place and in this order:

1. Its token or key. Only the addresses in `OPEN` ask for none, and the page's own, which hold no data.
2. The length that its body announces, against its route's limit. Open addresses take no body.
3. Its body as it comes: counted, and no slower than it may be.

Every answer leaves with `nosniff`; what is below /api says whether it may be kept, else it may not.

Slow clients and many connections are the business of the proxy in front.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fieldmark.api.permissions import SAFE, permission_of
from fieldmark.api.problems import problem_of
from fieldmark.api.request_log import route_of
from fieldmark.domain.permissions import Permission
from fieldmark.errors import FieldmarkError, RequestTimeout, TooLarge, Unauthenticated
from fieldmark.identity.tokens import Person, Tokens
from fieldmark.services.api_keys import BEGINNING, ApiKeys, Machine

OPEN = frozenset({"/healthz", "/readyz", "/metrics", "/openapi.json", "/api/config"})

PAGE_ADDRESSES = (
    "documents",
    "review",
    "runs",
    "approvals",
    "threads",
    "ask",
    "search",
    "schemas",
    "settings",
    "invitation",
)
"""How the addresses of the page begin (frontend/src/router.tsx). Any of them is answered with the page itself."""

_READ_BACK = frozenset(
    {
        Permission.DOCUMENTS_WRITE,
        Permission.EXTRACTIONS_WRITE,
        Permission.SCHEMAS_WRITE,
        Permission.MEMBERS_WRITE,
    }
)
"""Scopes of routes that answer what they have changed. (A run that a key has started is told to that key.)"""

JSON_BYTES = 2 * 1024 * 1024
FORM_BYTES = 1024 * 1024
"""What a multipart upload may have around its file."""

BYTES_PER_SECOND = 16 * 1024
BODY_SECONDS = 10
"""A body may take this long, and one second more for each `BYTES_PER_SECOND` that have come."""


class Edge:
    """Refuses with 401, 413 or 408 what does not pass. `forms` are the routes that take multipart, by method and path,
    each with the most bytes of its body; every other body may have 2 MB. `seconds`: see `BODY_SECONDS`."""

    def __init__(self, app: ASGIApp, forms: Mapping[tuple[str, str], int], seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._seconds = seconds
        self._forms = forms

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        if _is_navigation(request):
            scope = {**scope, "path": "/"}
            request = Request(scope)
        send = _leaving(send, request)
        try:
            if not _is_open(request):
                request.state.caller = await _caller_of(request)
            body = _Body(receive, self._limit(request), self._seconds)
            body.check_announced(request.headers.get("content-length", "0"))
        except FieldmarkError as error:
            await problem_of(error)(scope, receive, send)
            return
        answering = False

        async def watched(message: Message) -> None:
            nonlocal answering
            # Whoever reads the body may take the refusal for a fault of its own: then that answer is not sent.
            if answering or body.refused is None:
                answering = True
                await send(message)

        try:
            await self._app(scope, body.receive, watched)
        except (TooLarge, RequestTimeout):
            if answering:
                raise
        if body.refused is not None and not answering:
            await problem_of(body.refused)(scope, receive, send)

    def _limit(self, request: Request) -> int:
        if _is_open(request):
            return 0
        is_form = request.headers.get("content-type", "").startswith("multipart/form-data")
        return self._forms.get((request.method, request.url.path), JSON_BYTES) if is_form else JSON_BYTES


def _leaving(send: Send, request: Request) -> Send:
    """Send answers with the headers that all have. What a key has changed and may not read is answered by 204."""
    hides = False

    async def sending(message: Message) -> None:
        nonlocal hides
        if message["type"] == "http.response.start":
            hides = message["status"] == 200 and _may_not_read(request)
            if hides:
                message = {**message, "status": 204, "headers": []}
            headers = MutableHeaders(scope=message)
            headers.setdefault("x-content-type-options", "nosniff")
            if request.url.path.startswith("/api"):
                headers.setdefault("cache-control", "private, no-store")
        elif hides:
            message = {**message, "body": b""}
        await send(message)

    return sending


def _may_not_read(request: Request) -> bool:
    caller: Person | Machine | None = getattr(request.state, "caller", None)
    needed = permission_of(request.method, route_of(request.scope))
    if not isinstance(caller, Machine) or request.method in SAFE or needed is None or needed not in _READ_BACK:
        return False
    return needed.replace(":write", ":read") not in caller.scopes


def _is_open(request: Request) -> bool:
    path: str = request.scope["path"]
    first = path.split("/", 2)[1] if path.startswith("/") else None
    is_page = request.method in ("GET", "HEAD") and first in ("", "assets", *PAGE_ADDRESSES)
    return path in OPEN or is_page


def _is_navigation(request: Request) -> bool:
    """Whether a browser opens an address that is none: the page says so, and leads on."""
    is_page = request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", "")
    path: str = request.scope["path"]
    return is_page and not _is_open(request) and not path.startswith("/api/")


class _Body:
    """A request's body, up to its limit. `refused` says why no more of it is taken."""

    def __init__(self, receive: Receive, limit: int, seconds: float) -> None:
        self._receive = receive
        self._limit = limit
        self._received = 0
        self._seconds = seconds  # that are left to wait for more of it
        self._ended = False
        self.refused: FieldmarkError | None = None

    def check_announced(self, length: str) -> None:
        """Raises TooLarge if that is more than may come."""
        if length.isdigit() and (len(length) > 18 or int(length) > self._limit):
            raise self._too_large()

    async def receive(self) -> Message:
        if self._ended:  # what follows is the end of the connection, for which a stream waits as long as it likes
            return await self._receive()
        clock = asyncio.get_running_loop().time
        begun = clock()
        try:
            async with asyncio.timeout(max(self._seconds, 0)):
                message = await self._receive()
        except TimeoutError:
            self.refused = RequestTimeout("The request's body came too slowly.")
            raise self.refused from None
        came = len(message.get("body", b""))
        self._received += came
        self._seconds += came / BYTES_PER_SECOND - (clock() - begun)
        self._ended = not message.get("more_body", False)
        if self._received > self._limit:
            self.refused = self._too_large()
            raise self.refused
        return message

    def _too_large(self) -> TooLarge:
        return TooLarge(f"The request's body is larger than the {self._limit:,} bytes that are taken here.")


async def _caller_of(request: Request) -> Person | Machine:
    """Whose token or key the request bears. Raises Unauthenticated."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("Send a token or a key: Authorization: Bearer <token>.")
    token = token.strip()
    if token.startswith(BEGINNING):
        keys: ApiKeys = request.app.state.api_keys
        return await keys.machine_of(token)
    tokens: Tokens = request.app.state.tokens
    return await tokens.person_of(token)
