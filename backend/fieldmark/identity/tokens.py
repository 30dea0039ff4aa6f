"""Verify bearer tokens: JSON Web Tokens of this server or of Supabase Auth."""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, cast
from uuid import UUID

import httpx
import jwt
import structlog

from fieldmark.errors import AnonymousRefused, Invalid, Misconfigured, Unauthenticated, Unavailable
from fieldmark.http_client import http_client
from fieldmark.settings import Settings

_AUDIENCE = "authenticated"
_ROLE = "authenticated"
_REQUIRED_CLAIMS = ["exp", "sub", "aud", "iss"]
_MAX_TOKEN = 8192
_LEEWAY = timedelta(minutes=5)
"""By how much the clocks of the machines that issue and check a token may differ."""

_MAX_EXPIRY = 32_503_680_000
"""The year 3000. A token that expires later is treated as expiring then."""

_LOCAL_ISSUER = "fieldmark"
_LOCAL_ALGORITHM = "HS256"
_WRONG_SERVER_KEY = (
    "The token's signature does not match this server's key. Servers on several machines need the same "
    "FIELDMARK_HOME/keys, or Supabase Auth."
)
_KEY_BYTES = 32

_SUPABASE_ALGORITHMS = ("ES256", "RS256")
_SHARED_ALGORITHM = "HS256"
_SHARED_KEY_NOT_CONFIGURED = (
    "The token is signed with the project's shared secret (HS256). Switch the project to signing keys (in Supabase: "
    "Project Settings, JWT Keys), or set SUPABASE_JWT_SECRET to the secret."
)
_WRONG_SHARED_KEY = "The token's signature does not match the secret in SUPABASE_JWT_SECRET."
_MAX_JWKS_BYTES = 1 << 18

# ValueError: a lone surrogate in a token cannot be encoded. PyJWT raises its own errors for everything else.
_DECODE_ERRORS = (jwt.PyJWTError, ValueError)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Person:
    """A signed-in user, with the email address of their token, and until when the token is accepted."""

    user_id: UUID
    email: str | None = None
    accepted_until: datetime | None = None


class Tokens(Protocol):
    """Verifies the tokens of one issuer."""

    async def authenticate_token(self, token: str) -> Person:
        """Return the person that a token was issued to. Raise `Unauthenticated` if the token is invalid, `Unavailable`
        if the identity provider cannot be reached."""
        ...


class LocalTokens:
    """Tokens signed by this server, with a key that it generates in `<home>/keys/tokens`.

    Raises `Misconfigured` if the key cannot be read, is not 32 bytes, or is readable by other users.
    """

    def __init__(self, home: Path) -> None:
        self._key = _load_or_create_local_key(home / "keys" / "tokens")

    def sign(self, user_id: UUID, lifetime: timedelta = timedelta(hours=12), email: str | None = None) -> str:
        """Return a token for a user, valid from now for `lifetime`. Raise `Invalid` if the lifetime is not positive or
        too long."""
        if lifetime <= timedelta(0):
            raise Invalid("The lifetime of a token must be positive.")
        now = datetime.now(UTC)
        try:
            end = now + lifetime
        except OverflowError:
            raise Invalid("A token cannot be valid for so long.") from None
        claims: dict[str, Any] = {
            "iss": _LOCAL_ISSUER,
            "aud": _AUDIENCE,
            "sub": str(user_id),
            "role": _ROLE,
            "iat": now,
            "exp": end,
        }
        if email is not None:
            claims["email"] = email
        return jwt.encode(claims, self._key, algorithm=_LOCAL_ALGORITHM)

    async def authenticate_token(self, token: str) -> Person:
        _checked_header(token, (_LOCAL_ALGORITHM,))
        return _person(_verify(token, self._key, _LOCAL_ALGORITHM, _LOCAL_ISSUER, wrong_signature=_WRONG_SERVER_KEY))


