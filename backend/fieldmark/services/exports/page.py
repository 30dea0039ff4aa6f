"""The HTML export: the document's pages with a box for each value, and the fields next to them, linked both ways.

It is a single file without scripts or external resources. The template `page.html` escapes all values.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from fieldmark.domain import paths
from fieldmark.domain.fields import Missing
from fieldmark.domain.formatting import value_text
from fieldmark.domain.numbers import is_number
from fieldmark.domain.status_text import status_text
from fieldmark.domain.statuses import FieldStatus
from fieldmark.services.exports.shape import Leaf, Table, leaves_of, list_tables

if TYPE_CHECKING:
    from jinja2 import Template

MAX_LEAVES = 10_000
MAX_VALUE = 2_000  # characters shown of one value
MAX_PROBLEMS = 50
MAX_HIGHLIGHTED = 400  # values highlighted with their boxes under the pointer: each needs two CSS rules

_FOLDER = Path(__file__).parent
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page to show: its size in any unit and its PNG. Without a PNG it is blank."""

    number: int
    width: float
    height: float
    png: bytes | None


class _ValueView(NamedTuple):
    """A leaf for the template. `number` identifies its anchors; `text` is empty for an empty value."""

    number: int
    label: str
    text: str
    status: str
    verdict: str
    title: str  # of its boxes
    hint: str  # of its cell
    numeric: bool
    page: int | None
    page_shown: bool
    linked: bool  # to its boxes
    box_styles: list[str]
    quote: str | None
    by_person: bool
    proposals: list[str]


class _PageView(NamedTuple):
    number: int
    width: str
    height: str
    image: Markup  # base64
    values: list[_ValueView]


class _TableView(NamedTuple):
    title: str
    columns: list[str]
    rows: list[tuple[str, list[_ValueView | None]]]


def as_html(extraction: Mapping[str, Any], document: Mapping[str, Any], sheets: Sequence[Sheet]) -> bytes:
    """Return the HTML file. Boxes on pages without a sheet are left out."""
    leaves = leaves_of(extraction)
    shown = leaves[:MAX_LEAVES]
    pages_shown = {sheet.number for sheet in sheets}
    values = {leaf.name: _value(number, leaf, pages_shown) for number, leaf in enumerate(shown, start=1)}
    tables = list_tables(shown, extraction.get("schema"))
    linked = [value.number for value in values.values() if value.linked]
    page = _template().render(
        title=document["filename"],
        style=Markup((_FOLDER / "page.css").read_text(encoding="utf-8")),  # noqa: S704 - a file of ours
        lit=linked if len(linked) <= MAX_HIGHLIGHTED else [],
        about=_status_line(extraction),
        legend=_legend(values.values()),
        pages=_pages(sheets, values.values()),
        groups=_groups(shown, tables, values),
        tables=_tables(tables, values),
        notes=[*_problems(extraction), *_notes(leaves, shown, pages_shown)],
        extraction_id=str(extraction["id"]),
        changed=_moment(extraction["updated_at"]),
    )
    # Control characters are invisible and can reverse the text around them. The template and the CSS have none.
    return _CONTROLS.sub("\ufffd", page).encode()


@cache
def _template() -> Template:
    # Imported here: it takes long, and only this export needs it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")


def _value(number: int, leaf: Leaf, pages_shown: set[int]) -> _ValueView:
    text = _shortened(value_text(leaf.value), MAX_VALUE) if leaf.value is not None else ""
    verdict = leaf.status_text + ("" if leaf.confidence is None else f" · {leaf.confidence:.0%}")
    return _ValueView(
        number=number,
        label=_label(leaf.path[-1]) if leaf.path else "value",
        text=text,
        status=leaf.status or "none",
        verdict=verdict,
        title=f"{leaf.name}: {value_text(leaf.value)}"[:200],
        hint=f"{leaf.name} · {verdict}" + (f" · page {leaf.page}" if leaf.page else ""),
        numeric=is_number(leaf.value),
        page=leaf.page,
        page_shown=leaf.page in pages_shown,
        linked=bool(leaf.boxes) and leaf.page in pages_shown,
        box_styles=[_box_style(*box) for box in leaf.boxes],
        quote=_shortened(leaf.quote, 200) if leaf.quote and leaf.quote != leaf.value else None,
        by_person=leaf.by_person,
        proposals=[
            "removed" if isinstance(value, Missing) else _shortened(value_text(value), 200)
            for value in leaf.proposals[:5]
        ],
    )


