"""The command line. docs/commands.md lists the commands, the options that all have, and the exit codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import typer

from fieldmark import __version__
from fieldmark.cli.admin import admin
from fieldmark.cli.ask import ask
from fieldmark.cli.backup import backup, restore, upgrade_postgres
from fieldmark.cli.bench import bench
from fieldmark.cli.changes import show_changes, webhook
from fieldmark.cli.chat import chat
from fieldmark.cli.doctor import doctor
from fieldmark.cli.documents import delete, documents, show, usage
from fieldmark.cli.evaluate import evaluate
from fieldmark.cli.export import export
from fieldmark.cli.extract import correct, extract
from fieldmark.cli.ground import ground
from fieldmark.cli.keys import key
from fieldmark.cli.mcp import mcp
from fieldmark.cli.process import standard_streams
from fieldmark.cli.quality import quality
from fieldmark.cli.runs import approve, cancel, runs
from fieldmark.cli.schema_changes import apply, diff
from fieldmark.cli.schemas import schema
from fieldmark.cli.search import search
from fieldmark.cli.service import migrate, serve, token, worker
from fieldmark.cli.sources import source
from fieldmark.cli.stack import stack
from fieldmark.cli.suggestions import accept, organisation, propose, reject
from fieldmark.cli.tables import table, view
from fieldmark.cli.target import HelpedCommand, HelpedGroup

_app = typer.Typer(
    cls=HelpedGroup,
    help="Fieldmark reads documents and fills databases. Start with: fieldmark extract FILE",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
# The commands by group, each with an example.
_COMMANDS: Final[dict[str, dict[str, tuple[Callable[..., None], str]]]] = {
    "Read documents": {
        "extract": (extract, "fieldmark extract invoice.pdf --schema invoices"),
        "ground": (ground, "fieldmark ground invoice.pdf values.json"),
        "stack": (stack, "fieldmark stack inbox --columns 'vendor,total:number' --out table.xlsx"),
        "documents": (documents, "fieldmark documents --limit 20"),
        "show": (show, "fieldmark show EXTRACTION --history"),
        "export": (export, "fieldmark export EXTRACTION --out invoice.xlsx"),
        "table": (table, "fieldmark table invoices --where 'total > 1000' --out invoices.csv"),
        "view": (view, "fieldmark view invoices | psql DATABASE"),
        "delete": (delete, "fieldmark delete document DOCUMENT"),
    },
    "Ask": {
        "ask": (ask, "fieldmark ask 'What is the total of all invoices?'"),
        "search": (search, "fieldmark search 'payment terms'"),
        "chat": (chat, "fieldmark chat invoice.pdf"),
    },
    "Review": {
        "correct": (correct, "fieldmark correct EXTRACTION 'the total is 279.84'"),
        "propose": (propose, "fieldmark propose invoice.pdf"),
        "accept": (accept, "fieldmark accept DOCUMENT"),
        "reject": (reject, "fieldmark reject DOCUMENT"),
        "quality": (quality, "fieldmark quality invoices --show corrected"),
        "runs": (runs, "fieldmark runs"),
        "approve": (approve, "fieldmark approve RUN"),
        "cancel": (cancel, "fieldmark cancel RUN"),
        "eval": (evaluate, "fieldmark eval docs/samples/cases"),
    },
    "Run the service": {
        "serve": (serve, "fieldmark serve --port 8731"),
        "worker": (worker, "fieldmark worker"),
        "mcp": (mcp, "fieldmark mcp --folder ~/Documents"),
        "migrate": (migrate, "fieldmark migrate"),
        "backup": (backup, "fieldmark backup fieldmark.backup"),
        "restore": (restore, "fieldmark restore fieldmark.backup"),
        "upgrade-postgres": (upgrade_postgres, "fieldmark upgrade-postgres"),
        "admin": (admin, "fieldmark admin --json"),
        "bench": (bench, "fieldmark bench --answer-seconds 20"),
        "doctor": (doctor, "fieldmark doctor"),
        "token": (token, "fieldmark token --hours 12"),
        "changes": (show_changes, "fieldmark changes --follow --type extraction.completed"),
        "usage": (usage, "fieldmark usage --since 2026-01-01"),
        "organisation": (organisation, "fieldmark organisation --json"),
    },
}
for _group, _commands in _COMMANDS.items():
    for _name, (_command, _example) in _commands.items():
        _app.command(_name, cls=HelpedCommand, rich_help_panel=_group, epilog=f"Example: {_example}")(_command)
schema.command("diff", cls=HelpedCommand)(diff)
schema.command("apply", cls=HelpedCommand)(apply)
_app.add_typer(schema, name="schema", rich_help_panel="Read documents")
_app.add_typer(key, name="key", rich_help_panel="Run the service")
_app.add_typer(webhook, name="webhook", rich_help_panel="Run the service")
_app.add_typer(source, name="source", rich_help_panel="Run the service")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fieldmark {__version__}")
        raise typer.Exit


@_app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """The entry point of `fieldmark`."""
    with standard_streams():
        _app(prog_name="fieldmark")
