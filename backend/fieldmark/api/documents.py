"""/api/documents: upload, list, read, rename, tag and delete documents."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, StreamingResponse
from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, JsonValue, SecretStr, TypeAdapter, ValidationError
from starlette.datastructures import FormData, UploadFile

import pagewords
from fieldmark.api.auth import Conn, TheCaller, TheRuntime, TheScope
from fieldmark.api.batch_form import MAX_FILES, ReceivedFile, one_batch_at_a_time, receive_files
from fieldmark.api.downloads import StoredFileResponse
from fieldmark.api.extractions import Evidence
from fieldmark.api.problems import log
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import (
    STORABLE,
    Before,
    Filename,
    Limit,
    Name,
    RequestBody,
    ResponseModel,
    Since,
    StackId,
    Until,
    json_response,
)
from fieldmark.api.webhooks import NewCallback
from fieldmark.domain.document_filters import MAX_IDS
from fieldmark.domain.numbers import exact_float
from fieldmark.domain.permissions import Permission
from fieldmark.domain.statuses import (
    AutoCreationStatus,
    DocumentOrder,
    DocumentStage,
    DocumentStatus,
    ReadingError,
    RunError,
)
from fieldmark.domain.values import value_problem
from fieldmark.errors import FieldmarkError, Invalid, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.identity.tokens import Person
from fieldmark.runs.lifecycle.uploads import Upload, Uploaded, upload
from fieldmark.runtime import Runtime
from fieldmark.services import auto_creations, document_groups, document_list, evidence
from fieldmark.services.api_keys import KeyCaller, has_scope, require_scope
from fieldmark.services.document_groups import DocumentGroups
from fieldmark.services.document_list import KeyValues
from fieldmark.services.fair_share import PAGE_RENDERING
from fieldmark.services.page_images import with_margin
from fieldmark.services.upload_targets import UploadTarget, find_target
from fieldmark.stores import clock, comments, documents, schema_changes
from fieldmark.stores.comments import Comment, Discussion
from fieldmark.stores.documents import DocumentListFilter, DocumentTable
from fieldmark.stores.library import tags
from fieldmark.stores.paging import ListPage
from fieldmark.stores.rows import PageText
from pagewords.jobs import WHOLE_PAGE
from pagewords.reading_warnings import WarningCode, WarningSeverity
from pagewords.render import LONGEST_SIDE, render_page

router = Routes(prefix="/api/documents", tags=["documents"])

PAGES_AT_ONCE = 25

_FRACTION = r"(?:0?\.[0-9]{1,17}|[01](?:\.0{1,17})?)"
_BOX = rf"^{_FRACTION},{_FRACTION},{_FRACTION},{_FRACTION}$"

MAX_PASSWORD = 250  # characters; encoded as UTF-8 they fit the reader's limit


class MatchedDocument(BaseModel):
    """A similar earlier document, with the schema and prompt that were reused from it."""

    document_id: UUID
    schema_id: UUID
    schema_revid: UUID
    prompt_revid: UUID | None
    why: str = Field(description="The reason, one sentence for people.")


class AutoCreation(BaseModel):
    """An agent's suggestion for a document: a schema, a prompt and an extraction."""

    status: AutoCreationStatus
    schema_revid: UUID | None
    prompt_revid: UUID | None
    extraction_id: UUID | None
    run_id: UUID = Field(description="The run that made the suggestion. See `GET /api/runs/{id}/events`.")
    error: str | None = Field(description="Why it failed or did not start.")
    error_code: RunError | None = Field(description="The code of the run's failure.")
    matched: MatchedDocument | None = Field(
        description="Set if the document is similar to an earlier one, whose schema was reused."
    )


class DocumentTag(BaseModel):
    """A tag on a document."""

    id: UUID
    name: str
    color: str = Field(examples=["#1e90ff"])


