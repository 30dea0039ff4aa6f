"""Schemas for usual documents, each with rules and a sample text that follows it, to start from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from fieldmark.domain.json_values import JsonObject

_FOLDER: Final = Path(__file__).resolve().parent.parent / "schema_templates"


@dataclass(frozen=True, slots=True)
class SchemaTemplate:
    """A schema for a usual kind of document, to start from."""

    name: Annotated[str, Field(examples=["invoice"])]
    schema: JsonObject
    sample: Annotated[str, Field(description="The text of a made-up document that follows the schema.")]


@cache
def schema_templates() -> tuple[SchemaTemplate, ...]:
    """Return the templates by name."""
    return tuple(
        SchemaTemplate(file.stem, json.loads(file.read_text("utf-8")), file.with_suffix(".txt").read_text("utf-8"))
        for file in sorted(_FOLDER.glob("*.json"))
    )
