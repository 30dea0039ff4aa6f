"""Checks, previews and writes extractions, for people and agents.

A write has two steps. `prepare_write` searches the evidence, and holds neither a connection nor a lock. `apply` locks
the extraction and calls one SQL function. If the extraction changed since the evidence was searched, `apply` raises
Stale, and the caller repeats both steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias
from uuid import UUID

from pydantic import JsonValue

from fieldmark.db.pool import Connection, Database
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.domain import paths, rule_fixes
from fieldmark.domain.changes import Change, Preview
from fieldmark.domain.coercion import coerce
from fieldmark.domain.field_problems import field_problems
from fieldmark.domain.fields import Missing, has_fields, leaves, value_at
from fieldmark.domain.ids import new_id
from fieldmark.domain.json_values import as_object
from fieldmark.domain.paths import Path
from fieldmark.domain.rule_fixes import RuleFix
from fieldmark.domain.schema import violations, violations_for_display, write_violations
from fieldmark.domain.statuses import ExtractionStatus
from fieldmark.domain.values import canonical, invisible_problem, value_problem
from fieldmark.domain.violations import Violation
from fieldmark.errors import (
    Conflict,
    Invalid,
    InvalidSchema,
    InvisibleCharacter,
    NoFields,
    NotFound,
    OutsideFields,
    QuoteNotPrinted,
    SchemaViolation,
    Stale,
)
from fieldmark.identity.scope import Scope
from fieldmark.services import audits
from fieldmark.services.evidence import (
    DocumentIndexes,
    FoundEvidence,
    find,
    first_locations,
    quote_errors,
    rest_of_row,
    values_in_message,
)
from fieldmark.services.evidence import locations as evidence_locations
from fieldmark.services.fair_share import run_queued, run_queued_unbounded, run_unqueued
from fieldmark.stores import extractions
from fieldmark.stores.extractions import WriteResult
from fieldmark.stores.rows import ExtractionRow, Fields, Schema
from valuegrounding import Claim, DocumentIndex, Location
from valuegrounding.paths import walk

MAX_PREVIEWED_CHANGES: Final = 2_000
"""Changes of one write that a preview lists."""

MAX_READINGS: Final = 20
"""Values that would satisfy a broken rule, of those that are returned."""

CHECK_BATCH_SIZE: Final = 25


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a write: a person or an agent. `message`: in a correction run, the person's own text; values in it
    may replace that person's locked values. `only`: the paths that a limited run may write; None means all."""

    is_person: bool
    message: str | None = None
    only: tuple[Path, ...] | None = None


PERSON: Final = Author(is_person=True)
_TYPE: Final = "document_type"


@dataclass(frozen=True, slots=True)
class FieldWrite:
    """Writes one value at a path. `claims` are the model's, by path name."""

    path: Path
    value: JsonValue
    claims: Mapping[str, Claim] = field(default_factory=dict[str, Claim])


@dataclass(frozen=True, slots=True)
class FieldsWrite:
    """Merges several fields into the current ones: objects key by key; any other value replaces the current value."""

    value: Fields
    claims: Mapping[str, Claim] = field(default_factory=dict[str, Claim])


@dataclass(frozen=True, slots=True)
class FieldRemoval:
    """Removes the value at a path with everything below it."""

    path: Path


@dataclass(frozen=True, slots=True)
class Restoration(FieldsWrite):
    """Replaces all fields by those of an earlier version."""

    version: int = 0


Write: TypeAlias = FieldWrite | FieldsWrite | FieldRemoval


@dataclass(frozen=True, slots=True)
class PreparedWrite:
    """A write with its evidence, which was searched at version `row.version`. `from_message`: names of the leaves whose
    value is in the person's message, which may replace values that this person locked."""

    row: ExtractionRow
    write: Write
    author: Author
    shown: FoundEvidence
    from_message: frozenset[str]


@dataclass(frozen=True, slots=True)
class WrittenFields:
    """The result of a write. `stored` is what was read back; `not_found` names the leaves that are on no page and in no
    message; `reopened`: whether a completed extraction is in progress again."""

    stored: WriteResult
    not_found: Sequence[str] = ()
    reopened: bool = False


# Reading --------------------------------------------------------------------------------------------------------------