class Document(ResponseModel):
    """An uploaded file."""

    id: UUID
    filename: str
    media_type: str | None = Field(description="Detected from the content when the document is read.")
    byte_size: int | None
    content_sha256: str | None = Field(description="SHA-256 of the file, in hexadecimal. Known when it is read.")
    external_id: str | None = Field(description="Your own key of it, unique in the organisation.")
    metadata: dict[str, Any] = Field(description="Your own data about it.")
    page_count: int | None
    status: DocumentStatus
    error: str | None = Field(description="Why reading failed and what to do, for people.")
    error_code: ReadingError | None = Field(description="Why reading failed, for programs.")
    parent_document_id: UUID | None = Field(
        description="The document that contains this one: the email of an attachment, the archive of a file."
    )
    duplicate_of: UUID | None = Field(
        description="The organisation's first document with the same bytes, if this one is a later copy. Known at once "
        "for uploads; for other files when they are read."
    )
    tags: list[DocumentTag] = Field(description="By name.")
    created_at: datetime
    created_by: UUID | None = Field(description="The person or key that uploaded it. null: the service.")
    assignee_id: UUID | None = Field(description="The member who checks it. null: no one in particular.")
    auto_create: AutoCreation | None = Field(
        description="An agent's suggestion of a schema. null: none was requested, or the document is not read yet.",
    )
    shown_extraction_id: UUID | None = Field(
        description="The newest extraction with content that is not an undecided suggestion; else one that is still "
        "empty, else the suggestion. Extractions whose run failed or was cancelled are excluded."
    )
    stage: DocumentStage = Field(description="What happens to the document now, or what it needs next.")
    to_review: int = Field(
        0,
        description="The number of fields that a person has to look at, in all extractions of the document that count: "
        "missing, against the schema or a rule, not found, unclear, or with a proposal.",
    )


class NewComment(RequestBody):
    """A comment to add."""

    path: Annotated[str, Field(min_length=1, max_length=1000, pattern=STORABLE)] | None = Field(
        None, description="The path of a value, such as `items[0].total`. null: about the document."
    )
    body: Annotated[str, Field(min_length=1, max_length=5000, pattern=STORABLE)]


class Assignee(RequestBody):
    """Who checks a document."""

    user_id: UUID | None = Field(description="A member who may write. null: no one in particular.")


_ONLY_WITH_DETAILS: Final = "Only with `details`. null for a key without the scope extractions:read."


class ListedDocument(Document):
    """A document of a list."""

    tables: Sequence[DocumentTable] | None = Field(None, description=_ONLY_WITH_DETAILS)
    key_values: KeyValues | None = Field(None, description=_ONLY_WITH_DETAILS)


class UploadedDocument(Document):
    """A document with the run that extracts its fields, if one was requested."""

    run_id: UUID | None = Field(
        description="null: nothing is extracted, or the file may be an archive. Its files get runs when it is unpacked."
    )


class Refusal(BaseModel):
    """Why a file of a batch was refused."""

    code: str = Field(examples=["too_large"])
    detail: str


class BatchItem(BaseModel):
    """A file of a batch: its document, or why it was refused."""

    filename: str
    document: UploadedDocument | None
    error: Refusal | None


class UploadedBatch(BaseModel):
    """The files of a batch, in the order in which they were sent."""

    items: list[BatchItem]


ExternalId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]([ -~]{0,198}[!-~])?$",
        description="Your own key of the document, such as the id of your row. Unique in the organisation: 409 "
        "`external_id_taken`, with the `document_id` that has it.",
        examples=["order-1017"],
    ),
]
MAX_METADATA = 2000


def _check_metadata(value: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(value, ensure_ascii=False)) > MAX_METADATA:
        raise ValueError(f"The metadata is longer than {MAX_METADATA:,} characters of JSON.")
    if problem := value_problem(value):
        raise ValueError(f"The metadata cannot be stored. {problem}")
    return value


Metadata = Annotated[
    dict[str, Any],
    AfterValidator(_check_metadata),
    Field(description="Your own data about the document, a JSON object of at most 2,000 characters."),
]


class _OwnData(BaseModel):
    """The parts of an upload's form beside the file."""

    external_id: ExternalId | None = None
    metadata: Metadata | None = None
    callback: NewCallback | None = None


class Acceptance(RequestBody):
    """Options when accepting a suggestion."""

    tags: Annotated[list[UUID], Field(max_length=100)] = Field([], description="Tags to add to the document.")


