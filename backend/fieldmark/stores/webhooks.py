"""Webhooks and their deliveries in Postgres. The functions at the end need a connection as the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, LiteralString
from uuid import UUID

from pydantic import Field

from fieldmark.db.pool import Connection
from fieldmark.domain.statuses import ChangeType, DeliveryStatus
from fieldmark.errors import NotFound
from fieldmark.stores.paging import ListPage, PageRequest
from fieldmark.stores.rows import fetch_all, fetch_one, large_rows, value_of


@dataclass(frozen=True, slots=True)
class Webhook:
    """A place where changes are sent."""

    id: UUID
    url: str
    types: Annotated[list[ChangeType], Field(description="None: all.")]
    is_enabled: bool
    disabled_reason: Annotated[
        Literal["failing", "gone"] | None,
        Field(
            description="Why the service disabled it: `failing` for five days, or the receiver answered 410 (`gone`)."
        ),
    ]
    failing_since: Annotated[datetime | None, Field(description="Since when all attempts have failed.")]
    previous_secret_until: Annotated[datetime | None, Field(description="Until when the replaced secret also signs.")]
    created_by: UUID | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class WebhookWithSecret(Webhook):
    """A webhook with its new secret."""

    secret: Annotated[
        str,
        Field(
            description="Verifies that a request is from this service, by the Standard Webhooks rules. It is returned "
            "only once.",
            examples=["whsec_…"],
        ),
    ]


@dataclass(frozen=True, slots=True)
class Callback:
    """Where the changes of one run are sent, and the caller's secret that signs them."""

    url: str
    secret: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """A change that is sent to a webhook."""

    id: UUID
    webhook_id: Annotated[UUID, Field(exclude=True)]
    change_id: UUID
    type: ChangeType
    status: DeliveryStatus
    attempts: int
    attempted_at: datetime | None
    due_at: Annotated[datetime | None, Field(description="When it is sent next. null: not any more.")]
    http_status: Annotated[int | None, Field(description="The receiver's status at the last attempt.")]
    error_code: Annotated[
        str | None,
        Field(
            description="Why the last attempt failed: `refused` or `redirected` by its status, `timeout`, "
            "`unreachable`, `certificate`, `name_not_found`, or `address_refused` (it is private)."
        ),
    ]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """A delivery that this process sends. `secrets` are those to sign with."""

    id: UUID
    org_id: UUID
    url: str
    secrets: list[str]
    change_id: UUID
    type: str
    created_at: datetime
    attempts: int
    attempted_at: datetime
    data: dict[str, Any]


_COLUMNS: Final[LiteralString] = (
    "id, url, types, is_enabled, disabled_reason, failing_since, previous_secret_until, created_by, created_at"
)
_MISSING: Final = "There is no such webhook."


async def add(
    conn: Connection, org_id: UUID, webhook_id: UUID, *, url: str, types: Sequence[ChangeType], secret: str
) -> None:
    """Add a webhook. Raise TooMany."""
    await conn.execute(
        "insert into public.webhooks (id, org_id, url, types, secret) values (%s, %s, %s, %s, %s)",
        (webhook_id, org_id, url, [str(one) for one in types], secret),
    )


async def add_callback(conn: Connection, org_id: UUID, run_id: UUID, callback: Callback) -> None:
    """Send the changes of a run that the caller started."""
    await conn.execute(
        "insert into public.webhooks (org_id, url, secret, run_id) values (%s, %s, %s, %s)",
        (org_id, callback.url, callback.secret, run_id),
    )


async def callback_of(conn: Connection, run_id: UUID) -> UUID | None:
    """Return the webhook that gets only the changes of a run, or None."""
    return await value_of(conn, "select id from public.webhooks where run_id = %s limit 1", (run_id,))


async def list_webhooks(conn: Connection, org_id: UUID) -> list[Webhook]:
    """Return the webhooks of an organisation, newest first, without callbacks of requests."""
    query = f"""
        select {_COLUMNS} from public.webhooks where org_id = %s and run_id is null
        order by created_at desc, id desc"""
    return await fetch_all(conn, Webhook, query, (org_id,))


