"""The Supabase CLI finds nothing in the database that is not accepted, and its types compile."""

from __future__ import annotations

import asyncio
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from fieldmark.db.migrate import migrate
from node import install_packages, run_command
from running_server import Clone
from supabase_cli import find_problems, generate_types

_ROOT = Path(__file__).resolve().parents[2]
_TYPES = _ROOT / "supabase" / "database.types.ts"


def test_advisors_report_only_accepted_findings(clone: Clone) -> None:
    accepted = tomllib.loads((_ROOT / "supabase" / "accepted_findings.toml").read_text("utf-8"))
    listed = {(rule, name) for rule, entry in accepted.items() for name in entry.get("names", [])}
    reported: set[tuple[str, str]] = set()
    for finding in find_problems("advisors", clone.owner_url, "--type", "all", "--level", "info"):
        rule, about = finding["name"], finding["metadata"]
        if not accepted.get(rule, {}).get("all"):
            reported.add((rule, about.get("fkey_name") or f"{about['schema']}.{about['name']}"))
        assert finding["level"] == "INFO", finding["detail"]
    assert reported == listed


def test_lint_reports_nothing(server_with_lint: str) -> None:
    assert find_problems("lint", server_with_lint, "--schema", "public,private", "--level", "warning") == []


@pytest.fixture
def server_with_lint() -> Iterator[str]:
    """Migrate a database on a Postgres of the machine that has the extension plpgsql_check, which `db lint` needs."""
    extension = max(Path("/usr/share/postgresql").glob("*/extension/plpgsql_check.control"), default=None)
    if extension is None:
        pytest.skip("No Postgres with plpgsql_check. Debian: postgresql-NN-plpgsql-check")
    programs = Path("/usr/lib/postgresql") / extension.parts[-3] / "bin"
    user = pwd.getpwnam("postgres").pw_uid if os.geteuid() == 0 else os.geteuid()  # Postgres does not run as root
    with socket.socket() as free, tempfile.TemporaryDirectory(prefix="fieldmark-lint-") as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        password = Path(folder, "password")
        password.write_text(secrets.token_hex())
        for path in (folder, password):
            shutil.chown(path, user)
        data = f"{folder}/data"
        settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        settings += " -c wal_level=logical -c allow_system_table_mods=on"
        start = [programs / "pg_ctl", "-D", data, "-l", f"{folder}/log", "-w", "-o", settings, "start"]
        initdb = [programs / "initdb", "-D", data, "-U", "postgres", "-A", "scram-sha-256", "--no-sync"]
        subprocess.run([*initdb, "-E", "UTF8", f"--pwfile={password}"], check=True, user=user, stdout=subprocess.PIPE)
        subprocess.run(start, check=True, user=user, stdout=subprocess.DEVNULL)
        try:
            url = f"postgresql://postgres:{password.read_text()}@127.0.0.1:{port}/postgres"
            with psycopg.connect(url, autocommit=True) as owner:
                if owner.info.server_version < 160000:  # Debian 12. Lint reads the functions and does not call them.
                    owner.execute("create function pg_catalog.pg_input_is_valid(text, text) returns bool return true")
                owner.execute("create extension plpgsql_check")
            asyncio.run(migrate(url))
            yield url
        finally:
            subprocess.run([programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"], user=user, check=True)


def test_types_of_the_database_are_current_and_compile(clone: Clone, tmp_path: Path) -> None:
    assert generate_types(clone.owner_url) == _TYPES.read_text("utf-8"), "Run `just types`."
    shutil.copy(_TYPES, tmp_path)
    (tmp_path / "node_modules").symlink_to(install_packages(_ROOT / "frontend"))
    (tmp_path / "client.ts").write_text(_CLIENT)
    options = ["--strict", "--noEmit", "--skipLibCheck", "false", "--module", "nodenext", "--lib", "es2023,dom"]
    options += ["--skipDefaultLibCheck"]  # TypeScript's own
    run_command(tmp_path, "node_modules/.bin/tsc", *options, "client.ts")


_CLIENT = """
import { createClient } from "@supabase/supabase-js";
import type { Database } from "./database.types.js";

const supabase = createClient<Database>("https://project.supabase.co", "key");

export async function totals(document: string): Promise<(number | undefined)[]> {
  const { data } = await supabase.from("extractions").select("extracted_fields, version").eq("document_id", document);
  return (data ?? []).map((row) => row.version);
}

export async function setName(extraction: string): Promise<void> {
  await supabase.rpc("update_extraction_field",
    { p_extraction_id: extraction, p_field_path: ["vendor", "name"], p_value: "Acme" });
  // @ts-expect-error a column that does not exist
  await supabase.from("documents").select("id").eq("file_name", "a.pdf").single().then(({ data }) => data.id);
}
"""
