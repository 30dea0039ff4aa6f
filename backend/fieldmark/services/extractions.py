"""Writing an extraction, for whoever does it: a person over HTTP, an agent's tool, a command.

A write has two halves. `prepare_write` looks for the evidence and holds neither a connection nor a lock. `apply` locks
the extraction, sees whether what was prepared for still stands, and calls one SQL function. Where it stands no more it
raises Stale, and its caller does both anew: nothing is looked for while anything is locked.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, TypeAlias
from uuid import UUID

from pydantic import JsonValue

from fieldmark.db.pool import Connection, Database
from fieldmark.db.worker_thread import run_in_thread
from fieldmark.domain import paths, rule_fixes
from fieldmark.domain.changes import Change, Preview
from fieldmark.domain.fields import Missing, has_fields, leaves, value_at, walk
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
from fieldmark.grounding import Claim, DocumentIndex, Location
from fieldmark.identity.scope import Scope
from fieldmark.services.evidence import (
    DocumentIndexes,
    Evidence,
    find,
    first_places,
    in_message,
    quotes_elsewhere,
    rest_of_row,
)
from fieldmark.services.evidence import places as find_places
from fieldmark.services.turns import in_turn, in_turn_at_last, without_turn
from fieldmark.stores import extractions
from fieldmark.stores.extractions import OpenPlacesRow, Stored
from fieldmark.stores.rows import ExtractionRow, ExtractionSummaryRow, Fields

MOST_CHANGES_SHOWN: Final = 2_000
"""Changes of one write that a preview lists."""

MOST_READINGS: Final = 20
"""Values that would make a broken rule hold, of those that are told."""


MOST_JUDGED: Final = 10_000
JUDGED_AT_ONCE: Final = 25
_judged: Final = OrderedDict[tuple[UUID, int, datetime], frozenset[str]]()
"""Whether extractions are valid, by id, version and time of the last change: so a list judges each once."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes: a person, or an agent. `message` is what the person said whose correction the agent makes, where its
    task lets it speak for them. `only`: the paths that a limited run may write; None for all."""

    is_person: bool
    message: str | None = None
    only: tuple[Path, ...] | None = None


PERSON: Final = Author(is_person=True)
_TYPE: Final = "document_type"


@dataclass(frozen=True, slots=True)
class FieldWrite:
    """One value at a path. `claims` are the model's, by path name."""

    path: Path
    value: JsonValue
    claims: Mapping[str, Claim] = field(default_factory=dict[str, Claim])


@dataclass(frozen=True, slots=True)
class FieldsWrite:
    """Several fields, that merge with what stands: objects key by key, any other value replaces what stood there."""

    value: Fields
    claims: Mapping[str, Claim] = field(default_factory=dict[str, Claim])


@dataclass(frozen=True, slots=True)
class FieldRemoval:
    """What stands at a path goes, with everything below it."""

    path: Path


@dataclass(frozen=True, slots=True)
class Restoration(FieldsWrite):
    """All fields as they stood at a version: what has come since goes."""

    version: int = 0


Write: TypeAlias = FieldWrite | FieldsWrite | FieldRemoval


@dataclass(frozen=True, slots=True)
class PreparedWrite:
    """A write with its evidence, for an extraction as it stood at `row.version`. `from_message` names the leaves whose
    value is in the person's message: those may replace what that person locked."""

    row: ExtractionRow
    write: Write
    author: Author
    shown: Evidence
    from_message: frozenset[str]


@dataclass(frozen=True, slots=True)
class WrittenFields:
    """What a write did. `stored` is what was read back; `not_found` names the leaves that are on no page and that no
    person says; `reopened` says that the extraction was complete, and is in progress again."""

    stored: Stored
    not_found: Sequence[str] = ()
    reopened: bool = False


# Reading --------------------------------------------------------------------------------------------------------------


async def places(database: Database, scope: Scope, row: ExtractionRow, path: Path) -> tuple[list[Location], int]:
    """The places where the value of a leaf stands in its document, at most 200, and how many there are. Opens a
    transaction of its own. Raises NotFound where nothing stands at the path, Invalid for an object or a list."""
    value = value_at(dict(row.extracted_fields), path)
    if isinstance(value, Missing):
        raise NotFound("Nothing stands at this path.")
    if isinstance(value, dict | list):
        raise Invalid("A place is of one value: name the path of a text, a number or a yes or no.")
    return await find_places(database, scope, row.document_id, path, value, row.evidence.get(paths.name(path)))


