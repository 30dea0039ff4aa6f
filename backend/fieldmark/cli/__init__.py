"""The command line: serve, extract, export, runs, approve, eval, worker, migrate, token, key, members.

Exit codes: 0 done (`serve` and `worker`: told to end); 1 a document could not be read, a run failed, what was to be
decided waits no more, an evaluation got worse, or not all could be written; 2 wrong usage; 3 the service cannot work
(settings, database); 4 nothing failed, but a person has more to do: a run waits for a decision, or an extraction is not
complete or does not follow its schema; 130 interrupted.
"""

from __future__ import annotations

import typer

from fieldmark.cli.evaluate import evaluate
from fieldmark.cli.export import export
from fieldmark.cli.extract import extract
from fieldmark.cli.people import key, members
from fieldmark.cli.process import on_its_streams
from fieldmark.cli.runs import approve, runs
from fieldmark.cli.service import migrate, serve, token, worker

_app = typer.Typer(
    help="Fieldmark reads documents and fills databases.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _name, _command in {
    "extract": extract,
    "export": export,
    "runs": runs,
    "approve": approve,
    "eval": evaluate,
    "serve": serve,
    "worker": worker,
    "migrate": migrate,
    "token": token,
}.items():
    _app.command(_name)(_command)
_app.add_typer(key, name="key")
_app.add_typer(members, name="members")


def main() -> None:
    """The entry point of `fieldmark`."""
    with on_its_streams():
        _app()