class SupabaseTokens:
    """Tokens of the Supabase project at `url`, verified with the public keys that Supabase Auth publishes.

    The keys are fetched on first use and again after `keys_live_s` seconds. Tokens with an unknown key id cause at most
    one fetch every `refetch_after_s` seconds. Known keys are still accepted while Supabase Auth is unavailable.

    Tokens signed with a shared secret (HS256) are accepted only if `secret` is given, and those of anonymous sign-ins
    only with `allow_anonymous`.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: bytes | None = None,
        allow_anonymous: bool = False,
        keys_live_s: float = 600,
        refetch_after_s: float = 5,
        timeout_s: float = 5,
    ) -> None:
        self._secret = secret
        self._allow_anonymous = allow_anonymous
        self._issuer = _issuer(url)
        self._keys_live_s = keys_live_s
        self._refetch_after_s = refetch_after_s
        self._timeout_s = timeout_s
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fresh_until = 0.0
        self._next_fetch = 0.0
        self._auth_is_away = False
        self._fetching: asyncio.Task[None] | None = None

    async def authenticate_token(self, token: str) -> Person:
        header = _checked_header(token, (*_SUPABASE_ALGORITHMS, _SHARED_ALGORITHM), _SUPABASE_ALGORITHMS)
        if header["alg"] == _SHARED_ALGORITHM:
            if self._secret is None:
                raise Unauthenticated(_SHARED_KEY_NOT_CONFIGURED)
            return self._verify(token, self._secret, _SHARED_ALGORITHM, wrong_signature=_WRONG_SHARED_KEY)
        # All other headers are ignored: a key that the token contains or links to (jwk, jku, x5u) proves nothing.
        kid = header.get("kid")
        if not isinstance(kid, str):
            raise Unauthenticated("The token does not name the key that it is signed with.")
        key = await self._key(kid)
        # The algorithm comes from the key, not the token, so that a public key is never used as a shared secret.
        return self._verify(token, key, key.algorithm_name)

    def _verify(self, token: str, key: jwt.PyJWK | bytes, algorithm: str, **messages: str) -> Person:
        claims = _verify(token, key, algorithm, self._issuer, **messages)
        if claims.get("is_anonymous") not in (None, False) and not self._allow_anonymous:
            raise AnonymousRefused("Anonymous sign-ins are not allowed here. Sign in with an account.")
        return _person(claims)

    async def _key(self, kid: str) -> jwt.PyJWK:
        key = self._keys.get(kid)
        if key is not None and time.monotonic() < self._fresh_until:
            return key
        fetching = self._fetch_keys()
        if fetching is not None and not (key is not None and self._auth_is_away):
            # Shielded: other requests may wait for the same fetch when this one is cancelled.
            await asyncio.shield(fetching)
            key = self._keys.get(kid)
        if key is not None:
            return key
        if self._auth_is_away:
            raise Unavailable("Supabase Auth does not answer, so the token cannot be verified. Try again shortly.")
        raise Unauthenticated("The token is signed with a key that Supabase Auth does not publish. Sign in again.")

    def _fetch_keys(self) -> asyncio.Task[None] | None:
        """Return the running fetch or start one. None if the last fetch was too recent."""
        if self._fetching is None or self._fetching.done():
            if time.monotonic() < self._next_fetch:
                return None
            self._next_fetch = time.monotonic() + self._refetch_after_s
            self._fetching = asyncio.create_task(self._replace_keys())
        return self._fetching

    async def _replace_keys(self) -> None:
        try:
            self._keys = await _fetch_key_set(self._issuer, self._timeout_s)
        except (Unavailable, Misconfigured) as error:
            self._auth_is_away = True
            _log.warning("supabase auth gave no keys", reason=str(error))
            return
        self._auth_is_away = False
        self._fresh_until = time.monotonic() + self._keys_live_s


async def published_keys(url: str, timeout_s: float = 5) -> int:
    """Return how many usable keys Supabase Auth publishes. Raise Unavailable if it does not publish a key set."""
    return len(await _fetch_key_set(_issuer(url), timeout_s))


def _issuer(url: str) -> str:
    return url.rstrip("/") + "/auth/v1"


def tokens_for(settings: Settings) -> Tokens:
    """Return the verifier for Supabase tokens if SUPABASE_URL is set, else for this server's own tokens."""
    if not settings.supabase_url:
        return LocalTokens(settings.home)
    secret = settings.supabase_jwt_secret
    return SupabaseTokens(
        settings.supabase_url,
        secret=None if secret is None else secret.get_secret_value().encode(),
        allow_anonymous=settings.allow_anonymous,
    )


