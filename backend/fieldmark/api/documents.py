"""/api/documents: upload, list, look at, name and tag, delete."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated
from uuid import UUID

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field, SecretStr
from starlette.datastructures import UploadFile

from fieldmark.api.auth import Conn, TheCaller, TheRuntime, TheScope
from fieldmark.api.downloads import StoredFile
from fieldmark.api.problems import log
from fieldmark.api.routing import Routes
from fieldmark.api.shapes import STORABLE, Before, Body, Filename, Limit, ListPage, Name, Shown, Since, Until, json_of
from fieldmark.documents.reading.jobs import WHOLE_PAGE
from fieldmark.documents.render import LONGEST_SIDE, render_page, with_margin
from fieldmark.domain.document_filters import MAX_IDS
from fieldmark.domain.permissions import Permission
from fieldmark.domain.reading_warnings import WarningCode, WarningSeverity
from fieldmark.domain.statuses import AutoCreationStatus, DocumentStage, DocumentStatus, ReadingError
from fieldmark.errors import FieldmarkError, Invalid, NotFound
from fieldmark.identity.scope import Scope
from fieldmark.runtime import Runtime
from fieldmark.services import auto_creations, extractions
from fieldmark.services.api_keys import require_scope
from fieldmark.services.turns import DRAWING
from fieldmark.stores import documents
from fieldmark.stores.documents import DocumentFilter
from fieldmark.stores.library import tags
from fieldmark.stores.rows import DocumentRow, PageRow
from fieldmark.stores.rows import PageText as PageTextRow

router = Routes(prefix="/api/documents", tags=["documents"])

PAGES_AT_ONCE = 25

_PART = r"(?:0?\.[0-9]{1,17}|[01](?:\.0{1,17})?)"
_BOX = rf"^{_PART},{_PART},{_PART},{_PART}$"

MAX_PASSWORD = 250  # characters; as UTF-8 no more than the reader takes


class Matched(BaseModel):
    """The earlier document that one is like, and what was taken from it in the place of something new."""

    document_id: UUID
    schema_id: UUID
    schema_revid: UUID
    prompt_revid: UUID | None
    why: str = Field(description="One sentence for people.")


class AutoCreation(BaseModel):
    """What an agent has proposed for a document by itself: a schema, a prompt and an extraction."""

    status: AutoCreationStatus
    schema_revid: UUID | None
    prompt_revid: UUID | None
    extraction_id: UUID | None
    run_id: UUID = Field(description="Its conversation: see `GET /api/runs/{id}/events`.")
    error: str | None = Field(description="Why it failed, or was not even begun.")
    matched: Matched | None = Field(description="Where the document is like an earlier one: no new schema was made.")


class DocumentTag(BaseModel):
    """A tag on a document."""

    id: UUID
    name: str
    color: str = Field(examples=["#1e90ff"])


class Document(Shown):
    """An uploaded file."""

    id: UUID
    filename: str
    media_type: str | None = Field(description="Told from the content, once it is read.")
    byte_size: int | None
    page_count: int | None
    status: DocumentStatus
    error: str | None = Field(description="Why it failed: one sentence a person can act on.")
    error_code: ReadingError | None = Field(description="Why it failed, for programs.")
    parent_document_id: UUID | None = Field(
        description="The document that it was inside of: the mail it was attached to, the archive it was packed into."
    )
    duplicate_of: UUID | None = Field(
        description="The organisation's first document with the same bytes, where this one came later. Told at once of "
        "an upload, of other files when they are read."
    )
    tags: list[DocumentTag] = Field(description="By name.")
    created_at: datetime
    auto_create: AutoCreation | None = Field(
        description="What an agent has proposed for it by itself; null where it was never asked to, and before the "
        "document is read.",
    )
    current_extraction_id: UUID | None = Field(
        description="The newest completed extraction, else the newest that is in progress or proposed; never one whose "
        "run failed or was cancelled."
    )
    stage: DocumentStage = Field(description="What happens to it now, or what it needs next.")
    to_review: int | None = Field(
        None,
        description="In how many places a person should look at the current extraction: what is missing, breaks the "
        "schema or a rule, is unsure, or has a proposal. Where the stage is `needs_review`.",
    )


class Acceptance(Body):
    """What comes with the acceptance of a proposal."""

    tags: Annotated[list[UUID], Field(max_length=100)] = Field([], description="Tags to put on the document, too.")


class ReadingWarning(Shown):
    """What of a document was not read, or not read well."""

    code: WarningCode
    severity: WarningSeverity = Field(description="`info`: nothing that a person can see is missing or uncertain.")
    page: int | None = Field(description="null: it is about the whole file.")
    message: str = Field(description="One sentence for people.")
    count: int = Field(description="How many words, lines or cells; the certainty in per cent for uncertain_text.")
    excerpt: str = Field(
        description="How the hidden words begin, or which cells: at most 200 characters of foreign text, to be shown "
        "as such."
    )


class DocumentInFull(Document):
    """A document with what a person should know of it, and the documents that were inside it."""

    warnings: list[ReadingWarning]
    children: list[Document] = Field(description="In their order there. They are deleted with it.")


AutoCreate = Annotated[
    bool | None,
    Query(
        description="Whether an agent proposes a schema, a prompt and an extraction when the document is read. Left "
        "out: as the organisation's setting says. A key needs runs:write for it.",
    ),
]

# Told to clients: names that every storage takes, of those that are taken here.
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


class StoredObject(Body):
    """An object that a front end has put into the bucket `documents` already."""

    storage_path: Annotated[
        str,
        Field(
            max_length=500,
            description="<your organisation's id>/<a new document id>/<name>",
            json_schema_extra={"pattern": rf"^{_UUID}/{_UUID}/(?!\.+$)[A-Za-z0-9_!'()*&$@=;:+,? .-]{{1,200}}$"},
        ),
    ]


class DocumentChange(Body):
    """Another name, other tags, or both. What is left out stays."""

    filename: Name | None = Field(None, description="One line without what nobody sees. The original keeps its own.")
    tags: Annotated[list[UUID], Field(max_length=100)] | None = Field(None, description="These and no others.")


class Password(Body):
    """The password of a protected file."""

    password: Annotated[SecretStr, Field(min_length=1, max_length=MAX_PASSWORD)]


class PageText(BaseModel):
    """The text of a page."""

    number: int
    text: str


class Word(BaseModel):
    """A word and its box, 0..1 of the page, origin top left."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    confidence: float | None = Field(description="The OCR's, 0..1; null where the text was read from the file.")


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
                                "description": "Of a protected PDF or Office file. It is used at once, and kept "
                                "nowhere; a copy of the file without it is kept beside the original.",
                            },
                        },
                    }
                },
            },
        }
    },
)
async def upload_document(
    request: Request, caller: TheCaller, scope: TheScope, runtime: TheRuntime, auto_create: AutoCreate = None
) -> Document:
    """Upload a file. Its reading begins at once, as a job."""
    if auto_create:
        require_scope(caller, Permission.RUNS_WRITE, "auto_create needs")
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise Invalid("Send the file as multipart/form-data, in a part named file.")
    async with request.form(max_files=1, max_fields=10) as form:
        file, password = form.get("file"), form.get("password")
        if not isinstance(file, UploadFile):
            raise Invalid("The form has no file in a part named file.")
        if password is not None and not (isinstance(password, str) and 0 < len(password) <= MAX_PASSWORD):
            raise Invalid(f"The form's password is a text of 1 to {MAX_PASSWORD} characters.")
        with tempfile.NamedTemporaryFile(prefix="fieldmark-upload-") as copy:
            await asyncio.to_thread(shutil.copyfileobj, file.file, copy)
            copy.flush()
            name = file.filename or "document"
            return Document.of(
                await runtime.documents.upload(scope, Path(copy.name), name, password, auto_create=auto_create)
            )


