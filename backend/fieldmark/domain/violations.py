"""A violation of a schema, its rules or its grounding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from fieldmark.domain.paths import Path


@dataclass(frozen=True, slots=True)
class Violation:
    """One error at `path`; an empty path means the fields as a whole.

    `code` is a JSON Schema keyword (`required`, `type`, …), a rule (`sum`, `date_order`, …), `grounded` if the value
    was not found on a page, `unusable_schema`, or `more` if further violations were omitted. `message` contains the
    path. `rule` is the keyword's position in the schema, if any. `about` lists the paths that a rule compared. `params`
    has the values in the message, so that a program can write it in another language.
    """

    path: Path
    code: str
    message: str
    rule: tuple[str | int, ...] = ()
    about: tuple[Path, ...] = ()
    params: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue], compare=False)