class ReadingWarning(ResponseModel):
    """A part of a document that was not read, or not read reliably."""

    code: WarningCode
    severity: WarningSeverity = Field(description="`info`: the document was read completely.")
    page: int | None = Field(description="null: the whole file.")
    message: str = Field(description="One sentence for people.")
    count: int = Field(description="The number of words, lines or cells; for uncertain_text the certainty in percent.")
    excerpt: str = Field(
        description="The start of the hidden text, or the cells concerned. Untrusted text of the document, at most 200 "
        "characters."
    )


class DocumentDetails(Document):
    """A document with its warnings and the documents inside it."""

    warnings: list[ReadingWarning]
    children: list[Document] = Field(description="The documents inside it, in order. They are deleted with it.")


AutoCreate = Annotated[
    bool | None,
    Query(
        description="Whether an agent suggests a schema, a prompt and an extraction when the document is read. "
        "Default: by the organisation's rules and its setting. false: it is only stored. A key needs runs:write for "
        "true.",
    ),
]

Extract = Annotated[
    str | None,
    Query(
        max_length=200,
        pattern=STORABLE,
        description="Also extract the fields, as soon as the document is read, with this stored schema: its name, its "
        "id, or the id of a version. Empty: without a schema. A key needs runs:write for it.",
    ),
]
Table = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        pattern=STORABLE,
        description="Also make it a row of this table, read as soon as possible: the name or id of a stack or of a "
        "schema. A key needs runs:write and extractions:write for it.",
    ),
]
_UPLOADS_AT_ONCE = 4
_FILES = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "properties": {
                        "files": {
                            "type": "array",
                            "maxItems": MAX_FILES,
                            "items": {"type": "string", "format": "binary"},
                        }
                    },
                }
            }
        },
    }
}

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


class StoredObject(RequestBody):
    """An object that a front end has put into the bucket `documents`."""

    storage_path: Annotated[
        str,
        Field(
            max_length=500,
            description="<your organisation's id>/<a new document id>/<name>",
            # Only for clients: names that every storage accepts.
            json_schema_extra={"pattern": rf"^{_UUID}/{_UUID}/(?!\.+$)[A-Za-z0-9_!'()*&$@=;:+,? .-]{{1,200}}$"},
        ),
    ]


class DocumentChange(RequestBody):
    """Changes of a document. Fields that are left out stay unchanged."""

    filename: Name | None = Field(
        None, description="One line without invisible characters. The stored original keeps its name."
    )
    tags: Annotated[list[UUID], Field(max_length=100)] | None = Field(None, description="Replaces all tags.")
    external_id: ExternalId | None = None
    metadata: Metadata | None = Field(None, description="Replaces your own data about the document.")


class Password(RequestBody):
    """The password of a protected file."""

    password: Annotated[SecretStr, Field(min_length=1, max_length=MAX_PASSWORD)]


class ValuesToGround(RequestBody):
    """Values to find in a document."""

    values: JsonValue = Field(description="Any JSON, such as the output of a model.")
    quotes: Annotated[dict[str, Annotated[str, Field(max_length=2000)]], Field(max_length=1000)] = Field(
        {}, description="Texts that show a value, by path. A yes or no needs one."
    )


class GroundedValue(Evidence):
    """A value with its location in the document."""

    path: str
    value: JsonValue
    confidence: float | None = Field(description="null: a blank.")


class GroundedValues(BaseModel):
    """The values, in their order."""

    items: list[GroundedValue]


