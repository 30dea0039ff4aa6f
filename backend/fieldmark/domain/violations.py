"""What is wrong with fields: one type for whatever finds it, be it the schema, its rules, or the evidence."""

from __future__ import annotations

from dataclasses import dataclass

from fieldmark.domain.paths import Path


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong at `path`, the root for the fields as a whole.

    `code` is what says so: a keyword of JSON Schema (`required`, `type`, …), a rule (`sum`, `date_order`, …),
    `grounded` for what is on no page, `unusable_schema`, or `more` for those that are left out. `message` is a sentence
    with the path in it. `rule` is the place in the schema, where it has one. `about` has the places that a rule
    has looked at, each list as a whole.
    """

    path: Path
    code: str
    message: str
    rule: tuple[str | int, ...] = ()
    about: tuple[Path, ...] = ()
