"""Tokens: the right ones name their user, every other is refused with its reason. Keys and the key server are real."""

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

from extraction_case import until
from fieldmark.errors import Invalid, Misconfigured, Unauthenticated, Unavailable
from fieldmark.identity.tokens import LocalTokens, SupabaseTokens, Tokens, tokens_for
from fieldmark.settings import Settings
from http_stub import http_stub
from running_server import PATIENCE

pytestmark = pytest.mark.anyio

USER = uuid4()
SHARED = b"a-shared-secret-of-at-least-32-characters"
ABSENT = object()


@dataclass
class Key:
    """A key pair as Auth holds it, and the public half as it publishes it."""

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


def es256(kid: str) -> Key:
    return Key(kid, "ES256", ec.generate_private_key(ec.SECP256R1()))


def rs256(kid: str) -> Key:
    return Key(kid, "RS256", rsa.generate_private_key(65537, 2048))


@dataclass
class Auth:
    """A server of public keys on loopback: what it publishes, how often it was asked, and how it misbehaves."""

    url: str = ""
    keys: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    called: threading.Event = field(default_factory=threading.Event)
    # Status, headers and body instead of the keys.
    answer: tuple[int, dict[str, str], bytes] | None = None
    # Cleared: nobody is answered until it is set.
    open: threading.Event = field(default_factory=threading.Event)


@contextmanager
def auth_server() -> Iterator[Auth]:
    auth = Auth()
    auth.open.set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            auth.asked.append(self.path)
            auth.called.set()
            auth.open.wait()
            status, headers, body = auth.answer or (200, {}, json.dumps({"keys": auth.keys}).encode())
            if auth.answer is None and self.path != "/auth/v1/.well-known/jwks.json":
                status = 404
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
            auth.open.set()


@pytest.fixture(scope="module")
def ec_key() -> Key:
    return es256("ec-1")


@pytest.fixture(scope="module")
def rsa_key() -> Key:
    return rs256("rsa-1")


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


def part(content: object) -> str:
    return (
        base64.urlsafe_b64encode(content if isinstance(content, bytes) else json.dumps(content).encode())
        .decode()
        .rstrip("=")
    )


def hmac_signed(header: dict[str, Any], claims: dict[str, Any], secret: bytes) -> str:
    """Made by hand: PyJWT does not lend itself to signing with a public key as the secret."""
    signed = f"{part(header)}.{part(claims)}"
    return f"{signed}.{part(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def odd_token(key: Key, payload: bytes | dict[str, Any]) -> str:
    """Signed by an ES256 key, whatever it says: PyJWT signs no odd claims."""
    signed = f"{part({'alg': 'ES256', 'kid': key.kid})}.{part(payload)}"
    return f"{signed}.{part(jwt.get_algorithm_by_name('ES256').sign(signed.encode(), key.private))}"


async def user_of(tokens: Tokens, token: str) -> UUID:
    return (await tokens.person_of(token)).user_id


async def refusal(tokens: Tokens, token: str) -> str:
    """Why the token was refused; nothing of the token is in it."""
    with pytest.raises(Unauthenticated) as caught:
        await user_of(tokens, token)
    assert caught.value.__cause__ is None
    sentence = str(caught.value)
    assert not any(piece in sentence for piece in token.split(".") if len(piece) > 7)
    return sentence


# Each in a pair: with this claim changed it is refused, with that it is not.
NOW = int(time.time())
CLAIMS = [
    ({"exp": NOW - 60}, {"exp": NOW + 6000}, "expired"),
    ({"exp": ABSENT}, {"exp": NOW + 6000.5}, "lacks the claim 'exp'"),
    ({"exp": float("inf")}, {"exp": 2**40}, "cannot be read"),
    ({"nbf": NOW + 6000}, {"nbf": NOW - 60}, "not valid yet"),
    ({"aud": "anon"}, {"aud": "authenticated"}, "audience"),
    ({"aud": ["a", "b"]}, {"aud": ["a", "authenticated"]}, "audience"),
    ({"role": "service_role"}, {"role": "authenticated"}, "signed-in user"),
    ({"role": ABSENT}, {"role": "authenticated"}, "signed-in user"),
    ({"sub": "somebody"}, {"sub": str(USER)}, "UUID"),
    ({"sub": 7}, {"sub": str(USER)}, "cannot be read"),
    ({"iss": "https://evil.example/auth/v1"}, {}, "issuer"),
    ({"iss": ABSENT}, {}, "lacks the claim 'iss'"),
]
# By their place: the times in them are not the same in every process of a run.
ids = [f"{next(iter(bad))}-{place}" for place, (bad, _, _) in enumerate(CLAIMS)]


