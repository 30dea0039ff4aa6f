"""File downloads: browsers save the files and never show them as pages of this service."""

from __future__ import annotations

from urllib.parse import quote

from fastapi.responses import FileResponse, Response
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from fieldmark.api.problems import error_response
from fieldmark.errors import BadRequest, RangeNotSatisfiable
from fieldmark.files import Files


def attachment_headers(filename: str) -> dict[str, str]:
    """Return the headers that make a browser save a response as a file."""
    ascii_name = "".join(c if c.isascii() and (c.isalnum() or c in " ._-()") else "_" for c in filename)
    return {
        "Content-Disposition": f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(filename, safe='')}",
        "X-Content-Type-Options": "nosniff",
        # If a browser shows the file nevertheless, it gets no origin.
        "Content-Security-Policy": "sandbox",
    }


class StoredFileResponse(FileResponse):
    """A stored original, whole or by ranges. `etag` identifies its bytes.

    The media type is always application/octet-stream: the document's own claim about its type cannot be trusted."""

    def __init__(self, files: Files, stored_path: str, filename: str, etag: str) -> None:
        headers = attachment_headers(filename) | {"ETag": f'"{etag}"', "Cache-Control": "private, no-cache"}
        super().__init__(stored_path, headers=headers, media_type="application/octet-stream")
        self._files = files
        self._stored_path = stored_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file. Raise NotFound or Unavailable before anything is sent."""
        range_error: Response | None = None

        async def send_or_hold_error(message: Message) -> None:
            # Starlette's errors about `Range` are plain text: they are replaced by problems.
            nonlocal range_error
            if message["type"] == "http.response.start" and message["status"] in (400, 416):
                range_error = _range_error(message["status"], Headers(raw=message["headers"]))
            elif range_error is None:
                await send(message)

        async with self._files.local(self._stored_path) as path:
            self.path = path
            await super().__call__(scope, receive, send_or_hold_error)
        if range_error is not None:
            await range_error(scope, receive, send)


def _range_error(status: int, headers: Headers) -> Response:
    if status == 400:
        return error_response(BadRequest("The header Range is no list of bytes, as bytes=0-499 is."))
    response = error_response(RangeNotSatisfiable("The file has no such part as Range asks for."))
    response.headers["Content-Range"] = headers["content-range"]
    return response
