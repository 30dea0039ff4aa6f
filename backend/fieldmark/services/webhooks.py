"""Sends changes to webhooks, by the Standard Webhooks rules: signed, at least once, with the same id each time."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import random
import secrets
import socket
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit
from uuid import UUID

import httpx
import structlog
from standardwebhooks import Webhook

from fieldmark.db.pool import Database
from fieldmark.errors import FieldmarkError, Invalid
from fieldmark.stores import changes, webhooks
from fieldmark.stores.webhooks import DueDelivery

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

RETRY_AFTER: Final = tuple(timedelta(seconds=seconds) for seconds in (5, 30, 120, 600, 1800, 3600, *[3 * 3600] * 24))
"""The pauses after failed attempts, each lengthened by up to a fifth at random: 3 days in all."""

SECONDS: Final = 15.0
"""Time limit of an attempt, from resolving the name to the response's status. Its body is not read."""

_LEASE: Final = timedelta(seconds=60)
_MOST_AT_ONCE: Final = 64
_MOST_AT_ONCE_FOR_ONE: Final = 8
_TRANSLATED: Final = ipaddress.ip_network("64:ff9b::/96")  # IPv6 addresses that mean IPv4 ones (NAT64)

_log = structlog.get_logger(__name__)


class AddressRefused(Exception):
    """The address is inside the network of the service."""


def new_secret() -> str:
    """Return a secret of 32 random bytes."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def check_url(url: str, allowed: Sequence[IpNetwork]) -> None:
    """Raise Invalid for an address that changes cannot be sent to. A name is resolved only when it is used."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Invalid("The address of the webhook is not a URL. Write it as https://example.com/path.") from None
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or port == 0:
        raise Invalid("The address of the webhook must begin with https:// or http:// and a host name.")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise Invalid("The address of the webhook may not contain a user name, a password or a fragment (#…).")
    try:
        address = ipaddress.ip_address(parts.hostname)
    except ValueError:
        return
    if not _may_be_called(address, allowed):
        raise Invalid(
            "The address of the webhook is private. Use a public address, or have an administrator add its "
            "network to FIELDMARK_WEBHOOK_NETWORKS."
        )


def _may_be_called(address: IpAddress, allowed: Sequence[IpNetwork]) -> bool:
    if any(address in network for network in allowed if network.version == address.version):
        return True
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if address in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _may_be_called(inner, allowed)
    return address.is_global and not address.is_multicast


async def _resolve(parts: SplitResult, allowed: Sequence[IpNetwork]) -> IpAddress:
    """Return the address of a host. Raise AddressRefused if any of its addresses is private: the one that was checked
    is the one that is called, so that the name cannot mean another one meanwhile."""
    port = parts.port or (443 if parts.scheme.lower() == "https" else 80)
    found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    addresses = [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]
    if not addresses or not all(_may_be_called(one, allowed) for one in addresses):
        raise AddressRefused
    return addresses[0]


def signed_headers(delivery: DueDelivery, body: str, now: datetime) -> dict[str, str]:
    """Return the headers of a request: the id of the change, the time, and a signature by each secret."""
    message = str(delivery.change_id)
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
        """Publish what was committed, and start to send what is due. Does not wait for the receivers."""
        free = _MOST_AT_ONCE - len(self._sending)
        counts = Counter(self._sending.values())
        busy = [org for org, number in counts.items() if number >= _MOST_AT_ONCE_FOR_ONE]
        async with self._database.as_service() as conn:
            await changes.publish(conn)
            due = await webhooks.lease_due(conn, free, busy, _LEASE) if free else []
        for delivery in due:
            task = asyncio.create_task(self._send(delivery), name="webhook")
            self._sending[task] = delivery.org_id
            task.add_done_callback(lambda ended: self._sending.pop(ended, None))

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
        headers = signed_headers(delivery, body, datetime.now(UTC))
        try:
            async with asyncio.timeout(SECONDS):
                status = await self._post(delivery.url, body.encode(), headers)
        except TimeoutError:
            return None, "timeout"
        except AddressRefused:
            return None, "address_refused"
        except (socket.gaierror, UnicodeError):
            return None, "name_not_found"
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as failure:
            return None, "certificate" if "CERTIFICATE_VERIFY" in str(failure) else "unreachable"
        if 200 <= status < 300:
            return status, None
        return status, "redirected" if 300 <= status < 400 else "refused"

    async def _post(self, url: str, body: bytes, headers: dict[str, str]) -> int:
        parts = urlsplit(url)
        address = await _resolve(parts, self._allowed)
        host = f"[{address}]" if address.version == 6 else str(address)
        port = "" if parts.port is None else f":{parts.port}"
        pinned = parts._replace(netloc=host + port).geturl()
        name = parts.hostname or ""
        # No proxy: it would resolve the name again.
        async with (
            httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=SECONDS) as client,
            client.stream(
                "POST",
                pinned,
                content=body,
                headers={**headers, "Host": (f"[{name}]" if ":" in name else name) + port},
                extensions={"sni_hostname": name},
            ) as response,
        ):
            return response.status_code