# Supabase


async def test_a_signed_in_user_is_known_by_either_kind_of_key(
    auth: Auth, tokens: SupabaseTokens, ec_key: Key, rsa_key: Key
) -> None:
    assert await user_of(tokens, ec_key.sign(supabase_claims(auth))) == USER
    assert await user_of(tokens, rsa_key.sign(supabase_claims(auth))) == USER
    assert await user_of(tokens, ec_key.sign(supabase_claims(auth, is_anonymous=True))) == USER
    assert len(auth.asked) == 1


@pytest.mark.parametrize(("bad", "good", "says"), CLAIMS, ids=ids)
async def test_supabase_claims(
    auth: Auth, tokens: SupabaseTokens, ec_key: Key, bad: dict[str, Any], good: dict[str, Any], says: str
) -> None:
    assert says in await refusal(tokens, odd_token(ec_key, supabase_claims(auth, **bad)))
    assert await user_of(tokens, ec_key.sign(supabase_claims(auth, **good))) == USER


async def test_a_token_without_a_signature_a_key_or_its_own_content_is_refused(
    auth: Auth, tokens: SupabaseTokens, ec_key: Key
) -> None:
    claims = supabase_claims(auth)
    for algorithm in ("none", "NONE", "HS512", ["ES256"]):
        header = part({"alg": algorithm, "kid": ec_key.kid})
        assert await refusal(tokens, f"{header}.{part(claims)}.")
    unsigned = ec_key.sign(claims).rpartition(".")[0] + "."
    assert "signature" in await refusal(tokens, unsigned)
    header, _, signature = ec_key.sign(claims).split(".")
    theirs = part(claims | {"sub": str(uuid4())})
    assert "signature" in await refusal(tokens, f"{header}.{theirs}.{signature}")
    unnamed = jwt.encode(claims, ec_key.private, algorithm="ES256")
    assert "name the key" in await refusal(tokens, unnamed)
    assert await user_of(tokens, ec_key.sign(claims)) == USER


async def test_a_public_key_is_no_shared_secret(auth: Auth, tokens: SupabaseTokens, rsa_key: Key) -> None:
    claims = supabase_claims(auth)
    public = rsa_key.private.public_key()
    secrets = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        b"",
    ]
    for secret in secrets:
        forged = hmac_signed({"alg": "HS256", "kid": rsa_key.kid, "typ": "JWT"}, claims, secret)
        assert "SUPABASE_JWT_SECRET" in await refusal(tokens, forged)
        assert "signature" in await refusal(SupabaseTokens(auth.url, secret=SHARED), forged)
        forged = hmac_signed({"alg": "RS256", "kid": rsa_key.kid, "typ": "JWT"}, claims, secret)
        assert "signature" in await refusal(tokens, forged)
    assert await user_of(tokens, rsa_key.sign(claims)) == USER


