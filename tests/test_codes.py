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
from fieldmark.domain.reading_warnings import WarningCode
from fieldmark.domain.statuses import ReadingError, RunError
from fieldmark.errors import FieldmarkError, Unreadable

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = (DOCS / "errors.md").read_text(encoding="utf-8")
LISTED = {
    title: set(
        re.findall(r"`([a-z_]+)`", " ".join(line.split("|")[1] for line in body.splitlines() if line[:1] == "|"))
    )
    for title, body in (part.split("\n", 1) for part in PAGE.split("\n## ")[1:])
}


def below(kind: type[FieldmarkError]) -> Iterator[type[FieldmarkError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from below(one)


PROBLEMS = {kind.code for kind in below(FieldmarkError) if kind.__module__ == errors.__name__}
OF_THE_FRAMEWORK = {"method_not_allowed"}
KINDS = {kind.model_fields["type"].default for kind in get_args(get_args(events.Event)[0])}
CODES: dict[str, set[str]] = {
    "Problems": PROBLEMS - {kind.code for kind in below(Unreadable)} | OF_THE_FRAMEWORK,
    "Documents": set(ReadingError),
    "Warnings": set(WarningCode),
    "Runs": set(RunError),
    "Violations": {*rules.KINDS, "grounded", "unusable_schema", "more", "false", "required", "type", "enum"},
}


@pytest.mark.parametrize("title", CODES)
def test_every_code_has_its_line_and_no_line_is_of_a_code_that_is_gone(title: str) -> None:
    assert LISTED[title] == CODES[title]


def test_every_tool_has_a_name_in_the_web_ui() -> None:
    catalogue = json.loads((ROOT / "frontend" / "src" / "locales" / "en.json").read_text(encoding="utf-8"))
    assert catalogue["tools"].keys() == {tool for agent in AGENTS.values() for tool in agent.toolset.tools}


def test_every_event_has_its_line_in_events_md() -> None:
    rows = (DOCS / "events.md").read_text(encoding="utf-8").split("| type |")[1].split("\n\n")[0]
    assert set(re.findall(r"`([a-z_]+)`", " ".join(row.split("|")[1] for row in rows.splitlines()[2:]))) == KINDS