@router.post("/adopt", status_code=201)
async def adopt_document(
    body: StoredObject, caller: TheCaller, scope: TheScope, runtime: TheRuntime, auto_create: AutoCreate = None
) -> Document:
    """Make a document of an object that a front end has put into the bucket `documents` already. Its reading begins at
    once, as a job."""
    if auto_create:
        require_scope(caller, Permission.RUNS_WRITE, "auto_create needs")
    return Document.of(await runtime.documents.adopt(scope, body.storage_path, auto_create=auto_create))


@router.get("")
async def list_documents(
    scope: TheScope,
    runtime: TheRuntime,
    limit: Limit = 50,
    before: Before = None,
    parent_document_id: Annotated[UUID | None, Query(description="Only those that were inside this document.")] = None,
    status: Annotated[DocumentStatus | None, Query(description="Only documents of this status.")] = None,
    stage: Annotated[DocumentStage | None, Query(description="Only documents at this stage.")] = None,
    media_type: Annotated[
        str | None, Query(max_length=200, pattern=STORABLE, description="Only files of this type.")
    ] = None,
    tag_id: Annotated[UUID | None, Query(description="Only those with this tag.")] = None,
    filename: Filename = None,
    since: Since = None,
    until: Until = None,
    document_id: Annotated[list[UUID] | None, Query(max_length=MAX_IDS, description="Only these.")] = None,
) -> ListPage[Document]:
    """The organisation's documents, newest first."""
    wanted = DocumentFilter(parent_document_id, status, media_type, filename, since, until, tag_id, document_id, stage)
    async with runtime.database.as_user(scope) as conn:
        page = await documents.list_documents(conn, scope.org_id, limit=limit, before=before, wanted=wanted)
    return ListPage[Document](items=await _with_counts(runtime, scope, page.items), next=page.next)