async def locations(database: Database, scope: Scope, row: ExtractionRow, path: Path) -> tuple[list[Location], int]:
    """Return the locations that match a leaf's value, at most 200, and the number of all. Opens its own transaction.
    Raise NotFound if there is no value at the path, Invalid if it is an object or a list."""
    value = value_at(dict(row.extracted_fields), path)
    if isinstance(value, Missing):
        raise NotFound(f"There is no value at {paths.name(path)[:500]}.")
    if isinstance(value, dict | list):
        raise Invalid("Only single values have locations. Use the path of a text, a number or a boolean.")
    return await evidence_locations(database, scope, row, path, value)


@dataclass(frozen=True)
class PrintedReading:
    """A value that would satisfy a broken rule, with its location in the document."""

    reading: RuleFix
    location: Location


async def find_rule_fixes(database: Database, scope: Scope, row: ExtractionRow) -> list[PrintedReading]:
    """Return printed values that would satisfy a broken rule, at most 20. Opens its own transaction."""
    if row.schema is None:
        return []
    schema, fields = row.schema, dict(row.extracted_fields)
    try:
        candidates = await run_queued(scope.org_id, rule_fixes.possible_fixes, schema, fields)
    except InvalidSchema:
        return []
    if not candidates:
        return []
    printed = await first_locations(database, scope, row.document_id, [one.value for one in candidates])
    found: list[PrintedReading] = []
    for one, location in zip(candidates, printed, strict=True):
        if location is not None and await run_queued(scope.org_id, rule_fixes.would_fix, schema, fields, one):
            found.append(PrintedReading(one, location))
        if len(found) == MAX_READINGS:
            break
    return found


async def problems(org_id: UUID, row: ExtractionRow) -> list[Violation]:
    """Return how the fields break the schema and its rules, at most 200 violations. Call it outside a transaction: a
    hostile schema or document makes it slow."""
    if row.schema is None:
        return []
    # Never refused, since it may describe a write that is already committed.
    return await run_queued_unbounded(
        org_id, violations_for_display, row.schema, row.extracted_fields, row.evidence, row.locks
    )


async def check(database: Database, scope: Scope, row: ExtractionRow) -> list[Violation]:
    """Find the `problems` of an extraction, store them with its fields, and return them. Opens its own transaction.
    Call it after a write is committed, since it may take long."""
    found = await problems(scope.org_id, row)
    if row.schema is not None:
        async with database.as_user(scope) as conn:
            await _record(conn, row.id, row.version, found, row.locks)
    return found


async def read_checked(
    database: Database, scope: Scope, row: ExtractionRow
) -> tuple[ExtractionRow, dict[str, dict[str, str | None]]]:
    """Return an extraction with what its check found, and the statuses of its fields. It is checked if nothing has done
    so. Opens its own transactions. An extraction that has changed since `row` was read is returned as it was."""
    if row.schema is not None and row.valid is None:
        row = replace(row, valid=not await check(database, scope, row))
    async with database.as_user(scope) as conn:
        now = await extractions.find_checked(conn, row.id, row.version)
        statuses = await extractions.field_statuses(conn, row.id)
    if now is not None:
        valid = row.valid if now.valid is None else now.valid  # a viewer cannot store what the check found
        row = replace(row, valid=valid, review_count=now.review_count)
    return row, statuses


async def check_changed(database: Database) -> int:
    """Check extractions of all tenants that nothing has checked since they changed. Count again which fields of
    their schemas should have a value, and decide which values a person is asked to look at. Return the number of
    extractions."""
    rows = await database.once(lambda conn: extractions.to_check(conn, CHECK_BATCH_SIZE))
    for row in rows:
        found = await run_queued_unbounded(
            row.org_id, violations_for_display, row.schema, row.extracted_fields, row.evidence, row.locks
        )
        await database.once(partial(_record, extraction_id=row.id, version=row.version, found=found, locks=row.locks))
    for schema_id in await database.once(extractions.schemas_to_count):
        await database.once(partial(extractions.update_required_fields, schema_id=schema_id))
        await database.once(partial(audits.update_policy, schema_id=schema_id))
    return len(rows)


async def _record(
    conn: Connection, extraction_id: UUID, version: int, found: Sequence[Violation], locks: Collection[str]
) -> None:
    await extractions.record_problems(conn, extraction_id, version, field_problems(found, locks), is_valid=not found)


# Writing --------------------------------------------------------------------------------------------------------------


