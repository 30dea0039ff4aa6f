"""Names in the documentation exist, and its shell commands are valid."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import subprocess
from pathlib import Path

from fieldmark.api.app import create_app
from fieldmark.domain.schema import check_schema
from fieldmark.evaluation.evaluate import load_cases
from fieldmark.settings import Settings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LIBRARIES = sorted((ROOT / "backend").glob("*/README.md"))
PAGES = {
    page: page.read_text(encoding="utf-8")
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *LIBRARIES, *sorted(DOCS.rglob("*.md"))]
}
SAMPLES = DOCS / "samples"
FILES = [
    f"/{file.relative_to(ROOT).as_posix()}"
    for folder in ("backend", "migrations", "supabase", "tests", "bench", "frontend", "docs")
    for file in (ROOT / folder).rglob("*.*")
    if "node_modules" not in file.parts
]
# Files that a tutorial asks the reader to create.
CREATED_BY_READER = {
    "backend/fieldmark/agents/filing/agent.py",
    "backend/fieldmark/agents/filing/tools.py",
    "tests/agents/filing/test_filing.py",
}


def test_every_named_file_exists():
    named = {
        (page.name, name)
        for page, text in PAGES.items()
        for name in re.findall(r"`([\w./-]+\.(?:py|sql|md|sh|toml))`", text)
        if name not in CREATED_BY_READER
    }
    known = "\n".join(FILES) + "\n"
    assert [one for one in sorted(named) if not (ROOT / one[1]).exists() and f"/{one[1]}\n" not in known] == []


def test_every_link_has_a_target():
    broken: list[tuple[str, str, str]] = []
    for page, text in PAGES.items():
        links = re.findall(r"\]\(([^)#]*)(?:#([\w-]*))?\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        for path, heading in links:
            target = page.parent / path if path else page
            if "://" in path or (target.exists() and (not heading or heading in anchors_of(target))):
                continue
            broken.append((page.name, path, heading))
    assert broken == []


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one).strip().lower().replace(" ", "-") for one in headings}


def test_every_shell_block_is_valid():
    for page, text in PAGES.items():
        for block in re.findall(r"^ *```(?:sh|bash)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
            checked = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
            assert (checked.returncode, checked.stderr, "…" in block) == (0, "", False), (page.name, block)


def app_paths() -> list[str]:
    return [getattr(route, "path", "") for route in create_app(Settings(_env_file=None)).routes]


def test_every_named_route_setting_and_sql_function_exists():
    routes = [re.sub(r"{\w+}", "{}", route) for route in app_paths()]
    settings = (ROOT / ".env.example").read_text("utf-8") + (ROOT / "frontend/building.py").read_text("utf-8")
    sql = "".join(file.read_text("utf-8") for file in (ROOT / "supabase/schemas").glob("*.sql"))
    unknown: list[tuple[str, str]] = []
    for page, text in PAGES.items():
        for named in re.findall(r"(?<!tests)/api/[a-z_/{}]+", text.replace("/api/agent/<task>", "")):
            route = re.sub(r"{\w+}", "{}", named).rstrip("/")
            if not any(one == route or one.startswith(f"{route}/") for one in routes):
                unknown.append((page.name, named))
        unknown += [(page.name, name) for name in re.findall(r"FIELDMARK_[A-Z_]+\w", text) if name not in settings]
        unknown += [(page.name, name) for name in re.findall(r"private\.\w+", text) if not re.search(rf"{name}\b", sql)]
    assert unknown == []


def test_examples_in_docstrings_are_true():
    files = [file for file in sorted((ROOT / "backend").rglob("*.py")) if "\n    >>> " in file.read_text("utf-8")]
    results = [
        doctest.testmod(importlib.import_module(".".join(file.relative_to(ROOT / "backend").with_suffix("").parts)))
        for file in files
    ]
    assert sum(one.attempted for one in results) > 10
    assert [file.name for file, one in zip(files, results, strict=True) if one.failed] == []


def test_examples_of_libraries_are_true():
    results = {page.parent.name: doctest.testfile(str(page), module_relative=False) for page in LIBRARIES}
    assert [name for name, one in results.items() if one.failed or not one.attempted] == []


def test_index_lists_every_page():
    index = PAGES[DOCS / "README.md"]
    pages = {page.relative_to(DOCS).as_posix() for page in PAGES if page.is_relative_to(DOCS)}
    assert [page for page in sorted(pages - {"README.md", "samples/SOURCES.md"}) if f"({page})" not in index] == []


def test_every_test_named_in_security_exists():
    named = set(re.findall(r"`([\w/]+/test_\w+\.py)`", PAGES[DOCS / "security.md"]))
    assert named
    assert [name for name in sorted(named) if not (ROOT / "tests" / name).exists()] == []


def test_readme_samples_exist_and_fit_their_schema():
    schema = json.loads((SAMPLES / "invoice.schema.json").read_text("utf-8"))
    check_schema(schema)
    cases = load_cases(SAMPLES / "cases")
    assert [case.name for case in cases] == ["i2d_AzureInterior.pdf", "zf_mustang_20221026.pdf"]
    for case in cases:
        assert set(schema["required"]) <= case.gold.keys()
    readme = PAGES[ROOT / "README.md"]
    named = re.findall(r"docs/samples/([\w.]+\.\w+)", readme) + re.findall(r" ([\w.]+\.schema\.json)", readme)
    assert named
    assert [name for name in named if not (SAMPLES / name).exists()] == []
