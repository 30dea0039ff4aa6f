"""Evaluation: extract documents again, and score the results against values known to be right."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import JsonValue, TypeAdapter, ValidationError

from fieldmark.agents.registry import find_task
from fieldmark.domain import paths
from fieldmark.domain.fields import Missing
from fieldmark.domain.scoring import MEASURES, Score, Tally, score, total
from fieldmark.domain.statuses import Approval, RunStatus
from fieldmark.domain.values import canonical
from fieldmark.errors import (
    FieldmarkError,
    Invalid,
    Misconfigured,
    NotFound,
    SecondPersonNeeded,
    Unavailable,
)
from fieldmark.evaluation.calibration import JudgedValue, calibrate, judge
from fieldmark.identity.scope import Scope
from fieldmark.runs.events.follow import wait_until_ended_or_waiting
from fieldmark.runs.lifecycle import launch
from fieldmark.runtime import Runtime
from fieldmark.stores import extractions, organisations, runs
from fieldmark.stores.runs import RunOptions

TASK = "extract"
GOLD_SUFFIX = ".gold.json"
MAX_CORRECTED = 1000
"""Maximum number of corrected extractions that are scored, newest first."""
_SECOND_APPROVER = (
    "An evaluation cannot run in this organisation, because it requires a second approver for each write. Choose "
    "another organisation with --org."
)


@dataclass(frozen=True, slots=True)
class Case:
    """A document with its correct values. `source` is a file that is uploaded temporarily, or the id of a stored
    document."""

    name: str
    source: Path | UUID
    gold: dict[str, JsonValue]
    gold_evidence: dict[str, Any] = field(default_factory=dict[str, Any])
    schema: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """The score of a case. `failed` says why the document could not be extracted; its score is then 0."""

    name: str
    score: Score
    failed: str | None = None
    judged: list[JudgedValue] = field(default_factory=list[JudgedValue])


def load_cases(folder: Path) -> list[Case]:
    """Return the cases of a folder: `x.gold.json` beside `x.pdf` (or any other kind of document). The gold file is the
    corrected output of `fieldmark extract --json`, or only its fields. Raise Invalid if a file is missing or malformed.
    """
    cases: list[Case] = []
    for file in sorted(folder.glob(f"*{GOLD_SUFFIX}")):
        stem = file.name.removesuffix(GOLD_SUFFIX)
        documents = [other for other in sorted(folder.glob("*")) if other.stem == stem and other.suffix != ".json"]
        if len(documents) != 1:
            count = "no document" if not documents else f"{len(documents)} documents"
            raise Invalid(
                f"{file.name} has {count} beside it. Put exactly one file {stem}.pdf (or another format) there."
            )
        try:
            gold = TypeAdapter(dict[str, Any]).validate_json(file.read_bytes())
        except (ValidationError, OSError):
            raise Invalid(f"{file.name} is not a JSON object.") from None
        whole = isinstance(gold.get("extracted_fields"), dict)
        fields: dict[str, JsonValue] = gold["extracted_fields"] if whole else gold
        evidence: dict[str, Any] = gold.get("evidence") or {} if whole else {}
        cases.append(Case(documents[0].name, documents[0], fields, evidence))
    if not cases:
        raise Invalid(f"No *{GOLD_SUFFIX} file found in {folder}.")
    return cases


async def corrected_cases(runtime: Runtime, scope: Scope) -> list[Case]:
    """Return the completed extractions that a person has corrected, with their current values as gold. Raise Invalid if
    no extraction was corrected."""
    async with runtime.database.as_user(scope) as conn:
        rows = await extractions.list_corrected(conn, scope.org_id, MAX_CORRECTED)
    if not rows:
        raise Invalid("Nothing to score: no completed extraction was corrected by a person. Correct one first.")
    return [Case(row.filename, row.document_id, row.extracted_fields, row.evidence, row.schema) for row in rows]


async def evaluate(
    runtime: Runtime,
    scope: Scope,
    cases: Sequence[Case],
    *,
    schema: dict[str, Any] | None,
    instructions: str | None,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Extract every case again, score it and return the report (see `report`). Only the usage is kept. Raise
    SecondPersonNeeded if the organisation requires a second approver."""
    async with runtime.database.as_user(scope) as conn:
        if (await organisations.get(conn, scope.org_id)).second_person:
            raise SecondPersonNeeded(_SECOND_APPROVER)
    scored: list[Scored] = []
    cost: float | None = 0.0
    async with _delete_afterwards(runtime, scope) as (documents, extraction_ids):
        started: list[tuple[Case, UUID, UUID]] = []
        for case in cases:
            progress(f"Uploading {case.name}…")
            try:
                document_id = case.source
                if isinstance(document_id, Path):
                    document_id = (await runtime.documents.upload(scope, document_id, case.name)).id
                    documents.append(document_id)
                inputs = {"document_id": document_id, "schema": schema or case.schema, "instructions": instructions}
                run_id = await launch.start(
                    runtime.database,
                    scope,
                    TASK,
                    launch.parse_request(TASK, inputs),
                    prices=runtime.prices,
                    options=RunOptions(approval="auto", background=True),
                )
            except (Unavailable, Misconfigured):
                raise
            except FieldmarkError as error:
                scored.append(_failed_case(case, str(error)))
                continue
            async with runtime.database.as_user(scope) as conn:
                run = await runs.find(conn, run_id)
            assert run is not None and run.extraction_id is not None
            extraction_ids.append(run.extraction_id)
            if run.approval is Approval.ASK:
                raise SecondPersonNeeded(_SECOND_APPROVER)
            started.append((case, run_id, run.extraction_id))
        for case, run_id, extraction_id in started:
            progress(f"Reading {case.name}…")
            run = await wait_until_ended_or_waiting(runtime.database, scope, run_id)
            cost = None if cost is None or run.cost_usd is None else cost + float(run.cost_usd)
            async with runtime.database.as_user(scope) as conn:
                row = await extractions.find(conn, extraction_id)
            if row is None or run.status is not RunStatus.COMPLETED:
                scored.append(_failed_case(case, run.error or f"The run ended as {run.status}."))
                continue
            result = score(case.gold, row.extracted_fields, gold_evidence=case.gold_evidence, evidence=row.evidence)
            judged = judge(case.name, case.gold, row.extracted_fields, row.confidence_scores)
            scored.append(Scored(case.name, result, judged=judged))
    settings = runtime.settings
    named = "offline rules" if settings.offline else settings.model
    return report(scored, cost=cost, model=named, schema=schema, instructions=instructions)