@dataclass(frozen=True)
class PrintedReading:
    """A value that would make a broken rule hold, and where the document prints it."""

    reading: RuleFix
    place: Location


async def readings(database: Database, scope: Scope, row: ExtractionRow) -> list[PrintedReading]:
    """What else the document prints that would make a rule hold which is broken now: the first 20. Opens a transaction
    of its own."""
    if row.schema is None:
        return []
    schema, fields = row.schema, dict(row.extracted_fields)
    try:
        wanted = await in_turn(scope.org_id, rule_fixes.possible_fixes, schema, fields)
    except InvalidSchema:
        return []
    if not wanted:
        return []
    places = await first_places(database, scope, row.document_id, [one.value for one in wanted])
    found: list[PrintedReading] = []
    for one, place in zip(wanted, places, strict=True):
        if place is not None and await in_turn(scope.org_id, rule_fixes.would_fix, schema, fields, one):
            found.append(PrintedReading(one, place))
        if len(found) == MOST_READINGS:
            break
    return found


async def problems(org_id: UUID, row: ExtractionRow) -> list[Violation]:
    """What keeps the fields from following the schema and its rules, as a person is told: the first 200. Called without
    a transaction, since a schema or a document may make it long."""
    if row.schema is None:
        return []
    # Not on the event loop, for the same reason; and never refused, since it may tell of what is written already.
    return await in_turn_at_last(
        org_id, violations_for_display, row.schema, row.extracted_fields, row.evidence, row.locks
    )


async def is_valid(org_id: UUID, row: ExtractionRow) -> bool | None:
    """Return whether there are no `problems`; None without a schema."""
    return _is_valid((await _judge_all(org_id, [row]))[row.id])


async def are_valid(database: Database, scope: Scope, rows: Sequence[ExtractionSummaryRow]) -> dict[UUID, bool | None]:
    """Return `is_valid` of each of these extractions that still exists, by id. One that changed since `rows` were read
    is judged as it is now. Opens transactions of its own."""
    return {one: _is_valid(places) for one, places in (await _judged_places(database, scope, rows)).items()}