async def test_keys_of_other_kinds_are_not_used_even_when_published(
    auth: Auth, tokens: SupabaseTokens, ec_key: Key
) -> None:
    secret = os.urandom(32)
    ps256 = Key("ps", "PS256", rsa.generate_private_key(65537, 2048))
    es384 = Key("es384", "ES384", ec.generate_private_key(ec.SECP384R1()))
    for_encryption = es256("enc")
    auth.keys += [
        {"kty": "oct", "kid": "shared", "k": part(secret), "alg": "HS256", "use": "sig"},
        {"kty": "oct", "kid": "disguised", "k": part(secret), "alg": "ES256", "use": "sig"},
        ps256.jwk,
        es384.jwk,
        for_encryption.jwk | {"use": "enc"},
        # One odd key does not take the others with it.
        {"kty": "RSA", "kid": "odd", "n": 7, "e": []},
        ec_key.jwk | {"kid": ["odd"]},
        7,
    ]
    claims = supabase_claims(auth)
    for token in (
        hmac_signed({"alg": "ES256", "kid": "shared"}, claims, secret),
        hmac_signed({"alg": "ES256", "kid": "disguised"}, claims, secret),
        for_encryption.sign(claims),
        hmac_signed({"alg": "ES256", "kid": "es384"}, claims, secret),
    ):
        assert "does not publish" in await refusal(tokens, token)
    for token in (ps256.sign(claims), es384.sign(claims)):
        assert "ES256 or RS256" in await refusal(tokens, token)
    published = hmac_signed({"alg": "HS256", "kid": "shared"}, claims, secret)
    assert "SUPABASE_JWT_SECRET" in await refusal(tokens, published)
    assert "signature" in await refusal(SupabaseTokens(auth.url, secret=SHARED), published)
    assert await user_of(tokens, ec_key.sign(claims)) == USER


async def test_a_shared_secret_is_taken_where_it_is_given(auth: Auth, ec_key: Key, rsa_key: Key) -> None:
    claims = supabase_claims(auth)
    shared = jwt.encode(claims, SHARED, "HS256")
    given, without = SupabaseTokens(auth.url, secret=SHARED), SupabaseTokens(auth.url)
    assert await user_of(given, shared) == USER
    assert auth.asked == []
    # What to switch on is said to whoever has not.
    said = await refusal(without, shared)
    assert "signing keys" in said and "SUPABASE_JWT_SECRET" in said
    # A project that changes over has both for a while.
    assert await user_of(given, ec_key.sign(claims)) == await user_of(given, rsa_key.sign(claims)) == USER
    # It opens nothing but tokens that say HS256, of this project, for a user, in time.
    for header in ({"alg": "RS256", "kid": rsa_key.kid}, {"alg": "ES256", "kid": ec_key.kid}):
        assert "signature" in await refusal(given, hmac_signed(header, claims, SHARED))
    assert "ES256 or RS256" in await refusal(given, hmac_signed({"alg": "HS512"}, claims, SHARED))
    assert "signature" in await refusal(given, jwt.encode(claims, SHARED + b"x", "HS256"))
    for wrong in ({"exp": NOW - 60}, {"aud": "anon"}, {"iss": "supabase"}, {"role": "service_role"}, {"role": "anon"}):
        assert await refusal(given, jwt.encode(claims | wrong, SHARED, "HS256"))


async def test_the_address_is_the_token_s(auth: Auth, tokens: SupabaseTokens, ec_key: Key) -> None:
    for email, known in (("a@example.org", "a@example.org"), ("", None), (7, None), (ABSENT, None)):
        claims = supabase_claims(auth, email=email)
        person = await tokens.person_of(ec_key.sign(claims))
        assert person.expires_at == datetime.fromtimestamp(int(claims["exp"]), UTC)
        assert person.email == known
    # What a user may write into their own profile is nobody's word.
    claims = supabase_claims(auth, user_metadata={"email": "b@example.org", "email_verified": True})
    assert (await tokens.person_of(ec_key.sign(claims))).email is None


async def test_a_key_is_used_for_its_own_algorithm_only_and_its_name_leads_nowhere(
    auth: Auth, tokens: SupabaseTokens, ec_key: Key, rsa_key: Key
) -> None:
    claims = supabase_claims(auth)
    for kid in ("/dev/null", "ec-1/../ec-1", f"{auth.url}/key", ""):
        assert await refusal(tokens, ec_key.sign(claims, kid=kid))
        assert await refusal(tokens, hmac_signed({"alg": "ES256", "kid": kid}, claims, b""))
    assert set(auth.asked) == {"/auth/v1/.well-known/jwks.json"}
    assert "signature" in await refusal(tokens, ec_key.sign(claims, kid=rsa_key.kid))
    assert "signature" in await refusal(tokens, rsa_key.sign(claims, kid=ec_key.kid))
    assert await user_of(tokens, rsa_key.sign(claims)) == USER