async def get(conn: Connection, webhook_id: UUID) -> Webhook:
    """Return a webhook. Raise NotFound."""
    row = await fetch_one(conn, Webhook, f"select {_COLUMNS} from public.webhooks where id = %s", (webhook_id,))
    if row is None:
        raise NotFound(_MISSING)
    return row


async def change(
    conn: Connection,
    webhook_id: UUID,
    *,
    url: str | None = None,
    types: Sequence[ChangeType] | None = None,
    is_enabled: bool | None = None,
    secret: str | None = None,
) -> None:
    """Change what is given. Raise NotFound."""
    parameters = {
        "id": webhook_id,
        "url": url,
        "types": None if types is None else [str(one) for one in types],
        "is_enabled": is_enabled,
        "secret": secret,
    }
    query = """
        update public.webhooks set url = coalesce(%(url)s, url), types = coalesce(%(types)s, types),
          is_enabled = coalesce(%(is_enabled)s, is_enabled)"""
    # (The column cannot be read, so coalesce cannot keep it.)
    query += "" if secret is None else ", secret = %(secret)s"
    if not (await conn.execute(query.encode() + b" where id = %(id)s", parameters)).rowcount:
        raise NotFound(_MISSING)


async def delete(conn: Connection, webhook_id: UUID) -> None:
    """Delete a webhook with its deliveries. Raise NotFound."""
    await conn.execute("select public.delete_webhook(%s)", (webhook_id,))


async def test(conn: Connection, webhook_id: UUID) -> UUID:
    """Record a change that is sent to this webhook only. Return its id. Raise NotFound, Conflict."""
    return await value_of(conn, "select public.test_webhook(%s)", (webhook_id,))


async def list_deliveries(
    conn: Connection, webhook_id: UUID | None, *, status: DeliveryStatus | None, limit: int, before: str | None
) -> ListPage[Delivery]:
    """Return a page of the deliveries of a webhook, newest first. None: nothing was sent."""
    request = PageRequest("deliveries", limit, before)
    where = ["d.webhook_id = %(webhook)s", *request.conditions("d.created_at, d.id")]
    if status is not None:
        where.append("d.status = %(status)s")
    query = f"""
        select d.id, d.webhook_id, d.change_id, c.type, d.status, d.attempts, d.attempted_at, d.http_status,
          d.error_code,
          case d.status when 'pending' then d.due_at end as due_at, d.created_at
        from public.webhook_deliveries as d join public.changes as c on c.id = d.change_id
        where {" and ".join(where)} order by d.created_at desc, d.id desc limit %(limit)s"""
    parameters = {"webhook": webhook_id, "status": status, **request.parameters()}
    return request.page(await fetch_all(conn, Delivery, query.encode(), parameters))


async def send_again(conn: Connection, webhook_id: UUID | None, delivery_id: UUID) -> None:
    """Make a delivery due, with all its attempts before it. Raise NotFound."""
    query = """
        update public.webhook_deliveries set status = 'pending', attempts = 0, due_at = now()
        where webhook_id = %s and id = %s"""
    if not (await conn.execute(query, (webhook_id, delivery_id))).rowcount:
        raise NotFound("There is no such delivery.")


async def lease_due(conn: Connection, limit: int, busy: Sequence[UUID], lease: timedelta) -> list[DueDelivery]:
    """Return deliveries that are due and count an attempt of each. Another process may send them after `lease`. None is
    of the organisations `busy`."""
    query = "select * from private.lease_deliveries(%s, %s, %s)"
    return await large_rows(conn, DueDelivery, query, (limit, list(busy), lease))


async def record(
    conn: Connection, delivery_id: UUID, *, http_status: int | None, error: str | None, retry_after: timedelta | None
) -> None:
    """Record how an attempt ended. `retry_after`: when to try again, None: never."""
    query = "select private.record_delivery(%s, %s, %s, %s)"
    await conn.execute(query, (delivery_id, http_status, error, retry_after))
