"""The web UI: its built files, and the configuration that it needs before sign-in.

The files are read once and served from memory, so no path can reach any other file.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from fieldmark.api.auth import TheRuntime
from fieldmark.api.request_guard import UI_PATHS
from fieldmark.api.routing import Routes
from fieldmark.errors import NotFound
from fieldmark.settings import Settings

router = Routes(prefix="/api", tags=["page"])

UI_FOLDER = Path(__file__).parent.parent / "page_files"
"""The built files. Written by frontend/building.py."""

_NOT_BUILT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Fieldmark</title>
<h1>The service is running, but its web UI is not built</h1>
<p>The web UI is built when Fieldmark is installed, with packages from the npm registry. The registry could not be
reached, or <code>FIELDMARK_UI=skip</code> was set. Run this in the repository's folder, with internet access:</p>
<pre>FIELDMARK_UI=require pip install --force-reinstall --no-deps .</pre>
<p>Then restart the service. <a href="/openapi.json">The API</a> works without the web UI.</p></html>"""

_FOREVER = "public, max-age=31536000, immutable"
_COMPRESSIBLE = ("text/", "application/json", "image/svg")


class SupabaseConfig(BaseModel):
    """The Supabase project in which people sign in."""

    url: str
    publishable_key: str | None = Field(description="null: SUPABASE_PUBLISHABLE_KEY is not set.")


class Config(BaseModel):
    """What a front end needs to know before sign-in."""

    supabase: SupabaseConfig | None = Field(
        description="null: the service signs tokens itself (`fieldmark token`, the link of `fieldmark serve`)."
    )
    offline_model: bool = Field(description="Whether built-in rules replace the model because no API key is set.")
    max_file_mb: int = Field(description="The largest upload in MB.")
    embedded_database: bool = Field(description="Whether the built-in Postgres is used.")


@router.get("/config", summary="Configuration for front ends")
async def get_config(runtime: TheRuntime) -> Config:
    """Return how people sign in and which model is used. Needs no token."""
    settings = runtime.settings
    supabase = None
    if settings.supabase_url:
        supabase = SupabaseConfig(url=settings.supabase_url, publishable_key=settings.supabase_publishable_key)
    return Config(
        supabase=supabase,
        offline_model=settings.offline,
        max_file_mb=settings.max_file_mb,
        embedded_database=settings.embedded_database,
    )


@dataclass(frozen=True)
class _File:
    content: bytes
    media_type: str

    @cached_property
    def gzipped(self) -> bytes | None:
        """The compressed content. None if compression does not make it smaller."""
        if not self.media_type.startswith(_COMPRESSIBLE):
            return None
        compressed = gzip.compress(self.content, 9, mtime=0)
        return compressed if len(compressed) < len(self.content) else None

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'

    def response(self, request: Request, headers: dict[str, str]) -> Response:
        headers = {**headers, "etag": self.etag, "vary": "accept-encoding", "x-content-type-options": "nosniff"}
        if request.headers.get("if-none-match") == self.etag:
            return Response(status_code=304, headers=headers)
        gzipped = self.gzipped if "gzip" in request.headers.get("accept-encoding", "") else None
        if gzipped is not None:
            headers["content-encoding"] = "gzip"
        return Response(self.content if gzipped is None else gzipped, media_type=self.media_type, headers=headers)


def add_web_ui(app: FastAPI, settings: Settings, folder: Path = UI_FOLDER) -> None:
    """Serve the web UI, or a page that says how to build it."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    files = {path.relative_to(folder).as_posix(): _read(path, path.stat().st_mtime_ns) for path in paths}
    index = files.get("index.html")
    headers = {
        "content-security-policy": _content_security_policy(settings),
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cache-control": "no-cache",
    }

    @lru_cache(maxsize=16)
    def index_at(depth: int) -> _File | None:
        # Relative to the address of the page: a proxy may have removed the start of its path.
        up = b"../" * depth or b"./"
        return index and _File(index.content.replace(b'="./', b'="' + up), index.media_type)

    async def serve_index(request: Request) -> Response:
        # `raw_path` is what the browser sent. `path` is another one if the page is not found.
        slashes = request.scope["raw_path"].count(b"/") - request.scope.get("root_path", "").count("/")
        page = index_at(min(slashes - 1, 99))
        if page is None:
            policy = "default-src 'none'; frame-ancestors 'none'"
            return HTMLResponse(_NOT_BUILT, headers={**headers, "content-security-policy": policy})
        return page.response(request, headers)

    async def serve_asset(request: Request, name: str) -> Response:
        asset = files.get(f"assets/{name}")
        if asset is None:
            raise NotFound("The web UI has no such file.")
        return asset.response(request, {"cache-control": _FOREVER})  # its name contains a digest of its content

    ui_paths = [f"/{first}{rest}" for first in UI_PATHS for rest in ("", "/{rest:path}")]
    for path in ("/", *ui_paths):
        app.add_api_route(path, serve_index, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route("/assets/{name}", serve_asset, methods=["GET", "HEAD"], include_in_schema=False)


@cache
def _read(path: Path, _changed_at: int) -> _File:
    kind = {".js": "text/javascript", ".woff2": "font/woff2"}.get(path.suffix) or mimetypes.guess_type(path.name)[0]
    return _File(path.read_bytes(), kind or "application/octet-stream")


def _content_security_policy(settings: Settings) -> str:
    """Return a policy that allows only own scripts and styles, and requests only to this service and Supabase Auth.
    Trusted Types keep text from becoming HTML."""
    supabase = f" {settings.supabase_url.rstrip('/')}" if settings.supabase_url else ""
    return "; ".join(
        [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "font-src 'self'",
            "img-src 'self' blob: data:",
            f"connect-src 'self'{supabase}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )
