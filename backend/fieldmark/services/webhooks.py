"""Sends changes to webhooks, by the Standard Webhooks rules: signed, at least once, with the same id each time."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import secrets
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import structlog
from standardwebhooks import Webhook

from fieldmark.db.pool import Database
from fieldmark.errors import FieldmarkError
from fieldmark.public_addresses import IpNetwork, error_code_of, send_request
from fieldmark.stores import changes, webhooks
from fieldmark.stores.webhooks import DueDelivery

RETRY_AFTER: Final = tuple(timedelta(seconds=seconds) for seconds in (5, 30, 120, 600, 1800, 3600, *[3 * 3600] * 24))
"""The pauses after failed attempts, each lengthened by up to a fifth at random: 3 days in all."""

SECONDS: Final = 15.0
"""Time limit of an attempt, from resolving the name to the response's status. Its body is not read."""

_NEXT_SECONDS: Final = 1.0
"""How long the next deliveries wait at most for one that is being sent to end."""

_LEASE: Final = timedelta(seconds=60)
_MOST_AT_ONCE: Final = 64
_MOST_AT_ONCE_FOR_ONE: Final = 8

_log = structlog.get_logger(__name__)


def new_secret() -> str:
    """Return a secret of 32 random bytes."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def signed_headers(delivery: DueDelivery, body: str) -> dict[str, str]:
    """Return the headers of a request: the id of the change, the time, and a signature by each secret. The time is
    that of the database: receivers refuse that of a worker whose clock is minutes off."""
    message, now = str(delivery.change_id), delivery.attempted_at
    signatures = [Webhook(secret).sign(message, now, body) for secret in delivery.secrets]
    return {
        "Content-Type": "application/json",
        "User-Agent": "Fieldmark-Webhooks",
        "webhook-id": message,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def payload_of(change_id: UUID, change_type: str, at: datetime, data: dict[str, Any]) -> dict[str, Any]:
    """Return a change as receivers get it."""
    return {"id": str(change_id), "type": change_type, "timestamp": at.isoformat(), "data": data}


class Sender:
    """Sends the deliveries that are due: up to 64 at once, and at most 15 of one organisation."""

    def __init__(self, database: Database, allowed: Iterable[IpNetwork] = ()) -> None:
        self._database = database
        self._allowed = tuple(allowed)
        self._sending: dict[asyncio.Task[None], UUID] = {}

    async def send_due(self) -> None:
        """Publish what was committed, and send what is due. Does not wait for slow receivers: what they have not
        answered is sent further while this is called again."""
        while True:
            free = _MOST_AT_ONCE - len(self._sending)
            counts = Counter(self._sending.values())
            busy = [org for org, number in counts.items() if number >= _MOST_AT_ONCE_FOR_ONE]
            async with self._database.as_service() as conn:
                await changes.publish(conn)
                due = await webhooks.lease_due(conn, free, busy, _LEASE) if free else []
            if not due:
                return
            for delivery in due:
                task = asyncio.create_task(self._send(delivery), name="webhook")
                self._sending[task] = delivery.org_id
                task.add_done_callback(lambda ended: self._sending.pop(ended, None))
            await asyncio.wait(tuple(self._sending), timeout=_NEXT_SECONDS, return_when=asyncio.FIRST_COMPLETED)

    async def aclose(self) -> None:
        """Stop sending. What was not reported is sent again when its lease ends."""
        tasks = list(self._sending)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, delivery: DueDelivery) -> None:
        status, error = await self._attempt(delivery)
        retry: timedelta | None = None
        if delivery.attempts <= len(RETRY_AFTER) and status != 410:
            retry = RETRY_AFTER[delivery.attempts - 1] * (1 + random.random() / 5)  # noqa: S311
        try:
            async with self._database.as_service() as conn:
                await webhooks.record(conn, delivery.id, http_status=status, error=error, retry_after=retry)
        except FieldmarkError as failure:  # the lease ends, and it is sent again
            _log.warning("a delivery was not recorded", delivery_id=str(delivery.id), reason=type(failure).__name__)

    async def _attempt(self, delivery: DueDelivery) -> tuple[int | None, str | None]:
        """Send once. Return the HTTP status and an error code; None for both parts that there are not."""
        body = json.dumps(
            payload_of(delivery.change_id, delivery.type, delivery.created_at, delivery.data), ensure_ascii=False
        )
        headers = signed_headers(delivery, body)
        try:
            async with (
                asyncio.timeout(SECONDS),
                send_request(
                    "POST",
                    delivery.url,
                    headers,
                    self._allowed,
                    content=body.encode(),
                    timeout_seconds=SECONDS,
                ) as response,
            ):
                status = response.status_code
        except Exception as failure:
            if (code := error_code_of(failure)) is None:
                raise
            return None, code
        if 200 <= status < 300:
            return status, None
        return status, "redirected" if 300 <= status < 400 else "refused"