async def lock(conn: Connection, extraction_id: UUID, seen_version: int | None = None) -> int:
    """Lock the extraction until the transaction ends. Return its version. Raise NotFound, or Conflict if its version is
    not `seen`."""
    locked = await extractions.lock(conn, extraction_id)
    if seen_version is not None and seen_version != locked.version:
        raise Conflict(
            f"The fields changed: you saw version {seen_version}, and version {locked.version} is current. "
            "Read the extraction again."
        )
    return locked.version


async def prepare_write(
    database: Database, scope: Scope, indexes: DocumentIndexes, extraction_id: UUID, write: Write, author: Author
) -> PreparedWrite:
    """Search the evidence of a write. Opens its own transactions. Raise NotFound, Invalid if the value cannot be
    stored, InvisibleCharacter, and QuoteNotPrinted if an agent's quote is not on its page."""
    async with database.as_user(scope) as conn:
        row = await extractions.get(conn, extraction_id)
        words = await indexes.read(conn, row.document_id)
    return await _prepare(scope, await indexes.build(database, scope, words), row, write, author)


async def prepare_first_write(
    database: Database,
    scope: Scope,
    indexes: DocumentIndexes,
    document_id: UUID,
    version: Schema,
    write: FieldsWrite,
    author: Author,
) -> PreparedWrite:
    """Search the evidence of the first write of an extraction that does not exist yet, under a version of a schema.
    `apply_first` creates it. Raise the errors of `prepare_write`."""
    row = ExtractionRow(
        id=new_id(),
        document_id=document_id,
        document_type=None,
        status=ExtractionStatus.IN_PROGRESS,
        reviewed_by=None,
        schema=version.schema,
        schema_revid=version.schema_revid,
        prompt_revid=None,
        proposed=False,
        extracted_fields={},
        confidence_scores={},
        evidence={},
        locks={},
        proposals=[],
        version=0,
        created_at=datetime.min,  # this row is not stored
        updated_at=datetime.min,
    )
    return await _prepare(scope, await indexes.get(database, scope, document_id), row, write, author)


async def apply_first(conn: Connection, scope: Scope, prepared: PreparedWrite) -> WrittenFields:
    """Create the extraction of `prepare_first_write`, apply the write, and complete it. Raise the errors of `apply` and
    `complete`."""
    row = prepared.row
    extraction_id = await extractions.add(
        conn, org_id=scope.org_id, document_id=row.document_id, schema_revid=row.schema_revid
    )
    written = await apply(conn, replace(prepared, row=replace(row, id=extraction_id)))
    stored = await complete(conn, extraction_id, prepared.author)
    return replace(written, stored=replace(written.stored, version=stored.version))


async def complete_again(conn: Connection, prepared: PreparedWrite, written: WrittenFields) -> WrittenFields:
    """Complete an extraction again if the write reopened it and nothing is missing."""
    if not written.reopened:
        return written
    row = await extractions.get(conn, prepared.row.id, lock=True)
    if await completion_violations(row):
        return written
    stored = await complete(conn, row.id, prepared.author, [])
    return replace(written, stored=replace(written.stored, version=stored.version), reopened=False)


async def _prepare(
    scope: Scope, index: DocumentIndex, row: ExtractionRow, write: Write, author: Author
) -> PreparedWrite:
    if not isinstance(write, FieldRemoval):
        await run_queued(scope.org_id, _check, write.value)
        if errors := await quote_errors(scope.org_id, index, write.claims):
            raise QuoteNotPrinted(
                "Nothing was stored: each quote must be copied from its page word for word.\n"
                + "\n".join(f"- {error}" for error in errors.values()),
                list(errors),
            )
    write = await run_queued(scope.org_id, _coerced, row, write, author)
    from_message: frozenset[str] = frozenset()
    if author.message is not None and not isinstance(write, FieldRemoval):
        written = leaves(write.value, write.path if isinstance(write, FieldWrite) else ())
        from_message = await run_queued(scope.org_id, values_in_message, author.message, written)
    shown = await _evidence(scope, index, row, write, author, from_message)
    return PreparedWrite(row, write, author, shown, from_message)


