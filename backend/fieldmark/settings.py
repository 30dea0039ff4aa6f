"""Settings: the only reader of the environment. `.env.example` lists every one of them."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from dotenv import dotenv_values
from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, IPvAnyNetwork, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

_PREFIX: Final = "FIELDMARK_"
_FILE: Final = ".env"
_MODEL_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._:@/\[\]-]*$"
_PRICE: Final = r"^\d{1,6}(\.\d{1,9})?(/\d{1,6}(\.\d{1,9})?){1}((/\d{1,6}(\.\d{1,9})?){3})?$"
# Set for the installation, or by Kubernetes in every container of a namespace where a service is called fieldmark.
_OTHER_VARIABLE: Final = re.compile(r"FIELDMARK_(UI|(SERVICE_HOST|SERVICE_PORT|PORT)(_.*)?)")


def _default_home() -> Path:
    # Root's own home is closed to every other user, and the embedded Postgres must not run as root.
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/fieldmark")
    return Path.home() / ".fieldmark"


_AGENT_MB = 300
_AGENTS_PER_PROCESSOR = 16


def default_max_live_agents() -> int:
    """Return how many agents may run in parallel by default. Agents may use half of the memory; a third of that is for
    background runs."""
    megabytes = min(_physical_mb(), _container_limit_mb())
    return max(2, min(processor_count() * _AGENTS_PER_PROCESSOR, megabytes // 3 // _AGENT_MB, 64))


def processor_count() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _physical_mb() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


def _container_limit_mb() -> int:
    """Return the memory limit of the container, or the physical memory if there is no limit."""
    for place in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            return int((Path("/sys/fs/cgroup") / place).read_text()) >> 20
    return _physical_mb()


def _env(name: str) -> AliasChoices:
    return AliasChoices(name, name.lower())


def _parse_list(said: Any) -> Any:
    if not isinstance(said, str):
        return said
    try:
        return json.loads(said)
    except ValueError:
        raise ValueError('not valid JSON: write a list such as ["https://example.com"]') from None


def _check_key(key: SecretStr) -> SecretStr:
    """Return a key that can be sent in a header. Raise ValueError, without the key."""
    text = key.get_secret_value()
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("contains characters that are not allowed in a key, or none. Copy it again")
    return key


_Key = Annotated[SecretStr, AfterValidator(_check_key)]


def _supabase_role(key: str) -> object:
    """Return the database role of a Supabase key: `anon` if it may be published, `service_role` if it is secret."""
    for prefix, role in (("sb_publishable_", "anon"), ("sb_secret_", "service_role")):
        if key.startswith(prefix):
            return role
    try:  # one of the older keys, which are JWTs
        claims = key.split(".")[1]
        return json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["role"]
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def _check_publishable(key: str) -> str:
    _check_key(SecretStr(key))
    if _supabase_role(key) == "service_role":
        raise ValueError(
            "this is a secret key, and every browser would get it. Set the publishable key (sb_publishable_…) or the "
            "anon key"
        )
    if _supabase_role(key) != "anon":
        raise ValueError("not a publishable key (sb_publishable_…) or anon key of Supabase. Copy it again")
    return key


def _check_secret(key: SecretStr) -> SecretStr:
    role = _supabase_role(_check_key(key).get_secret_value())
    if role == "anon":
        raise ValueError(
            "this is a publishable key, which may not read files. Set a secret key (sb_secret_…) or service_role key"
        )
    if role != "service_role":
        raise ValueError("not a secret key (sb_secret_…) or service_role key of Supabase. Copy it again")
    return key


class Settings(BaseSettings):
    """All settings, read once from the environment and from `.env`."""

    model_config = SettingsConfigDict(
        env_file=_FILE,
        env_prefix=_PREFIX,
        extra="ignore",
        env_ignore_empty=True,
        populate_by_name=True,
        str_strip_whitespace=True,  # the line break at the end of a file that became a variable
    )

    # Where local things live: the embedded database, uploads, keys, caches.
    home: Path = Field(default_factory=_default_home)

    # Database. None of the three: the embedded one.
    database_url: SecretStr | None = Field(default=None, validation_alias=_env("DATABASE_URL"))
    database_direct_url: SecretStr | None = Field(default=None, validation_alias=_env("DATABASE_DIRECT_URL"))
    database_owner_url: SecretStr | None = Field(default=None, validation_alias=_env("DATABASE_OWNER_URL"))
    # (An environment variable is text, which Literal[16, 18] does not accept.)
    postgres_major: Annotated[Literal[16, 18], BeforeValidator(int)] = 18
    pool_size: Annotated[int, Field(ge=2, le=100)] = 10

    # Supabase: tokens are checked against its keys, uploads go to its Storage.
    supabase_url: Annotated[str, Field(pattern=r"^https?://[^/]+/?$")] | None = Field(
        default=None, validation_alias=_env("SUPABASE_URL")
    )
    # For projects that still sign with a shared secret (HS256). Without it their tokens are refused.
    supabase_jwt_secret: Annotated[SecretStr, Field(min_length=32)] | None = Field(
        default=None, validation_alias=_env("SUPABASE_JWT_SECRET")
    )
    # Whether Supabase's anonymous sign-ins may act. `fieldmark migrate` sets it for the row policies.
    allow_anonymous: bool = False
    # The public key that front ends sign in with.
    supabase_publishable_key: Annotated[str, AfterValidator(_check_publishable)] | None = Field(
        default=None, validation_alias=_env("SUPABASE_PUBLISHABLE_KEY")
    )
    supabase_secret_key: Annotated[SecretStr, AfterValidator(_check_secret)] | None = Field(
        default=None, validation_alias=_env("SUPABASE_SECRET_KEY")
    )

    # The model. Neither key nor token: the offline model by rules.
    anthropic_api_key: _Key | None = Field(default=None, validation_alias=_env("ANTHROPIC_API_KEY"))
    anthropic_auth_token: _Key | None = Field(default=None, validation_alias=_env("ANTHROPIC_AUTH_TOKEN"))
    anthropic_base_url: Annotated[str, Field(pattern=r"^https?://[^/]+")] | None = Field(
        default=None, validation_alias=_env("ANTHROPIC_BASE_URL")
    )
    model: str = "claude-sonnet-5"
    # Used if the model is overloaded or fails repeatedly.
    fallback_model: Annotated[str, Field(max_length=200, pattern=_MODEL_NAME)] | None = None

    # A second model, which reads a document again to compare. Without an address and a key of its own, it is at the
    # first model's service.
    second_model: Annotated[str, Field(max_length=200, pattern=_MODEL_NAME)] | None = None
    second_base_url: Annotated[str, Field(pattern=r"^https?://[^/]+")] | None = None
    second_api_key: _Key | None = None
    second_auth_token: _Key | None = None
    second_model_price: Annotated[str, Field(pattern=_PRICE)] | None = None

    # Semantic search: off, package (the model in an installed package), or the URL of an endpoint compatible with
    # OpenAI's embeddings API, with its model and key.
    embedder: Annotated[str, Field(pattern=r"^(off|package|https?://[^/]+.*)$")] = "off"
    embedder_model: Annotated[str, Field(min_length=1, max_length=100)] = "text-embedding-3-small"
    embedder_key: _Key | None = None

    # Runs
    max_live_agents: Annotated[int, Field(ge=1, le=256)] = Field(default_factory=default_max_live_agents)
    max_turns: Annotated[int, Field(ge=1, le=1000)] = 100
    # Unset: medium for extraction, high for the other agents. From high on the model thinks before it answers.
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    # The most tokens of an answer. Unset: 32,000, which small models of your own may refuse.
    max_output_tokens: Annotated[int, Field(ge=1000, le=128_000)] | None = None
    run_seconds: Annotated[int, Field(ge=5, le=86_400)] = 900
    # Kilobytes of the document in the first message of an extraction. 0: the agent reads the document with its tool.
    first_part_kb: Annotated[int, Field(ge=0, le=1000)] = 80
    # Whether a question is answered from the best passages if the agent gives no answer.
    ask_fallback: bool = True
    # Time limit of a tool call's transaction.
    tool_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 60
    # Two figures or five: see runs/billing/prices.parse_price.
    model_price: Annotated[str, Field(pattern=_PRICE)] | None = None

    # Agent processes that are started in advance. 0: processes are not reused between runs either.
    warm_spares: Annotated[int, Field(ge=0, le=64)] = 1

    # How long a CLI process is kept for a decision unless another run needs its slot. 0: it is ended at once.
    approval_wait_seconds: Annotated[float, Field(ge=0, le=30)] = 10

    # Days to keep the records of an ended run (0: forever). See worker/maintenance.py.
    keep_days: Annotated[float, Field(ge=0)] = 90

    # Documents
    # The bucket of originals. None: Supabase Storage if its secret key is set, otherwise a folder in `home`.
    files_url: Annotated[str, Field(pattern=r"^(s3|gs|az)://[^/?#]+(/[^?#]*)?$")] | None = None
    max_file_mb: Annotated[int, Field(ge=1, le=1024)] = 50
    max_pages: Annotated[int, Field(ge=1, le=10_000)] = 500

    # Serving
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8731
    cors_origins: Annotated[list[str], NoDecode, BeforeValidator(_parse_list)] = []
    # Networks of proxies, whose addresses many people share: without the limit of connections of an address.
    trusted_proxies: Annotated[list[IPvAnyNetwork], NoDecode, BeforeValidator(_parse_list)] = []
    # Private networks that webhooks and sources may use.
    private_networks: Annotated[list[IPvAnyNetwork], NoDecode, BeforeValidator(_parse_list)] = []
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    min_free_mb: Annotated[int, Field(ge=0)] = 200
    metrics_token: Annotated[_Key, Field(min_length=16)] | None = None
    otel_endpoint: Annotated[str, Field(pattern=r"^https?://[^/]+")] | None = Field(
        default=None, validation_alias=_env("OTEL_EXPORTER_OTLP_ENDPOINT")
    )

    # User ids for isolated processes if the service is root. See isolation/users.py.
    process_users: Annotated[str, Field(pattern=r"^[1-9]\d{0,8}-[1-9]\d{0,8}$")] = "62000-62999"

    # The remote service that commands use, as with --server and --key.
    server: Annotated[str, Field(pattern=r"^https?://[^/]+")] | None = None
    key: _Key | None = None

    # The user's editor, for changing an agent's proposal.
    editor: str | None = Field(default=None, validation_alias=AliasChoices("VISUAL", "EDITOR"))

    @property
    def offline(self) -> bool:
        """Whether the offline model is used, because no API key or token is set."""
        return self.anthropic_api_key is None and self.anthropic_auth_token is None

    @property
    def has_own_second_service(self) -> bool:
        """Whether the second model has credentials of its own. They are sent only to its own address."""
        return self.second_api_key is not None or self.second_auth_token is not None

    @property
    def has_second_service(self) -> bool:
        """Whether the second model has credentials: its own, or at the first model's service."""
        return self.has_own_second_service or (self.second_base_url is None and not self.offline)

    @property
    def second_url(self) -> str | None:
        """The address of the second model's service. None: Anthropic's."""
        return self.second_base_url if self.has_own_second_service else self.anthropic_base_url

    @property
    def process_user_ids(self) -> range:
        """The user ids of `process_users`."""
        first, last = map(int, self.process_users.split("-"))
        return range(first, last + 1)

    @property
    def embedded_database(self) -> bool:
        """Whether Fieldmark runs its own Postgres, because DATABASE_URL is not set."""
        return self.database_url is None


