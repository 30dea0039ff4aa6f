"""The files of a command: the schemas that it reads and the results that it writes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import typer
from pydantic import TypeAdapter, ValidationError

from fieldmark.cli.process import FAILED, MISUSED, exit_with
from fieldmark.cli.target import Target
from fieldmark.errors import FieldmarkError, Invalid


def read_schema(file: Path | None) -> dict[str, Any] | None:
    """Load a JSON Schema, or return None without a file. Ends the command if the schema is unusable."""
    from fieldmark.domain.schema import check_schema

    if file is None:
        return None
    try:
        schema = read_object(file)
        check_schema(schema)
    except (OSError, FieldmarkError) as error:
        if isinstance(error, FileNotFoundError):
            exit_with(f"File not found: {file}", MISUSED)
        said = f"{error.strerror}." if isinstance(error, OSError) else str(error)
        exit_with(f"Invalid schema {file}: {said}", MISUSED)
    return schema


def read_object(file: Path) -> dict[str, Any]:
    """Load a JSON object from a file, with or without a byte order mark. Raises Invalid or OSError."""
    try:
        return TypeAdapter(dict[str, Any]).validate_json(file.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except ValidationError as error:
        raise Invalid(f"{file} is not a JSON object: {error.errors()[0]['msg']}.") from None


def ask_password() -> str:
    """Read a password from the terminal, hidden, or from the first line of a pipe. It is not an option, because options
    are visible in the process list and in the shell's history."""
    if sys.stdin.isatty():
        return typer.prompt("Password", hide_input=True, err=True)
    line = sys.stdin.readline().rstrip("\r\n")
    return line or exit_with("No password on standard input.", MISUSED)


def check_input_file(file: Path) -> None:
    """End the command before any work if the document cannot be read from disk."""
    try:
        if file.is_dir():
            exit_with(f"{file} is a folder: name the files in it.", MISUSED)
        if not (file.is_file() or file.is_fifo()):  # a pipe: <(…)
            exit_with(f"File not found: {file}", MISUSED)
    except OSError as error:  # a folder on the way that is closed to this user
        exit_with(f"Cannot read {file}: {error.strerror}.", MISUSED)
    if not os.access(file, os.R_OK):
        exit_with(f"Cannot read {file}: permission denied.", MISUSED)


def file_or_document(text: str) -> Path | UUID:
    """Parse an argument as a document id or a readable file. Ends the command if it is neither."""
    file = Path(text)
    if not file.exists():
        with contextlib.suppress(ValueError):
            return UUID(text)
    check_input_file(file)
    return file


def check_out(file: Path | None) -> None:
    """End the command before any work if the result file cannot be written."""
    if file is None:
        return
    folder = file.absolute().parent
    if file.is_dir():
        exit_with(f"Cannot write {file}: it is a folder. Name a file in it.", MISUSED)
    if not folder.is_dir():
        exit_with(f"Cannot write {file}: the folder {folder} does not exist. Create it first.", MISUSED)
    if not os.access(file if file.exists() else folder, os.W_OK):
        exit_with(f"Cannot write {file}: permission denied.", MISUSED)


def format_of(file: Path, formats: Collection[str]) -> str:
    """Return the format that the ending of a result file names. Ends the command if there is none."""
    ending = file.suffix.lower().removeprefix(".")
    if ending not in formats:
        exit_with(f"Unknown file type {file.suffix!r} of {file}. Use .{', .'.join(formats)}.", MISUSED)
    return ending


def write(content: bytes, file: Path | None) -> None:
    """Write bytes to the file or to standard output. JSON is UTF-8 in any locale."""
    if file is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        file.write_bytes(content)
    except OSError as error:
        exit_with(f"Cannot write {file}: {error.strerror}.", FAILED)


def to_json_bytes(result: Mapping[str, Any], *, indented: bool) -> bytes:
    """Return a result as JSON, indented or on one line."""
    text = json.dumps(result, ensure_ascii=False, indent=2 if indented else None) + "\n"
    # Control characters that JSON does not escape, but a terminal may obey.
    return re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def print_json(target: Target, result: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> bool:
    """Print a result as JSON if --json was given; a list as one object per line. Return whether it was given."""
    if target.as_json:
        if isinstance(result, Mapping):
            write(to_json_bytes(result, indented=True), None)
        else:
            write(b"".join(to_json_bytes(one, indented=False) for one in result), None)
    return target.as_json