class Word(BaseModel):
    """A word and its box in fractions of the page (0 to 1), origin top left."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    confidence: float | None = Field(description="Of the OCR, 0 to 1. null: the text is in the file.")


class Page(BaseModel):
    """A page with its words. Width and height in points, or in pixels for images."""

    number: int
    width: float
    height: float
    text: str
    words: list[Word]
    engine: str


@router.post(
    "",
    status_code=201,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "required": ["file"],
                        "properties": {
                            "file": {"type": "string", "format": "binary"},
                            "password": {
                                "type": "string",
                                "minLength": 1,
                                "maxLength": MAX_PASSWORD,
                                "description": "The password of a protected PDF or Office file. It is not stored; an "
                                "unprotected copy is stored next to the original.",
                            },
                            "external_id": {
                                "type": "string",
                                "minLength": 1,
                                "maxLength": 200,
                                "description": "Your own key of the document. Unique in the organisation.",
                            },
                            "metadata": {
                                "type": "string",
                                "maxLength": MAX_METADATA,
                                "description": "Your own data about it: a JSON object. It is returned with the "
                                "document, and in changes and webhooks.",
                            },
                            "callback": {
                                "type": "string",
                                "maxLength": 3000,
                                "description": "With `extract` or `table`: where the changes of the run are sent. The "
                                "text of a JSON object, as `callback` of POST /api/agent/extract.",
                            },
                        },
                    }
                },
            },
        }
    },
)
async def upload_document(
    request: Request,
    caller: TheCaller,
    scope: TheScope,
    runtime: TheRuntime,
    auto_create: AutoCreate = None,
    stack_id: Annotated[
        UUID | None,
        Query(description="Also add the document to this stack. A key needs extractions:write for it."),
    ] = None,
    extract: Extract = None,
    table: Table = None,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=200,
            description="A repeated key returns the same document and run. 422 `idempotency_key_reused` for another "
            "file.",
        ),
    ] = None,
) -> UploadedDocument:
    """Upload a file. A job starts to read it at once. With `extract` or `table`, an agent then extracts its fields, and
    those of the files in an archive or mail: this is all that a system needs to call, if it reads `/api/changes` or has
    a webhook. If anything is refused, nothing is stored."""
    target = await _target(caller, scope, runtime, auto_create, extract, table)
    if stack_id is not None:
        require_scope(caller, Permission.EXTRACTIONS_WRITE, "stack_id")
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise Invalid("The request is not a form. Send the file as multipart/form-data, in a part named file.")
    async with request.form(max_files=1, max_fields=10) as form:
        file, password = form.get("file"), form.get("password")
        external_id, metadata, to_call = _own_data(form)
        callback = to_call and to_call.check(runtime.settings.private_networks)
        if not isinstance(file, UploadFile):
            raise Invalid("The form has no file. Send the file in a part named file.")
        if password is not None and not (isinstance(password, str) and 0 < len(password) <= MAX_PASSWORD):
            raise Invalid(f"The form's password must be a text of 1 to {MAX_PASSWORD} characters.")
        with tempfile.NamedTemporaryFile(prefix="fieldmark-upload-") as copy:
            await asyncio.to_thread(shutil.copyfileobj, file.file, copy)
            copy.flush()
            given = Upload(
                Path(copy.name),
                file.filename or "document",
                target,
                password=password,
                auto_create=auto_create,
                stack_id=stack_id,
                external_id=external_id,
                metadata=metadata,
                idempotency_key=idempotency_key,
                callback=callback,
            )
            return _uploaded(await upload(runtime.database, runtime.documents, scope, given, prices=runtime.prices))


@router.post("/batch", status_code=201, openapi_extra=_FILES)
async def upload_batch(
    request: Request,
    caller: TheCaller,
    scope: TheScope,
    runtime: TheRuntime,
    auto_create: AutoCreate = None,
    extract: Extract = None,
    table: Table = None,
    idempotency_key: Annotated[
        str | None,
        Header(min_length=1, max_length=150, description="A repeated key with the same files returns the same result."),
    ] = None,
) -> UploadedBatch:
    """Upload up to 1,000 files in one request, each as a document of its own: all in order, each with its document and
    run, or with the reason for which it was refused. Their runs are part of a batch, which delays no one. An
    organisation has one such request at a time."""
    target = await _target(caller, scope, runtime, auto_create, extract, table)
    with tempfile.TemporaryDirectory(prefix="fieldmark-batch-") as folder:
        async with one_batch_at_a_time(scope.org_id):
            files = await receive_files(request, Path(folder))
            slots = asyncio.Semaphore(_UPLOADS_AT_ONCE)

            async def upload_file(number: int, file: ReceivedFile) -> BatchItem:
                key = None if idempotency_key is None else f"{idempotency_key} {number}"
                given = Upload(
                    file.path,
                    file.filename,
                    target,
                    auto_create=auto_create,
                    idempotency_key=key,
                    background=True,
                )
                async with slots:
                    try:
                        made = await upload(runtime.database, runtime.documents, scope, given, prices=runtime.prices)
                    except FieldmarkError as error:
                        refusal = Refusal(code=error.code, detail=str(error))
                        return BatchItem(filename=file.filename, document=None, error=refusal)
                    finally:
                        file.path.unlink()
                return BatchItem(filename=file.filename, document=_uploaded(made), error=None)

            items = await asyncio.gather(*(upload_file(number, file) for number, file in enumerate(files, 1)))
    return UploadedBatch(items=items)


async def _target(
    caller: Person | KeyCaller,
    scope: Scope,
    runtime: Runtime,
    auto_create: bool | None,
    extract: str | None,
    table: str | None,
) -> UploadTarget:
    """Return what the uploads of a request become. Raise ScopeMissing, NotFound, Conflict."""
    for is_given, name in (
        (extract is not None, "extract"),
        (table is not None, "table"),
        (auto_create, "auto_create"),
    ):
        if is_given:
            require_scope(caller, Permission.RUNS_WRITE, name)
    if table is not None:
        require_scope(caller, Permission.EXTRACTIONS_WRITE, "table")
    async with runtime.database.as_user(scope) as conn:
        return await find_target(conn, scope, schema=extract, table=table)


def _uploaded(made: Uploaded) -> UploadedDocument:
    return UploadedDocument.of({**asdict(made.document), "run_id": made.run_id})


def _own_data(form: FormData) -> tuple[str | None, dict[str, Any] | None, NewCallback | None]:
    """Return the external id, the metadata and the callback of a form. Raise Invalid."""
    values: dict[str, Any] = {}
    for name in ("metadata", "callback"):
        if (text := form.get(name)) is not None:
            try:
                values[name] = json.loads(str(text), parse_float=exact_float)
            except (ValueError, RecursionError):
                raise Invalid(f"The part {name} of the form is not the text of a JSON object.") from None
    if (external_id := form.get("external_id")) is not None:
        values["external_id"] = external_id
    try:
        own = _OwnData.model_validate(values)
    except ValidationError as error:
        raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in error.errors()]) from None
    return own.external_id, own.metadata, own.callback


@router.post("/adopt", status_code=201)
async def adopt_document(
    body: StoredObject, caller: TheCaller, scope: TheScope, runtime: TheRuntime, auto_create: AutoCreate = None
) -> Document:
    """Create a document from an object that a front end has put into the bucket `documents`. A job starts to read it at
    once."""
    if auto_create:
        require_scope(caller, Permission.RUNS_WRITE, "auto_create")
    return Document.of(await runtime.documents.adopt(scope, body.storage_path, auto_create=auto_create))


def get_filters(
    caller: TheCaller,
    parent_document_id: Annotated[UUID | None, Query(description="Only documents inside this one.")] = None,
    status: Annotated[DocumentStatus | None, Query(description="Only documents of this status.")] = None,
    stage: Annotated[DocumentStage | None, Query(description="Only documents at this stage.")] = None,
    media_type: Annotated[
        str | None, Query(max_length=200, pattern=STORABLE, description="Only files of this type.")
    ] = None,
    tag_id: Annotated[UUID | None, Query(description="Only documents with this tag.")] = None,
    filename: Filename = None,
    since: Since = None,
    until: Until = None,
    document_id: Annotated[list[UUID] | None, Query(max_length=MAX_IDS, description="Only these documents.")] = None,
    stack_id: StackId = None,
    external_id: Annotated[
        str | None, Query(min_length=1, max_length=200, pattern=STORABLE, description="Only the document with this.")
    ] = None,
    changed_since: Annotated[
        AwareDatetime | None,
        Query(description="Only documents that were added, or have an entry in the feed of changes, since this time."),
    ] = None,
) -> DocumentListFilter:
    if stack_id is not None:
        require_scope(caller, Permission.EXTRACTIONS_READ, "a filter on stacks")
    return DocumentListFilter(
        *(parent_document_id, status, media_type, filename, since, until, tag_id, document_id, stage, stack_id),
        external_id=external_id,
        changed_since=changed_since,
    )


Filters = Annotated[DocumentListFilter, Depends(get_filters)]


@router.get("")
async def list_documents(
    caller: TheCaller,
    scope: TheScope,
    runtime: TheRuntime,
    filters: Filters,
    limit: Limit = 50,
    before: Before = None,
    sort: Annotated[
        DocumentOrder | None, Query(description="What the list is sorted by. Default: newest first.")
    ] = None,
    descending: Annotated[bool, Query(description="With `sort`: from the highest value to the lowest.")] = False,
    details: Annotated[
        bool,
        Query(description="Also return tables and identifying values, to those who may read extractions."),
    ] = False,
) -> ListPage[ListedDocument]:
    """List the organisation's documents, newest first."""
    async with runtime.database.as_user(scope) as conn:
        page = await documents.list_documents(
            conn, scope.org_id, limit=limit, before=before, filters=filters, sort=sort, descending=descending
        )
        with_details = details and has_scope(caller, Permission.EXTRACTIONS_READ)
        found = await document_list.details(conn, page.items if with_details else [])
    return ListPage(
        items=[
            ListedDocument.of(asdict(row) | (asdict(found[row.id]) if row.id in found else {})) for row in page.items
        ],
        next=page.next,
    )


