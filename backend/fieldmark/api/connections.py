"""Closes connections that send no request, so that they cannot keep others from being served."""

from __future__ import annotations

import asyncio
import resource
from collections import defaultdict
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, Final, Protocol

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS: Final = 10
"""Time limit of a request's head, counted from the connection or the previous response."""
MAX_WAITING_OF_ADDRESS: Final = 200
MAX_WAITING: Final = 2_000
_DESCRIPTORS: Final = 4_096


def http_protocol(
    trusted_proxies: Sequence[IPv4Network | IPv6Network] = (), *, head_seconds: float = HEAD_SECONDS
) -> type[asyncio.Protocol]:
    """Return a protocol class for one server. Connections whose request's head is not complete wait: at most 10 s, and
    at most 200 of an address. The oldest is closed for a new one. `trusted_proxies`: networks without the limit of an
    address, since many people share their addresses."""
    waiting = _Waiting(_raise_descriptor_limit())

    class _Protocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None
        _address: str | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            host = None if self.client is None else self.client[0]  # None: a Unix socket
            is_limited = host is not None and not any(ip_address(host) in one for one in trusted_proxies)
            self._address = host if is_limited else None
            self._follow_state()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._follow_state()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._follow_state()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._stop_waiting()

        def _follow_state(self) -> None:
            is_served = bool(self.cycle) and not self.cycle.response_complete
            if is_served or self.transport.is_closing():
                self._stop_waiting()
            elif self._timer is None:
                self._timer = self.loop.call_later(head_seconds, self.transport.abort)
                # (A transport is closed later: many connections may be accepted before.)
                for oldest in waiting.add(self, self._address):
                    oldest.abort()

        def abort(self) -> None:
            self._stop_waiting()
            self.transport.abort()

        def _stop_waiting(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
                waiting.discard(self, self._address)

    return _Protocol


class _Closable(Protocol):
    def abort(self) -> None: ...


class _Waiting:
    """The connections that wait for a request, oldest first, of all addresses and of each limited one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._all: dict[_Closable, None] = {}
        self._by_address = defaultdict[str, dict[_Closable, None]](dict)

    def add(self, protocol: _Closable, address: str | None) -> list[_Closable]:
        """Add a connection. Return those to close for it."""
        self._all[protocol] = None
        surplus = [next(iter(self._all))] if len(self._all) > self._limit else []
        if address is not None:
            of_address = self._by_address[address]
            of_address[protocol] = None
            if len(of_address) > MAX_WAITING_OF_ADDRESS:
                surplus.append(next(iter(of_address)))
        return surplus

    def discard(self, protocol: _Closable, address: str | None) -> None:
        self._all.pop(protocol, None)
        if address is not None:
            self._by_address[address].pop(protocol, None)
            if not self._by_address[address]:
                del self._by_address[address]


def _raise_descriptor_limit() -> int:
    """Raise the process's limit of file descriptors, as far as it may. Return how many connections may wait: what is
    left beside those of running requests and the service's own files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return max(100, min(MAX_WAITING, soft - 850))
