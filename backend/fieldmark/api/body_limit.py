"""How large a request may be: counted as it arrives, so that no body fills the disk or the memory."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fieldmark.api.problems import problem
from fieldmark.errors import TooLarge

JSON_BYTES = 2 * 1024 * 1024
FORM_BYTES = 1024 * 1024
"""What a multipart upload may have around its file."""


class BodyLimit:
    """Refuses (413) bodies over 2 MB, and uploads over the largest file."""

    def __init__(self, app: ASGIApp, max_file_bytes: int) -> None:
        self._app = app
        self._max_file_bytes = max_file_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        is_form = headers.get(b"content-type", b"").startswith(b"multipart/form-data")
        limit = self._max_file_bytes + FORM_BYTES if is_form else JSON_BYTES
        answering = False
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise TooLarge(_sentence(limit))
            return message

        async def watched(message: Message) -> None:
            nonlocal answering
            # Whoever reads the body may take the error for a fault of its own: then that answer is not sent.
            if answering or received <= limit:
                answering = True
                await send(message)

        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > limit:
            await _refuse(limit, scope, receive, send)
            return
        try:
            await self._app(scope, counted, watched)
        except TooLarge:
            if answering:
                raise
        if received > limit and not answering:
            await _refuse(limit, scope, receive, send)


async def _refuse(limit: int, scope: Scope, receive: Receive, send: Send) -> None:
    await problem(413, TooLarge.code, TooLarge.title, _sentence(limit))(scope, receive, send)


def _sentence(limit: int) -> str:
    return f"The request's body is larger than the {limit:,} bytes that are taken here."