def _checked_header(token: str, algorithms: tuple[str, ...], recommended: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the header of a token signed with one of the algorithms. An error names the `recommended` ones."""
    if len(token) > _MAX_TOKEN:
        raise Unauthenticated(f"The token is longer than {_MAX_TOKEN} characters.")
    try:
        header = jwt.get_unverified_header(token)
    except _DECODE_ERRORS:
        raise Unauthenticated("The bearer token is not a signed token (JWT).") from None
    if header.get("alg") not in algorithms:
        raise Unauthenticated(f"The token is not signed with {' or '.join(recommended or algorithms)}.")
    return header


def _verify(
    token: str,
    key: jwt.PyJWK | bytes,
    algorithm: str,
    issuer: str,
    wrong_signature: str = "The token's signature does not match the key that it names.",
) -> dict[str, Any]:
    """Return the claims of a valid token of a signed-in user."""
    try:
        claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=_AUDIENCE,
            issuer=issuer,
            leeway=_LEEWAY,
            # `iat` is not a limit of a token's validity; `nbf` and `exp` are.
            options={"require": _REQUIRED_CLAIMS, "verify_iat": False},
        )
    except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError):
        raise Unauthenticated(wrong_signature) from None
    except _DECODE_ERRORS as error:
        raise Unauthenticated(_refusal_message(error)) from None
    if claims.get("role") != _ROLE:
        raise Unauthenticated("The token does not belong to a signed-in user.")
    return claims


def _person(claims: dict[str, Any]) -> Person:
    subject = claims["sub"]
    email = claims.get("email")
    try:
        until = datetime.fromtimestamp(min(claims["exp"], _MAX_EXPIRY), UTC) + _LEEWAY
        return Person(UUID(subject), email if isinstance(email, str) and email else None, until)
    except (ValueError, AttributeError, TypeError):
        raise Unauthenticated("The token does not name a user by a UUID.") from None


def _refusal_message(error: BaseException) -> str:
    match error:
        case jwt.ExpiredSignatureError():
            return "The token has expired: sign in again."
        case jwt.ImmatureSignatureError():
            return "The token is not valid yet: compare the clocks of the machines that issue and check it."
        case jwt.MissingRequiredClaimError():
            return f"The token lacks the claim '{error.claim}'."
        case jwt.InvalidAudienceError():
            return f"The token is for another service: its audience is not '{_AUDIENCE}'."
        case jwt.InvalidIssuerError():
            return "The token was issued by another service: its issuer is wrong."
        case _:
            return "The token's content cannot be read."


def _load_or_create_local_key(path: Path) -> bytes:
    try:
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.exists():
            _create_local_key(path)
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(opened, "rb") as file:
            mode = os.fstat(opened).st_mode
            if not stat.S_ISREG(mode) or mode & 0o077:
                raise Misconfigured(
                    f"The key {path} must be a file that only its owner can read. Set its mode to 0600."
                )
            key = file.read(_KEY_BYTES + 1)
    except OSError as error:
        raise Misconfigured(f"The key {path} cannot be read or created: {error.strerror}.") from error
    if len(key) != _KEY_BYTES:
        raise Misconfigured(f"The key {path} is damaged. Remove it to generate a new one; all tokens become invalid.")
    return key


def _create_local_key(path: Path) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(descriptor)
        # If several processes start at once, the first link wins, and all processes read its key.
        with suppress(FileExistsError):
            path.hardlink_to(name)
    finally:
        Path(name).unlink()


async def _fetch_key_set(issuer: str, timeout_s: float) -> dict[str, jwt.PyJWK]:
    """Return the usable keys that an issuer publishes. Raise Unavailable, or Misconfigured for the proxy."""
    try:
        async with asyncio.timeout(timeout_s), http_client(max_bytes=_MAX_JWKS_BYTES) as session:
            response = await session.get(f"{issuer}/.well-known/jwks.json")
            return _usable_keys(response.raise_for_status().json())
    except (httpx.HTTPError, TimeoutError, ValueError, RecursionError) as error:
        raise Unavailable(
            f"Supabase Auth does not publish a key set at SUPABASE_URL ({type(error).__name__})."
        ) from error


def _usable_keys(key_set: object) -> dict[str, jwt.PyJWK]:
    """Return the keys of a JWKS that can verify tokens, by key id."""
    published: object = cast("dict[str, object]", key_set).get("keys") if isinstance(key_set, dict) else None
    if not isinstance(published, list):
        raise ValueError("not a key set")
    usable: dict[str, jwt.PyJWK] = {}
    for entry in cast("list[object]", published):
        try:
            key = jwt.PyJWK(cast("dict[str, Any]", entry))
        except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
            # An unsupported key must not invalidate the others.
            continue
        kid = key.key_id
        if isinstance(kid, str) and key.algorithm_name in _SUPABASE_ALGORITHMS and key.public_key_use in ("sig", None):
            usable[kid] = key
    return usable
