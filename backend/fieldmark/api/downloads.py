"""Files to be kept: a browser stores them, and shows none as a page of this service."""

from __future__ import annotations

from urllib.parse import quote

from fastapi.responses import FileResponse
from starlette.types import Receive, Scope, Send

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
        async with self._files.local(self._stored_path) as path:
            self.path = path
            await super().__call__(scope, receive, send)