async def test_a_key_that_the_token_brings_along_proves_nothing(
    auth: Auth, tokens: SupabaseTokens, ec_key: Key
) -> None:
    claims = supabase_claims(auth)
    with auth_server() as evil:
        theirs = es256(ec_key.kid)
        evil.keys = [theirs.jwk]
        for brought in (
            {"jwk": theirs.jwk},
            {"jku": f"{evil.url}/auth/v1/.well-known/jwks.json"},
            {"x5u": f"{evil.url}/cert.pem"},
            {"x5c": ["MIIB"]},
        ):
            assert "signature" in await refusal(tokens, theirs.sign(claims, **brought))
            # The same header on a token of Auth's own is merely not looked at.
            assert await user_of(tokens, ec_key.sign(claims, **brought)) == USER
        assert evil.asked == []
    assert len(auth.asked) == 1


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b.c",
        "\ud800",
        part({"alg": "ES256", "kid": ["ec-1"]}) + ".e30.e30",
        part({"alg": "ES256", "kid": "ec-1", "crit": ["x"], "x": 1}) + ".e30.e30",
        part([]) + ".e30.e30",
        part(b'{"alg":"ES256","kid":"ec-1","x":' + b"[" * 4000) + ".e30.e30",
        part(b'{"alg":"ES256","kid":"ec-1","x":' + b"9" * 5000 + b"}") + ".e30.e30",
    ],
)
async def test_garbage_is_refused(tokens: SupabaseTokens, token: str) -> None:
    assert await refusal(tokens, token)


@pytest.mark.parametrize("payload", [b"", b"[]", b"\xff", b"[" * 5000, b'{"exp":' + b"9" * 5000 + b"}"])
async def test_a_garbled_payload_is_refused_though_signed(tokens: SupabaseTokens, ec_key: Key, payload: bytes) -> None:
    assert await refusal(tokens, odd_token(ec_key, payload))


async def test_an_enormous_token_is_not_even_read(auth: Auth, tokens: SupabaseTokens, ec_key: Key) -> None:
    def padded(length: int) -> str:
        return ec_key.sign(supabase_claims(auth, padding="x" * length))

    assert "longer than 8192" in await refusal(tokens, padded(6000))
    assert auth.asked == []
    fits = padded(5500)
    assert 7000 < len(fits) <= 8192
    assert await user_of(tokens, fits) == USER


# Keys that come and go


async def test_random_key_names_do_not_make_us_ask_again_and_again(auth: Auth, ec_key: Key) -> None:
    tokens = SupabaseTokens(auth.url)
    stranger = es256("stranger")
    claims = supabase_claims(auth)
    for n in range(20):
        assert "does not publish" in await refusal(tokens, stranger.sign(claims, kid=f"random-{n}"))
    await asyncio.gather(*(refusal(tokens, stranger.sign(claims, kid=f"more-{n}")) for n in range(20)))
    assert await user_of(tokens, ec_key.sign(claims)) == USER
    assert len(auth.asked) == 1


async def test_a_new_key_is_learnt_and_a_withdrawn_one_forgotten(auth: Auth, ec_key: Key) -> None:
    tokens = SupabaseTokens(auth.url, refetch_after_s=0.1)
    old, new = ec_key.sign(supabase_claims(auth)), es256("ec-2")
    assert await user_of(tokens, old) == USER
    auth.keys = [new.jwk]
    await asyncio.sleep(0.11)
    assert await user_of(tokens, old) == USER  # still within the keys' lifetime
    assert await user_of(tokens, new.sign(supabase_claims(auth))) == USER
    assert "does not publish" in await refusal(tokens, old)
    short = SupabaseTokens(auth.url, keys_live_s=0.05, refetch_after_s=0)
    assert await user_of(short, new.sign(supabase_claims(auth))) == USER
    auth.keys = []
    await asyncio.sleep(0.06)
    assert "does not publish" in await refusal(short, new.sign(supabase_claims(auth)))


