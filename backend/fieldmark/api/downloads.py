"""Files to be kept: a browser stores them, and shows none as a page of this service."""

from __future__ import annotations

from urllib.parse import quote

from fastapi.responses import FileResponse, Response
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from fieldmark.api.problems import problem_of
from fieldmark.errors import BadRequest, RangeNotSatisfiable
from fieldmark.files import Files


def as_attachment(filename: str) -> dict[str, str]:
    """The headers of a file with this name."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in " ._-()") else "_" for c in filename)
    return {
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}",
        "X-Content-Type-Options": "nosniff",
        # Should a browser show it after all, it is a page of no origin.
        "Content-Security-Policy": "sandbox",
    }


class StoredFile(FileResponse):
    """An original as it came, whole or in the ranges that are asked for. Its bytes never change under its `tag`.

    Its type is always that of unknown bytes: what a document says that it is, is a stranger's word."""

    def __init__(self, files: Files, stored_path: str, filename: str, tag: str) -> None:
        headers = as_attachment(filename) | {"ETag": f'"{tag}"', "Cache-Control": "private, no-cache"}
        super().__init__(stored_path, headers=headers, media_type="application/octet-stream")
        self._files = files
        self._stored_path = stored_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer. Raises NotFound or Unavailable before anything is sent."""
        refusal: Response | None = None

        async def send_or_refuse(message: Message) -> None:
            # What it says of a wrong `Range` is plain text: our clients are told all that is wrong as a problem.
            nonlocal refusal
            if message["type"] == "http.response.start" and message["status"] in (400, 416):
                refusal = _refusal(message["status"], Headers(raw=message["headers"]))
            elif refusal is None:
                await send(message)

        async with self._files.local(self._stored_path) as path:
            self.path = path
            await super().__call__(scope, receive, send_or_refuse)
        if refusal is not None:
            await refusal(scope, receive, send)


def _refusal(status: int, headers: Headers) -> Response:
    if status == 400:
        return problem_of(BadRequest("The header Range is no list of bytes, as bytes=0-499 is."))
    refusal = problem_of(RangeNotSatisfiable("The file has no such part as Range asks for."))
    refusal.headers["Content-Range"] = headers["content-range"]
    return refusal
