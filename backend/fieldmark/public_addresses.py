"""The addresses that people of an organisation may name, such as those of webhooks and sources: public ones, and those
in private networks that an administrator has allowed."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Final
from urllib.parse import SplitResult, urlsplit

import httpx

from fieldmark.errors import Invalid

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_DEFAULT_PORTS: Final = {"http": 80, "https": 443, "imaps": 993}
_TRANSLATED: Final = ipaddress.ip_network("64:ff9b::/96")  # IPv6 addresses that mean IPv4 ones (NAT64)

# Own threads: a lookup cannot be cancelled, and the server of a name may let it wait for half a minute.
_lookups: Final = ThreadPoolExecutor(64, thread_name_prefix="lookup")

# Addresses that lead to no public host, although `is_global` of some versions of Python says so: cloud metadata, relays
# and translations to IPv4. All public IPv6 addresses are in 2000::/3.
_NOT_PUBLIC: Final = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20")))
_PUBLIC_IPV6: Final = ipaddress.ip_network("2000::/3")


class AddressRefused(Exception):
    """The address is inside the network of the service."""


def check_url(url: str, allowed: Sequence[IpNetwork], schemes: Sequence[str] = ("https", "http")) -> SplitResult:
    """Return the parts of an address. Raise Invalid if it may not be used. A name is resolved only when it is used."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Invalid("The address is not a URL. Write it as https://example.com/path.") from None
    if parts.scheme.lower() not in schemes or not parts.hostname or port == 0:
        raise Invalid(f"The address must begin with {' or '.join(f'{one}://' for one in schemes)} and a host name.")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise Invalid("The address may not contain a user name, a password or a fragment (#…).")
    try:
        address = ipaddress.ip_address(parts.hostname)
    except ValueError:
        return parts
    if not _may_be_used(address, allowed):
        raise Invalid(
            "The address is private. Use a public address, or have an administrator add its network to "
            "FIELDMARK_PRIVATE_NETWORKS."
        )
    return parts


def _may_be_used(address: IpAddress, allowed: Sequence[IpNetwork]) -> bool:
    if any(address in network for network in allowed if network.version == address.version):
        return True
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if address in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _may_be_used(inner, allowed)
        if address not in _PUBLIC_IPV6:
            return False
    return address.is_global and not address.is_multicast and not any(address in one for one in _NOT_PUBLIC)


def port_of(parts: SplitResult) -> int:
    """Return the port of an address, or that of its scheme."""
    return parts.port or _DEFAULT_PORTS[parts.scheme.lower()]


async def resolve(parts: SplitResult, allowed: Sequence[IpNetwork]) -> IpAddress:
    """Return the address of a host. Raise AddressRefused if any of its addresses is private: the one that was checked
    is the one to connect to, so that the name cannot mean another one meanwhile."""
    loop = asyncio.get_running_loop()
    look_up = partial(socket.getaddrinfo, parts.hostname, port_of(parts), type=socket.SOCK_STREAM)
    found = await loop.run_in_executor(_lookups, look_up)
    addresses = [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]
    if not addresses or not all(_may_be_used(one, allowed) for one in addresses):
        raise AddressRefused
    return addresses[0]


def host_header(parts: SplitResult) -> str:
    """Return the value of the header Host for an address."""
    name = parts.hostname or ""
    return (f"[{name}]" if ":" in name else name) + ("" if parts.port is None else f":{parts.port}")


@cache
def _tls() -> ssl.SSLContext:
    """Return the certificates that are trusted. Loading them takes 30 ms of CPU time."""
    return httpx.create_ssl_context(trust_env=False)


@asynccontextmanager
async def send_request(
    method: str,
    url: str,
    headers: Mapping[str, str],
    allowed: Sequence[IpNetwork],
    *,
    content: bytes | None = None,
    timeout_seconds: float,
) -> AsyncGenerator[httpx.Response]:
    """Send a request to a checked address, and yield its response before the body. Redirects are not followed, and no
    proxy is used, which would resolve the name again. Raise AddressRefused, and the errors of httpx."""
    parts = urlsplit(url)
    address = await resolve(parts, allowed)
    host = f"[{address}]" if address.version == 6 else str(address)
    pinned = parts._replace(netloc=host + ("" if parts.port is None else f":{parts.port}")).geturl()
    async with (
        httpx.AsyncClient(verify=_tls(), trust_env=False, follow_redirects=False, timeout=timeout_seconds) as client,
        client.stream(
            method,
            pinned,
            content=content,
            headers={**headers, "Host": host_header(parts)},
            extensions={"sni_hostname": parts.hostname or ""},
        ) as response,
    ):
        yield response


def error_code_of(failure: Exception) -> str | None:
    """Return the code for an address that could not be reached, or None for another failure."""
    if isinstance(failure, (TimeoutError, httpx.TimeoutException)):
        return "timeout"
    if isinstance(failure, AddressRefused):
        return "address_refused"
    if isinstance(failure, (socket.gaierror, UnicodeError)):
        return "name_not_found"
    if isinstance(failure, (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError)):
        return "certificate" if "CERTIFICATE_VERIFY" in str(failure) else "unreachable"
    return None
