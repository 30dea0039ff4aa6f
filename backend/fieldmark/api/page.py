"""The page that people work on: its files as they were built, and what it must know before anybody signs in.

The files are read once and answered from memory, so no address leads to any other file.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from fieldmark.api.auth import TheRuntime
from fieldmark.api.edge import PAGE_ADDRESSES
from fieldmark.api.routing import Routes
from fieldmark.errors import NotFound
from fieldmark.settings import Settings

router = Routes(prefix="/api", tags=["page"])

BUILT = Path(__file__).parent.parent / "page_files"
"""Where frontend/building.py leaves it."""

_NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Fieldmark</title>
<h1>The service runs; its page is not built</h1>
<p>The page is built when Fieldmark is installed, with packages from the npm registry. It could not be reached then, or
<code>FIELDMARK_UI=skip</code> was set. In the folder of the repository, with a connection:</p>
<pre>FIELDMARK_UI=require pip install --force-reinstall --no-deps .</pre>
<p>Then start the service again. <a href="/openapi.json">The API</a> works without the page.</p></html>"""

_FOREVER = "public, max-age=31536000, immutable"
_COMPRESSIBLE = ("text/", "application/json", "image/svg")


class SupabaseOfPage(BaseModel):
    """Where people sign in."""

    url: str
    publishable_key: str | None = Field(description="null: the service was not given one (SUPABASE_PUBLISHABLE_KEY).")


class Config(BaseModel):
    """What a front end must know before anybody signs in."""

    supabase: SupabaseOfPage | None = Field(
        description="null: the service signs tokens itself (`fieldmark token`, the link of `fieldmark serve`)."
    )
    offline_model: bool = Field(description="Whether rules answer in the model's place, for want of a key.")
    max_file_mb: int = Field(description="How large an upload may be.")


@router.get("/config", summary="What to know before signing in")
async def get_config(runtime: TheRuntime) -> Config:
    """How people sign in here, and who answers for the model. Asks for no token."""
    settings = runtime.settings
    supabase = None
    if settings.supabase_url:
        supabase = SupabaseOfPage(url=settings.supabase_url, publishable_key=settings.supabase_publishable_key)
    return Config(supabase=supabase, offline_model=settings.offline, max_file_mb=settings.max_file_mb)


@dataclass(frozen=True)
class _File:
    content: bytes
    media_type: str

    @cached_property
    def compressed(self) -> bytes | None:
        """None where that would not make it smaller."""
        if not self.media_type.startswith(_COMPRESSIBLE):
            return None
        packed = gzip.compress(self.content, 9, mtime=0)
        return packed if len(packed) < len(self.content) else None

    @cached_property
    def tag(self) -> str:
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'

    def answer(self, request: Request, headers: dict[str, str]) -> Response:
        headers = {**headers, "etag": self.tag, "vary": "accept-encoding", "x-content-type-options": "nosniff"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        packed = self.compressed if "gzip" in request.headers.get("accept-encoding", "") else None
        if packed is not None:
            headers["content-encoding"] = "gzip"
        return Response(self.content if packed is None else packed, media_type=self.media_type, headers=headers)


def add_page(app: FastAPI, settings: Settings, built: Path = BUILT) -> None:
    """Let the application answer with the page, or with how to build it. Addresses that the page has not are none."""
    files = {path.relative_to(built).as_posix(): _read(path) for path in built.rglob("*") if path.is_file()}
    index = files.get("index.html")
    headers = {
        "content-security-policy": _policy(settings),
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cache-control": "no-cache",
    }

    async def show_page(request: Request) -> Response:
        if index is None:
            policy = "default-src 'none'; frame-ancestors 'none'"
            return HTMLResponse(_NOT_BUILT, headers={**headers, "content-security-policy": policy})
        return index.answer(request, headers)

    async def show_asset(request: Request, name: str) -> Response:
        asset = files.get(f"assets/{name}")
        if asset is None:
            raise NotFound("The page has no such file.")
        return asset.answer(request, {"cache-control": _FOREVER})  # its name has a digest of its content

    below = [f"/{first}{rest}" for first in PAGE_ADDRESSES for rest in ("", "/{rest:path}")]
    for address in ("/", *below):
        app.add_api_route(address, show_page, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route("/assets/{name}", show_asset, methods=["GET", "HEAD"], include_in_schema=False)


def _read(path: Path) -> _File:
    kind = {".js": "text/javascript", ".woff2": "font/woff2"}.get(path.suffix) or mimetypes.guess_type(path.name)[0]
    return _File(path.read_bytes(), kind or "application/octet-stream")


def _policy(settings: Settings) -> str:
    """No script and no style but ours, nothing fetched but from here (and Supabase's Auth), and no text that becomes
    HTML: browsers that know trusted types refuse it."""
    elsewhere = f" {settings.supabase_url.rstrip('/')}" if settings.supabase_url else ""
    return "; ".join(
        [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' blob: data:",
            f"connect-src 'self'{elsewhere}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )
