from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import SecretStr

from extraction_case import until
from fieldmark.errors import AnonymousRefused, Invalid, Misconfigured, Unauthenticated, Unavailable
from fieldmark.identity.tokens import LocalTokens, SupabaseTokens, Tokens, tokens_for
from fieldmark.settings import Settings
from http_stub import http_stub
from running_server import PATIENCE

pytestmark = pytest.mark.anyio

USER = uuid4()
SHARED_SECRET = b"a-shared-secret-of-at-least-32-characters"
ABSENT = object()


@dataclass
class Key:
    kid: str
    algorithm: str
    private: Any

    @property
    def jwk(self) -> dict[str, Any]:
        algorithm = jwt.get_algorithm_by_name(self.algorithm)
        public = json.loads(algorithm.to_jwk(self.private.public_key()))
        return public | {"kid": self.kid, "alg": self.algorithm, "use": "sig", "key_ops": ["verify"]}

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        return jwt.encode(claims, self.private, algorithm=self.algorithm, headers={"kid": self.kid} | header)


def make_es256_key(kid: str) -> Key:
    return Key(kid, "ES256", ec.generate_private_key(ec.SECP256R1()))


def make_rs256_key(kid: str) -> Key:
    return Key(kid, "RS256", rsa.generate_private_key(65537, 2048))


@dataclass
class Auth:
    url: str = ""
    keys: list[dict[str, Any]] = field(default_factory=list)
    requested_paths: list[str] = field(default_factory=list)
    was_requested: threading.Event = field(default_factory=threading.Event)
    # Status, headers and body instead of the keys.
    fixed_response: tuple[int, dict[str, str], bytes] | None = None
    # While cleared, requests wait.
    may_respond: threading.Event = field(default_factory=threading.Event)


@contextmanager
def auth_server() -> Iterator[Auth]:
    auth = Auth()
    auth.may_respond.set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            auth.requested_paths.append(self.path)
            auth.was_requested.set()
            auth.may_respond.wait()
            status, headers, body = auth.fixed_response or (200, {}, json.dumps({"keys": auth.keys}).encode())
            if auth.fixed_response is None and self.path != "/auth/v1/.well-known/jwks.json":
                status = 404
            with suppress(BrokenPipeError, ConnectionResetError):  # the client did not wait for it
                self.send_response(status)
                for header in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(*header)
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http_stub(Handler) as auth.url:
        try:
            yield auth
        finally:
            auth.may_respond.set()


@pytest.fixture(scope="module")
def ec_key() -> Key:
    return make_es256_key("ec-1")


@pytest.fixture(scope="module")
def rsa_key() -> Key:
    return make_rs256_key("rsa-1")


@pytest.fixture
def auth(ec_key: Key, rsa_key: Key) -> Iterator[Auth]:
    with auth_server() as server:
        server.keys = [ec_key.jwk, rsa_key.jwk]
        yield server


@pytest.fixture
def tokens(auth: Auth) -> SupabaseTokens:
    return SupabaseTokens(auth.url + "/")


def supabase_claims(auth: Auth, **changed: Any) -> dict[str, Any]:
    now = int(time.time())
    claims = {
        "iss": f"{auth.url}/auth/v1",
        "aud": "authenticated",
        "sub": str(USER),
        "role": "authenticated",
        "iat": now,
        "exp": now + 3600,
        "is_anonymous": False,
    } | changed
    return {claim: value for claim, value in claims.items() if value is not ABSENT}


def base64_part(content: object) -> str:
    return (
        base64.urlsafe_b64encode(content if isinstance(content, bytes) else json.dumps(content).encode())
        .decode()
        .rstrip("=")
    )


def sign_with_hmac(header: dict[str, Any], claims: dict[str, Any], secret: bytes) -> str:
    """Sign by hand: PyJWT refuses a public key as the secret."""
    signed = f"{base64_part(header)}.{base64_part(claims)}"
    return f"{signed}.{base64_part(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def sign_with_es256(key: Key, payload: bytes | dict[str, Any]) -> str:
    signed = f"{base64_part({'alg': 'ES256', 'kid': key.kid})}.{base64_part(payload)}"
    return f"{signed}.{base64_part(jwt.get_algorithm_by_name('ES256').sign(signed.encode(), key.private))}"


async def user_of(tokens: Tokens, token: str) -> UUID:
    return (await tokens.authenticate_token(token)).user_id


async def refusal_message(tokens: Tokens, token: str) -> str:
    with pytest.raises(Unauthenticated) as caught:
        await user_of(tokens, token)
    assert caught.value.__cause__ is None
    sentence = str(caught.value)
    assert not any(piece in sentence for piece in token.split(".") if len(piece) > 7)
    return sentence


# (a claim that is refused, a claim that is accepted, part of the message) A timedelta is from when the test runs,
# which may be many minutes after NOW.
NOW = int(time.time())
BAD_AND_GOOD_CLAIMS = [
    ({"exp": timedelta(minutes=-6)}, {"exp": timedelta(minutes=-4)}, "expired"),  # clocks may be five minutes apart
    ({"nbf": timedelta(minutes=8)}, {"nbf": timedelta(minutes=4)}, "not valid yet"),
    ({"exp": ABSENT}, {"exp": NOW + 6000.5}, "lacks the claim 'exp'"),
    ({"exp": float("inf")}, {"exp": 2**40}, "cannot be read"),
    ({"nbf": NOW + 6000}, {"nbf": NOW - 60}, "not valid yet"),
    ({"nbf": NOW + 6000}, {"iat": NOW + 600}, "not valid yet"),  # an issuer whose clock is ahead
    ({"aud": "anon"}, {"aud": "authenticated"}, "audience"),
    ({"aud": ["a", "b"]}, {"aud": ["a", "authenticated"]}, "audience"),
    ({"role": "service_role"}, {"role": "authenticated"}, "signed-in user"),
    ({"role": ABSENT}, {"role": "authenticated"}, "signed-in user"),
    ({"sub": "someone"}, {"sub": str(USER)}, "UUID"),
    ({"sub": 7}, {"sub": str(USER)}, "cannot be read"),
    ({"iss": "https://evil.example/auth/v1"}, {}, "issuer"),
    ({"iss": ABSENT}, {}, "lacks the claim 'iss'"),
]


def dated(claims: dict[str, Any]) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {name: int((now + one).timestamp()) if isinstance(one, timedelta) else one for name, one in claims.items()}


# Numbered, because the times differ between the processes of a test run.
ids = [f"{next(iter(bad))}-{place}" for place, (bad, _, _) in enumerate(BAD_AND_GOOD_CLAIMS)]


# Supabase


async def test_user_is_accepted_with_either_kind_of_key(
    auth: Auth, tokens: SupabaseTokens, ec_key: Key, rsa_key: Key
) -> None:
    assert await user_of(tokens, ec_key.sign(supabase_claims(auth))) == USER
    assert await user_of(tokens, rsa_key.sign(supabase_claims(auth))) == USER
    assert len(auth.requested_paths) == 1


@pytest.mark.parametrize(("bad", "good", "expected_message"), BAD_AND_GOOD_CLAIMS, ids=ids)
async def test_wrong_claim_is_refused(
    auth: Auth, tokens: SupabaseTokens, ec_key: Key, bad: dict[str, Any], good: dict[str, Any], expected_message: str
) -> None:
    refused, accepted = supabase_claims(auth, **dated(bad)), supabase_claims(auth, **dated(good))
    assert expected_message in await refusal_message(tokens, sign_with_es256(ec_key, refused))
    assert await user_of(tokens, ec_key.sign(accepted)) == USER


async def test_unsigned_or_modified_token_is_refused(auth: Auth, tokens: SupabaseTokens, ec_key: Key) -> None:
    claims = supabase_claims(auth)
    for algorithm in ("none", "NONE", "HS512", ["ES256"]):
        header = base64_part({"alg": algorithm, "kid": ec_key.kid})
        assert await refusal_message(tokens, f"{header}.{base64_part(claims)}.")
    unsigned = ec_key.sign(claims).rpartition(".")[0] + "."
    assert "signature" in await refusal_message(tokens, unsigned)
    header, _, signature = ec_key.sign(claims).split(".")
    other_key = base64_part(claims | {"sub": str(uuid4())})
    assert "signature" in await refusal_message(tokens, f"{header}.{other_key}.{signature}")
    unnamed = jwt.encode(claims, ec_key.private, algorithm="ES256")
    assert "name the key" in await refusal_message(tokens, unnamed)
    assert await user_of(tokens, ec_key.sign(claims)) == USER


