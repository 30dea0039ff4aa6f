"""Verifies that a request to a webhook is from the service, by the Standard Webhooks rules."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Final

from fieldmark_client.errors import InvalidSignature
from fieldmark_client.types import Event

TOLERANCE_SECONDS: Final = 300


def verify_webhook(secret: str, body: bytes | str, headers: Mapping[str, str]) -> Event:
    """Return the event of a request. `body` as it arrived, `secret` as it was shown (`whsec_…`). Raise
    InvalidSignature."""
    given = {name.lower(): value for name, value in headers.items()}
    try:
        message, sent_at = given["webhook-id"], given["webhook-timestamp"]
        signatures = given["webhook-signature"].split()
        age = abs(time.time() - int(sent_at))
        key = base64.b64decode(secret.removeprefix("whsec_"))
    except (KeyError, ValueError):
        raise InvalidSignature("The request has no signature of a webhook.") from None
    if age > TOLERANCE_SECONDS:
        raise InvalidSignature("The request is too old, or the clock is wrong.")
    content = body.encode() if isinstance(body, str) else body
    digest = hmac.new(key, f"{message}.{sent_at}.".encode() + content, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(digest)
    if not any(hmac.compare_digest(expected, one.encode()) for one in signatures):
        raise InvalidSignature("The signature is wrong: another secret, or a changed body.")
    return json.loads(content)