def _box_style(x0: float, y0: float, x1: float, y1: float) -> str:
    # Among overlapping boxes the smallest is on top, so that each can be pointed at.
    depth = 1 + int(999 * (1 - (x1 - x0) * (y1 - y0)))
    return f"left:{x0:.3%};top:{y0:.3%};width:{x1 - x0:.3%};height:{y1 - y0:.3%};z-index:{depth}"


def _pages(sheets: Sequence[Sheet], values: Iterable[_ValueView]) -> list[_PageView]:
    on_page: dict[int | None, list[_ValueView]] = {}
    for value in values:
        if value.linked:
            on_page.setdefault(value.page, []).append(value)
    return [
        _PageView(
            sheet.number,
            f"{sheet.width:.2f}",
            f"{sheet.height:.2f}",
            Markup(base64.b64encode(sheet.png).decode() if sheet.png else ""),  # noqa: S704 - base64 needs no escaping
            on_page.get(sheet.number, []),
        )
        for sheet in sheets
    ]


def _groups(
    leaves: Sequence[Leaf], tables: Sequence[Table], values: Mapping[str, _ValueView]
) -> list[tuple[str, list[_ValueView]]]:
    """Return the values outside tables, by the object that contains them. Top-level values come first."""
    in_tables = {leaf.name for table in tables for row in table.rows.values() for leaf in row.values()}
    groups: dict[str, list[_ValueView]] = {"": []}
    for leaf in leaves:
        if leaf.name not in in_tables:
            groups.setdefault(paths.name(leaf.path[:-1]), []).append(values[leaf.name])
    return [(name, group) for name, group in groups.items() if group]


def _tables(tables: Sequence[Table], values: Mapping[str, _ValueView]) -> list[_TableView]:
    return [
        _TableView(
            f"{table.name} ({len(table.rows):,})",
            table.columns,
            [
                (
                    path.removeprefix(table.name),
                    [values[row[column].name] if column in row else None for column in table.columns],
                )
                for path, row in table.rows.items()
            ],
        )
        for table in tables
    ]


def _status_line(extraction: Mapping[str, Any]) -> str:
    kind = f"{extraction['document_type']} · " if extraction.get("document_type") else ""
    state = "completed" if extraction["status"] == "completed" else "in progress"
    waiting = len(extraction.get("proposals") or ())
    proposals = f" · {waiting} proposal{'s' if waiting > 1 else ''} waiting" if waiting else ""
    count = extraction.get("review_count")
    review = f" · {count} to review" if count else ""
    valid = "" if extraction.get("valid") is not False else " · does not follow its schema"
    return f"{kind}{state} · version {int(extraction['version'])}{review}{proposals}{valid}"


def _legend(values: Iterable[_ValueView]) -> list[tuple[str, str, str]]:
    """Return (status, meaning, number of values) of each status that occurs, the most urgent first."""
    counts = Counter(value.status for value in values)
    return [(one, status_text(one, None), f"{counts[one]:,}") for one in FieldStatus if counts[one]]


def _problems(extraction: Mapping[str, Any]) -> list[str]:
    messages = [_shortened(str(one["message"]), MAX_VALUE) for one in extraction.get("problems") or ()]
    more = len(messages) - MAX_PROBLEMS
    return messages if more <= 0 else [*messages[:MAX_PROBLEMS], f"{more} more problems are not shown."]


def _notes(leaves: Sequence[Leaf], shown: Sequence[Leaf], pages_shown: set[int]) -> list[str]:
    notes: list[str] = []
    if len(shown) < len(leaves):
        notes.append(f"{len(leaves) - len(shown):,} more values are not shown.")
    elsewhere = sorted({leaf.page for leaf in shown if leaf.page and leaf.boxes} - pages_shown)
    if elsewhere:
        numbers = ", ".join(map(str, elsewhere[:20])) + (", …" if len(elsewhere) > 20 else "")
        notes.append(f"These pages have values but are not shown: {numbers}.")
    return notes


def _label(step: str | int) -> str:
    return f"[{step}]" if isinstance(step, int) else step


def _shortened(text: str, max_characters: int) -> str:
    return text if len(text) <= max_characters else text[: max_characters - 1] + "…"


def _moment(time: datetime | str) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC" if isinstance(time, datetime) else time
