"""HTTP clients for other services. All follow the same rules for proxies, redirects and the size of a response."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from ssl import SSLContext
from typing import Any, Final

import httpx
from socksio import SOCKSError

from fieldmark.errors import Misconfigured

_LOOPBACK: Final = ("all://localhost", "all://127.0.0.1", "all://[::1]")
_MAX_ERROR_BYTES: Final = 1 << 20


class ResponseTooLarge(httpx.RequestError):
    """The body of a response is larger than its client accepts."""


class _Client(httpx.AsyncClient):
    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        try:
            return await super().send(request, **options)
        except SOCKSError as error:  # of a library that httpx uses for SOCKS only
            raise httpx.ProxyError(f"The proxy does not speak SOCKS5: {error}", request=request) from error


def http_client(
    *,
    max_bytes: int | None = None,
    timeout: httpx.Timeout | float = 5,
    headers: Mapping[str, str] | None = None,
    base_url: httpx.URL | str = "",
    verify: SSLContext | bool = True,
    on_response: Callable[[httpx.Response], Awaitable[None]] | None = None,
) -> httpx.AsyncClient:
    """Return a client that uses the proxies of the environment (http, https, socks5, socks5h), except for loopback
    addresses, and follows no redirects, so that a key is only sent to the configured address.

    With `max_bytes` it refuses compressed responses and raises `ResponseTooLarge` for larger ones. `on_response` is
    called before a body is read. Raise Misconfigured for a proxy that cannot be used.
    """

    limited = {} if max_bytes is None else {"Accept-Encoding": "identity"}
    hooks = [] if max_bytes is None else [partial(_limit_body, max_bytes)]
    try:
        return _Client(
            timeout=timeout,
            headers={**limited, **(headers or {})},
            base_url=base_url,
            verify=verify,
            follow_redirects=False,
            mounts=dict.fromkeys(_LOOPBACK),
            event_hooks={"response": [*hooks, on_response] if on_response else hooks},
        )
    except (ValueError, httpx.InvalidURL) as error:
        # Without the address, which may contain a password.
        raise Misconfigured(
            "A proxy of the environment cannot be used. Write HTTPS_PROXY, HTTP_PROXY and ALL_PROXY as "
            "http://host:port or socks5://host:port, and NO_PROXY as host names separated by commas."
        ) from error


async def _limit_body(max_bytes: int, response: httpx.Response) -> None:
    if response.headers.get("Content-Encoding", "identity") != "identity":  # a small body could become a large one
        raise httpx.DecodingError("The response is compressed, against the request.", request=response.request)
    response.stream = _LimitedBody(response, max_bytes if response.is_success else min(max_bytes, _MAX_ERROR_BYTES))


class _LimitedBody(httpx.AsyncByteStream):
    def __init__(self, response: httpx.Response, limit: int) -> None:
        assert isinstance(response.stream, httpx.AsyncByteStream)
        self._stream, self._limit, self._request = response.stream, limit, response.request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        received = 0
        async for chunk in self._stream:
            received += len(chunk)
            if received > self._limit:
                raise ResponseTooLarge(f"The response is larger than {self._limit:,} bytes.", request=self._request)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
