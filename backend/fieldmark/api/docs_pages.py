"""/llms.txt and /docs/NAME.md: the documentation as Markdown, for coding agents."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

from fieldmark.api.request_log import service_address
from fieldmark.errors import NotFound

LIST_PATH: Final = "/llms.txt"
PAGE_PREFIX: Final = "/docs/"
_PACKAGED: Final = Path(__file__).parent.parent / "docs"
_IN_REPOSITORY: Final = Path(__file__).parents[3] / "docs"
_INTRODUCTION: Final = """# Fieldmark

> Claude reads documents and fills Postgres. Every value is stored with its location on the page, or is marked as not
> found.

The OpenAPI document is at {address}/openapi.json. Start with the recipes. Links that leave the pages are to files of
the repository.

## Pages

"""


def add_docs_pages(app: FastAPI) -> None:
    """Add the routes."""
    app.add_api_route(LIST_PATH, _serve_list, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route(f"{PAGE_PREFIX}{{name:path}}.md", _serve_page, methods=["GET", "HEAD"], include_in_schema=False)


async def _serve_list(request: Request) -> PlainTextResponse:
    address = service_address(request)
    lines = [_line(f"{address}{PAGE_PREFIX}{name}.md", text) for name, text in _pages().items()]
    return PlainTextResponse(_INTRODUCTION.format(address=address) + "\n".join(lines) + "\n")


async def _serve_page(name: str) -> PlainTextResponse:
    text = _pages().get(name)
    if text is None:
        raise NotFound(f"There is no such page. {LIST_PATH} lists all pages.")
    return PlainTextResponse(text, media_type="text/markdown")


@cache
def _pages() -> dict[str, str]:
    """Return the pages by name, recipes first. Read once: no path of a request reaches a file."""
    folder = _PACKAGED if _PACKAGED.is_dir() else _IN_REPOSITORY
    files = [*sorted(folder.glob("recipes/*.md")), *sorted(folder.glob("*.md"))]
    return {file.relative_to(folder).with_suffix("").as_posix(): file.read_text("utf-8") for file in files}


def _line(address: str, page: str) -> str:
    """Return an entry of the list: the title, and the first sentence below it."""
    title, _, rest = page.removeprefix("# ").partition("\n")
    paragraph = rest.strip().partition("\n\n")[0].replace("\n", " ")
    about = re.sub(r"\[([^][]*)\]\([^()]*\)", r"\1", re.split(r"(?<=\.) ", paragraph)[0])
    return f"- [{title}]({address}): {about}"
