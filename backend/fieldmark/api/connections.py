"""Connections: how many there may be, and how long one may keep the service waiting.

uvicorn bounds how large a request's head is and how long a connection is idle after an answer. This adds what it has
not: a number for each peer, a time in which a request's head has come, and one in which an answer is taken.
"""

from __future__ import annotations

import asyncio
import resource
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import cast

import structlog
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

log = structlog.get_logger()

AT_ONCE = 128
"""How many connections are taken before any is looked at."""
OWN_DESCRIPTORS = 256 + AT_ONCE
"""What the service itself may have open, its database, its agents, files, and what it is just about to refuse."""

_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nretry-after: 5\r\nconnection: close\r\n\r\n"
    b"Too many connections.\n"
)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections there may be: in all, and of one peer (an IPv4 address, or the network of an IPv6 one).

    `request_seconds`: how long one may take until the head of its next request has come, what is left of the last one's
    body included. An answer of which nothing is taken is waited for three times as long."""

    in_all: int = 1000
    of_a_peer: int = 200
    request_seconds: float = 10


class BoundedConfig(uvicorn.Config):
    """uvicorn's own, with limits that its connections find in it."""

    connection_limits = ConnectionLimits()


def fitted(limits: ConnectionLimits) -> ConnectionLimits:
    """The limits, lowered to the descriptors that this process may have; it takes as many as it may and needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = limits.in_all + OWN_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return limits
    in_all = max(soft - OWN_DESCRIPTORS, soft // 2)
    log.warning("fewer connections than set", code="few_descriptors", connections=in_all, descriptors=soft)
    return ConnectionLimits(in_all, min(limits.of_a_peer, in_all), limits.request_seconds)


class BoundedProtocol(H11Protocol):
    """A connection that is ended when it keeps the service waiting."""

    _until_request: asyncio.TimerHandle | None = None
    _until_taken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        limits = self._limits
        peer = _peer(self)
        of_this_peer = sum(1 for other in self.connections if _peer(other) == peer)
        if len(self.connections) > limits.in_all or of_this_peer > limits.of_a_peer:
            transport.write(_REFUSAL)
            transport.close()
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_at_work():
            self._until_request = _cancelled(self._until_request)
        else:
            self._wait_for_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # uvicorn may have begun with the next one, which had come already.
        if not self._is_at_work():
            self._wait_for_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._until_taken = self.loop.call_later(3 * self._limits.request_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._until_taken = _cancelled(self._until_taken)

    def connection_lost(self, exc: Exception | None) -> None:
        self._until_request = _cancelled(self._until_request)
        self._until_taken = _cancelled(self._until_taken)
        super().connection_lost(exc)

    @property
    def _limits(self) -> ConnectionLimits:
        return cast(BoundedConfig, self.config).connection_limits

    def _is_at_work(self) -> bool:
        cycle = cast(object | None, self.cycle)
        return cycle is not None and not self.cycle.response_complete

    def _wait_for_request(self) -> None:
        if self._until_request is None:
            self._until_request = self.loop.call_later(self._limits.request_seconds, self.transport.abort)


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def _peer(connection: object) -> object:
    client = getattr(connection, "client", None)
    if not client:
        return None
    try:
        address = ip_address(client[0])
    except ValueError:
        return client[0]
    return int(address) >> 64 if isinstance(address, IPv6Address) else address