class DocumentTotals(ResponseModel):
    """A number of documents, with their pages and bytes."""

    count: int
    pages: int
    bytes: int
    average_cost_usd: float | None = Field(
        description="What it cost on average to extract the fields of a document, of the last 50. null: not known, or "
        "the key has no scope extractions:read."
    )


@router.get("/count")
async def count_documents(caller: TheCaller, scope: TheScope, conn: Conn, filters: Filters) -> DocumentTotals:
    """Count the documents of a list."""
    totals = await documents.count_documents(conn, scope.org_id, filters)
    may_read_cost = has_scope(caller, Permission.EXTRACTIONS_READ)
    cost = await schema_changes.average_cost(conn, scope.org_id, None) if may_read_cost else None
    return DocumentTotals.of({**asdict(totals), "average_cost_usd": cost})


class DocumentsToGroup(RequestBody):
    """Documents to group."""

    document_ids: Annotated[list[UUID], Field(min_length=1, max_length=1_000)]


@router.post("/groups")
async def group_documents(body: DocumentsToGroup, scope: TheScope, runtime: TheRuntime) -> DocumentGroups:
    """Group documents, with the files inside them, by likeness: which table each group fits into, or which columns a
    new one could have, with a preview of its rows. By fixed rules: it changes nothing and costs nothing."""
    return await document_groups.group(runtime.database, scope, body.document_ids)


