"""What the documentation names is there: a page that names a file which has gone teaches nobody."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FILES = [
    f"/{file.relative_to(ROOT).as_posix()}"
    for folder in ("backend", "migrations", "tests", "bench", "docs")
    for file in (ROOT / folder).rglob("*.*")
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_of_ours_that_a_page_names_exists(page: Path):
    named = set(re.findall(r"`([\w./-]+\.(?:py|sql|md|sh|toml))`", page.read_text(encoding="utf-8")))
    gone = [name for name in named if not (ROOT / name).exists() and not any(f.endswith(f"/{name}") for f in FILES)]
    assert gone == []
