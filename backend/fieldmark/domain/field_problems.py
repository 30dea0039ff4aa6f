"""What is wrong with the fields of an extraction, as the database stores it with each field."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from fieldmark.domain import paths
from fieldmark.domain.statuses import FieldProblem
from fieldmark.domain.violations import Violation

_OF_EVIDENCE: Final = ("grounded", "more")
"""Codes of violations that say nothing more than the evidence of the value does, or nothing of a value."""


def field_problems(found: Iterable[Violation], locks: Collection[str]) -> dict[str, FieldProblem]:
    """Return the problem of each field that has one, by path name, from the violations of its schema. A broken rule
    counts for the values that it compares and no person has set; if there are none, for all that it compares."""
    problems: dict[str, FieldProblem] = {}
    for one in sorted(found, key=_urgency):
        if one.code not in _OF_EVIDENCE:
            compared = [path for path in one.about if paths.name(path) not in locks] or one.about or [one.path]
            for path in compared:
                problems.setdefault(paths.name(path), _problem(one))
    return problems


def _problem(one: Violation) -> FieldProblem:
    if one.about:
        return FieldProblem.BREAKS_RULE
    return FieldProblem.MISSING if one.code == "required" and one.path else FieldProblem.BREAKS_SCHEMA


def _urgency(one: Violation) -> int:
    return list(FieldProblem).index(_problem(one))
