"""Usage errors: reported on standard error with exit code 2, before anything starts. And the docs page of the commands
is complete."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from uuid import uuid4

import pytest
from commands import INVOICE as SAMPLE
from commands import run_here

from fieldmark import __version__
from fieldmark.api.app import create_app
from fieldmark.settings import Settings

ROOT = Path(__file__).parents[2]
INVOICE = str(SAMPLE)
ID = str(uuid4())
REMOTE = ("--server", "https://a.example")


@pytest.fixture(scope="module")
def input_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    input_folder = tmp_path_factory.mktemp("usage")
    (input_folder / "cases").mkdir()
    for name, content in {
        "fields.json": {"total": "number"},
        "remote.json": {"$ref": "https://example.com/a.json"},
        "cases/alone.gold.json": {},
    }.items():
        (input_folder / name).write_text(json.dumps(content))
    (input_folder / "no-json.json").write_text("{")
    return input_folder


@pytest.mark.parametrize(
    ("arguments", "expected_message"),
    [
        (("nothing",), "nothing"),
        (("extract",), "argument"),
        (("extract", INVOICE, "@/missing.pdf"), "missing.pdf"),
        (("extract", "@"), "is a folder"),
        (("extract", INVOICE, "--schema", "@/fields.json"), "at total"),
        (("extract", INVOICE, "--schema", "@/no-json.json"), "no-json.json"),
        (("extract", INVOICE, "--schema", "@/missing.json"), "missing.json"),
        (("extract", INVOICE, "--out", "@/nowhere/out.json"), "nowhere/out.json"),
        (("extract", INVOICE, "--user", "me"), "UUID"),
        (("extract", INVOICE, "--password"), "standard input"),
        (("chat", INVOICE, "--thread", ID), "--thread"),
        (("approve", ID, "--reject", "--input", "{}"), "--input"),
        (("approve", ID, "--reject", "--yes", "a-call"), ""),
        (("approve", ID, "--reason", "because"), "--re"),
        (("approve", ID, "--input", "[1]"), "--"),
        (("ask", "--where", "total >", "what is the total?"), "total >"),
        (("key", "create", "k", "--scopes", "everything"), "documents:read"),
        (("key", "create", "k", "--scopes", " ,"), "scope"),
        (("schema", "push", "@/remote.json"), "example.com"),
        (("export", ID, "--format", "pdf"), "json, csv, xlsx, html"),
        (("export", ID, "--out", "@/a.doc"), ".json, .csv, .xlsx, .html"),
        (("export", ID, "--out", "@/a.xlsx", "--format", "csv"), "--format csv"),
        (("export", ID, "--out", "@"), "is a folder"),
        (("ground", INVOICE, "@/missing.json"), "missing.json"),
        (("ground", INVOICE, "@/no-json.json"), "no-json.json"),
        (("ground", "@/missing.pdf", "@/fields.json"), "missing.pdf"),
        (("ground", INVOICE, "@/fields.json", "--quotes", "@/remote.json"), "$ref"),
        (("eval",), "--corrections"),
        (("eval", "@/cases"), "alone.gold.json"),
        (("eval", "@/cases", "--baseline", "@/cases/alone.gold.json"), "report"),
        (("documents", *REMOTE), "--key"),
        (("documents", "--key", "fm_x"), "--server"),
        (("documents", *REMOTE, "--key", "fm_x", "--user", ID), "--user"),
        (("documents", "--server", "https://[", "--key", "fm_x"), "https://["),
        (("documents", "--server", "https://me:word@a.example", "--key", "fm_x"), "FIELDMARK_KEY"),
        (("show", ID, "--history", "--version", "1"), "--history"),
    ],
)
def test_usage_error_exits_2(input_folder: Path, arguments: tuple[str, ...], expected_message: str):
    done = run_here(*(one.replace("@", str(input_folder)) if one.startswith("@") else one for one in arguments))
    assert (done.code, done.out) == (2, ""), done.err
    assert expected_message in done.err.replace("│\n│ ", "") and "Starting" not in done.err


def test_cli_page_lists_every_command_and_common_option():
    page = (ROOT / "docs/commands.md").read_text("utf-8")
    top = run_here("--help").out
    cells = " ".join(re.findall(r"^\| (`.*?) \|", page.split("## Options")[0], re.M))
    listed = set(re.findall(r"`([a-z][a-z-]+)", cells))
    help_text = set(re.findall(r"^│ ([a-z][a-z-]+) ", top, re.M))
    assert help_text == listed
    without = {"eval": {"--server", "--key"}, "ground": {"--org", "--user", "--server", "--key"}}
    for name in listed - {
        "serve",
        "worker",
        "migrate",
        "token",
        "backup",
        "restore",
        "upgrade-postgres",
        "admin",
        "bench",
        "key",
        "schema",
        "webhook",
        "source",
    }:
        options = run_here(name, "--help").out
        expected = {"--json", "--quiet", "--org", "--user", "--server", "--key"} - without.get(name, set())
        assert {option for option in expected if option not in options} == set(), name


def test_help_shows_flags_without_a_type_and_sentences_unbroken():
    top = run_here("--help").out
    for text in (top, run_here("stack", "--help").out, run_here("schema", "list", "--help").out):
        assert "<bool>" not in text and "Show this message and exit." in text
    assert "to read new files, and to repeat failed" in " ".join(top.replace("│", " ").split())
    assert all("<bool>" not in run_here(group, "--help").out for group in ("schema", "key"))


def test_version_is_the_same_everywhere():
    done = run_here("--version")
    assert (done.code, done.out) == (0, f"fieldmark {__version__}\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == __version__ == create_app(Settings(_env_file=None)).version
