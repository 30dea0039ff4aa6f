"""The offline model's rules for changes of a table in words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.rules_player import enclose, play_rules
from fieldmark.agents.stack.agent import STACK
from fieldmark.agents.stack.offline import answer

TABLE = {"columns": [{"name": "total", "type": "number"}], "documents": [{"document_id": "1", "filename": "a.pdf"}]}


def listed(*documents: tuple[str, str, str], **more: Any) -> tuple[str, str, dict[str, Any]]:
    keys = ("document_id", "filename", "state")
    return "", "more" if more else "ok", {"documents": [dict(zip(keys, one, strict=True)) for one in documents], **more}


@pytest.mark.parametrize(
    ("pages", "changed"),
    [
        ([listed(("9", "B.pdf", "done"))], "9"),
        ([listed(("8", "ab.pdf", "done"), offset=100), listed(("9", "b.pdf", "done"))], "9"),
        ([listed(("8", "b.pdf", "duplicate"), ("9", "b.pdf", "done"))], "9"),
        ([listed(("8", "ab.pdf", "done"))], None),
        ([listed(("8", "b.pdf", "done"), offset=100), listed(("9", "b.pdf", "done"))], None),
    ],
    ids=["after the first page of the table", "on the second page", "the copy", "another name", "two of this name"],
)
def test_value_is_set_in_the_one_document_of_this_name_in_the_whole_stack(pages, changed):
    task = f"{enclose({'table': json.dumps(TABLE)})}\n<message>\nset total of b.pdf to 14.80\n</message>"
    answers = {"list_documents": pages, "update_cell": [("", "stored", {})]}
    calls, _ = play_rules(answer, STACK.toolset.tools, task, answers)
    made = [arguments for message in calls for tool, arguments in message if tool == "update_cell"]
    assert [(one["document_id"], one["value"]) for one in made] == ([] if changed is None else [(changed, 14.8)])
