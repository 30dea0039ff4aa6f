"""Second readings: another model reads the fields of an extraction without seeing its values, and both are compared."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from pydantic import JsonValue

from fieldmark.db.pool import Connection
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.domain.coercion import coerce
from fieldmark.domain.fields import leaves, value_at
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.paths import parse
from fieldmark.domain.second_reading import (
    ComparedReadings,
    OtherValue,
    asked_schema,
    bare_values,
    compare_readings,
    described_fields,
    limited_fields,
)
from fieldmark.errors import Invalid
from fieldmark.services import evidence
from fieldmark.services.fair_share import run_queued
from fieldmark.stores import extractions
from fieldmark.stores.rows import ExtractionRow
from valuegrounding import CERTAINTIES, DocumentIndex, Doubt, after_agreement

MAX_READING_BYTES: Final = 200_000
_PLACE: Final = ("page", "boxes", "quote")
_DIFFERS: Final[Doubt] = "second_reading"
_NO_ROW: Final[Doubt] = "second_reading_row"


def schema_to_ask(row: ExtractionRow, patterns: Collection[str] | None) -> JsonObject:
    """Return the schema of the second reading of an extraction. It has no values."""
    return asked_schema(row.schema, limited_fields(row.extracted_fields, patterns), patterns)


async def make_reading(
    org_id: UUID, index: DocumentIndex, row: ExtractionRow, patterns: Collection[str] | None, fields: JsonObject
) -> JsonObject:
    """Return the reading to store: its fields, and where those are printed, by its own paths, unless it agrees. Raise
    Invalid if it has none of the fields that were asked for, or is too long to keep."""
    schema = await run_queued(org_id, schema_to_ask, row, patterns)
    bare = await run_queued(org_id, bare_values, schema, fields)
    read = as_object(await run_queued(org_id, coerce, schema, (), bare))
    read = await run_queued(org_id, _asked_fields, row, patterns, read)
    if not read.keys() & {*as_object(schema.get("properties")), *row.extracted_fields}:
        raise Invalid("None of these is a field of the schema: use its names and structure.")
    asked = await run_queued(org_id, _asked_fields, row, patterns, row.extracted_fields)
    compared = await run_queued(org_id, compare_readings, asked, read)
    places: JsonObject = {}
    if compared.differs or compared.rows:
        found = await evidence.find(org_id, index, (), read, schema=row.schema, current_fields={}, claims={})
        others = [*compared.differs.values(), *_other_rows(compared)]
        for name in {name for other in others for name, _ in leaves(other.value, parse(other.path))}:
            proof = as_object(found.evidence.get(name))
            if proof.get("state") == "found":
                places[name] = {key: proof[key] for key in _PLACE}
    reading: JsonObject = {"kind": "reading", "fields": read, "places": places}
    if len(json.dumps(reading)) > MAX_READING_BYTES:
        raise Invalid("The reading is too long to keep.")
    return reading


async def record(
    conn: Connection, extraction_id: UUID, patterns: Collection[str] | None, reading: Mapping[str, JsonValue]
) -> ComparedReadings:
    """Compare a reading with the extraction as it is now. Store the result with the evidence; no value is written."""
    row = await extractions.get(conn, extraction_id, lock=True)
    read, places = as_object(reading["fields"]), as_object(reading["places"])
    asked = await run_in_thread(_asked_fields, row, patterns, row.extracted_fields)
    compared = await run_in_thread(compare_readings, asked, read)
    confidences: dict[str, float] = {}
    proofs: JsonObject = {}
    for name, (proof, score) in (await run_in_thread(_marks, row, compared, places)).items():
        proofs[name] = proof
        if score is not None:
            confidences[name] = score
    if proofs:
        await extractions.save_fields(conn, extraction_id, {}, confidences, proofs)
    others: JsonObject = {name: _rows(rows, places) for name, rows in compared.rows.items()}
    for name, other in compared.differs.items():
        if name not in proofs and other.value is not None:
            others[name] = {"value": other.value, **as_object(places.get(other.path))}
    await extractions.record_second_reading(conn, extraction_id, others)
    return compared


def _asked_fields(
    row: ExtractionRow, patterns: Collection[str] | None, fields: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return the fields that are compared: those that were asked for, and are in the schema if there is one."""
    return described_fields(row.schema, limited_fields(fields, patterns))


def _other_rows(compared: ComparedReadings) -> list[OtherValue]:
    """Return the rows that only the second reading has."""
    return [row for rows in compared.rows.values() for row in rows if isinstance(row, OtherValue)]


def _rows(rows: list[int | OtherValue], places: JsonObject) -> JsonObject:
    """Return the rows of a list as the second reading has them: the index of a row that both have, or a row that only
    the second has, with the location of its values."""
    listed: list[JsonValue] = []
    for row in rows:
        if isinstance(row, int):
            listed.append(row)
            continue
        found = [as_object(places.get(name)) for name, _ in leaves(row.value, parse(row.path))]
        page = next((place["page"] for place in found if place), None)
        boxes = [box for place in found if place.get("page") == page for box in as_list(place.get("boxes"))]
        listed.append({"row": row.value, **({} if page is None else {"page": page, "boxes": boxes})})
    return {"rows": listed}


def _marks(
    row: ExtractionRow, compared: ComparedReadings, places: JsonObject
) -> dict[str, tuple[JsonObject, float | None]]:
    """Return the new evidence and confidence of each value that was compared."""
    marked: dict[str, tuple[JsonObject, float | None]] = {}
    fields = dict(row.extracted_fields)
    for name in (*compared.agrees, *compared.differs, *compared.unpaired):
        proof = as_object(row.evidence.get(name))
        if proof and value_at(fields, parse(name)) not in (None, "", [], {}):
            before, score = _without_reading(proof, row.confidence_scores.get(name))
            marked[name] = _mark(before, score, compared.differs.get(name), places)
            if name in compared.unpaired:
                marked[name] = _doubt(before, score, _NO_ROW, {"result": "no_row"})
    return marked


def _mark(
    proof: JsonObject, score: float | None, other: OtherValue | None, places: JsonObject
) -> tuple[JsonObject, float | None]:
    if other is not None:
        said: JsonObject = {"result": "differs", "value": other.value, **as_object(places.get(other.path))}
        return _doubt({"reason": _DIFFERS, **proof}, score, _DIFFERS, said)
    raised = None if score is None else after_agreement(score)
    return {**proof, "second_reading": {"result": "agrees", "confidence_before": score}}, raised


def _doubt(proof: JsonObject, score: float | None, doubt: Doubt, said: JsonObject) -> tuple[JsonObject, float | None]:
    doubts = [*as_list(proof.get("doubts")), doubt]
    lowered = None if score is None else round(score * CERTAINTIES[doubt], 4)
    return {**proof, "doubts": doubts, "second_reading": {**said, "confidence_before": score}}, lowered


def _without_reading(proof: JsonObject, score: JsonValue) -> tuple[JsonObject, float | None]:
    """Return evidence and confidence as they were before an earlier second reading."""
    if "second_reading" in proof:
        score = as_object(proof["second_reading"]).get("confidence_before")
        doubts = [one for one in as_list(proof.get("doubts")) if one not in (_DIFFERS, _NO_ROW)]
        kept = {key: value for key, value in proof.items() if key not in ("second_reading", "doubts")}
        proof = {key: value for key, value in kept.items() if (key, value) != ("reason", _DIFFERS)}
        proof |= {"doubts": doubts} if doubts else {}
    return proof, float(score) if isinstance(score, int | float) else None
