"""Settings as they come from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from fieldmark.settings import Settings

EXAMPLE = Path(__file__).parent.parent / ".env.example"


def test_numbers_come_as_text(monkeypatch):
    monkeypatch.setenv("FIELDMARK_POSTGRES_MAJOR", "16")
    monkeypatch.setenv("FIELDMARK_MAX_FILE_MB", "7")
    settings = Settings(_env_file=None)
    assert (settings.postgres_major, settings.max_file_mb) == (16, 7)


def test_a_version_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setenv("FIELDMARK_POSTGRES_MAJOR", "17")
    with pytest.raises(ValidationError, match="16 or 18"):
        Settings(_env_file=None)


def test_an_empty_variable_is_none(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    settings = Settings(_env_file=None)
    assert settings.embedded_database and settings.offline


def test_the_example_names_every_setting():
    named = {line.removeprefix("#").split("=")[0] for line in EXAMPLE.read_text().splitlines() if "=" in line}
    prefix = Settings.model_config["env_prefix"]
    wanted = set()
    for name, field in Settings.model_fields.items():
        alias = field.validation_alias
        wanted.add(alias.choices[0] if alias is not None else f"{prefix}{name}".upper())
    assert wanted <= named
    assert {name for name in named if name.startswith(prefix)} <= wanted
