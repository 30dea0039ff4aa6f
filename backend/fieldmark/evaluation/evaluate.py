"""Evaluation: documents are read again, and what comes out is scored against what people know to be right."""

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
    OwnerNeeded,
    SecondPersonNeeded,
    Unavailable,
)
from fieldmark.identity.scope import Scope
from fieldmark.runs.events.follow import wait_until_ended
from fieldmark.runs.lifecycle import launch
from fieldmark.runtime import Runtime
from fieldmark.stores import extractions, organisations, runs
from fieldmark.stores.runs import RunOptions

TASK = "extract"
GOLD_SUFFIX = ".gold.json"
MOST_CORRECTED = 1000
"""Corrected extractions that are scored at most, newest first."""
_WOULD_WAIT = (
    "An evaluation writes without a person, and in this organisation a person approves each write. Name another "
    "organisation with --org."
)


@dataclass(frozen=True, slots=True)
class Case:
    """A document and what is right for it: a file that is taken in for the while, or a document that is there."""

    name: str
    source: Path | UUID
    gold: dict[str, JsonValue]
    gold_evidence: dict[str, Any] = field(default_factory=dict[str, Any])
    schema: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """How a case went. `failed` says why it could not be read; then nothing of its gold is there."""

    name: str
    score: Score
    failed: str | None = None


def cases_of(folder: Path) -> list[Case]:
    """The cases of a folder: `x.gold.json` beside `x.pdf` (or any other kind of document). The gold is what
    `fieldmark extract --json` prints, put right by a person, or its fields alone. Raises Invalid."""
    cases: list[Case] = []
    for file in sorted(folder.glob(f"*{GOLD_SUFFIX}")):
        stem = file.name.removesuffix(GOLD_SUFFIX)
        documents = [other for other in sorted(folder.glob("*")) if other.stem == stem and other.suffix != ".json"]
        if len(documents) != 1:
            what = "no document" if not documents else f"{len(documents)} documents"
            raise Invalid(f"{file.name} has {what} beside it: one file {stem}.pdf (or another kind) is wanted.")
        try:
            gold = TypeAdapter(dict[str, Any]).validate_json(file.read_bytes())
        except (ValidationError, OSError):
            raise Invalid(f"{file.name} is no JSON object.") from None
        whole = isinstance(gold.get("extracted_fields"), dict)
        fields: dict[str, JsonValue] = gold["extracted_fields"] if whole else gold
        evidence: dict[str, Any] = gold.get("evidence") or {} if whole else {}
        cases.append(Case(documents[0].name, documents[0], fields, evidence))
    if not cases:
        raise Invalid(f"There is no file *{GOLD_SUFFIX} in {folder}.")
    return cases


async def corrected_cases(runtime: Runtime, scope: Scope) -> list[Case]:
    """The completed extractions in which a person has set a value: as they stand now they are taken to be right.
    Raises Invalid if there is none."""
    async with runtime.database.as_user(scope) as conn:
        rows = await extractions.corrected(conn, scope.org_id, MOST_CORRECTED)
    if not rows:
        raise Invalid("No completed extraction of yours was corrected by a person: there is nothing to score against.")
    return [Case(row.filename, row.document_id, row.extracted_fields, row.evidence, row.schema) for row in rows]


async def evaluate(
    runtime: Runtime,
    scope: Scope,
    cases: Sequence[Case],
    *,
    schema: dict[str, Any] | None,
    instructions: str | None,
    progress: Callable[[str], None],
    with_examples: bool | None = None,
) -> dict[str, Any]:
    """Read every case again, score it and return the report (see `report`). Nothing stays but the usage.
    `with_examples` overrides what the organisation says. Raises SecondPersonNeeded where its runs would wait for a
    person."""
    async with runtime.database.as_user(scope) as conn:
        if (await organisations.get(conn, scope.org_id)).second_person:
            raise SecondPersonNeeded(_WOULD_WAIT)
    scored: list[Scored] = []
    cost: float | None = 0.0
    async with _tidied(runtime, scope) as (documents, begun):
        started: list[tuple[Case, UUID, UUID]] = []
        for case in cases:
            progress(f"Uploading {case.name}…")
            try:
                document_id = case.source
                if isinstance(document_id, Path):
                    document_id = (await runtime.documents.upload(scope, document_id, case.name)).id
                    documents.append(document_id)
                wanted = {"document_id": document_id, "schema": schema or case.schema, "instructions": instructions}
                run_id = await launch.start(
                    runtime.database,
                    scope,
                    TASK,
                    launch.parse_request(TASK, wanted),
                    prices=runtime.prices,
                    options=RunOptions(approval="auto", background=True, with_examples=with_examples),
                )
            except (Unavailable, Misconfigured):
                raise
            except FieldmarkError as error:
                scored.append(_nothing(case, str(error)))
                continue
            async with runtime.database.as_user(scope) as conn:
                run = await runs.get(conn, run_id)
            assert run is not None and run.extraction_id is not None
            begun.append(run.extraction_id)
            if run.approval is Approval.ASK:
                raise SecondPersonNeeded(_WOULD_WAIT)
            started.append((case, run_id, run.extraction_id))
        for case, run_id, extraction_id in started:
            progress(f"Reading {case.name}…")
            run = await wait_until_ended(runtime.database, scope, run_id)
            cost = None if cost is None or run.cost_usd is None else cost + float(run.cost_usd)
            async with runtime.database.as_user(scope) as conn:
                row = await extractions.get(conn, extraction_id)
            if row is None or run.status is not RunStatus.COMPLETED:
                scored.append(_nothing(case, run.error or f"The run ended as {run.status}."))
                continue
            result = score(case.gold, row.extracted_fields, gold_evidence=case.gold_evidence, evidence=row.evidence)
            scored.append(Scored(case.name, result))
    settings = runtime.settings
    named = "offline rules" if settings.offline else settings.model
    return report(scored, cost=cost, model=named, schema=schema, instructions=instructions)