def _coerced(row: ExtractionRow, write: Write, author: Author) -> Write:
    """Return an agent's write with its values in the JSON types of the schema, where that loses nothing."""
    if author.is_person or row.schema is None or isinstance(write, FieldRemoval | Restoration):
        return write
    if isinstance(write, FieldWrite):
        return replace(write, value=coerce(row.schema, write.path, write.value))
    return replace(write, value=as_object(coerce(row.schema, (), dict(write.value))))


def _check(value: JsonValue) -> None:
    if problem := value_problem(value):
        raise Invalid(problem)
    if unseen := invisible_problem(value):
        raise InvisibleCharacter(unseen)


async def apply(conn: Connection, prepared: PreparedWrite) -> WrittenFields:
    """Apply a prepared write.

    Raise NotFound; Stale if the extraction changed so that the evidence is outdated; Invalid if the database refuses
    the path; OutsideFields if the author may not write there; SchemaViolation if later writes cannot make an agent's
    write follow the schema. The caller must then roll back.
    """
    row = await _lock_and_recheck(conn, prepared)
    await _refuse_outside(row, prepared.write, prepared.author)
    write, shown = prepared.write, await _new_evidence(prepared, row)
    if prepared.author.message is not None:
        await extractions.allow_locked_paths(conn, prepared.from_message)
    match write:
        case FieldWrite():
            stored = await extractions.update_field(
                conn, row.id, write.path, write.value, shown.confidences, shown.evidence
            )
        case Restoration():
            stored = await extractions.restore(conn, row.id, write.version, shown.confidences, shown.evidence)
        case FieldsWrite():
            stored = await extractions.save_fields(conn, row.id, write.value, shown.confidences, shown.evidence)
        case FieldRemoval():
            stored = await extractions.remove_field(conn, row.id, write.path)
    if not prepared.author.is_person and not (isinstance(write, FieldRemoval) and stored.proposed):
        await _refuse_violations(conn, row, stored)
    reopened = (
        row.schema is not None
        and row.status is ExtractionStatus.COMPLETED
        and stored.version != row.version
        and not prepared.author.is_person
    )
    return WrittenFields(stored, shown.not_found, reopened)


async def prepare_changes(
    database: Database, scope: Scope, indexes: DocumentIndexes, extraction_id: UUID, writes: Sequence[FieldWrite]
) -> list[PreparedWrite]:
    """Search the evidence of several writes of a person. Raise the errors of `prepare_write`, and Invalid if two writes
    overlap."""
    counts = Counter(write.path for write in writes)
    for write in writes:
        if counts[write.path] > 1 or any(write.path[:depth] in counts for depth in range(len(write.path))):
            raise Invalid(f"Two changes overlap at {paths.name(write.path)}. Send one change for each path.")
    async with database.as_user(scope) as conn:
        row = await extractions.get(conn, extraction_id)
        words = await indexes.read(conn, row.document_id)
    index = await indexes.build(database, scope, words)
    return [await _prepare(scope, index, row, write, PERSON) for write in writes]


async def apply_changes(conn: Connection, prepared: Sequence[PreparedWrite]) -> WriteResult:
    """Apply prepared writes as one version. Raise the errors of `apply`."""
    row = await _lock_and_recheck(conn, *prepared)
    changes: list[tuple[Path, JsonValue]] = []
    confidences: dict[str, float] = {}
    evidence: dict[str, JsonValue] = {}
    for one in prepared:
        shown = await _new_evidence(one, row)
        assert isinstance(one.write, FieldWrite)  # `prepare_changes` accepts only these
        changes.append((one.write.path, one.write.value))
        confidences |= shown.confidences
        evidence |= shown.evidence
    return await extractions.update_fields(conn, row.id, changes, confidences, evidence)


async def preview(conn: Connection, extraction_id: UUID, write: Write, author: Author = PERSON) -> Preview:
    """Return what a write would change, and the values that must be unchanged when it is applied: the old values and
    the list items that contain them. Locks the extraction until the transaction ends. Raise NotFound or
    OutsideFields."""
    row = await extractions.get(conn, extraction_id, lock=True)
    await _refuse_outside(row, write, author)
    return await run_unqueued(preview_of, row, await run_unqueued(_coerced, row, write, author))