async def test_public_key_is_not_accepted_as_shared_secret(auth: Auth, tokens: SupabaseTokens, rsa_key: Key) -> None:
    claims = supabase_claims(auth)
    public = rsa_key.private.public_key()
    secrets = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        b"",
    ]
    for secret in secrets:
        forged = sign_with_hmac({"alg": "HS256", "kid": rsa_key.kid, "typ": "JWT"}, claims, secret)
        assert "SUPABASE_JWT_SECRET" in await refusal_message(tokens, forged)
        assert "signature" in await refusal_message(SupabaseTokens(auth.url, secret=SHARED_SECRET), forged)
        forged = sign_with_hmac({"alg": "RS256", "kid": rsa_key.kid, "typ": "JWT"}, claims, secret)
        assert "signature" in await refusal_message(tokens, forged)
    assert await user_of(tokens, rsa_key.sign(claims)) == USER


async def test_published_keys_of_unsupported_kinds_are_not_used(
    auth: Auth, tokens: SupabaseTokens, ec_key: Key
) -> None:
    secret = os.urandom(32)
    ps256 = Key("ps", "PS256", rsa.generate_private_key(65537, 2048))
    es384 = Key("es384", "ES384", ec.generate_private_key(ec.SECP384R1()))
    for_encryption = make_es256_key("enc")
    auth.keys += [
        {"kty": "oct", "kid": "shared", "k": base64_part(secret), "alg": "HS256", "use": "sig"},
        {"kty": "oct", "kid": "disguised", "k": base64_part(secret), "alg": "ES256", "use": "sig"},
        ps256.jwk,
        es384.jwk,
        for_encryption.jwk | {"use": "enc"},
        # An invalid key does not invalidate the others.
        {"kty": "RSA", "kid": "odd", "n": 7, "e": []},
        ec_key.jwk | {"kid": ["odd"]},
        7,
    ]
    claims = supabase_claims(auth)
    for token in (
        sign_with_hmac({"alg": "ES256", "kid": "shared"}, claims, secret),
        sign_with_hmac({"alg": "ES256", "kid": "disguised"}, claims, secret),
        for_encryption.sign(claims),
        sign_with_hmac({"alg": "ES256", "kid": "es384"}, claims, secret),
    ):
        assert "does not publish" in await refusal_message(tokens, token)
    for token in (ps256.sign(claims), es384.sign(claims)):
        assert "ES256 or RS256" in await refusal_message(tokens, token)
    published = sign_with_hmac({"alg": "HS256", "kid": "shared"}, claims, secret)
    assert "SUPABASE_JWT_SECRET" in await refusal_message(tokens, published)
    assert "signature" in await refusal_message(SupabaseTokens(auth.url, secret=SHARED_SECRET), published)
    assert await user_of(tokens, ec_key.sign(claims)) == USER


async def test_shared_secret_is_accepted_only_if_configured(auth: Auth, ec_key: Key, rsa_key: Key) -> None:
    claims = supabase_claims(auth)
    token = jwt.encode(claims, SHARED_SECRET, "HS256")
    with_secret, without_secret = SupabaseTokens(auth.url, secret=SHARED_SECRET), SupabaseTokens(auth.url)
    assert await user_of(with_secret, token) == USER
    assert auth.requested_paths == []
    # The message names what to configure.
    message = await refusal_message(without_secret, token)
    assert "signing keys" in message and "SUPABASE_JWT_SECRET" in message
    # During a migration a project uses both.
    assert await user_of(with_secret, ec_key.sign(claims)) == await user_of(with_secret, rsa_key.sign(claims)) == USER
    # It verifies only unexpired HS256 tokens of this project for a user.
    for header in ({"alg": "RS256", "kid": rsa_key.kid}, {"alg": "ES256", "kid": ec_key.kid}):
        assert "signature" in await refusal_message(with_secret, sign_with_hmac(header, claims, SHARED_SECRET))
    assert "ES256 or RS256" in await refusal_message(
        with_secret, sign_with_hmac({"alg": "HS512"}, claims, SHARED_SECRET)
    )
    assert "signature" in await refusal_message(with_secret, jwt.encode(claims, SHARED_SECRET + b"x", "HS256"))
    for wrong in ({"exp": NOW - 360}, {"aud": "anon"}, {"iss": "supabase"}, {"role": "service_role"}, {"role": "anon"}):
        assert await refusal_message(with_secret, jwt.encode(claims | wrong, SHARED_SECRET, "HS256"))