@router.get("/{document_id}")
async def get_document(document_id: UUID, scope: TheScope, runtime: TheRuntime) -> DocumentDetails:
    """Return a document with its warnings and the documents inside it."""
    async with runtime.database.as_user(scope) as conn:
        row = await documents.get(conn, document_id)
        warnings = await documents.warnings(conn, document_id)
        children = await documents.children(conn, document_id)
    return DocumentDetails.of({**asdict(row), "warnings": warnings, "children": children})


@router.patch("/{document_id}")
async def update_document(document_id: UUID, body: DocumentChange, conn: Conn) -> Document:
    """Rename a document, replace its tags, or set your own key and data of it."""
    if body.filename is not None:
        await documents.rename(conn, document_id, body.filename)
    if body.external_id is not None or body.metadata is not None:
        await documents.set_own_data(conn, document_id, external_id=body.external_id, metadata=body.metadata)
    if body.tags is not None:
        await tags.set_document_tags(conn, document_id, body.tags)
    return Document.of(await documents.get(conn, document_id))


@router.post("/{document_id}/ground")
async def ground_values(
    document_id: UUID, body: ValuesToGround, scope: TheScope, runtime: TheRuntime
) -> GroundedValues:
    """Find where the values of any JSON are printed in a document that was read. Changes nothing."""
    if problem := value_problem(body.values):
        raise Invalid(f"The values cannot be searched. {problem}")
    async with runtime.database.as_user(scope) as conn:
        await documents.find_read(conn, document_id)
    found = await evidence.ground(runtime.database, scope, document_id, body.values, body.quotes)
    return GroundedValues(items=[GroundedValue.model_validate(one) for one in found])


@router.post("/{document_id}/read", status_code=202)
async def read_document(document_id: UUID, body: Password, scope: TheScope, runtime: TheRuntime) -> Document:
    """Read a document again that needs a password (`error_code` is `password`). The password is not stored. 422
    `password` if it is wrong."""
    password = body.password.get_secret_value()
    return Document.of(await runtime.documents.queue_reading_with_password(scope, document_id, password))