async def count_to_review(database: Database, scope: Scope, extraction_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Return in how many places a person should look at each of these extractions, by id: where it breaks its schema or
    a rule, is unsure, or has a proposal. Opens transactions of its own."""
    if not extraction_ids:
        return {}
    async with database.as_user(scope) as conn:
        rows = await extractions.open_places(conn, extraction_ids)
    broken = await _judged_places(database, scope, rows)
    return {row.id: len({*row.names, *(broken.get(row.id) or ())}) for row in rows}


def _is_valid(places: frozenset[str] | None) -> bool | None:
    return None if places is None else not places


async def _judged_places(
    database: Database, scope: Scope, rows: Sequence[ExtractionSummaryRow | OpenPlacesRow]
) -> dict[UUID, frozenset[str] | None]:
    judged = {row.id: _judged.get((row.id, row.version, row.updated_at)) for row in rows}
    new = [row.id for row in rows if row.has_schema and judged[row.id] is None]
    answers = {row.id: judged[row.id] for row in rows if row.id not in new}
    for first in range(0, len(new), JUDGED_AT_ONCE):
        async with database.as_user(scope) as conn:
            found = await extractions.several(conn, new[first : first + JUDGED_AT_ONCE])
        answers |= await _judge_all(scope.org_id, found)
    return answers


async def _judge_all(org_id: UUID, rows: Sequence[ExtractionRow]) -> dict[UUID, frozenset[str] | None]:
    """Judge extractions in one worker thread. Each version is judged once."""
    keys = {row.id: (row.id, row.version, row.updated_at) for row in rows if row.schema is not None}
    new = [row for row in rows if row.schema is not None and keys[row.id] not in _judged]
    for row, places in zip(new, await in_turn_at_last(org_id, _broken_places, new) if new else (), strict=True):
        _judged[keys[row.id]] = places
    answers = {row.id: _judged[keys[row.id]] if row.id in keys else None for row in rows}
    while len(_judged) > MOST_JUDGED:
        _judged.popitem(last=False)
    return answers


def _broken_places(rows: Sequence[ExtractionRow]) -> list[frozenset[str]]:
    """Where extractions break their schema, by path name: of a rule, the values it compares that no person has set."""
    return [
        frozenset(
            paths.name(path)
            for one in violations_for_display(row.schema, row.extracted_fields, row.evidence, row.locks)
            for path in [about for about in one.about if paths.name(about) not in row.locks] or [one.path]
        )
        for row in rows
    ]


# Writing --------------------------------------------------------------------------------------------------------------


async def lock(conn: Connection, extraction_id: UUID, seen: int | None = None) -> int:
    """Let nobody else change the extraction until this transaction ends. Return its version. Raises NotFound, and
    Conflict if that is not the version that the caller has seen."""
    standing = await extractions.lock(conn, extraction_id)
    if seen is not None and seen != standing.version:
        raise Conflict(f"The fields changed since version {seen}: this is version {standing.version}.")
    return standing.version


async def prepare_write(
    database: Database, scope: Scope, indexes: DocumentIndexes, extraction_id: UUID, write: Write, author: Author
) -> PreparedWrite:
    """A write with its evidence, ready to be applied. Opens and ends transactions of its own. Raises NotFound, Invalid
    for what cannot be stored, Invisible for what nobody would see, and QuoteNotPrinted where an agent's quote is not on
    its page."""
    async with database.as_user(scope) as conn:
        row = await extractions.find(conn, extraction_id)
    return await _prepared(scope, await indexes.get(database, scope, row.document_id), row, write, author)


async def _prepared(
    scope: Scope, index: DocumentIndex, row: ExtractionRow, write: Write, author: Author
) -> PreparedWrite:
    if not isinstance(write, FieldRemoval):
        await in_turn(scope.org_id, _check, write.value)
        if faults := await quotes_elsewhere(scope.org_id, index, write.claims):
            raise QuoteNotPrinted(
                "Nothing was stored: a quote must be what the page prints, word for word.\n"
                + "\n".join(f"- {fault}" for fault in faults.values()),
                list(faults),
            )
    from_message: frozenset[str] = frozenset()
    if author.message is not None and not isinstance(write, FieldRemoval):
        written = leaves(write.value, write.path if isinstance(write, FieldWrite) else ())
        from_message = await in_turn(scope.org_id, in_message, author.message, written)
    shown = await _evidence(scope, index, row, write, author, from_message)
    return PreparedWrite(row, write, author, shown, from_message)


def _check(value: JsonValue) -> None:
    """Refuse what cannot be stored, and what nobody would see."""
    if problem := value_problem(value):
        raise Invalid(problem)
    if unseen := invisible_problem(value):
        raise InvisibleCharacter(unseen)


async def apply(conn: Connection, prepared: PreparedWrite) -> WrittenFields:
    """Write what was prepared.

    Raises NotFound; Stale if the extraction changed meanwhile in what the evidence hangs on; Invalid where the database
    refuses the path; OutsideFields where its author may not write; SchemaViolation where an agent's write can never
    come to follow the schema, with the transaction to be undone.
    """
    row = await _as_it_stands(conn, prepared)
    await _refuse_outside(row, prepared.write, prepared.author)
    write, shown = prepared.write, await _news(prepared, row)
    if prepared.author.message is not None:
        await extractions.speak_for(conn, prepared.from_message)
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
        await _judge(conn, row, stored)
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
    """A person's writes with their evidence, ready to be applied as one change. Raises as `prepare_write`, and Invalid
    where two of them are of one place."""
    often = Counter(write.path for write in writes)
    for write in writes:
        if often[write.path] > 1 or any(write.path[:depth] in often for depth in range(len(write.path))):
            raise Invalid(f"Two of the changes are of one place: at {paths.name(write.path)}, or what it stands in.")
    async with database.as_user(scope) as conn:
        row = await extractions.find(conn, extraction_id)
    index = await indexes.get(database, scope, row.document_id)
    return [await _prepared(scope, index, row, write, PERSON) for write in writes]


async def apply_changes(conn: Connection, prepared: Sequence[PreparedWrite]) -> Stored:
    """Write what was prepared: all of it as one version, or nothing. Raises as `apply`."""
    row = await _as_it_stands(conn, *prepared)
    changes: list[tuple[Path, JsonValue]] = []
    confidences: dict[str, float] = {}
    evidence: dict[str, JsonValue] = {}
    for one in prepared:
        shown = await _news(one, row)
        assert isinstance(one.write, FieldWrite)  # what `prepare_changes` takes
        changes.append((one.write.path, one.write.value))
        confidences |= shown.confidences
        evidence |= shown.evidence
    return await extractions.update_fields(conn, row.id, changes, confidences, evidence)


async def preview(conn: Connection, extraction_id: UUID, write: Write, author: Author = PERSON) -> Preview:
    """What a write would change as the extraction stands now, and what must still stand when it is done: the old values
    and every row of a list that they are in. Nobody changes the extraction until this transaction ends. Raises
    NotFound, and OutsideFields as `apply` does."""
    row = await extractions.find(conn, extraction_id, lock=True)
    await _refuse_outside(row, write, author)
    return await without_turn(preview_of, row, write)


def preview_of(row: ExtractionRow, write: Write) -> Preview:
    """As `preview`, of an extraction as it stands in `row`."""
    fields = row.extracted_fields
    old_leaves, new_leaves = _touched(fields, write)
    changes = [change for change in _changes(old_leaves, new_leaves) if change.old != change.new or change.added]
    if isinstance(write, FieldRemoval) and not isinstance(value := value_at(fields, write.path), Missing):
        changes = [Change(paths.name(write.path), value, None, removed=True)]
    target: dict[str, JsonValue] = {paths.name(path): value for path, value in old_leaves.items()}
    for path in _written_paths(fields, write):
        for depth, step in enumerate(path, 1):
            # A row by its content, so that items[0] never means another row than the one that was shown.
            if isinstance(step, int) and not isinstance(value := value_at(fields, path[:depth]), Missing):
                target[f"row {paths.name(path[:depth])}"] = value
        if isinstance(value_at(fields, path), Missing):
            target[f"nothing at {paths.name(path)}"] = True
    return Preview(changes[:MOST_CHANGES_SHOWN], target, row.version)


async def identify(conn: Connection, extraction_id: UUID, document_type: str, author: Author = PERSON) -> Stored:
    """Say what kind of document it is; the type that stands comes back. Raises NotFound, Invalid, and
    OutsideFields where a limited run would change it."""
    if unseen := invisible_problem(document_type, "document_type"):
        raise InvisibleCharacter(unseen)
    if author.only is not None:
        _refuse_other_type(await extractions.find(conn, extraction_id), author)
    if author.message is not None:
        await extractions.speak_for(conn, in_message(author.message, [(_TYPE, document_type)]))
    return await extractions.identify(conn, extraction_id, document_type)


async def preview_type(conn: Connection, extraction_id: UUID, document_type: str, author: Author = PERSON) -> Preview:
    """What naming the document's type would change. Raises NotFound, and OutsideFields as `identify` does."""
    row = await extractions.find(conn, extraction_id, lock=True)
    _refuse_other_type(row, author)
    changes = [Change(_TYPE, row.document_type, document_type, added=row.document_type is None)]
    return Preview(changes if row.document_type != document_type else [], row.document_type, row.version)


async def complete(
    conn: Connection, extraction_id: UUID, author: Author = PERSON, found: Sequence[Violation] | None = None
) -> Stored:
    """Declare the extraction complete; its status comes back. A person may as it stands. `found` is what the caller has
    found `incomplete` in this transaction, of a locked row. Raises NotFound, and NoFields or SchemaViolation where an
    agent may not."""
    if not author.is_person:
        row = await extractions.find(conn, extraction_id, lock=True)
        _refuse_empty(row)
        if found is None:
            found = await incomplete(row)
        if found:
            raise SchemaViolation(not_yet(found), names_of(found))
    return await extractions.complete(conn, extraction_id)


def _refuse_empty(row: ExtractionRow) -> None:
    if not has_fields(row.extracted_fields):
        raise NoFields(
            "Cannot complete: no fields extracted. Save the fields first; if the document has none, end with a "
            "sentence that says so."
        )


async def incomplete(row: ExtractionRow) -> list[Violation]:
    """What keeps an agent from declaring the extraction complete: the first twenty."""
    if row.schema is None:
        return []
    return await without_turn(violations, row.schema, row.extracted_fields, row.evidence, row.locks)


def not_yet(found: Sequence[Violation]) -> str:
    """Violations as a list in words."""
    return "The fields do not follow the schema yet:\n" + "\n".join(f"- {one.message}" for one in found)


def names_of(found: Sequence[Violation]) -> list[str]:
    """The paths of violations, by name; the fields as a whole have none."""
    return [paths.name(one.path) for one in found if one.path]


async def preview_completion(conn: Connection, extraction_id: UUID) -> Preview:
    """What an agent's declaring it complete would change; its fields must still stand as they are then. Raises
    NotFound, and NoFields."""
    row = await extractions.find(conn, extraction_id, lock=True)
    _refuse_empty(row)
    completed = ExtractionStatus.COMPLETED
    changes = [] if row.status is completed else [Change("status", row.status.value, completed.value)]
    return Preview(changes, {"status": row.status.value, "version": row.version}, row.version)


async def prepare_restore(
    database: Database, scope: Scope, indexes: DocumentIndexes, extraction_id: UUID, version: int
) -> PreparedWrite:
    """The fields of an earlier version with their evidence, ready to be applied by a person. What this brings back has
    the evidence that it is found at now. Raises NotFound for no such extraction; that there is no such version,
    applying says."""
    async with database.as_user(scope) as conn:
        row = await extractions.find(conn, extraction_id)
        then = await extractions.find_version(conn, extraction_id, version) if version <= row.version else None
    write = Restoration((then and then.extracted_fields) or {}, version=version)
    index = await indexes.get(database, scope, row.document_id)
    shown = await _evidence(scope, index, row, write, PERSON, frozenset())
    return PreparedWrite(row, write, PERSON, shown, frozenset())


# Evidence -------------------------------------------------------------------------------------------------------------


async def _evidence(
    scope: Scope, index: DocumentIndex, row: ExtractionRow, write: Write, author: Author, from_message: frozenset[str]
) -> Evidence:
    if isinstance(write, FieldRemoval):
        return Evidence()
    at = write.path if isinstance(write, FieldWrite) else ()
    return await find(
        scope.org_id,
        index,
        at,
        write.value,
        stands=row.extracted_fields,
        claims=None if author.is_person else write.claims,
        from_message=None if author.is_person else from_message,
    )


def can_be_written(path: Path, value: JsonValue) -> bool:
    """Return whether a leaf may be stored: its path is valid, and its value has no invisible characters or the like."""
    for step in reversed(path):
        value = [value] if isinstance(step, int) else {step: value}
    try:
        _check(value)
        return paths.parse(paths.name(path)) == path
    except Invalid:
        return False


async def _news(prepared: PreparedWrite, row: ExtractionRow) -> Evidence:
    """What is new of the evidence of a write. What a person writes as it stands keeps the evidence that it has: a quote
    of the agent's may have told which of several places is meant."""
    # (Not on the event loop, as all that a document may make long.)
    if not prepared.author.is_person or isinstance(prepared.write, FieldRemoval):
        return prepared.shown
    return await run_in_thread(_without_what_stands, prepared.shown, row, prepared.write)


def _without_what_stands(shown: Evidence, row: ExtractionRow, write: FieldWrite | FieldsWrite) -> Evidence:
    at = write.path if isinstance(write, FieldWrite) else ()
    written = dict(leaves(write.value, at))
    before = value_at(row.extracted_fields, at)
    kept = {
        name
        for name, leaf in (() if isinstance(before, Missing) else leaves(before, at))
        if name in written and name in row.evidence and canonical(written[name]) == canonical(leaf)
    }
    return Evidence(
        {name: score for name, score in shown.confidences.items() if name not in kept},
        {name: proof for name, proof in shown.evidence.items() if name not in kept},
        shown.not_found,
    )


async def _as_it_stands(conn: Connection, *prepared: PreparedWrite) -> ExtractionRow:
    """The extraction as it stands, which all of these were prepared for. Nobody else changes it until this transaction
    ends. Raises NotFound, and Stale if what the preparation looked at stands no more."""
    then = prepared[0].row
    standing = await extractions.lock(conn, then.id)
    if (standing.version, standing.locks) == (then.version, then.locks):
        return replace(then, status=standing.status)
    row = await extractions.find(conn, then.id)
    for one in prepared:
        if await run_in_thread(_hang_on_other, one, row):
            raise Stale("The fields changed while it was looked for where the new values stand: try again.")
    return row


def _hang_on_other(prepared: PreparedWrite, row: ExtractionRow) -> bool:
    """Whether the extraction stands otherwise now in anything that the preparation looked at."""
    write, then = prepared.write, prepared.row
    if not isinstance(write, FieldWrite):
        return False  # it has no row of a list, whose rest could tell its line
    written = dict(leaves(write.value, write.path)) if any(isinstance(step, int) for step in write.path) else {}
    now, before = (list(rest_of_row(write.path, one.extracted_fields, written)) for one in (row, then))
    return now != before


async def _judge(conn: Connection, before: ExtractionRow, stored: Stored) -> None:
    """Raise SchemaViolation if what stands now can never come to follow the schema."""
    if before.schema is None:
        return
    now = await extractions.find(conn, before.id)
    written = {paths.parse(str(change["path"])) for change in stored.changed}
    # Not on the event loop, as all that a schema or a document may make long.
    found = await without_turn(write_violations, before.schema, before.extracted_fields, now.extracted_fields, written)
    if found:
        raise SchemaViolation(
            "Nothing was stored: it would not follow the schema.\n" + "\n".join(f"- {one.message}" for one in found),
            names_of(found),
        )


async def _refuse_outside(row: ExtractionRow, write: Write, author: Author) -> None:
    """Raise OutsideFields for a write that changes anything but the paths its author may write. Paths at which the
    fields break the schema or a rule are allowed too: the run could not complete otherwise.

    An item of a list is removed only where the whole list is allowed: the items behind it get other indexes."""
    if author.only is None:
        return
    if (
        isinstance(write, FieldRemoval)
        and isinstance(write.path[-1], int)
        and not _covers(author.only, write.path[:-1])
    ):
        name = paths.name(write.path)
        raise OutsideFields(f"Nothing was stored: this run may not remove {name[:500]}, an item of a list.", [name])
    old, new = await without_turn(_touched, row.extracted_fields, write)
    outside = [path for path in {**old, **new} if not _covers(author.only, path)]
    if outside and row.schema is not None:
        now = {path for one in await incomplete(row) for path in one.about or (one.path,)}
        outside = [path for path in outside if not _covers(now - {()}, path)]
    if outside:
        names = [paths.name(path) for path in outside[:20]]
        allowed = ", ".join(map(paths.name, author.only[:5]))[:500]
        raise OutsideFields(
            f"Nothing was stored: this run may not write {', '.join(names[:5])[:500]}. It may write {allowed}.", names
        )


def _refuse_other_type(row: ExtractionRow, author: Author) -> None:
    if author.only is not None and row.document_type is not None:
        raise OutsideFields("This run may not change the document's type.")


def _covers(allowed: Iterable[Path], path: Path) -> bool:
    return any(path[: len(one)] == one for one in allowed)


# What a write touches -------------------------------------------------------------------------------------------------


def _written_paths(fields: Fields, write: Write) -> Iterator[Path]:
    """Where a write puts its values, or takes them away."""
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
        elif below != {} or not isinstance(value_at(fields, path), dict):  # an empty object adds nothing to another
            yield path


def _touched(fields: Fields, write: Write) -> tuple[dict[Path, JsonValue], dict[Path, JsonValue]]:
    """The leaves that stand where a write writes, and those that it would leave there."""
    old: dict[Path, JsonValue] = {}
    new: dict[Path, JsonValue] = {}
    for path in _written_paths(fields, write):
        stands = value_at(fields, path)
        if not isinstance(stands, Missing):
            old |= dict(walk(stands, path))
        else:
            # What stands on the way and is no object gives way, where the database lets it.
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
