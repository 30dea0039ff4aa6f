"""Access tokens for mailboxes that accept no password (XOAUTH2)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlencode

from fieldmark.errors import Invalid
from fieldmark.public_addresses import IpNetwork, check_url, send_request
from fieldmark.services.sources.failures import SourceFailure

_SECONDS: Final = 20.0
_MAX_BYTES: Final = 64 << 10
_HEADERS: Final = {
    "Content-Type": "application/x-www-form-urlencoded",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
}


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A request for an access token, with the client's secret or a refresh token in its form."""

    url: str
    form: Mapping[str, str]
    allowed: Sequence[IpNetwork]

    @classmethod
    def parse(cls, secret: str, allowed: Sequence[IpNetwork]) -> TokenRequest | None:
        """Return the request that a source's secret describes, None if the secret is a password. Raise Invalid."""
        form = _json_object(secret)
        if "token_url" not in form:
            return None
        url = form.pop("token_url")
        if not isinstance(url, str) or not all(isinstance(value, str) for value in form.values()):
            raise Invalid("A token request is a JSON object of strings: token_url, grant_type, client_id and others.")
        check_url(url, allowed, ("https", "http") if allowed else ("https",))
        return cls(url, form, allowed)

    async def send(self) -> str:
        """Return an access token. Raise SourceFailure, and the errors of connections."""
        content = urlencode(self.form).encode()
        async with send_request(
            "POST", self.url, _HEADERS, self.allowed, content=content, timeout_seconds=_SECONDS
        ) as response:
            if response.status_code >= 500 or response.status_code == 429:
                raise SourceFailure("unreachable")
            if response.status_code in (400, 401, 403):
                raise SourceFailure("credentials_refused")
            body = bytearray()
            async for chunk in response.aiter_raw():  # compressed, a small body could become a large one
                body += chunk
                if len(body) > _MAX_BYTES:
                    raise SourceFailure("not_understood")
        token = _json_object(bytes(body)).get("access_token")
        if response.status_code != 200 or not isinstance(token, str) or not token.isascii():
            raise SourceFailure("not_understood")
        return token


def _json_object(text: str | bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