@router.post("/{document_id}/auto_create/accept")
async def accept_auto_creation(
    document_id: UUID, caller: TheCaller, conn: Conn, body: Acceptance | None = None
) -> Document:
    """Accept an agent's suggestion for a document, and add tags to the document. Return the document."""
    row = await auto_creations.decide(conn, document_id, accepted=True)
    if body is None or not body.tags:
        return Document.of(row)
    require_scope(caller, Permission.DOCUMENTS_WRITE, "`tags`")
    await tags.change_document_tags(conn, document_id, add=body.tags)
    return Document.of(await documents.get(conn, document_id))


@router.post("/{document_id}/auto_create/reject")
async def reject_auto_creation(document_id: UUID, conn: Conn) -> Document:
    """Reject an agent's suggestion for a document. What its run created is deleted, except what people have changed
    since. Return the document."""
    return Document.of(await auto_creations.decide(conn, document_id, accepted=False))


@router.get("/{document_id}/discussion")
async def get_discussion(document_id: UUID, conn: Conn) -> Discussion:
    """Return who checks a document, and what members wrote about it."""
    return await comments.discussion_of(conn, document_id)


@router.put("/{document_id}/assignee", status_code=204)
async def assign_document(document_id: UUID, body: Assignee, conn: Conn) -> None:
    """Assign a document to a member, or to no one. 404 for a user who may not write in the organisation."""
    await comments.assign(conn, document_id, body.user_id)


@router.post("/{document_id}/comments", status_code=201)
async def add_comment(document_id: UUID, body: NewComment, conn: Conn) -> Comment:
    """Comment on a document or on one of its values. All members can read it."""
    return await comments.add(conn, document_id, body.path, body.body)


@router.delete("/{document_id}/comments/{comment_id}", status_code=204)
async def delete_comment(document_id: UUID, comment_id: UUID, conn: Conn) -> None:
    """Delete a comment. A member can delete their own, an owner any."""
    await comments.remove(conn, document_id, comment_id)


@router.delete("/{document_id}", status_code=204)
async def delete_document(document_id: UUID, scope: TheScope, runtime: TheRuntime) -> None:
    """Delete a document with its pages, extractions, runs, original file, and the documents inside it."""
    await runtime.documents.remove(scope, document_id)


_PAGE_TEXT = TypeAdapter(PageText)
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


