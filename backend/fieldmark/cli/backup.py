"""Commands to back up a service, to restore it, and to move the embedded Postgres: backup, restore,
upgrade-postgres."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Annotated, BinaryIO, Final, cast

import typer

from fieldmark.cli.process import FAILED, MISUSED, exit_on_error, exit_with, read_settings, run
from fieldmark.cli.terminal import err, plain

_STANDARD: Final = Path("-")

_File = Annotated[Path, typer.Argument(help="The backup; - for standard output or input.")]
_Identity = Annotated[
    Path | None, typer.Option("--identity", "-i", help="The file with the private key of an encrypted backup.")
]


def backup(
    file: _File,
    encrypt_to: Annotated[
        list[str] | None,
        typer.Option(help="Encrypt for this public key of age (age1…) or SSH. Can be given several times."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Read and verify an existing backup instead.")] = False,
    identity: _Identity = None,
) -> None:
    """Back up the database, the original files and the signing key into one file, while the service runs."""
    from fieldmark.backup import back_up, check_backup

    if check:
        with _source(file) as source, exit_on_error():
            header, end = check_backup(source, identity)
        err.print(f"Complete: {header.documents:,} documents, {end.originals:,} originals, made {header.created_at}.")
        _say_lost(end.lost_originals)
        return
    settings = read_settings("warning")
    with _target(file) as target:
        made = run(back_up(settings, target, encrypt_to or [], _progress))
    err.print(f"{made.documents:,} documents, {made.originals:,} originals ({made.original_bytes / 1e6:,.1f} MB).")
    _say_lost(made.lost_originals)


def restore(file: _File, identity: _Identity = None) -> None:
    """Restore a backup into an empty service: a new FIELDMARK_HOME, or an empty DATABASE_URL."""
    from fieldmark.backup import restore as restore_backup

    settings = read_settings("warning")
    with _source(file) as source:
        header, end = run(restore_backup(settings, source, identity, _progress))
    documents = header.documents - len(end.deleted_documents)
    err.print(f"Restored {documents:,} documents and {end.originals:,} originals. Next: fieldmark doctor")
    _say_lost(end.lost_originals)


def upgrade_postgres(
    back: Annotated[
        bool, typer.Option("--back", help="Use the database again that was replaced. What was written since is lost.")
    ] = False,
) -> None:
    """Move the embedded Postgres to the version FIELDMARK_POSTGRES_MAJOR (18). The old database is kept."""
    from fieldmark.backup import go_back
    from fieldmark.backup import upgrade_postgres as upgrade

    settings = read_settings("warning")
    if back:
        with exit_on_error():
            kept = go_back(settings)
        err.print(
            f"The newer database is kept in {plain(str(kept))}. Set FIELDMARK_POSTGRES_MAJOR to the older version."
        )
        return
    moved = run(upgrade(settings))
    if moved is None:
        err.print(f"The embedded database has version {settings.postgres_major}.")
    else:
        err.print(f"Done. The old database is kept in {plain(str(moved))}; delete it when all works.")


def _progress(count: int) -> None:
    if err.is_terminal:
        err.print(f"{count:,} originals", end="\r")


def _say_lost(paths: Sequence[str]) -> None:
    if paths:
        err.print(f"[yellow]The storage did not have {len(paths)} originals, such as {paths[0]}.[/yellow]")
        raise typer.Exit(FAILED)


@contextmanager
def _target(file: Path) -> Generator[BinaryIO]:
    """Yield standard output, or a private file that appears under its name once it is complete."""
    if file == _STANDARD:
        if sys.stdout.isatty():
            exit_with("A backup is binary. Name a file, or pipe it into a program.", MISUSED)
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if file.exists() and not file.is_file():
        exit_with(f"{file} is no file.", MISUSED)
    unfinished = file.with_name(f"{file.name}.unfinished")
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as target:  # noqa: PTH123
            yield target
            target.flush()
            os.fsync(target.fileno())
        unfinished.replace(file)
    except OSError as error:
        exit_with(f"The backup could not be written: {error.strerror or error}.", FAILED)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _source(file: Path) -> Generator[BufferedReader]:
    if file == _STANDARD:
        yield cast("BufferedReader", sys.stdin.buffer)
        return
    try:
        source = file.open("rb")
    except OSError as error:
        exit_with(f"{file} cannot be read: {error.strerror}.", MISUSED)
    with source:
        yield source
