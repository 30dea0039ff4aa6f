"""Groups new documents by likeness: one table for documents that look alike, with a preview of its rows. What a rule of
the organisation says of them comes first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Final
from uuid import UUID

from pydantic import BaseModel, Field, JsonValue

from fieldmark.db.pool import Connection, Database
from fieldmark.domain.column_definitions import ColumnDefinition, schema_of
from fieldmark.domain.likeness import KINDS_OF_ONE_TABLE, Likeness
from fieldmark.domain.statuses import DocumentStatus, ReadingError
from fieldmark.identity.scope import Scope
from fieldmark.services.fair_share import run_queued
from fieldmark.services.labelled_fields import document_type, likeness, read_fields
from fieldmark.services.suggested_columns import SAMPLES, suggest_columns
from fieldmark.services.upload_targets import find_rule
from fieldmark.stores import document_groups as store
from fieldmark.stores import documents, schema_changes, stacks, upload_rules
from fieldmark.stores.document_groups import GroupedDocument, KnownTable
from fieldmark.stores.documents import FirstPage
from fieldmark.stores.library import schemas
from fieldmark.stores.upload_rules import UploadRule

_MAX_COLUMNS: Final = 9
_SHOWN_ROWS: Final = 3
_TITLE_LINES: Final = 8
_TITLE: Final = re.compile(r"[^\W\d_]{3,30}(?: [^\W\d_]{2,30}){0,3}")


class TableLike(BaseModel):
    """A table whose documents are like those of a group."""

    table_id: UUID = Field(description="The stack, or the schema of a table without one.")
    stack_id: UUID | None
    schema_id: UUID
    name: str
    documents: int = Field(description="The number of documents in it.")


class RuleTarget(BaseModel):
    """What a rule of the organisation says that documents become: an extraction under a schema, or rows of a stack."""

    schema_id: UUID | None
    stack_id: UUID | None
    name: str = Field(description="The name of either.")


class PreviewRow(BaseModel):
    """A document, with the values of the suggested columns that fixed rules found."""

    document_id: UUID
    filename: str
    values: dict[str, JsonValue] = Field(description="By column. A column without a value is left out.")


class DocumentGroup(BaseModel):
    """Documents that look alike."""

    kind: str = Field(description="What they say they are: `receipt`, `invoice`, …, or `document`.")
    title: str | None = Field(description="The heading that most of them share, such as `Delivery note`.")
    document_ids: list[UUID]
    pages: int
    rule: RuleTarget | None = Field(description="From the first rule that matches each of them. null: none does.")
    table: TableLike | None = Field(description="The table that they fit into. null: they are of a new kind.")
    columns: list[ColumnDefinition] = Field(description="Suggested for a new table, by fixed rules, without a model.")
    rows: list[PreviewRow] = Field(description="The first documents under these columns.")
    estimated_cost_usd: float | None = Field(
        description="Of reading them, if each costs as much as earlier ones on average. null where that is not known."
    )


class DocumentCopy(BaseModel):
    """A document with the same bytes as an earlier one."""

    document_id: UUID
    filename: str
    duplicate_of: UUID
    original: str = Field(description="The name of the earlier one.")


class UnreadableDocument(BaseModel):
    """A document that could not be read."""

    document_id: UUID
    filename: str
    error_code: ReadingError | None
    error: str | None


class DocumentGroups(BaseModel):
    """Documents by likeness, the largest group first."""

    groups: list[DocumentGroup]
    copies: list[DocumentCopy]
    failed: list[UnreadableDocument]
    reading: Annotated[int, Field(description="The number of documents that are still being read. Ask again then.")]


async def group(database: Database, scope: Scope, document_ids: Sequence[UUID]) -> DocumentGroups:
    """Group documents and the files inside them by likeness. Documents that the caller cannot see are left out. Raise
    TooManyAtOnce."""
    async with database.as_user(scope) as conn:
        rows = await store.with_enclosed(conn, scope.org_id, document_ids)
        readable = [one for one in rows if one.is_readable and one.duplicate_of is None]
        texts = await documents.first_texts(conn, [one.id for one in readable])
        tables = await store.known_tables(conn, scope.org_id)
        samples = await documents.first_texts(conn, [one for table in tables for one in table.sample_ids])
        cost = await schema_changes.average_cost(conn, scope.org_id, None)
        rules = await _rules(conn, scope.org_id)
        pages = await documents.first_pages(conn, [one.id for one in readable]) if rules else {}
    found = await run_queued(scope.org_id, _group, readable, texts, tables, samples, rules, pages)
    async with database.as_user(scope) as conn:
        for one in found:
            one.estimated_cost_usd = await _cost(conn, scope, one, None if cost is None else float(cost))
    return DocumentGroups(
        groups=found,
        copies=[
            DocumentCopy(
                document_id=one.id, filename=one.filename, duplicate_of=one.duplicate_of, original=one.original
            )
            for one in rows
            if one.duplicate_of is not None and one.original is not None
        ],
        failed=[
            UnreadableDocument(
                document_id=one.id,
                filename=one.filename,
                error_code=None if one.error_code is None else ReadingError(one.error_code),
                error=one.error,
            )
            for one in rows
            if one.status is DocumentStatus.FAILED and one.duplicate_of is None
        ],
        reading=sum(one.status is DocumentStatus.READING for one in rows),
    )


async def _rules(conn: Connection, org_id: UUID) -> dict[UploadRule, RuleTarget]:
    """Return the rules of an organisation in their order, with their targets."""
    rules = await upload_rules.of_organisation(conn, org_id)
    found = await schemas.find_many(conn, [rule.schema_id for rule in rules if rule.schema_id is not None])
    names: dict[UUID | None, str] = {one.id: one.name for one in found}
    for rule in rules:
        if rule.stack_id is not None and (stack := await stacks.find(conn, rule.stack_id)) is not None:
            names[stack.id] = stack.name
    return {
        rule: RuleTarget(schema_id=rule.schema_id, stack_id=rule.stack_id, name=names[rule.stack_id or rule.schema_id])
        for rule in rules
        if (rule.stack_id or rule.schema_id) in names
    }


async def _cost(conn: Connection, scope: Scope, found: DocumentGroup, general: float | None) -> float | None:
    cost = general
    schema_id = found.rule.schema_id if found.rule is not None else found.table.schema_id if found.table else None
    if schema_id is not None:
        known = await schema_changes.average_cost(conn, scope.org_id, schema_id)
        cost = general if known is None else float(known)
    return None if cost is None else cost * len(found.document_ids)


def _group(
    rows: Sequence[GroupedDocument],
    texts: Mapping[UUID, str],
    tables: Sequence[KnownTable],
    samples: Mapping[UUID, str],
    rules: Mapping[UploadRule, RuleTarget],
    pages: Mapping[UUID, FirstPage],
) -> list[DocumentGroup]:
    members: list[tuple[Likeness, RuleTarget | None, list[GroupedDocument]]] = []
    for row in rows:
        own, rule = likeness(texts.get(row.id, "")), _find_rule(row, rules, pages)
        alike = next((group for other, its, group in members if its == rule and own.is_like(other)), None)
        if alike is None:
            members.append((own, rule, [row]))
        else:
            alike.append(row)
    members.sort(key=lambda member: -len(member[2]))
    return [
        _describe(own, rule, group, texts, next((one for one in tables if _fits(own, one, samples)), None))
        for own, rule, group in members
    ]


def _find_rule(
    row: GroupedDocument, rules: Mapping[UploadRule, RuleTarget], pages: Mapping[UUID, FirstPage]
) -> RuleTarget | None:
    page = pages.get(row.id, FirstPage("", ""))
    rule = find_rule(
        list(rules), filename=row.filename, media_type=row.media_type, text=page.text, outer_text=page.outer_text
    )
    return None if rule is None else rules[rule]


def _fits(own: Likeness, table: KnownTable, samples: Mapping[UUID, str]) -> bool:
    if table.kind is None or document_type(table.kind)[0] != own.kind:
        return False
    return own.kind in KINDS_OF_ONE_TABLE or any(
        own.is_like(likeness(samples[one])) for one in table.sample_ids if one in samples
    )


def _shared_title(texts: Sequence[str]) -> str | None:
    """Return the first heading of a few words that more than half of the texts have in their first lines."""
    headings: Counter[str] = Counter()
    for text in texts:
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()][1 : _TITLE_LINES + 1]
        headings.update({line.casefold(): 0 for line in lines if _TITLE.fullmatch(line)}.keys())
    if len(texts) < 2 or not headings:
        return None
    title, number = headings.most_common(1)[0]
    return title.capitalize() if number > len(texts) / 2 else None


def _describe(
    own: Likeness,
    rule: RuleTarget | None,
    rows: Sequence[GroupedDocument],
    texts: Mapping[UUID, str],
    table: KnownTable | None,
) -> DocumentGroup:
    columns: list[ColumnDefinition] = []
    preview: list[PreviewRow] = []
    if table is None:
        readings = [read_fields(texts.get(row.id, "")) for row in rows[:SAMPLES]]
        columns = suggest_columns(readings, own.kind, _MAX_COLUMNS)
        schema = schema_of(columns) if columns else {}
        preview = [
            PreviewRow(
                document_id=row.id,
                filename=row.filename,
                values={field.keys[0]: field.value for field in read_fields(texts.get(row.id, ""), schema)},
            )
            for row in rows[:_SHOWN_ROWS]
            if columns
        ]
    return DocumentGroup(
        kind=own.kind,
        title=_shared_title([texts.get(row.id, "") for row in rows]),
        document_ids=[row.id for row in rows],
        pages=sum(row.page_count or 0 for row in rows),
        rule=rule,
        table=None
        if table is None
        else TableLike(
            table_id=table.stack_id or table.schema_id,
            stack_id=table.stack_id,
            schema_id=table.schema_id,
            name=table.name,
            documents=table.documents,
        ),
        columns=columns,
        rows=preview,
        estimated_cost_usd=None,
    )
