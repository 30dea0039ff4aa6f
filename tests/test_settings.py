"""Settings from environment variables."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from fieldmark.settings import Settings, SettingsError, read_settings

EXAMPLE = Path(__file__).parent.parent / ".env.example"


def test_values_are_parsed_from_text_and_empty_ones_use_the_default(monkeypatch):
    monkeypatch.setenv("FIELDMARK_POSTGRES_MAJOR", "16")
    monkeypatch.setenv("DATABASE_URL", "")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    settings = Settings(_env_file=None)
    assert settings.postgres_major == 16 and settings.embedded_database and settings.offline
    monkeypatch.setenv("FIELDMARK_POSTGRES_MAJOR", "17")
    with pytest.raises(ValidationError, match="16 or 18"):
        Settings(_env_file=None)


def _unsigned_jwt(role: str) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"role": role}).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJIUzI1NiJ9.{claims}.signature"


PUBLISHABLE = ["sb_publishable_x", _unsigned_jwt("anon")]
SECRET = ["sb_secret_x", _unsigned_jwt("service_role")]
NEITHER = [_unsigned_jwt("authenticated"), "eyJ.x.y", "something", "sb_x"]


@pytest.mark.parametrize(
    ("variable", "accepted", "other_kind", "message"),
    [
        ("SUPABASE_PUBLISHABLE_KEY", PUBLISHABLE, SECRET, "this is a secret key"),
        ("SUPABASE_SECRET_KEY", SECRET, PUBLISHABLE, "this is a publishable key"),
    ],
)
def test_publishable_and_secret_supabase_keys_are_not_confused(monkeypatch, variable, accepted, other_kind, message):
    for key in accepted:
        monkeypatch.setenv(variable, key)
        value = getattr(Settings(_env_file=None), variable.lower())
        assert (value if isinstance(value, str) else value.get_secret_value()) == key
    for key, expected in [*((key, message) for key in other_kind), *((key, "Copy it again") for key in NEITHER)]:
        monkeypatch.setenv(variable, key)
        with pytest.raises(ValidationError, match=expected):
            Settings(_env_file=None)


KEYS = {name for name, field in Settings.model_fields.items() if name.endswith(("_key", "_token", "key"))}


@pytest.mark.parametrize("name", sorted(KEYS))
def test_line_break_after_a_key_is_removed_and_other_characters_are_refused(monkeypatch, tmp_path, name):
    monkeypatch.chdir(tmp_path)
    alias = Settings.model_fields[name].validation_alias
    variable = alias.choices[0] if alias is not None else f"FIELDMARK_{name.upper()}"
    plain = {"supabase_publishable_key": "sb_publishable_abcdefghij"}.get(name, "sb_secret_abcdefghij")
    monkeypatch.setenv(variable, f" {plain}\r\n")
    value = getattr(read_settings(), name)
    assert (value if isinstance(value, str) else value.get_secret_value()) == plain
    for bad in (f"{plain}\nb", f"{plain} b", f"{plain}ü", f"{plain}\x7f", " \n"):
        monkeypatch.setenv(variable, bad)
        with pytest.raises(SettingsError) as error:
            read_settings()
        assert [fault.split(":")[0] for fault in error.value.faults] == [variable] and plain not in str(error.value)


def test_error_lists_all_invalid_settings_without_their_values(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FIELDMARK_TEST_POSTGRES", raising=False)
    for name, value in {
        "fieldmark_max_turn": "5",
        "FIELDMARK_METRICS_TOKEN": "hush",
        "FIELDMARK_CORS_ORIGINS": "https://example.com",
        "ANTHROPIC_BASE_URL": "localhost:8080",
        "FIELDMARK_DATABASE_URL": "postgresql://fieldmark_app@db/postgres",
        "FIELDMARK_PORT_8000_TCP": "tcp://10.0.0.1:8000",  # set by Kubernetes
        "FIELDMARK_UI": "require",  # set for `pip install`
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as error:
        read_settings()
    fault_by_setting = dict(fault.split(": ", 1) for fault in error.value.faults)
    assert fault_by_setting.keys() == {
        "fieldmark_max_turn",
        "ANTHROPIC_BASE_URL",
        "FIELDMARK_CORS_ORIGINS",
        "FIELDMARK_METRICS_TOKEN",
    }
    assert (
        "FIELDMARK_MAX_TURNS" in fault_by_setting["fieldmark_max_turn"]
        and "16 characters" in fault_by_setting["FIELDMARK_METRICS_TOKEN"]
    )
    assert "hush" not in str(error.value)


def test_env_example_lists_every_setting():
    listed = {line.removeprefix("#").split("=")[0] for line in EXAMPLE.read_text().splitlines() if "=" in line}
    prefix = Settings.model_config["env_prefix"]
    expected = set()
    for name, field in Settings.model_fields.items():
        alias = field.validation_alias
        expected.add(alias.choices[0] if alias is not None else f"{prefix}{name}".upper())
    assert expected <= listed
    assert {name for name in listed if name.startswith(prefix)} <= expected