async def _with_counts(runtime: Runtime, scope: Scope, rows: Sequence[DocumentRow]) -> list[Document]:
    """Return documents with the number of places to review in each."""
    current = [row.current_extraction_id for row in rows if row.stage is DocumentStage.NEEDS_REVIEW]
    counts = await extractions.count_to_review(runtime.database, scope, [one for one in current if one is not None])
    return [Document.of({**asdict(row), "to_review": counts.get(row.current_extraction_id or row.id)}) for row in rows]


class DocumentCount(BaseModel):
    """How many documents there are."""

    count: int


@router.get("/count")
async def count_documents(
    scope: TheScope, conn: Conn, stage: Annotated[DocumentStage, Query(description="Only documents at this stage.")]
) -> DocumentCount:
    """How many of the organisation's documents are at a stage."""
    return DocumentCount(count=await documents.count_documents(conn, scope.org_id, stage))


@router.get("/{document_id}")
async def get_document(document_id: UUID, scope: TheScope, runtime: TheRuntime) -> DocumentInFull:
    """One document, with warnings of what was not read, or not read well."""
    async with runtime.database.as_user(scope) as conn:
        row = await documents.find(conn, document_id)
        warnings = await documents.warnings(conn, document_id)
        inside = await documents.children(conn, document_id)
    (document,) = await _with_counts(runtime, scope, [row])
    return DocumentInFull.of({**asdict(row), "to_review": document.to_review, "warnings": warnings, "children": inside})


@router.patch("/{document_id}")
async def update_document(document_id: UUID, body: DocumentChange, conn: Conn) -> Document:
    """Give a document another name, other tags, or both."""
    if body.filename is not None:
        await documents.rename(conn, document_id, body.filename)
    if body.tags is not None:
        await tags.set_of_document(conn, document_id, body.tags)
    return Document.of(await documents.find(conn, document_id))


@router.post("/{document_id}/read", status_code=202)
async def read_document(document_id: UUID, given: Password, scope: TheScope, runtime: TheRuntime) -> Document:
    """Read a document once more that failed for want of its password (`error_code` is `password`). The password is used
    at once and kept nowhere; if it is wrong, the answer is 422 with the code `password`."""
    return Document.of(await runtime.documents.read_with(scope, document_id, given.password.get_secret_value()))


@router.post("/{document_id}/auto_create/accept")
async def accept_auto_creation(
    document_id: UUID, caller: TheCaller, conn: Conn, body: Acceptance | None = None
) -> Document:
    """Accept what an agent has proposed for a document, and put tags on the document if any are given. Return the
    document."""
    row = await auto_creations.decide(conn, document_id, accepted=True)
    if body is None or not body.tags:
        return Document.of(row)
    require_scope(caller, Permission.DOCUMENTS_WRITE, "`tags` need")
    await tags.change_of_document(conn, document_id, add=body.tags)
    return Document.of(await documents.find(conn, document_id))


@router.post("/{document_id}/auto_create/reject")
async def reject_auto_creation(document_id: UUID, conn: Conn) -> Document:
    """Reject what an agent has proposed for a document: what its run made is gone, and nothing else. What somebody has
    changed of it stays. Answers the document."""
    return Document.of(await auto_creations.decide(conn, document_id, accepted=False))


@router.delete("/{document_id}", status_code=204)
async def delete_document(document_id: UUID, scope: TheScope, runtime: TheRuntime) -> None:
    """Delete a document with its pages, extractions, runs, original, and the documents that were inside it."""
    await runtime.documents.remove(scope, document_id)


_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


@router.get(
    "/{document_id}/file",
    response_class=Response,
    responses={
        200: {"description": "The original", "content": _BYTES},
        206: {"description": "The part of it that `Range` asks for", "content": _BYTES},
    },
)
async def download_document(document_id: UUID, conn: Conn, runtime: TheRuntime) -> Response:
    """The file as it was uploaded, with its password if it has one. It is to be stored: whatever it is, no browser
    shows it as a page. `Range` asks for a part of it."""
    row = await documents.find(conn, document_id)
    return StoredFile(runtime.files, row.storage_path, row.filename, row.content_sha256 or str(row.id))


