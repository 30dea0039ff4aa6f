"""What a person's check of a value came to: the rows of `fields` say it, from the locks and the review."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from edited_extraction import EditedExtraction
from owner_runs import OwnerRuns
from psycopg.types.json import Jsonb
from role_connections import Roles, Sample

FIELDS = {"vendor": "Acme", "total": 5, "tax": None, "items": [{"price": 1}, {"price": 2}]}


def _outcomes(edited: EditedExtraction) -> dict[str, str]:
    rows = edited.connection.execute(
        "select path, outcome, checked_by is not null and checked_at is not null as has_author from fields "
        "where extraction_id = %s and outcome is not null",
        [edited.id],
    ).fetchall()
    assert all(has_author for *_, has_author in rows)
    return {path: outcome for path, outcome, _ in rows}


@pytest.mark.parametrize(
    ("check", "outcomes"),
    [
        (lambda one: None, {}),
        (lambda one: one.agent().update("total", 6), {}),
        (lambda one: one.update("total", 5), {"total": "confirmed"}),
        (lambda one: one.update("total", 6), {"total": "corrected"}),
        (lambda one: one.update("total", None), {"total": "corrected"}),
        (lambda one: (one.update("total", 5), one.update("total", 6)), {"total": "corrected"}),
        (lambda one: (one.update("total", 6), one.update("total", 5)), {"total": "confirmed"}),
        (lambda one: one.agent("correct", named_fields=["total"]).update("total", 6), {"total": "corrected"}),
        (lambda one: one.update("tax", 1), {"tax": "found"}),
        (lambda one: one.update("new", 1), {"new": "found"}),
        (lambda one: one.update("tax", None), {"tax": "absent"}),
        (lambda one: (one.update("total", 6), one.unlock("total")), {}),
        # The check moves with its value; the other values of the list were not checked.
        (lambda one: (one.update("items.1.price", 9), one.remove("items.0")), {"items[0].price": "corrected"}),
    ],
)
def test_outcome_compares_a_persons_value_with_the_agents(
    edited: EditedExtraction, check: Callable[[EditedExtraction], Any], outcomes: dict[str, str]
) -> None:
    check(edited)
    assert _outcomes(edited) == outcomes


def test_review_of_an_extraction_checks_its_other_values(edited: EditedExtraction) -> None:
    edited.update("total", 6)
    edited.fetch("select complete_extraction(%s)", edited.id)
    rest = dict.fromkeys(("vendor", "items[0].price", "items[1].price"), "reviewed")
    assert _outcomes(edited) == {"total": "corrected", **rest}
    assert edited.fetch("select reviewed_at = now() from extractions where id = %s", edited.id)
    edited.agent().update("vendor", "Acme Ltd")  # needs another review
    assert _outcomes(edited) == {"total": "corrected"} and edited.column("reviewed_at") is None


@pytest.mark.parametrize(("edited_to", "outcome"), [(None, "confirmed"), (77, "corrected")], ids=["as is", "edited"])
def test_approval_confirms_values_and_its_edits_correct_them(
    roles: Roles, sample: Sample, edited_to: int | None, outcome: str
) -> None:
    with roles.as_service(sample.owner, sample.org) as connection:
        runs = OwnerRuns(connection, sample)
        run = runs.create_waiting()
        proposed = Jsonb({"path": "total", "value": 76})
        connection.execute("update tool_calls set arguments = %s where run_id = %s", [proposed, run])
        runs.decide(run, arguments=edited_to and {"path": "total", "value": edited_to})
        changed = "select update_extraction_field(%s, '{total}', to_jsonb(%s::integer))"
        connection.execute(changed, [sample.extraction, edited_to or 76])
        stored = "select outcome from fields where extraction_id = %s and path = 'total'"
        assert runs.fetch(stored, sample.extraction) == outcome
