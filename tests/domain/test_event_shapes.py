"""Events: flat, told apart by `type`, and what may be left out is left out."""

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
    ChangedEvent,
    ChangedField,
    CompleteEvent,
    ErrorEvent,
    ProposedCall,
    RetryEvent,
    RunStartedEvent,
    ShownChange,
    TextEvent,
    TokensUsed,
    ToolEvent,
)
from fieldmark.domain.statuses import RunError

RUN = UUID(int=1)
USED = TokensUsed(
    turns=1, input_tokens=2, output_tokens=3, cache_creation_input_tokens=4, cache_read_input_tokens=5
)  # fmt: skip
UNKNOWN = {"path": "a", "value": None, "confidence": None, "evidence": None}


@pytest.mark.parametrize(
    ("event", "flat"),
    [
        (RunStartedEvent(run_id=RUN), {"type": "run", "run_id": str(RUN)}),
        (
            RunStartedEvent(run_id=RUN, parent_run_id=RUN, parent_call_id="c"),
            {"type": "run", "run_id": str(RUN), "parent_run_id": str(RUN), "parent_call_id": "c"},
        ),
        (TextEvent(text="\0 \ud800"), {"type": "text", "text": "\0 \ud800"}),
        (RetryEvent(retry="Busy.", wait_s=0), {"type": "retry", "retry": "Busy.", "wait_s": 0}),
        (
            ToolEvent(tool="t", call_id="c", input={"v": None}, status="running", message="m"),
            {"type": "tool", "tool": "t", "call_id": "c", "input": {"v": None}, "status": "running", "message": "m"},
        ),
        (
            ChangedEvent(changed=[ChangedField.model_validate(UNKNOWN | {"removed": True})], version=1),
            {"type": "changed", "changed": [UNKNOWN | {"removed": True}], "version": 1},
        ),
        (
            ChangedEvent(changed=[ChangedField.model_validate(UNKNOWN)], version=1),
            {"type": "changed", "changed": [UNKNOWN], "version": 1},
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
                run_id=RUN,
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
                "run_id": str(RUN),
            },
        ),
        (
            CompleteEvent(cost_usd=None, usage=USED),
            {"type": "complete", "complete": True, "cost_usd": None, "usage": USED.model_dump()},
        ),
        (
            ErrorEvent(error="No.", code=RunError.INTERNAL, run_id=RUN),
            {"type": "error", "error": "No.", "code": "internal", "run_id": str(RUN)},
        ),
    ],
)  # fmt: skip
def test_an_event_is_a_flat_object_and_can_be_read_again(event, flat):
    assert event.flat() == flat and next(iter(event.flat())) == "type"
    assert EVENT.validate_python(json.loads(json.dumps(event.flat()))) == event


@pytest.mark.parametrize(
    "body", [{}, {"text": "a"}, {"type": "word"}, {"type": "text"}, {"type": "text", "words": "a"}]
)
def test_what_is_no_event_is_not_read_as_one(body):
    with pytest.raises(ValidationError):
        EVENT.validate_python(body)


UNTYPED = {"cancel_run", "fail_run"}
"""Functions in SQL that write an event without its `type` still. To be empty."""


def test_events_that_sql_writes_have_their_type_too():
    for path in sorted(Path(__file__).parents[2].glob("migrations/*.sql")):
        functions = re.split(r"create (?:or replace )?function private\.(\w+)", path.read_text())
        for name, body in zip(functions[1::2], functions[2::2], strict=True):
            for written in re.findall(r"append_event\(\s*\w+,\s*(jsonb?_build_object\(\s*'\w+')", body):
                assert written.endswith("'type'") or name in UNTYPED, name