@pytest.mark.parametrize("claim", [True, "true", 1])
async def test_anonymous_sign_in_is_refused_unless_allowed(
    auth: Auth, ec_key: Key, claim: object, tmp_path: Path
) -> None:
    for allowed in (False, True):
        settings = Settings(_env_file=None, home=tmp_path, supabase_url=auth.url, allow_anonymous=allowed)
        tokens = tokens_for(settings.model_copy(update={"supabase_jwt_secret": SecretStr(SHARED_SECRET.decode())}))
        anonymous = supabase_claims(auth, is_anonymous=claim)
        for token in (ec_key.sign(anonymous), jwt.encode(anonymous, SHARED_SECRET, "HS256")):
            if allowed:
                assert await user_of(tokens, token) == USER
            else:
                with pytest.raises(AnonymousRefused):
                    await user_of(tokens, token)
        for named in (False, None, ABSENT):
            assert await user_of(tokens, ec_key.sign(supabase_claims(auth, is_anonymous=named))) == USER


async def test_email_is_read_from_the_token(auth: Auth, tokens: SupabaseTokens, ec_key: Key) -> None:
    for email, expected in (("a@example.org", "a@example.org"), ("", None), (7, None), (ABSENT, None)):
        claims = supabase_claims(auth, email=email)
        person = await tokens.authenticate_token(ec_key.sign(claims))
        assert person.accepted_until == datetime.fromtimestamp(int(claims["exp"]) + 300, UTC)
        assert person.email == expected
    # Users can edit their own metadata, so it is not trusted.
    claims = supabase_claims(auth, user_metadata={"email": "b@example.org", "email_verified": True})
    assert (await tokens.authenticate_token(ec_key.sign(claims))).email is None


async def test_key_is_used_for_its_algorithm_only_and_its_id_is_not_a_path(
    auth: Auth, tokens: SupabaseTokens, ec_key: Key, rsa_key: Key
) -> None:
    claims = supabase_claims(auth)
    for kid in ("/dev/null", "ec-1/../ec-1", f"{auth.url}/key", ""):
        assert await refusal_message(tokens, ec_key.sign(claims, kid=kid))
        assert await refusal_message(tokens, sign_with_hmac({"alg": "ES256", "kid": kid}, claims, b""))
    assert set(auth.requested_paths) == {"/auth/v1/.well-known/jwks.json"}
    assert "signature" in await refusal_message(tokens, ec_key.sign(claims, kid=rsa_key.kid))
    assert "signature" in await refusal_message(tokens, rsa_key.sign(claims, kid=ec_key.kid))
    assert await user_of(tokens, rsa_key.sign(claims)) == USER


async def test_keys_in_the_token_header_are_ignored(auth: Auth, tokens: SupabaseTokens, ec_key: Key) -> None:
    claims = supabase_claims(auth)
    with auth_server() as evil:
        other_key = make_es256_key(ec_key.kid)
        evil.keys = [other_key.jwk]
        for brought in (
            {"jwk": other_key.jwk},
            {"jku": f"{evil.url}/auth/v1/.well-known/jwks.json"},
            {"x5u": f"{evil.url}/cert.pem"},
            {"x5c": ["MIIB"]},
        ):
            assert "signature" in await refusal_message(tokens, other_key.sign(claims, **brought))
            # The same header on a valid token is ignored.
            assert await user_of(tokens, ec_key.sign(claims, **brought)) == USER
        assert evil.requested_paths == []
    assert len(auth.requested_paths) == 1


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b.c",
        "\ud800",
        base64_part({"alg": "ES256", "kid": ["ec-1"]}) + ".e30.e30",
        base64_part({"alg": "ES256", "kid": "ec-1", "crit": ["x"], "x": 1}) + ".e30.e30",
        base64_part([]) + ".e30.e30",
        base64_part(b'{"alg":"ES256","kid":"ec-1","x":' + b"[" * 4000) + ".e30.e30",
        base64_part(b'{"alg":"ES256","kid":"ec-1","x":' + b"9" * 5000 + b"}") + ".e30.e30",
    ],
)
async def test_malformed_token_is_refused(tokens: SupabaseTokens, token: str) -> None:
    assert await refusal_message(tokens, token)


