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


def test_only_publishable_supabase_keys_are_accepted(monkeypatch):
    for key in ("sb_publishable_x", _unsigned_jwt("anon")):
        monkeypatch.setenv("SUPABASE_PUBLISHABLE_KEY", key)
        assert Settings(_env_file=None).supabase_publishable_key == key
    for key in ("sb_secret_x", _unsigned_jwt("service_role"), "eyJ.x.y", "something"):
        monkeypatch.setenv("SUPABASE_PUBLISHABLE_KEY", key)
        with pytest.raises(ValidationError, match="not the publishable key"):
            Settings(_env_file=None)


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