@router.get(
    "/{document_id}/file",
    response_class=Response,
    responses={
        200: {"description": "The original", "content": _BYTES},
        206: {"description": "The bytes that `Range` requests", "content": _BYTES},
        307: {"description": "With `redirect`: the address of the original in object storage"},
    },
)
async def download_document(
    document_id: UUID,
    scope: TheScope,
    runtime: TheRuntime,
    redirect: Annotated[
        bool,
        Query(
            description="If originals are in object storage: answer with a redirect to it. Anyone who has the address "
            "can download this one file for a minute."
        ),
    ] = False,
) -> Response:
    """Download the original file, still protected if it has a password. Browsers save it and never show it. `Range`
    requests a part of it."""
    async with runtime.database.as_user(scope) as conn:
        row = await documents.get(conn, document_id)
        clock_lag = await clock.lag(conn) if redirect else timedelta()
    if redirect and (url := await runtime.files.signed_url(row.storage_path, clock_lag)) is not None:
        return RedirectResponse(url, headers={"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
    return StoredFileResponse(runtime.files, row.storage_path, row.filename, row.content_sha256 or str(row.id))


@router.get("/{document_id}/text", response_model=list[PageText])
async def get_document_text(
    document_id: UUID,
    scope: TheScope,
    runtime: TheRuntime,
    first: Annotated[int, Query(ge=1, description="The first page, counted from 1.")] = 1,
    last: Annotated[int | None, Query(ge=1, description="The last page. Default: the document's last page.")] = None,
) -> Response:
    """Return the text of pages `first` to `last`. Default: all pages."""
    batches = _page_batches(runtime, scope, document_id, first, last)
    first_batch = await anext(batches)  # raises its errors before the response starts
    return StreamingResponse(_json_list(first_batch, batches), media_type="application/json")


async def _page_batches(
    runtime: Runtime, scope: Scope, document_id: UUID, first: int, last: int | None
) -> AsyncGenerator[list[PageText]]:
    # The text of a whole document may have hundreds of megabytes.
    while True:
        until = first + PAGES_AT_ONCE - 1 if last is None else min(last, first + PAGES_AT_ONCE - 1)
        async with runtime.database.as_user(scope) as conn:
            await documents.find_read(conn, document_id)
            rows = await documents.pages(conn, document_id, first, until)
        yield rows
        if until == last or len(rows) < PAGES_AT_ONCE:
            return
        first = until + 1


async def _json_list(rows: list[PageText], batches: AsyncGenerator[list[PageText]]) -> AsyncGenerator[bytes]:
    separator = b"["
    try:
        while True:
            for row in rows:
                yield separator + _PAGE_TEXT.dump_json(row)
                separator = b","
            if (batch := await anext(batches, None)) is None:
                break
            rows = batch
    except FieldmarkError as error:  # such as a document deleted meanwhile: the client gets an unclosed list
        log.warning("text aborted", reason=error.code)
        return
    yield b"[]" if separator == b"[" else b"]"


@router.get(
    "/{document_id}/pages/{number}.png",
    response_class=Response,
    responses={200: {"description": "The page", "content": {"image/png": {}}}},
)
async def get_page_image(
    document_id: UUID,
    number: int,
    scope: TheScope,
    runtime: TheRuntime,
    width: Annotated[
        int | None,
        Query(
            ge=32,
            le=LONGEST_SIDE,
            description="Width in pixels, limited to 600 dpi or four times a scan's own pixels. Default: 144 dpi, or a "
            "scan's own.",
        ),
    ] = None,
    box: Annotated[
        str | None,
        Query(
            max_length=100,
            description="x0,y0,x1,y1 in fractions of the page, as in evidence: return only this area with a margin, "
            "its own height above and below and twice that on each side. The header `X-Box` has the area returned.",
            json_schema_extra={"pattern": _BOX},
        ),
    ] = None,
) -> Response:
    """Return a page, or an area of it, as a PNG. The boxes of words refer to this image."""
    area = WHOLE_PAGE if box is None else with_margin(_parse_box(box))
    async with runtime.database.as_user(scope) as conn:
        document = await documents.find_read(conn, document_id)
    if not 1 <= number <= (document.page_count or 0):
        raise NotFound("There is no such page.")
    # A document's content never changes under its id.
    key = (document_id, number, area, width)
    image = runtime.page_images.get(key)
    if image is None:
        async with PAGE_RENDERING.slot(scope.org_id), runtime.files.local(document.readable_path) as path:
            image = await render_page(
                path, document.media_type or "", number, runtime.reading_limits, box=area, width=width
            )
        runtime.page_images.keep(key, image)
    headers = {"Cache-Control": "private, max-age=86400, immutable", "X-Box": ",".join(f"{edge:.5f}" for edge in area)}
    return Response(image, media_type="image/png", headers=headers)


def _parse_box(text: str) -> tuple[float, float, float, float]:
    """Return the box in a query parameter. Raise Invalid if it is malformed or empty."""
    if re.fullmatch(_BOX, text, re.ASCII):
        x0, y0, x1, y1 = map(float, text.split(","))
        if x0 < x1 and y0 < y1:
            return x0, y0, x1, y1
    raise Invalid(
        "`box` must be left,top,right,bottom in fractions of the page from 0 to 1, such as 0.1,0.2,0.3,0.25, with "
        "left < right and top < bottom."
    )


@router.get("/{document_id}/pages/{number}", response_model=Page)
async def get_page(document_id: UUID, number: int, scope: TheScope, runtime: TheRuntime) -> Response:
    """Return a page: its text, its size, and its words with boxes."""
    async with runtime.database.as_user(scope) as conn:
        await documents.find_read(conn, document_id)
        row = await documents.page(conn, document_id, number)
    if row is None:
        raise NotFound("There is no such page.")
    return await json_response(_page, row)


def _page(row: pagewords.Page) -> Page:
    words = [Word(**word._asdict()) for word in row.words]
    return Page(number=row.number, width=row.width, height=row.height, text=row.text, words=words, engine=row.engine)