def preview_of(row: ExtractionRow, write: Write) -> Preview:
    """Return `preview` of a write to `row`."""
    fields = row.extracted_fields
    old_leaves, new_leaves = _leaves_before_and_after(fields, write)
    changes = [change for change in _changes(old_leaves, new_leaves) if change.old != change.new or change.added]
    if isinstance(write, FieldRemoval) and not isinstance(value := value_at(fields, write.path), Missing):
        changes = [Change(paths.name(write.path), value, None, removed=True)]
    target: dict[str, JsonValue] = {paths.name(path): value for path, value in old_leaves.items()}
    for path in _written_paths(fields, write):
        for depth, step in enumerate(path, 1):
            # List items are compared by content, so that items[0] never is another item than the one shown.
            if isinstance(step, int) and not isinstance(value := value_at(fields, path[:depth]), Missing):
                target[f"row {paths.name(path[:depth])}"] = value
        if isinstance(value_at(fields, path), Missing):
            target[f"nothing at {paths.name(path)}"] = True
    return Preview(changes[:MAX_PREVIEWED_CHANGES], target, row.version)


async def set_document_type(
    conn: Connection, extraction_id: UUID, document_type: str, author: Author = PERSON
) -> WriteResult:
    """Set the document's type. Return the stored type. Raise NotFound, Invalid, and OutsideFields if a limited run
    would change it."""
    if unseen := invisible_problem(document_type, "document_type"):
        raise InvisibleCharacter(unseen)
    if author.only is not None:
        _refuse_other_type(await extractions.get(conn, extraction_id), author)
    if author.message is not None:
        await extractions.allow_locked_paths(conn, values_in_message(author.message, [(_TYPE, document_type)]))
    return await extractions.set_document_type(conn, extraction_id, document_type)


async def preview_type(conn: Connection, extraction_id: UUID, document_type: str, author: Author = PERSON) -> Preview:
    """Return what `set_document_type` would change. Raise NotFound or OutsideFields."""
    row = await extractions.get(conn, extraction_id, lock=True)
    _refuse_other_type(row, author)
    changes = [Change(_TYPE, row.document_type, document_type, added=row.document_type is None)]
    return Preview(changes if row.document_type != document_type else [], row.document_type, row.version)


async def complete(
    conn: Connection, extraction_id: UUID, author: Author = PERSON, found: Sequence[Violation] | None = None
) -> WriteResult:
    """Complete the extraction. Return its status. `found`: the result of `incomplete` for the row, if the caller has
    locked it in this transaction. Raise NotFound; for an agent also NoFields or SchemaViolation."""
    if not author.is_person:
        row = await extractions.get(conn, extraction_id, lock=True)
        _refuse_empty(row)
        if found is None:
            found = await completion_violations(row)
        if found:
            raise SchemaViolation(violations_text(found), violated_paths(found), _error_details(found))
        if row.schema is not None:
            await _record(conn, row.id, row.version, found, row.locks)
    return await extractions.complete(conn, extraction_id)


def _refuse_empty(row: ExtractionRow) -> None:
    # Fields that are all null are a result if a schema asks for them: the document is empty of them.
    if not (has_fields(row.extracted_fields) or (row.schema is not None and row.extracted_fields)):
        raise NoFields(
            "Cannot complete: no fields are stored. Save the fields first. If the document has none, save null for the "
            "fields of a schema, or end with a message that says so."
        )


async def completion_violations(row: ExtractionRow) -> list[Violation]:
    """Return the violations that keep an agent from completing the extraction, at most twenty."""
    if row.schema is None:
        return []
    return await run_unqueued(violations, row.schema, row.extracted_fields, row.evidence, row.locks)


def violations_text(found: Sequence[Violation]) -> str:
    return "The fields do not follow the schema yet:\n" + "\n".join(f"- {one.message}" for one in found)


def _error_details(found: Sequence[Violation]) -> dict[str, Any]:
    errors = [
        {"path": paths.name(one.path), "code": one.code, "message": one.message, "params": dict(one.params)}
        for one in found
    ]
    return {"errors": errors}


def violated_paths(found: Sequence[Violation]) -> list[str]:
    """Return the path names of violations, without those of the fields as a whole."""
    return [paths.name(one.path) for one in found if one.path]


async def preview_completion(conn: Connection, extraction_id: UUID) -> Preview:
    """Return what completion by an agent would change. The fields must be unchanged when it is applied. Raise NotFound
    or NoFields."""
    row = await extractions.get(conn, extraction_id, lock=True)
    _refuse_empty(row)
    completed = ExtractionStatus.COMPLETED
    changes = [] if row.status is completed else [Change("status", row.status.value, completed.value)]
    return Preview(changes, {"status": row.status.value, "version": row.version}, row.version)


