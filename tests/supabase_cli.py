"""The Supabase CLI, installed from supabase/package-lock.json. It needs no Docker to check a database by its URL."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from node import install_packages, run_command

_PROJECT = Path(__file__).resolve().parents[1] / "supabase"


def find_problems(command: str, url: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the results of `supabase db lint` or `supabase db advisors`."""
    return json.loads(_run(url, "db", command, *arguments, "--output-format", "json"))["results"]


def generate_types(url: str) -> str:
    """Return the TypeScript types of the schema `public`, for the client @supabase/supabase-js."""
    lines = _run(url, "gen", "types", "--lang", "typescript", "--schema", "public").strip().splitlines()
    return "\n".join(["// Written by `just types`.", "", *map(str.rstrip, lines), ""])


def _run(url: str, *command: str) -> str:
    program = install_packages(_PROJECT) / "@supabase" / "cli-linux-x64" / "bin" / "supabase"
    if not program.exists():
        pytest.skip("The Supabase CLI is pinned for Linux on x64 only.")
    plain_url = urlsplit(url)._replace(query="").geturl()
    with tempfile.TemporaryDirectory(prefix="fieldmark-supabase-") as home:
        return run_command(
            Path(home),
            str(program),
            *command,
            f"--remote={plain_url}",
            HOME=home,
            PGSSLMODE="disable",
            SUPABASE_TELEMETRY_DISABLED="1",
            SUPABASE_NO_UPDATE_NOTIFIER="1",
        )