@router.get("/{document_id}/text", response_model=list[PageText])
async def get_document_text(
    document_id: UUID,
    scope: TheScope,
    runtime: TheRuntime,
    first: Annotated[int, Query(ge=1, description="The first page, counted from 1.")] = 1,
    last: Annotated[int | None, Query(ge=1, description="The last page; all that follow if left out.")] = None,
) -> Response:
    """The text of pages `first` to `last`, of all pages without them."""
    pages = _texts(runtime, scope, document_id, first, last)
    begun = await anext(pages)  # what is refused is refused before the answer begins
    return StreamingResponse(_as_list(begun, pages), media_type="application/json")


async def _texts(
    runtime: Runtime, scope: Scope, document_id: UUID, first: int, last: int | None
) -> AsyncGenerator[list[PageTextRow]]:
    """The pages a few at a time: all of a document may have hundreds of megabytes."""
    while True:
        until = first + PAGES_AT_ONCE - 1 if last is None else min(last, first + PAGES_AT_ONCE - 1)
        async with runtime.database.as_user(scope) as conn:
            await documents.find_read(conn, document_id)
            rows = await documents.pages(conn, document_id, first, until)
        yield rows
        if until == last or len(rows) < PAGES_AT_ONCE:
            return
        first = until + 1


async def _as_list(rows: list[PageTextRow], others: AsyncGenerator[list[PageTextRow]]) -> AsyncGenerator[bytes]:
    before = b"["
    try:
        while True:
            for row in rows:
                yield before + PageText(number=row.number, text=row.text).model_dump_json().encode()
                before = b","
            if (following := await anext(others, None)) is None:
                break
            rows = following
    except FieldmarkError as error:  # deleted meanwhile, say: the list is never closed
        log.warning("text broke off", reason=error.code)
        return
    yield b"[]" if before == b"[" else b"]"


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
            description="How many pixels wide: fewer where that would be finer than 600 dpi, or four times a scan's "
            "own pixels. Left out: 144 dpi, or a scan's own.",
        ),
    ] = None,
    box: Annotated[
        str | None,
        Query(
            max_length=100,
            description="x0,y0,x1,y1 in parts of the page, as evidence has them: only that, with a margin of its own "
            "height above and below and of twice that beside it. The header `X-Box` says what is shown.",
            json_schema_extra={"pattern": _BOX},
        ),
    ] = None,
) -> Response:
    """One page as a PNG, on which the words' boxes lie; or a part of it, enlarged."""
    shown = WHOLE_PAGE if box is None else with_margin(_box_in(box))
    async with runtime.database.as_user(scope) as conn:
        document = await documents.find_read(conn, document_id)
    if not 1 <= number <= (document.page_count or 0):
        raise NotFound("There is no such page.")
    # A document's content never changes under its id.
    key = (document_id, number, shown, width)
    image = runtime.page_images.get(key)
    if image is None:
        async with DRAWING.of(scope.org_id), runtime.files.local(document.readable_path) as path:
            image = await render_page(
                path, document.media_type or "", number, runtime.reading_limits, box=shown, width=width
            )
        runtime.page_images.keep(key, image)
    headers = {"Cache-Control": "private, max-age=86400, immutable", "X-Box": ",".join(f"{at:.5f}" for at in shown)}
    return Response(image, media_type="image/png", headers=headers)


def _box_in(given: str) -> tuple[float, float, float, float]:
    """The box that a query names. Raises Invalid where it has no area on the page."""
    if re.fullmatch(_BOX, given, re.ASCII):
        x0, y0, x1, y1 = map(float, given.split(","))
        if x0 < x1 and y0 < y1:
            return x0, y0, x1, y1
    raise Invalid("box is x0,y0,x1,y1 from 0 to 1 of the page, such as 0.1,0.2,0.3,0.25: left, top, right, bottom.")


@router.get("/{document_id}/pages/{number}", response_model=Page)
async def get_page(document_id: UUID, number: int, scope: TheScope, runtime: TheRuntime) -> Response:
    """One page: its text, size, and words with boxes."""
    async with runtime.database.as_user(scope) as conn:
        await documents.find_read(conn, document_id)
        row = await documents.page(conn, document_id, number)
    if row is None:
        raise NotFound("There is no such page.")
    return await json_of(_page, row)


def _page(row: PageRow) -> Page:
    words = [
        Word(text=w[0], x0=w[1], y0=w[2], x1=w[3], y1=w[4], confidence=w[5] if len(w) > 5 else None) for w in row.words
    ]
    return Page(number=row.number, width=row.width, height=row.height, text=row.text, words=words, engine=row.engine)