async def prepare_restore(
    database: Database, scope: Scope, indexes: DocumentIndexes, extraction_id: UUID, version: int
) -> PreparedWrite:
    """Search the evidence of an earlier version's fields, for a person to restore it. Raise NotFound if the extraction
    does not exist; `apply` raises it for the version."""
    async with database.as_user(scope) as conn:
        row = await extractions.get(conn, extraction_id)
        then = await extractions.get_version(conn, extraction_id, version) if version <= row.version else None
        words = await indexes.read(conn, row.document_id)
    write = Restoration((then and then.extracted_fields) or {}, version=version)
    index = await indexes.build(database, scope, words)
    shown = await _evidence(scope, index, row, write, PERSON, frozenset())
    return PreparedWrite(row, write, PERSON, shown, frozenset())


# Evidence -------------------------------------------------------------------------------------------------------------


async def _evidence(
    scope: Scope, index: DocumentIndex, row: ExtractionRow, write: Write, author: Author, from_message: frozenset[str]
) -> FoundEvidence:
    if isinstance(write, FieldRemoval):
        return FoundEvidence()
    at = write.path if isinstance(write, FieldWrite) else ()
    return await find(
        scope.org_id,
        index,
        at,
        write.value,
        schema=row.schema,
        current_fields=row.extracted_fields,
        claims=None if author.is_person else write.claims,
        from_message=None if author.is_person else from_message,
    )


def can_be_written(path: Path, value: JsonValue) -> bool:
    """Return whether a leaf can be stored: its path is valid, and its value has no invisible characters."""
    for step in reversed(path):
        value = [value] if isinstance(step, int) else {step: value}
    try:
        _check(value)
        return paths.parse(paths.name(path)) == path
    except Invalid:
        return False


async def _new_evidence(prepared: PreparedWrite, row: ExtractionRow) -> FoundEvidence:
    """Return the evidence to store. Values that a person leaves unchanged keep their evidence, since the agent's quote
    may have selected one of several locations."""
    if not prepared.author.is_person or isinstance(prepared.write, FieldRemoval):
        return prepared.shown
    return await run_in_thread(_without_unchanged, prepared.shown, row, prepared.write)


def _without_unchanged(shown: FoundEvidence, row: ExtractionRow, write: FieldWrite | FieldsWrite) -> FoundEvidence:
    at = write.path if isinstance(write, FieldWrite) else ()
    written = dict(leaves(write.value, at))
    before = value_at(row.extracted_fields, at)
    unchanged = {
        name
        for name, leaf in (() if isinstance(before, Missing) else leaves(before, at))
        if name in written and name in row.evidence and canonical(written[name]) == canonical(leaf)
    }
    return FoundEvidence(
        {name: score for name, score in shown.confidences.items() if name not in unchanged},
        {name: proof for name, proof in shown.evidence.items() if name not in unchanged},
        shown.not_found,
    )


async def _lock_and_recheck(conn: Connection, *prepared: PreparedWrite) -> ExtractionRow:
    """Lock and return the extraction of these writes. Raise NotFound, or Stale if their evidence is outdated."""
    then = prepared[0].row
    locked = await extractions.lock(conn, then.id)
    if (locked.version, locked.locks) == (then.version, then.locks):
        return replace(then, status=locked.status)
    row = await extractions.get(conn, then.id)
    for one in prepared:
        if await run_in_thread(_is_outdated, one, row):
            raise Stale("The fields changed while the new values were searched in the document. Try again.")
    return row


def _is_outdated(prepared: PreparedWrite, row: ExtractionRow) -> bool:
    """Return whether fields that the evidence depends on have changed: the other values of the same list item."""
    write, then = prepared.write, prepared.row
    if not isinstance(write, FieldWrite):
        return False
    written = dict(leaves(write.value, write.path)) if any(isinstance(step, int) for step in write.path) else {}
    now, before = (list(rest_of_row(write.path, one.extracted_fields, written)) for one in (row, then))
    return now != before


