"""The code of the web UI: the size of its first load, and forbidden constructs. `frontend/check.py` runs its type
checks and own tests."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from fieldmark.api.request_guard import UI_PATHS
from fieldmark.api.web_ui import UI_FOLDER

FRONTEND = Path(__file__).parents[2] / "frontend"
FIRST_LOAD = 215_500
"""Bytes, compressed."""


def test_first_load_is_small_and_has_no_inline_script(built_page):
    page = (UI_FOLDER / "index.html").read_text()
    # The first load of the document list: the page's own files, and the chunk of that area.
    first = re.findall(r'(?:src|href)="\./(assets/[^"]+)"', page)
    area = [path.relative_to(UI_FOLDER).as_posix() for path in UI_FOLDER.glob("assets/DocumentsPage-*")]
    assert len(first) >= 3 and len(area) >= 1
    sizes = {name: len(gzip.compress((UI_FOLDER / name).read_bytes())) for name in {*first, *area}}
    assert sum(sizes.values()) < FIRST_LOAD, sizes
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", page)


def test_addresses_of_the_router_are_served():
    router = (FRONTEND / "src" / "router.tsx").read_text()
    addresses = {path.split("/")[1] for path in re.findall(r"(?:path: |page\(\s*)'(/[^']*)'", router)} - {""}
    assert addresses and addresses <= set(UI_PATHS)


def test_no_html_is_made_from_text():
    written = [
        path
        for path in FRONTEND.glob("src/**/*.ts*")
        if path.name != "description.d.ts" and ".test." not in path.name  # tests may read rendered HTML
    ]
    assert len(written) > 30
    assert not [path for path in written if re.search(r"innerHTML|outerHTML|dangerously|eval\(", path.read_text())]
