"""docs/errors.md lists every code that the service returns, and docs/events.md every event, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from fieldmark import errors
from fieldmark.agents.registry import AGENTS
from fieldmark.domain import events, rules
from fieldmark.domain.statuses import ReadingError, RunError
from fieldmark.errors import FieldmarkError
from pagewords.reading_warnings import WarningCode

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = (DOCS / "errors.md").read_text(encoding="utf-8")
DOCUMENTED_CODES = {
    title: set(
        re.findall(r"`([a-z_]+)`", " ".join(line.split("|")[1] for line in body.splitlines() if line[:1] == "|"))
    )
    for title, body in (part.split("\n", 1) for part in PAGE.split("\n## ")[1:])
}


def subclasses_of(error_type: type[FieldmarkError]) -> Iterator[type[FieldmarkError]]:
    yield error_type
    for one in error_type.__subclasses__():
        yield from subclasses_of(one)


PROBLEMS = {error_type.code for error_type in subclasses_of(FieldmarkError) if error_type.__module__ == errors.__name__}
FRAMEWORK_CODES = {"method_not_allowed"}
EVENT_TYPES = {error_type.model_fields["type"].default for error_type in get_args(get_args(events.Event)[0])}
CODES: dict[str, set[str]] = {
    "Problems": PROBLEMS | FRAMEWORK_CODES,
    "Documents": set(ReadingError),
    "Warnings": set(WarningCode),
    "Runs": set(RunError),
    "Violations": {*rules.KINDS, "grounded", "unusable_schema", "more", "false", "required", "type", "enum"},
}


@pytest.mark.parametrize("title", CODES)
def test_errors_md_lists_exactly_the_existing_codes(title: str) -> None:
    assert DOCUMENTED_CODES[title] == CODES[title]


def test_every_tool_has_a_name_in_the_web_ui() -> None:
    catalogue = json.loads((ROOT / "frontend" / "src" / "locales" / "en.json").read_text(encoding="utf-8"))
    of_service = {"second_reading"}
    assert catalogue["tools"].keys() == {tool for agent in AGENTS.values() for tool in agent.toolset.tools} | of_service


def test_events_md_lists_exactly_the_existing_events() -> None:
    rows = (DOCS / "events.md").read_text(encoding="utf-8").split("| type |")[1].split("\n\n")[0]
    assert set(re.findall(r"`([a-z_]+)`", " ".join(row.split("|")[1] for row in rows.splitlines()[2:]))) == EVENT_TYPES
