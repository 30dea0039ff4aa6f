"""/api/webhooks: where changes are sent, and what was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated
from uuid import UUID, uuid4

from fastapi import Query
from pydantic import BaseModel, Field

from fieldmark.api.auth import Conn, TheRuntime, TheScope
from fieldmark.api.routing import Routes
from fieldmark.api.shared_types import STORABLE, Before, Limit, RequestBody
from fieldmark.domain.statuses import ChangeType, DeliveryStatus
from fieldmark.public_addresses import IpNetwork, check_url
from fieldmark.services.webhooks import new_secret
from fieldmark.stores import webhooks
from fieldmark.stores.paging import ListPage
from fieldmark.stores.webhooks import Callback, Delivery, Webhook, WebhookWithSecret

router = Routes(prefix="/api/webhooks", tags=["webhooks"])

Url = Annotated[
    str,
    Field(
        max_length=2000,
        description="Where changes are sent by POST. A private address is refused. Redirects are not followed.",
        examples=["https://example.com/fieldmark"],
        json_schema_extra={"pattern": r"^https?://[a-z0-9.-]{1,200}(/[!-~]{0,200})?$"},
        pattern=STORABLE,
    ),
]
Types = Annotated[
    list[ChangeType], Field(max_length=20, description="The types of changes to send. None: all, also future ones.")
]


StatusOfDelivery = Annotated[DeliveryStatus | None, Query(description="Only deliveries of this status.")]


class NewCallback(RequestBody):
    """Where the changes of one run are sent."""

    url: Url
    secret: Annotated[
        str,
        Field(
            max_length=200,
            pattern=r"^whsec_[A-Za-z0-9+/]{32,88}={0,2}$",
            description="Signs the requests, by the Standard Webhooks rules: `whsec_` and 24 to 64 random bytes as "
            "base64. Choose it once, and use it for all callbacks.",
        ),
    ]

    def check(self, networks: Sequence[IpNetwork]) -> Callback:
        """Return the callback. Raise Invalid for an address that may not be called."""
        check_url(self.url, networks)
        return Callback(self.url, self.secret)


class NewWebhook(RequestBody):
    """A webhook to create."""

    url: Url
    types: Types = Field([])


class WebhookChange(RequestBody):
    """Changes of a webhook. What is left out stays unchanged."""

    url: Url | None = None
    types: Types | None = None
    is_enabled: bool | None = Field(None, description="True also forgets past failures.")


class Webhooks(BaseModel):
    """The webhooks of the organisation, newest first."""

    items: list[Webhook]


class TestEvent(BaseModel):
    """A test that is being sent."""

    change_id: UUID


@router.get("")
async def list_webhooks(scope: TheScope, conn: Conn) -> Webhooks:
    """List the webhooks of the organisation. Only owners can."""
    return Webhooks(items=await webhooks.list_webhooks(conn, scope.org_id))


@router.post("", status_code=201)
async def create_webhook(body: NewWebhook, scope: TheScope, conn: Conn, runtime: TheRuntime) -> WebhookWithSecret:
    """Create a webhook: every change from now on is sent there, signed, at least once. Save `secret`: it is not
    shown again."""
    check_url(body.url, runtime.settings.private_networks)
    webhook_id, secret = uuid4(), new_secret()
    await webhooks.add(conn, scope.org_id, webhook_id, url=body.url, types=body.types, secret=secret)
    return _with_secret(await webhooks.get(conn, webhook_id), secret)


@router.patch("/{webhook_id}")
async def change_webhook(webhook_id: UUID, body: WebhookChange, conn: Conn, runtime: TheRuntime) -> Webhook:
    """Change a webhook, or enable it again."""
    if body.url is not None:
        check_url(body.url, runtime.settings.private_networks)
    await webhooks.change(conn, webhook_id, url=body.url, types=body.types, is_enabled=body.is_enabled)
    return await webhooks.get(conn, webhook_id)


@router.delete("/{webhook_id}", status_code=204)
async def delete_webhook(webhook_id: UUID, conn: Conn) -> None:
    """Delete a webhook with the record of its deliveries."""
    await webhooks.delete(conn, webhook_id)


@router.post("/{webhook_id}/secret")
async def replace_secret(webhook_id: UUID, conn: Conn) -> WebhookWithSecret:
    """Replace the secret. For a day each request has a signature by either secret."""
    secret = new_secret()
    await webhooks.change(conn, webhook_id, secret=secret)
    return _with_secret(await webhooks.get(conn, webhook_id), secret)


@router.post("/{webhook_id}/test", status_code=202)
async def send_test(webhook_id: UUID, conn: Conn) -> TestEvent:
    """Send a change of the type `webhook.test` to this webhook only."""
    return TestEvent(change_id=await webhooks.test(conn, webhook_id))


@router.get("/{webhook_id}/deliveries")
async def list_deliveries(
    webhook_id: UUID,
    conn: Conn,
    status: StatusOfDelivery = None,
    limit: Limit = 50,
    before: Before = None,
) -> ListPage[Delivery]:
    """List what was and is sent to a webhook, newest first."""
    await webhooks.get(conn, webhook_id)
    return await webhooks.list_deliveries(conn, webhook_id, status=status, limit=limit, before=before)


@router.post("/{webhook_id}/deliveries/{delivery_id}", status_code=202)
async def send_again(webhook_id: UUID, delivery_id: UUID, conn: Conn) -> None:
    """Send a change again now, with the same id."""
    await webhooks.send_again(conn, webhook_id, delivery_id)


def _with_secret(webhook: Webhook, secret: str) -> WebhookWithSecret:
    return WebhookWithSecret(**asdict(webhook), secret=secret)