async def _refuse_violations(conn: Connection, before: ExtractionRow, stored: WriteResult) -> None:
    """Raise SchemaViolation if no later write could make the written fields follow the schema."""
    if before.schema is None:
        return
    now = await extractions.get(conn, before.id)
    written = {paths.parse(str(change["path"])) for change in stored.changed}
    # In a thread: a hostile schema or document makes it slow.
    found = await run_unqueued(write_violations, before.schema, before.extracted_fields, now.extracted_fields, written)
    if found:
        raise SchemaViolation(
            "Nothing was stored: the fields would not follow the schema.\n"
            + "\n".join(f"- {one.message}" for one in found),
            violated_paths(found),
            _error_details(found),
        )


async def _refuse_outside(row: ExtractionRow, write: Write, author: Author) -> None:
    """Raise OutsideFields for a write outside the paths that its author may write. Paths at which the fields break the
    schema or a rule are also allowed: otherwise the run could not complete.

    Removing a list item needs permission for the whole list, since the following items get other indexes."""
    if author.only is None:
        return
    if (
        isinstance(write, FieldRemoval)
        and isinstance(write.path[-1], int)
        and not _is_within(author.only, write.path[:-1])
    ):
        name = paths.name(write.path)
        raise OutsideFields(
            f"Nothing was stored: this run may not remove the list item {name[:500]}. Leave it in the list.", [name]
        )
    old, new = await run_unqueued(_leaves_before_and_after, row.extracted_fields, write)
    outside = [path for path in {**old, **new} if not _is_within(author.only, path)]
    if outside and row.schema is not None:
        now = {path for one in await completion_violations(row) for path in one.about or (one.path,)}
        outside = [path for path in outside if not _is_within(now - {()}, path)]
    if outside:
        names = [paths.name(path) for path in outside[:20]]
        allowed = ", ".join(map(paths.name, author.only[:5]))[:500]
        raise OutsideFields(
            f"Nothing was stored: this run may not write {', '.join(names[:5])[:500]}. It may write {allowed}.", names
        )


def _refuse_other_type(row: ExtractionRow, author: Author) -> None:
    if author.only is not None and row.document_type is not None:
        raise OutsideFields("This run may not change the document's type.")


def _is_within(allowed: Iterable[Path], path: Path) -> bool:
    return any(path[: len(one)] == one for one in allowed)


# What a write touches -------------------------------------------------------------------------------------------------


def _written_paths(fields: Fields, write: Write) -> Iterator[Path]:
    """Yield the paths at which a write sets or removes values."""
    match write:
        case FieldWrite(path=path) | FieldRemoval(path=path):
            yield path
        case FieldsWrite(value=value):
            yield from _merged_paths(fields, value)


def _merged_paths(fields: Fields, value: Fields, above: Path = ()) -> Iterator[Path]:
    for key, below in value.items():
        path = (*above, key)
        if isinstance(below, dict) and below:
            yield from _merged_paths(fields, below, path)
        elif below != {} or not isinstance(value_at(fields, path), dict):  # merging {} into an object changes nothing
            yield path


def _leaves_before_and_after(fields: Fields, write: Write) -> tuple[dict[Path, JsonValue], dict[Path, JsonValue]]:
    """Return the leaves at the paths of a write before and after it."""
    old: dict[Path, JsonValue] = {}
    new: dict[Path, JsonValue] = {}
    for path in _written_paths(fields, write):
        current = value_at(fields, path)
        if not isinstance(current, Missing):
            old |= dict(walk(current, path))
        else:
            # A scalar on the way to the path is replaced by an object.
            for depth in range(len(path) - 1, 0, -1):
                above = value_at(fields, path[:depth])
                if not isinstance(above, Missing):
                    if not isinstance(above, dict) and not isinstance(path[depth], int):
                        old |= dict(walk(above, path[:depth]))
                    break
        match write:
            case FieldWrite(value=value):
                new |= dict(walk(value, path))
            case FieldsWrite(value=value):
                below = value_at(value, path)
                if not isinstance(below, Missing):
                    new |= dict(walk(below, path))
            case FieldRemoval():
                pass
    return old, new


def _changes(old: Mapping[Path, JsonValue], new: Mapping[Path, JsonValue]) -> Iterator[Change]:
    for path, value in new.items():
        if path not in old:
            yield Change(paths.name(path), None, value, added=True)
        elif canonical(old[path]) != canonical(value):
            yield Change(paths.name(path), old[path], value)
    for path, value in old.items():
        if path not in new:
            yield Change(paths.name(path), value, None, removed=True)