class SettingsError(Exception):
    """The settings are invalid. `faults` has one line for each error."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(["Invalid settings:", *faults]))
        self.faults = faults


def read_settings() -> Settings:
    """Read the settings. Raise SettingsError with all errors at once, including unknown FIELDMARK_ variables, since a
    misspelt limit would have no effect."""
    faults: list[str] = []
    settings = None
    try:
        faults += _unknown_variables()
        settings = Settings()
    except ValidationError as error:
        # Without the value, which may be a secret.
        faults += [f"{_variable_name(str(fault['loc'][0]))}: {_describe_error(fault)}" for fault in error.errors()]
    except UnicodeDecodeError:
        faults.append(f"{_FILE}: the file is not UTF-8 text")
    if settings is None or faults:
        raise SettingsError(faults)
    return settings


def _unknown_variables() -> Iterator[str]:
    known = {_variable_name(name) for name in Settings.model_fields}
    there = {**dotenv_values(_FILE), **os.environ}
    for name in sorted(name for name, value in there.items() if value):
        plain = name.upper()
        if plain.startswith(_PREFIX) and plain not in known and not _OTHER_VARIABLE.fullmatch(plain):
            near = get_close_matches(plain, sorted(known), 1, 0.8)
            yield f"{name}: unknown setting" + (f"; did you mean {near[0]}?" if near else "")


def _variable_name(name: str) -> str:
    return name if name.isupper() else f"{_PREFIX}{name.upper()}"


def _describe_error(fault: ErrorDetails) -> str:
    limits = fault.get("ctx", {})
    if fault["type"] == "too_short":
        return f"must have at least {limits['min_length']} characters"
    if str(limits.get("pattern", "")).startswith("^https?:"):
        return "must be an address that begins with http:// or https://"
    return fault["msg"].removeprefix("Value error, ")


def remove_variables(names: Iterable[str]) -> None:
    """Remove environment variables that a library would read by itself."""
    for name in names:
        os.environ.pop(name, None)
