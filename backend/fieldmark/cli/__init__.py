"""The command line. docs/commands.md lists the commands, the options that all have, and the exit codes."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldmark import __version__
from fieldmark.cli.ask import ask
from fieldmark.cli.chat import chat
from fieldmark.cli.doctor import doctor
from fieldmark.cli.documents import delete, documents, show, usage
from fieldmark.cli.evaluate import evaluate
from fieldmark.cli.export import export
from fieldmark.cli.extract import correct, extract
from fieldmark.cli.keys import key
from fieldmark.cli.process import standard_streams
from fieldmark.cli.records import records, view
from fieldmark.cli.runs import approve, cancel, runs
from fieldmark.cli.schema_changes import apply, diff
from fieldmark.cli.schemas import schema
from fieldmark.cli.search import search
from fieldmark.cli.service import migrate, serve, token, worker
from fieldmark.cli.stack import stack
from fieldmark.cli.suggestions import accept, organisation, propose, reject

_app = typer.Typer(
    help="Fieldmark reads documents and fills databases.", no_args_is_help=True, pretty_exceptions_enable=False
)
for _name, _command in {
    "extract": extract,
    "documents": documents,
    "search": search,
    "show": show,
    "correct": correct,
    "chat": chat,
    "ask": ask,
    "export": export,
    "records": records,
    "view": view,
    "stack": stack,
    "propose": propose,
    "accept": accept,
    "reject": reject,
    "runs": runs,
    "approve": approve,
    "cancel": cancel,
    "delete": delete,
    "usage": usage,
    "organisation": organisation,
    "eval": evaluate,
    "serve": serve,
    "worker": worker,
    "migrate": migrate,
    "doctor": doctor,
    "token": token,
}.items():
    _app.command(_name)(_command)
schema.command("diff")(diff)
schema.command("apply")(apply)
_app.add_typer(schema, name="schema")
_app.add_typer(key, name="key")


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