@pytest.mark.parametrize("payload", [b"", b"[]", b"\xff", b"[" * 5000, b'{"exp":' + b"9" * 5000 + b"}"])
async def test_malformed_payload_is_refused_even_if_signed(tokens: SupabaseTokens, ec_key: Key, payload: bytes) -> None:
    assert await refusal_message(tokens, sign_with_es256(ec_key, payload))


async def test_token_over_the_length_limit_is_refused_without_a_request(
    auth: Auth, tokens: SupabaseTokens, ec_key: Key
) -> None:
    def padded(length: int) -> str:
        return ec_key.sign(supabase_claims(auth, padding="x" * length))

    assert "longer than 8192" in await refusal_message(tokens, padded(6000))
    assert auth.requested_paths == []
    fits = padded(5500)
    assert 7000 < len(fits) <= 8192
    assert await user_of(tokens, fits) == USER


# Key rotation


async def test_unknown_key_ids_cause_at_most_one_fetch(auth: Auth, ec_key: Key) -> None:
    tokens = SupabaseTokens(auth.url)
    stranger = make_es256_key("stranger")
    claims = supabase_claims(auth)
    for n in range(20):
        assert "does not publish" in await refusal_message(tokens, stranger.sign(claims, kid=f"random-{n}"))
    await asyncio.gather(*(refusal_message(tokens, stranger.sign(claims, kid=f"more-{n}")) for n in range(20)))
    assert await user_of(tokens, ec_key.sign(claims)) == USER
    assert len(auth.requested_paths) == 1


async def test_new_key_is_fetched_and_withdrawn_key_expires(auth: Auth, ec_key: Key) -> None:
    tokens = SupabaseTokens(auth.url, refetch_after_s=0.1)
    old, new = ec_key.sign(supabase_claims(auth)), make_es256_key("ec-2")
    assert await user_of(tokens, old) == USER
    auth.keys = [new.jwk]
    await asyncio.sleep(0.11)
    assert await user_of(tokens, old) == USER  # still within the keys' lifetime
    assert await user_of(tokens, new.sign(supabase_claims(auth))) == USER
    assert "does not publish" in await refusal_message(tokens, old)
    short = SupabaseTokens(auth.url, keys_live_s=0.05, refetch_after_s=0)
    assert await user_of(short, new.sign(supabase_claims(auth))) == USER
    auth.keys = []
    await asyncio.sleep(0.06)
    assert "does not publish" in await refusal_message(short, new.sign(supabase_claims(auth)))


@pytest.mark.parametrize("make", [(make_rs256_key, make_es256_key), (make_es256_key, make_rs256_key)])
async def test_standby_key_is_accepted_before_and_after_the_old_key_is_revoked(auth: Auth, make: Any) -> None:
    old, standby = make[0]("old"), make[1]("standby")
    # `alg` and `use` of a JWK are optional (RFC 7517).
    auth.keys = [old.jwk, {name: value for name, value in standby.jwk.items() if name not in ("alg", "use", "key_ops")}]
    tokens = SupabaseTokens(auth.url)
    for key in (old, standby, old):
        assert await user_of(tokens, key.sign(supabase_claims(auth))) == USER
    assert len(auth.requested_paths) == 1  # the rotation itself needs no fetch
    del auth.keys[0]
    later = SupabaseTokens(auth.url, keys_live_s=0, refetch_after_s=0)
    assert await user_of(later, standby.sign(supabase_claims(auth))) == USER
    assert "does not publish" in await refusal_message(later, old.sign(supabase_claims(auth)))
    # A revoked id that is used for another key does not bring the old key back.
    auth.keys.append(make[1]("old").jwk)
    assert "signature" in await refusal_message(later, old.sign(supabase_claims(auth)))


