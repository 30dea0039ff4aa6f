"""What a command reads from files and writes to files or standard output: schemas in, results out."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from fieldmark.cli.process import FAILED, MISUSED, stop
from fieldmark.errors import FieldmarkError


def read_schema(file: Path | None) -> dict[str, Any] | None:
    """A JSON Schema that is fit for use, or the end of the command."""
    from fieldmark.domain.schema import check_schema

    if file is None:
        return None
    try:
        schema = TypeAdapter(dict[str, Any]).validate_json(file.read_bytes())
        check_schema(schema)
    except (OSError, ValueError, FieldmarkError) as error:
        stop(f"The schema {file} cannot be used: {error}", MISUSED)
    return schema


def check_out(file: Path | None) -> None:
    """Before any work is done for it: whether a result can lie where it shall."""
    if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
        stop(f"Nothing can be written to {file}: name a file in a folder that exists.", MISUSED)


def write(content: bytes, file: Path | None) -> None:
    """Write a result into a file, or to standard output as it is: JSON is UTF-8 whatever the terminal's locale is."""
    if file is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        file.write_bytes(content)
    except OSError as error:
        stop(f"Nothing could be written to {file}: {error.strerror}.", FAILED)


def json_of(results: Sequence[dict[str, Any]]) -> bytes:
    """One over many lines, several one a line."""
    if len(results) == 1:
        text = json.dumps(results[0], ensure_ascii=False, indent=2) + "\n"
    else:
        text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in results)
    # The controls that JSON leaves as they are.
    return re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text).encode()
