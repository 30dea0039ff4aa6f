"""`fieldmark ground`: finds where the values of any JSON are printed in a file, without a database or a model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import JsonValue, TypeAdapter, ValidationError

from fieldmark.cli.files import check_input_file, print_json
from fieldmark.cli.follow import print_warnings, show_leaves
from fieldmark.cli.process import FAILED, MISUSED, WAITS, exit_with, read_settings, run
from fieldmark.cli.target import Target, command
from fieldmark.cli.terminal import show_step, steps
from fieldmark.domain.fields import has_fields
from fieldmark.errors import Invalid
from fieldmark.settings import Settings

if TYPE_CHECKING:  # what takes long to import is imported where it is needed
    from pagewords import DocumentContent


@command(without_user=True)
def ground(
    target: Target,
    file: Annotated[Path, typer.Argument(help="The document.")],
    values: Annotated[
        Path, typer.Argument(help="A file with any JSON, such as a model's output; - is standard input.")
    ],
    quotes: Annotated[
        Path | None,
        typer.Option(
            help='A JSON object of texts that show a value: {"insured": "Insured: yes"}. A yes or no needs one.'
        ),
    ] = None,
) -> None:
    """Find where the values of any JSON are printed in a file. Exit code 4 if one that is not empty is not found."""
    check_input_file(file)
    found_in = _read_json(values)
    texts = {} if quotes is None else _read_json(quotes)
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        exit_with(f"{quotes} is not a JSON object of texts. Write the printed text by path.", MISUSED)
    content = run(_read(read_settings("error"), file))
    print_warnings(
        [{"message": one.message, "severity": one.severity, "excerpt": one.excerpt} for one in content.warnings]
    )
    from fieldmark.services.evidence import ground_in
    from valuegrounding import DocumentIndex

    try:
        rows = ground_in(DocumentIndex(content.pages), found_in, {name: str(text) for name, text in texts.items()})
    except Invalid as error:
        exit_with(str(error), MISUSED)
    evidence = {row["path"]: row for row in rows}
    scores = {row["path"]: row["confidence"] for row in rows if row["confidence"] is not None}
    if not print_json(target, {"file": str(file), "page_count": len(content.pages), "values": rows}):
        show_leaves({"extracted_fields": found_in, "confidence_scores": scores, "evidence": evidence})
    if any(row["state"] == "not_found" and has_fields(row["value"]) for row in rows):
        raise typer.Exit(WAITS)


def _read_json(file: Path) -> JsonValue:
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        parsed = TypeAdapter[JsonValue](JsonValue).validate_json(content.removeprefix(b"\xef\xbb\xbf"))
        json.dumps(parsed, allow_nan=False)  # NaN and infinity
    except OSError as error:
        exit_with(f"Cannot read {file}: {error.strerror}.", MISUSED)
    except ValueError as error:
        problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        exit_with(f"{file} is not JSON: {problem}.", MISUSED)
    return parsed


async def _read(settings: Settings, file: Path) -> DocumentContent:
    from fieldmark.isolation import set_user_range
    from pagewords import Limits, PagewordsError, read_file
    from pagewords.pages import MIB

    set_user_range(settings.process_user_ids)
    limits = Limits(max_bytes=settings.max_file_mb * MIB, max_pages=settings.max_pages)
    with steps().status("") as status:
        show_step(status, "Reading the document…")
        try:
            return await read_file(file, file.name, limits)
        except PagewordsError as error:
            exit_with(f"{error} [{error.code}]", FAILED)