async def compare_examples(
    runtime: Runtime,
    scope: Scope,
    cases: Sequence[Case],
    *,
    schema: dict[str, Any] | None,
    instructions: str | None,
    progress: Callable[[str], None],
    tolerance: float = 0,
) -> dict[str, Any]:
    """As `evaluate`, with examples; `examples` in the report says how it went without, in what it is `worse` with them,
    and whether that has switched them off for the organisation (`dropped`), as it does where an owner asks."""

    async def once(with_examples: bool) -> dict[str, Any]:
        return await evaluate(
            runtime,
            scope,
            cases,
            schema=schema,
            instructions=instructions,
            progress=progress,
            with_examples=with_examples,
        )

    without, shown = await once(False), await once(True)
    worse = regressions(without, shown, tolerance)
    dropped = False
    if worse:
        async with runtime.database.as_user(scope) as conn:
            if (await organisations.get(conn, scope.org_id)).examples:
                with suppress(OwnerNeeded):  # what was scored is told to a member too
                    await organisations.update(conn, scope.org_id, {"examples": False})
                    dropped = True
    return {**shown, "examples": {**_outline(without), "worse": worse, "dropped": dropped}}


def _outline(one: dict[str, Any]) -> dict[str, Any]:
    return {key: one[key] for key in ("cost_usd", "total", "failed")}


def report(
    scored: Sequence[Scored],
    *,
    cost: float | None,
    model: str,
    schema: dict[str, Any] | None,
    instructions: str | None,
) -> dict[str, Any]:
    """What an evaluation says: which version was scored, a tally a field and in all, every fault, every failure."""
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
        "faults": [
            {
                "document": one.name,
                "path": paths.name(leaf.gold_path if leaf.wanted else leaf.got_path),
                **({} if isinstance(leaf.gold, Missing) else {"gold": leaf.gold}),
                **({} if isinstance(leaf.got, Missing) else {"got": leaf.got}),
            }
            for one in scored
            for leaf in one.score.faults
        ],
    }


def regressions(before: dict[str, Any], now: dict[str, Any], tolerance: float) -> list[str]:
    """Where `now` is worse than a saved report by more than `tolerance` (a share, 0..1), a sentence each: in all, of
    every field that both know, and in values that nobody asked for. Raises Invalid for what is no report."""
    found: list[str] = []
    try:
        once, here = Tally(**before["total"]), Tally(**now["total"])
        if here.extra / max(here.gold, 1) > once.extra / max(once.gold, 1) + tolerance + 1e-9:
            found.append(f"in all: {once.extra} values that nobody asked for before, {here.extra} now")
        both = [("in all", before["total"], now["total"])]
        both += [
            (name, tally, now["fields"][name]) for name, tally in before["fields"].items() if name in now["fields"]
        ]
        found += [
            f"{name}: no value of this field was looked for" for name in before["fields"].keys() - now["fields"].keys()
        ]
        for name, was, is_now in both:
            for measure in MEASURES:
                old, new = Tally(**was).rate(measure), Tally(**is_now).rate(measure)
                if old is not None and (new is None or new < old - tolerance - 1e-9):
                    found.append(
                        f"{name}: {measure} {old:.1%} before, {'nothing' if new is None else f'{new:.1%}'} now"
                    )
    except (KeyError, TypeError, AttributeError):
        raise Invalid("The baseline is no report of `fieldmark eval`.") from None
    return found


def _nothing(case: Case, why: str) -> Scored:
    return Scored(case.name, score(case.gold, {}, gold_evidence=case.gold_evidence), why)


def _digest(text: str) -> str:
    """Return enough of a hash to distinguish versions."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@asynccontextmanager
async def _tidied(runtime: Runtime, scope: Scope) -> AsyncGenerator[tuple[list[UUID], list[UUID]]]:
    """(documents, extractions) that are there for the while, and go in the end however it comes."""
    documents: list[UUID] = []
    begun: list[UUID] = []
    try:
        yield documents, begun
    finally:
        for document_id in documents:
            with suppress(NotFound):  # somebody else was faster
                await runtime.documents.remove(scope, document_id)
        for extraction_id in begun:
            with suppress(NotFound):
                async with runtime.database.as_user(scope) as conn:
                    await extractions.remove(conn, extraction_id)
