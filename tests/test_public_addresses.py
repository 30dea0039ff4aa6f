"""The addresses that people may name for webhooks and sources, and the lookup of their names."""

from __future__ import annotations

import asyncio
import socket
import threading
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

import pytest

from fieldmark.errors import Invalid
from fieldmark.public_addresses import check_url, resolve

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "host", ["8.8.8.8", "[2606:4700::1111]", "[64:ff9b::808:808]", "[2002:808:808::]", "example.com"]
)
def test_a_public_address_is_accepted(host: str) -> None:
    assert check_url(f"https://{host}/path", ()).hostname == host.strip("[]")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "10.0.0.1", "169.254.169.254", "100.100.100.200", "192.0.0.192", "192.88.99.1", "224.0.0.1",
        "[::]", "[::1]", "[fe80::1%25eth0]", "[fec0::1]", "[fd00:ec2::254]", "[ff02::1]", "[3fff::1]", "[2001:db8::1]",
        "[::127.0.0.1]", "[::ffff:127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]", "user@8.8.8.8", "8.8.8.8#",
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_is_refused(host: str) -> None:
    with pytest.raises(Invalid):
        check_url(f"https://{host}x/" if host.endswith("#") else f"https://{host}/", ())


async def test_names_that_are_not_resolved_keep_no_other_work_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    is_answered = threading.Event()

    def look_up(*_: Any, **__: Any) -> Any:
        is_answered.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    allowed = [ip_network("127.0.0.0/8")]
    lookups = [asyncio.create_task(resolve(urlsplit("https://slow.example/"), allowed)) for _ in range(40)]
    await asyncio.sleep(0)  # so that they start
    try:
        async with asyncio.timeout(10):
            assert await asyncio.to_thread(lambda: "done") == "done"
    finally:
        is_answered.set()
    assert {str(found) for found in await asyncio.gather(*lookups)} == {"127.0.0.1"}
