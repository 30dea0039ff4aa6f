"""/api/sources: buckets and mailboxes whose files become documents."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field, SecretStr

from fieldmark.api.auth import Conn, ThePerson, TheRuntime, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import STORABLE, RequestBody
from fieldmark.domain.statuses import SourceKind
from fieldmark.services.extraction_sources import find_revid
from fieldmark.services.sources.intake import check_address
from fieldmark.stores import sources, stacks
from fieldmark.stores.library import schemas
from fieldmark.stores.sources import DocumentSource

router = Routes(prefix="/api/sources", tags=["sources"])

Secret = Annotated[
    SecretStr,
    Field(
        min_length=1,
        max_length=5000,
        description="The secret key, the password, or a token request (docs/sources.md). It is never returned.",
    ),
]
Extract = Annotated[
    str,
    Field(
        max_length=200,
        pattern=STORABLE,
        description="Also extract the fields of each document, as `extract` of POST /api/documents: the name, id or "
        "version of a schema. Empty: without a schema.",
    ),
]
StackOfDocuments = Annotated[UUID, Field(description="Also add each document to this stack.")]


class NewSource(RequestBody):
    """A source to add."""

    kind: SourceKind
    address: Annotated[
        str,
        Field(
            min_length=1,
            max_length=2000,
            pattern=STORABLE,
            description="Of a bucket in S3-compatible storage, with its host, or of a mailbox. A private address is "
            "refused.",
            examples=["https://s3.eu-central-1.amazonaws.com/invoices", "imaps://imap.example.com"],
        ),
    ]
    folder: Annotated[
        str,
        Field(
            max_length=500,
            pattern=STORABLE,
            description="Only objects whose name begins with it, or the folder of the mailbox. Empty: all, INBOX.",
        ),
    ] = ""
    username: Annotated[
        str,
        Field(min_length=1, max_length=500, pattern=STORABLE, description="The access key id, or the mailbox's user."),
    ]
    secret: Secret
    extract: Extract | None = None
    stack_id: StackOfDocuments | None = None


class SourceChange(RequestBody):
    """Changes of a source. What is left out stays unchanged."""

    secret: Secret | None = None
    extract: Extract | None = Field(None, description="null: extract nothing.")
    stack_id: StackOfDocuments | None = Field(None, description="null: no stack.")
    is_paused: bool | None = None


class Sources(BaseModel):
    """The sources of the organisation, newest first."""

    items: list[DocumentSource]


@router.get("")
async def list_sources(_: ThePerson, scope: TheScope, conn: Conn) -> Sources:
    """List the sources of the organisation. Only owners can."""
    return Sources(items=await sources.list_sources(conn, scope.org_id))


@router.post("", status_code=201)
async def add_source(body: NewSource, _: ThePerson, scope: TheScope, conn: Conn, runtime: TheRuntime) -> DocumentSource:
    """Add a bucket or a mailbox. Each file in it becomes a document of yours, once, also those that are there already.
    The service looks within seconds, and then every five minutes (mailboxes: every minute)."""
    secret = body.secret.get_secret_value()
    check_address(body.kind, body.address, secret, runtime.settings.private_networks)
    await _check_use(body.extract, body.stack_id, scope, conn)
    values = body.model_dump() | {"secret": secret}
    return await sources.add(conn, scope.org_id, **values)


@router.patch("/{source_id}")
async def change_source(
    source_id: UUID, body: SourceChange, _: ThePerson, scope: TheScope, conn: Conn
) -> DocumentSource:
    """Pause a source of yours, continue it, replace its secret, or change what happens to new documents."""
    values = body.model_dump(exclude_unset=True)
    values.pop("secret", None)
    if body.secret is not None:
        values["secret"] = body.secret.get_secret_value()
    if body.is_paused is None:
        values.pop("is_paused", None)
    await _check_use(values.get("extract"), values.get("stack_id"), scope, conn)
    if values:
        await sources.change(conn, source_id, values)
    return await sources.get(conn, source_id)


@router.post("/{source_id}/check", status_code=202)
async def check_source(source_id: UUID, _: ThePerson, conn: Conn) -> DocumentSource:
    """Look at a source of yours now. The result is in its `error_code`, `checked_at` and counts within seconds."""
    await sources.change(conn, source_id, {})
    return await sources.get(conn, source_id)


@router.delete("/{source_id}", status_code=204)
async def delete_source(source_id: UUID, _: ThePerson, conn: Conn) -> None:
    """Delete a source. Its documents stay. If it is added again, what is there becomes documents again."""
    await sources.delete(conn, source_id)


async def _check_use(extract: str | None, stack_id: UUID | None, scope: TheScope, conn: Conn) -> None:
    """Raise NotFound for a schema or a stack that does not exist."""
    if extract:
        await find_revid(conn, scope, schemas, name=extract, item_id=None, revid=None)
    if stack_id is not None:
        await stacks.get(conn, stack_id)
