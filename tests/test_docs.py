"""What the documentation names is there, and what it says to paste can be pasted."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from fieldmark.domain.schema import check_schema
from fieldmark.evaluation.evaluate import cases_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
RECIPES = sorted((DOCS / "recipes").glob("*.md"))
SAMPLES = DOCS / "samples"
FILES = [
    f"/{file.relative_to(ROOT).as_posix()}"
    for folder in ("backend", "migrations", "supabase", "tests", "bench", "docs")
    for file in (ROOT / folder).rglob("*.*")
]
# What a recipe tells to write: a newcomer's own files.
YET_TO_BE_WRITTEN = {
    "backend/fieldmark/agents/filing/agent.py",
    "backend/fieldmark/agents/filing/tools.py",
    "tests/agents/filing/test_filing.py",
}
# A table of guards and a record of figures: both are looked things up in, not read.
LONG = {"security.md", "performance.md"}


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_of_ours_that_a_page_names_exists(page: Path):
    named = set(re.findall(r"`([\w./-]+\.(?:py|sql|md|sh|toml))`", text_of(page))) - YET_TO_BE_WRITTEN
    gone = [name for name in named if not (ROOT / name).exists() and not any(f.endswith(f"/{name}") for f in FILES)]
    assert gone == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path):
    links = re.findall(r"\]\(([^)#]*)(?:#([\w-]*))?\)", re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL))
    for path, heading in links:
        if "://" in path:
            continue
        target = page.parent / path if path else page
        assert target.exists(), path
        if heading:
            headings = re.findall(r"^#+ (.+)$", text_of(target), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", one).strip().lower().replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_to_be_pasted_is_shell(page: Path):
    for block in re.findall(r"^ *```(?:sh|bash)\n(.*?)^ *```", text_of(page), re.DOTALL | re.MULTILINE):
        checked = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")
        assert "…" not in block, "nobody can paste that"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_short(page: Path):
    if page.name not in LONG:
        lines = text_of(page).splitlines()
        assert len(lines) <= 150
        assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []


@pytest.mark.parametrize("index", [ROOT / "CONTRIBUTING.md", DOCS / "README.md"], ids=lambda page: page.name)
def test_every_recipe_is_listed(index: Path):
    assert [recipe.name for recipe in RECIPES if f"recipes/{recipe.name})" not in text_of(index)] == []


def test_every_page_is_listed():
    index = text_of(DOCS / "README.md")
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"README.md", "samples/SOURCES.md"}
    assert [page for page in sorted(pages) if f"({page})" not in index] == []


def test_every_test_that_guards_something_exists():
    named = set(re.findall(r"`([\w/]+/test_\w+\.py)`", text_of(DOCS / "security.md")))
    assert named
    assert [name for name in sorted(named) if not (ROOT / "tests" / name).exists()] == []


def test_the_samples_of_the_readme_are_there_and_fit_together():
    schema = json.loads(text_of(SAMPLES / "invoice.schema.json"))
    check_schema(schema)
    cases = cases_of(SAMPLES / "cases")
    assert [case.name for case in cases] == ["i2d_AzureInterior.pdf", "zf_mustang_20221026.pdf"]
    for case in cases:
        assert set(schema["required"]) <= case.gold.keys()
    readme = text_of(ROOT / "README.md")
    named = re.findall(r"docs/samples/([\w.]+\.\w+)", readme) + re.findall(r" ([\w.]+\.schema\.json)", readme)
    assert named
    assert [name for name in named if not (SAMPLES / name).exists()] == []


def test_every_guard_that_is_taken_away_stands_where_the_list_says_and_so_does_its_test() -> None:
    for guard in tomllib.loads((ROOT / "bench/guards.toml").read_text("utf-8"))["guard"]:
        assert (ROOT / guard["test"]).exists(), guard["test"]
        for part in (guard, *guard.get("and", ())):
            source = (ROOT / "backend/fieldmark" / part["file"]).read_text("utf-8")
            assert source.count(part["was"]) == 1, (part["file"], part["was"])
