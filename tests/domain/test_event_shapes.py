from __future__ import annotations

import json
import re
from pathlib import Path
from uuid import UUID

import pytest
from pydantic import ValidationError

from fieldmark.domain.events import (
    EVENT,
    ApprovalEvent,
    ProposedCall,
    RunStartedEvent,
    ShownChange,
    ToolEvent,
)

RUN_ID = UUID(int=1)


@pytest.mark.parametrize(
    ("event", "flat"),
    [
        (RunStartedEvent(run_id=RUN_ID), {"type": "run", "run_id": str(RUN_ID)}),
        (
            RunStartedEvent(run_id=RUN_ID, parent_run_id=RUN_ID, parent_call_id="c"),
            {"type": "run", "run_id": str(RUN_ID), "parent_run_id": str(RUN_ID), "parent_call_id": "c"},
        ),
        (
            ToolEvent(tool="t", call_id="c", input={"v": None}, message="m", action_type="reading", timestamp=1.5),
            {"type": "tool", "tool": "t", "call_id": "c", "input": {"v": None}, "status": "running", "message": "m"}
            | {"action_type": "reading", "timestamp": 1.5},
        ),
        (
            ApprovalEvent(
                approval=ProposedCall(
                    call_id="c",
                    tool="t",
                    input={},
                    message="m",
                    changes=[ShownChange(path="a", old=None, new=1, added=True)],
                ),
                run_id=RUN_ID,
            ),
            {
                "type": "approval",
                "approval": {
                    "call_id": "c",
                    "tool": "t",
                    "input": {},
                    "message": "m",
                    "changes": [{"path": "a", "old": None, "new": 1, "added": True}],
                },
                "run_id": str(RUN_ID),
            },
        ),
    ],
)  # fmt: skip
def test_event_is_a_flat_object_that_parses_to_the_same_event(event, flat):
    assert event.flat() == flat and next(iter(event.flat())) == "type"
    assert EVENT.validate_python(json.loads(json.dumps(event.flat()))) == event


def test_unknown_event_type_is_refused():
    for body in ({}, {"text": "a"}, {"type": "word"}, {"type": "text", "words": "a"}):
        with pytest.raises(ValidationError):
            EVENT.validate_python(body)


FUNCTIONS_WITHOUT_EVENTS = {"cancel_run", "fail_run"}
"""Functions in SQL that write an event without its `type` still. To be empty."""


def test_events_written_in_sql_have_a_known_type():
    for path in sorted(Path(__file__).parents[2].glob("migrations/*.sql")):
        functions = re.split(r"create (?:or replace )?function private\.(\w+)", path.read_text())
        for name, body in zip(functions[1::2], functions[2::2], strict=True):
            for written in re.findall(r"append_event\(\s*\w+,\s*(jsonb?_build_object\(\s*'\w+')", body):
                assert written.endswith("'type'") or name in FUNCTIONS_WITHOUT_EVENTS, name