AWAY: list[tuple[int, dict[str, str], bytes]] = [
    (500, {}, b"oops"),
    (302, {"Location": "{evil}/auth/v1/.well-known/jwks.json"}, b""),
    (200, {}, b"<html>hotel wifi</html>"),
    (200, {}, b'{"keys": 7}'),
    (200, {}, b"[" * 100_000),
    (200, {}, b'{"keys": []}' + b" " * 300_000),
    (200, {"Content-Length": "1000"}, b'{"keys": []}'),
]


@pytest.mark.parametrize("answer", AWAY, ids=range(len(AWAY)))
async def test_while_auth_is_away_its_known_keys_go_on_and_unknown_ones_cannot_be_told(
    auth: Auth, ec_key: Key, answer: tuple[int, dict[str, str], bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    tokens = SupabaseTokens(auth.url, keys_live_s=0, refetch_after_s=0)
    known = ec_key.sign(supabase_claims(auth))
    theirs = es256("evil")
    unknown = theirs.sign(supabase_claims(auth))
    with auth_server() as evil:
        evil.keys = [theirs.jwk]
        status, headers, body = answer
        auth.answer = (status, {name: value.format(evil=evil.url) for name, value in headers.items()}, body)
        with pytest.raises(Unavailable, match="Auth does not answer"):
            await user_of(tokens, known)
        auth.answer = None
        assert await user_of(tokens, known) == USER
        assert "does not publish" in await refusal(tokens, unknown)
        auth.answer = (status, {name: value.format(evil=evil.url) for name, value in headers.items()}, body)
        for _ in range(3):
            assert await user_of(tokens, known) == USER
            with pytest.raises(Unavailable, match="Auth does not answer"):
                await user_of(tokens, unknown)
        assert evil.asked == []
    printed = capfd.readouterr()
    assert not any(piece in printed.out + printed.err for piece in (*known.split("."), *unknown.split(".")))


async def test_a_silent_auth_is_waited_for_only_so_long(auth: Auth, ec_key: Key) -> None:
    tokens = SupabaseTokens(auth.url, keys_live_s=0, refetch_after_s=0, timeout_s=0.5)
    token = ec_key.sign(supabase_claims(auth))

    async def known() -> bool:
        with suppress(Unavailable):  # a slow machine may need longer for its keys than they are waited for
            return await user_of(tokens, token) == USER
        return False

    await until(known, PATIENCE)
    auth.open.clear()
    assert await user_of(tokens, token) == USER  # waits once, as nobody knew
    began = time.monotonic()
    for _ in range(20):
        assert await user_of(tokens, token) == USER
    assert time.monotonic() - began < 5  # and ten seconds if each had waited
    with pytest.raises(Unavailable):
        await user_of(tokens, es256("unknown").sign(supabase_claims(auth)))


async def test_a_caller_who_hangs_up_does_not_take_the_keys_from_the_next(auth: Auth, ec_key: Key) -> None:
    tokens = SupabaseTokens(auth.url)
    token = ec_key.sign(supabase_claims(auth))
    auth.open.clear()
    first = asyncio.create_task(user_of(tokens, token))
    second = asyncio.create_task(user_of(tokens, token))
    assert await asyncio.to_thread(auth.called.wait, PATIENCE)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    auth.open.set()
    assert await second == USER
    assert len(auth.asked) == 1


# Local


@pytest.fixture
def local(tmp_path: Path) -> LocalTokens:
    return LocalTokens(tmp_path / "home")


def own_key(home: Path) -> bytes:
    return (home / "keys" / "tokens").read_bytes()


def local_claims(**changed: Any) -> dict[str, Any]:
    return supabase_claims(Auth(), **{"iss": "fieldmark"} | changed)


async def test_the_server_knows_whom_it_signed_a_token_for(local: LocalTokens, tmp_path: Path) -> None:
    token = local.sign(USER)
    assert await user_of(local, token) == USER
    assert await user_of(LocalTokens(tmp_path / "home"), token) == USER
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 12 * 3600
    assert set(claims) == {"iss", "aud", "sub", "role", "iat", "exp"}
    for lifetime in (timedelta(0), timedelta(seconds=-1), timedelta.max):
        with pytest.raises(Invalid):
            local.sign(USER, lifetime)


async def test_the_server_s_own_tokens_are_signed_in_one_way_only(
    local: LocalTokens, tmp_path: Path, ec_key: Key
) -> None:
    key = own_key(tmp_path / "home")
    assert "HS256" in await refusal(local, f"{part({'alg': 'none'})}.{part(local_claims())}.")
    assert "HS256" in await refusal(local, jwt.encode(local_claims(), key * 2, algorithm="HS512"))
    assert "HS256" in await refusal(local, ec_key.sign(local_claims()))
    assert "signature" in await refusal(local, hmac_signed({"alg": "HS256"}, local_claims(), b""))
    assert "longer than 8192" in await refusal(local, hmac_signed({"alg": "HS256"}, local_claims(x="x" * 8192), key))
    # One function reads these claims and Supabase's: of the table above, one row a claim.
    for bad in ({"exp": NOW - 60}, {"aud": "anon"}, {"role": "anon"}, {"sub": "me"}, {"iss": "other"}, {"iss": ABSENT}):
        assert await refusal(local, hmac_signed({"alg": "HS256"}, local_claims(**bad), key))
    assert await user_of(local, hmac_signed({"alg": "HS256"}, local_claims(), key)) == USER


def test_the_key_is_256_bits_for_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        LocalTokens(tmp_path / "a")
        LocalTokens(tmp_path / "b")
    finally:
        os.umask(before)
    keys = tmp_path / "a" / "keys"
    assert keys.stat().st_mode & 0o777 == 0o700
    assert (keys / "tokens").stat().st_mode & 0o777 == 0o600
    assert len(own_key(tmp_path / "a")) == 32
    assert own_key(tmp_path / "a") != own_key(tmp_path / "b")
    assert [p.name for p in keys.iterdir()] == ["tokens"]


async def test_all_who_start_at_once_have_the_same_key(tmp_path: Path) -> None:
    # Threads and not processes: all they share is the folder, which is all that processes would share.
    for n in range(5):
        home, together, found = tmp_path / str(n), threading.Barrier(8), []

        def start(home: Path = home, together: threading.Barrier = together, found: list[LocalTokens] = found) -> None:
            together.wait()
            found.append(LocalTokens(home))

        threads = [threading.Thread(target=start) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        token = found[0].sign(USER)
        assert {await user_of(other, token) for other in found} == {USER}


@pytest.mark.parametrize("harm", ["short", "readable", "link", "pipe"])
def test_a_key_that_may_not_be_secret_or_whole_is_not_used(tmp_path: Path, harm: str) -> None:
    LocalTokens(tmp_path)
    key = tmp_path / "keys" / "tokens"
    content = key.read_bytes()
    match harm:
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


async def test_settings_say_whose_tokens_count(tmp_path: Path, auth: Auth, ec_key: Key) -> None:
    local = tokens_for(Settings(_env_file=None, home=tmp_path))
    supabase = tokens_for(Settings(_env_file=None, home=tmp_path, supabase_url=auth.url))
    theirs, ours = ec_key.sign(supabase_claims(auth)), LocalTokens(tmp_path).sign(USER)
    assert await user_of(local, ours) == USER
    assert await user_of(supabase, theirs) == USER
    assert await refusal(local, theirs)
    assert await refusal(supabase, ours)
    assert "signature" in await refusal(local, LocalTokens(tmp_path / "other").sign(USER))