BROKEN_RESPONSES: list[tuple[int, dict[str, str], bytes]] = [
    (500, {}, b"oops"),
    (302, {"Location": "{evil}/auth/v1/.well-known/jwks.json"}, b""),
    (200, {}, b"<html>hotel wifi</html>"),
    (200, {}, b'{"keys": 7}'),
    (200, {}, b"[" * 100_000),
    (200, {}, b'{"keys": []}' + b" " * 300_000),
    (200, {"Content-Length": "1000"}, b'{"keys": []}'),
]


@pytest.mark.parametrize("response", BROKEN_RESPONSES, ids=range(len(BROKEN_RESPONSES)))
async def test_known_keys_are_accepted_while_auth_is_unavailable(
    auth: Auth, ec_key: Key, response: tuple[int, dict[str, str], bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    tokens = SupabaseTokens(auth.url, keys_live_s=0, refetch_after_s=0)
    known = ec_key.sign(supabase_claims(auth))
    other_key = make_es256_key("evil")
    unknown = other_key.sign(supabase_claims(auth))
    with auth_server() as evil:
        evil.keys = [other_key.jwk]
        status, headers, body = response
        auth.fixed_response = (status, {name: value.format(evil=evil.url) for name, value in headers.items()}, body)
        with pytest.raises(Unavailable, match="Auth does not answer"):
            await user_of(tokens, known)
        auth.fixed_response = None
        assert await user_of(tokens, known) == USER
        assert "does not publish" in await refusal_message(tokens, unknown)
        auth.fixed_response = (status, {name: value.format(evil=evil.url) for name, value in headers.items()}, body)
        for _ in range(3):
            assert await user_of(tokens, known) == USER
            with pytest.raises(Unavailable, match="Auth does not answer"):
                await user_of(tokens, unknown)
        assert evil.requested_paths == []
    printed = capfd.readouterr()
    assert not any(piece in printed.out + printed.err for piece in (*known.split("."), *unknown.split(".")))


async def test_wait_for_an_unresponsive_auth_is_limited(auth: Auth, ec_key: Key) -> None:
    tokens = SupabaseTokens(auth.url, keys_live_s=0, refetch_after_s=0, timeout_s=0.5)
    token = ec_key.sign(supabase_claims(auth))

    async def known() -> bool:
        with suppress(Unavailable):  # on a slow machine the fetch may take longer than the timeout
            return await user_of(tokens, token) == USER
        return False

    await until(known, PATIENCE)
    auth.may_respond.clear()
    assert await user_of(tokens, token) == USER  # the first caller waits
    began = time.monotonic()
    for _ in range(20):
        assert await user_of(tokens, token) == USER
    assert time.monotonic() - began < 5  # ten seconds if each call waited
    with pytest.raises(Unavailable):
        await user_of(tokens, make_es256_key("unknown").sign(supabase_claims(auth)))


async def test_cancelled_caller_does_not_cancel_the_fetch_for_others(auth: Auth, ec_key: Key) -> None:
    tokens = SupabaseTokens(auth.url)
    token = ec_key.sign(supabase_claims(auth))
    auth.may_respond.clear()
    first = asyncio.create_task(user_of(tokens, token))
    second = asyncio.create_task(user_of(tokens, token))
    assert await asyncio.to_thread(auth.was_requested.wait, PATIENCE)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    auth.may_respond.set()
    assert await second == USER
    assert len(auth.requested_paths) == 1


# Local


@pytest.fixture
def local(tmp_path: Path) -> LocalTokens:
    return LocalTokens(tmp_path / "home")


def stored_key(home: Path) -> bytes:
    return (home / "keys" / "tokens").read_bytes()


def local_claims(**changed: Any) -> dict[str, Any]:
    return supabase_claims(Auth(), **{"iss": "fieldmark"} | changed)


async def test_local_token_is_accepted_for_its_user(local: LocalTokens, tmp_path: Path) -> None:
    token = local.sign(USER)
    assert await user_of(local, token) == USER
    assert await user_of(LocalTokens(tmp_path / "home"), token) == USER
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 12 * 3600
    assert set(claims) == {"iss", "aud", "sub", "role", "iat", "exp"}
    for lifetime in (timedelta(0), timedelta(seconds=-1), timedelta.max):
        with pytest.raises(Invalid):
            local.sign(USER, lifetime)


async def test_local_token_must_have_the_local_algorithm_key_and_claims(
    local: LocalTokens, tmp_path: Path, ec_key: Key
) -> None:
    key = stored_key(tmp_path / "home")
    assert "HS256" in await refusal_message(local, f"{base64_part({'alg': 'none'})}.{base64_part(local_claims())}.")
    assert "HS256" in await refusal_message(local, jwt.encode(local_claims(), key * 2, algorithm="HS512"))
    assert "HS256" in await refusal_message(local, ec_key.sign(local_claims()))
    assert "signature" in await refusal_message(local, sign_with_hmac({"alg": "HS256"}, local_claims(), b""))
    assert "longer than 8192" in await refusal_message(
        local, sign_with_hmac({"alg": "HS256"}, local_claims(x="x" * 8192), key)
    )
    # The code for claims is shared with Supabase tokens, so one case per claim is enough.
    wrong = {"exp": NOW - 360}, {"aud": "anon"}, {"role": "anon"}, {"sub": "me"}, {"iss": "other"}, {"iss": ABSENT}
    for bad in wrong:
        assert await refusal_message(local, sign_with_hmac({"alg": "HS256"}, local_claims(**bad), key))
    assert await user_of(local, sign_with_hmac({"alg": "HS256"}, local_claims(), key)) == USER


def test_local_key_has_256_bits_and_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        LocalTokens(tmp_path / "a")
        LocalTokens(tmp_path / "b")
    finally:
        os.umask(before)
    keys = tmp_path / "a" / "keys"
    assert keys.stat().st_mode & 0o777 == 0o700
    assert (keys / "tokens").stat().st_mode & 0o777 == 0o600
    assert len(stored_key(tmp_path / "a")) == 32
    assert stored_key(tmp_path / "a") != stored_key(tmp_path / "b")
    assert [p.name for p in keys.iterdir()] == ["tokens"]


async def test_concurrent_starts_create_one_key(tmp_path: Path) -> None:
    # Threads suffice: like processes, they share only the folder.
    for n in range(5):
        home, barrier, instances = tmp_path / str(n), threading.Barrier(8), []

        def start(
            home: Path = home, barrier: threading.Barrier = barrier, instances: list[LocalTokens] = instances
        ) -> None:
            barrier.wait()
            instances.append(LocalTokens(home))

        threads = [threading.Thread(target=start) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(instances) == 8
        token = instances[0].sign(USER)
        assert {await user_of(other, token) for other in instances} == {USER}


@pytest.mark.parametrize("defect", ["short", "readable", "link", "pipe"])
def test_unsafe_or_damaged_key_file_is_refused(tmp_path: Path, defect: str) -> None:
    LocalTokens(tmp_path)
    key = tmp_path / "keys" / "tokens"
    content = key.read_bytes()
    match defect:
        case "short":
            key.write_bytes(content[:-1])
        case "readable":
            key.chmod(0o640)
        case "link":
            key.rename(tmp_path / "elsewhere")
            key.symlink_to(tmp_path / "elsewhere")
        case _:
            key.unlink()
            os.mkfifo(key, 0o600)
    with pytest.raises(Misconfigured) as caught:
        LocalTokens(tmp_path)
    assert str(key) in str(caught.value)
    assert content.hex() not in str(caught.value)


async def test_settings_choose_the_token_issuer(tmp_path: Path, auth: Auth, ec_key: Key) -> None:
    local = tokens_for(Settings(_env_file=None, home=tmp_path))
    supabase = tokens_for(Settings(_env_file=None, home=tmp_path, supabase_url=auth.url))
    supabase_token, local_token = ec_key.sign(supabase_claims(auth)), LocalTokens(tmp_path).sign(USER)
    assert await user_of(local, local_token) == USER
    assert await user_of(supabase, supabase_token) == USER
    assert await refusal_message(local, supabase_token)
    assert await refusal_message(supabase, local_token)
    assert "signature" in await refusal_message(local, LocalTokens(tmp_path / "other").sign(USER))
