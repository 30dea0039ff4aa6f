"""The page's own code: its types against the running description, its tests, and how large it is at first."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path

import pytest

from fieldmark.api.app import create_app
from fieldmark.api.edge import PAGE_ADDRESSES
from fieldmark.settings import Settings
from node import installed, run

ROOT = Path(__file__).parents[2]
FRONTEND = ROOT / "frontend"
FIRST_LOAD = 200_000
"""Bytes, compressed."""

pytestmark = [pytest.mark.xdist_group("page"), pytest.mark.long]


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the page's code, with its packages and the types of the API as it is now."""
    modules = installed(FRONTEND)
    root = tmp_path_factory.mktemp("page")
    folder = root / "frontend"
    ignored = shutil.ignore_patterns("node_modules", "openapi.json", "description.d.ts")
    shutil.copytree(FRONTEND, folder, ignore=ignored)
    following = root / "clients" / "typescript" / "src"
    following.mkdir(parents=True)
    shutil.copy(ROOT / "clients" / "typescript" / "src" / "following.ts", following)
    (folder / "node_modules").symlink_to(modules)
    (folder / "openapi.json").write_text(json.dumps(create_app(Settings(_env_file=None)).openapi()))
    run(folder, "node_modules/.bin/openapi-typescript", "openapi.json", "--output", "src/api/description.d.ts")
    return folder


def test_it_asks_only_for_what_the_api_has(code: Path):
    run(code, "node_modules/.bin/tsc", "--noEmit")


def test_its_own_tests_pass(code: Path):
    run(code, "node_modules/.bin/vitest", "run")


def test_the_first_load_is_small_and_its_page_has_no_script_of_its_own(code: Path):
    run(code, "node_modules/.bin/vite", "build", "--outDir", "built")
    page = (code / "built" / "index.html").read_text()
    # What the list of documents loads: the page's own files, and the chunk of that area.
    first = re.findall(r'(?:src|href)="/(assets/[^"]+)"', page)
    area = [path.relative_to(code / "built").as_posix() for path in code.glob("built/assets/DocumentsPage-*")]
    assert len(first) >= 3 and len(area) == 2
    sizes = {name: len(gzip.compress((code / "built" / name).read_bytes())) for name in {*first, *area}}
    assert sum(sizes.values()) < FIRST_LOAD, sizes
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", page)


def test_every_address_of_the_page_is_one_that_the_service_answers():
    router = (FRONTEND / "src" / "router.tsx").read_text()
    addresses = {path.split("/")[1] for path in re.findall(r"path: '(/[^']*)'", router)} - {""}
    assert addresses and addresses <= set(PAGE_ADDRESSES)


def test_it_holds_no_html_that_is_made_of_text():
    written = [
        path
        for path in FRONTEND.glob("src/**/*.ts*")
        if path.name != "description.d.ts" and ".test." not in path.name  # tests look at what was drawn
    ]
    assert len(written) > 30
    assert not [path for path in written if re.search(r"innerHTML|outerHTML|dangerously|eval\(", path.read_text())]