def report(
    scored: Sequence[Scored],
    *,
    cost: float | None,
    model: str,
    schema: dict[str, Any] | None,
    instructions: str | None,
) -> dict[str, Any]:
    """Return the report of an evaluation: the evaluated version, a tally per field and in total, every fault and every
    failure."""
    fields: dict[str, Tally] = {}
    for one in scored:
        for name, tally in one.score.fields.items():
            fields.setdefault(name, Tally()).add(tally)
    agent, _ = find_task(TASK)
    return {
        "agent": agent.name,
        "model": model,
        "prompt": _digest(agent.prompt),
        "schema": None if schema is None else _digest(canonical(schema).decode()),
        "instructions": None if instructions is None else _digest(instructions),
        "documents": len(scored),
        "failed": [{"document": one.name, "error": one.failed} for one in scored if one.failed],
        "cost_usd": cost,
        "total": asdict(total(fields.values())),
        "fields": {name: asdict(fields[name]) for name in sorted(fields)},
        "calibration": asdict(calibrate([value for one in scored for value in one.judged])),
        "faults": [
            {
                "document": one.name,
                "path": paths.name(leaf.gold_path if leaf.is_in_gold else leaf.got_path),
                **({} if isinstance(leaf.gold, Missing) else {"gold": leaf.gold}),
                **({} if isinstance(leaf.got, Missing) else {"got": leaf.got}),
            }
            for one in scored
            for leaf in one.score.faults
        ],
    }


def regressions(before: dict[str, Any], now: dict[str, Any], tolerance: float) -> list[str]:
    """Return one sentence for each measure in which `now` is worse than a saved report by more than `tolerance` (0..1):
    in total, per field of both reports, and in unexpected values. Raise Invalid if a report is malformed."""
    found: list[str] = []
    try:
        old_total, new_total = Tally(**before["total"]), Tally(**now["total"])
        if new_total.extra / max(new_total.gold, 1) > old_total.extra / max(old_total.gold, 1) + tolerance + 1e-9:
            found.append(f"in total: {old_total.extra} unexpected values before, {new_total.extra} now")
        both = [("in total", before["total"], now["total"])]
        both += [
            (name, tally, now["fields"][name]) for name, tally in before["fields"].items() if name in now["fields"]
        ]
        found += [
            f"{name}: this field is missing from the new report"
            for name in before["fields"].keys() - now["fields"].keys()
        ]
        for name, was, is_now in both:
            for measure in MEASURES:
                old, new = Tally(**was).rate(measure), Tally(**is_now).rate(measure)
                if old is not None and (new is None or new < old - tolerance - 1e-9):
                    found.append(
                        f"{name}: {measure} {old:.1%} before, {'nothing' if new is None else f'{new:.1%}'} now"
                    )
    except (KeyError, TypeError, AttributeError):
        raise Invalid("The baseline is not a report of `fieldmark eval`. Save one with `fieldmark eval`.") from None
    return found


def _failed_case(case: Case, why: str) -> Scored:
    return Scored(case.name, score(case.gold, {}, gold_evidence=case.gold_evidence), why)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@asynccontextmanager
async def _delete_afterwards(runtime: Runtime, scope: Scope) -> AsyncGenerator[tuple[list[UUID], list[UUID]]]:
    """Yield lists of documents and extractions that are deleted at the end, even after an error."""
    documents: list[UUID] = []
    extraction_ids: list[UUID] = []
    try:
        yield documents, extraction_ids
    finally:
        for document_id in documents:
            with suppress(NotFound):  # already deleted
                await runtime.documents.remove(scope, document_id)
        for extraction_id in extraction_ids:
            with suppress(NotFound):
                async with runtime.database.as_user(scope) as conn:
                    await extractions.remove(conn, extraction_id)
