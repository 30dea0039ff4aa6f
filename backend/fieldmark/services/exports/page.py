"""One self-contained page of HTML: the document's pages with a box for each value, the fields beside them, linked both
ways. No script at all; nothing is fetched."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.services.exports.shape import Leaf, Table, leaves_of, tables_of

MAX_LEAVES = 10_000
MAX_VALUE = 2_000  # characters shown of one value
MAX_WORDS = 5_000  # of a page that is drawn from its words
MAX_LIGHTS = 400  # boxes and fields that light up together under the pointer: a rule of style each
SURE, FAIR = 0.9, 0.6

_STYLE = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_LEGEND = (
    ("sure", "found"),
    ("fair", "found, less sure"),
    ("poor", "found, unsure"),
    ("gone", "not on the page"),
    ("none", "not looked for"),
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page to show: its size in any unit; a PNG, or else its words as [text, x0, y0, x1, y1, …]."""

    number: int
    width: float
    height: float
    words: Sequence[Sequence[Any]]
    png: bytes | None


def as_html(extraction: Mapping[str, Any], document: Mapping[str, Any], sheets: Sequence[Sheet]) -> bytes:
    """The page. `extraction` and `document` are as the stores answer them; a page without a sheet shows no boxes."""
    leaves = leaves_of(extraction)
    shown = leaves[:MAX_LEAVES]
    ids = {leaf.name: number for number, leaf in enumerate(shown, start=1)}
    there = {sheet.number for sheet in sheets}
    parts = [_field_list(shown, ids, there), *_tables(shown, ids, there)]
    if len(shown) < len(leaves):
        parts.append(f"<p class=note>{len(leaves) - len(shown):,} more values are left out here.</p>")
    elsewhere = sorted({leaf.page for leaf in shown if leaf.page and leaf.boxes} - there)
    if elsewhere:
        said = ", ".join(map(str, elsewhere[:20])) + (", …" if len(elsewhere) > 20 else "")
        parts.append(f"<p class=note>Not shown, though values stand there: page {said}.</p>")
    title = _text(document["filename"])
    kind = f"{_text(extraction['document_type'])} · " if extraction.get("document_type") else ""
    state = "completed" if extraction["status"] == "completed" else "in progress"
    waiting = len(extraction.get("proposals") or ())
    proposals = f" · {waiting} proposal{'s' if waiting > 1 else ''} waiting" if waiting else ""
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{_STYLE}{_lights(shown, ids, there)}</style>
</head>
<body>
<header>
<h1 dir="auto">{title}</h1>
<p>{kind}{state} · version {int(extraction["version"])}{proposals}</p>
<ul aria-label="Colours">{_legend(shown)}</ul>
</header>
<main id="pages" tabindex="0" aria-label="Pages">
{"".join(_page(sheet, shown, ids) for sheet in sheets) or '<p class="note">There are no pages to show.</p>'}
</main>
<aside id="fields" tabindex="0" aria-label="Fields">
{"".join(parts)}
<footer>Extraction {_text(str(extraction["id"]))} · last changed {_text(_moment(extraction["updated_at"]))}</footer>
</aside>
</body>
</html>
"""
    return page.encode()


def _page(sheet: Sheet, leaves: Sequence[Leaf], ids: Mapping[str, int]) -> str:
    if sheet.png is not None:
        image = base64.b64encode(sheet.png).decode()
        picture = f'<img alt="Page {sheet.number}" src="data:image/png;base64,{image}">'
    else:
        picture = _drawn(sheet)
    places = "".join(_place(leaf, ids[leaf.name]) for leaf in leaves if leaf.page == sheet.number and leaf.boxes)
    shape = f"aspect-ratio:{sheet.width:.2f}/{sheet.height:.2f}"
    return (
        f'<section class="page" id="page{sheet.number}"><h2>Page {sheet.number}</h2>'
        f'<div class="sheet" style="{shape}">{picture}{places}</div></section>\n'
    )


def _place(leaf: Leaf, number: int) -> str:
    said = _text(f"{leaf.name}: {_said(leaf.value)}"[:200])
    links: list[str] = []
    for at, (x0, y0, x1, y1) in enumerate(leaf.boxes):
        # Of boxes in one place the smallest lies on top, so that each can be pointed at.
        depth = 1 + int(999 * (1 - (x1 - x0) * (y1 - y0)))
        style = f"left:{x0:.3%};top:{y0:.3%};width:{x1 - x0:.3%};height:{y1 - y0:.3%};z-index:{depth}"
        name = f' id="b{number}"' if at == 0 else ' tabindex="-1"'
        what = f'class="box {_grade(leaf)}" href="#f{number}" title="{said}" aria-label="{said}"'
        links.append(f'<a {what}{name} style="{style}"></a>')
    return f'<span class="place" id="p{number}">{"".join(links)}</span>'


def _drawn(sheet: Sheet) -> str:
    """A page without an image, as its words where they stand."""
    words: list[str] = []
    for text, x0, y0, x1, y1, *_ in sheet.words[:MAX_WORDS]:
        left, wide, high = x0 * sheet.width, (x1 - x0) * sheet.width, (y1 - y0) * sheet.height
        foot = y0 * sheet.height + 0.8 * high
        fit = f' textLength="{wide:.2f}" lengthAdjust="spacingAndGlyphs"' if wide > 0 else ""
        words.append(f'<text x="{left:.2f}" y="{foot:.2f}" font-size="{0.8 * high:.2f}"{fit}>{_text(str(text))}</text>')
    view = f'viewBox="0 0 {sheet.width:.2f} {sheet.height:.2f}" aria-label="Page {sheet.number}"'
    return f"<svg {view}>{''.join(words)}</svg>"


def _field_list(leaves: Sequence[Leaf], ids: Mapping[str, int], there: set[int]) -> str:
    """The fields that stand in no table, under a heading for each object among them."""
    parts: list[str] = []
    heading: str | None = None
    in_tables = {leaf.name for table in tables_of(leaves) for row in table.rows.values() for leaf in row.values()}
    groups: dict[str, list[Leaf]] = {"": []}  # the document's own scalars first
    for leaf in leaves:
        if leaf.name not in in_tables:
            groups.setdefault(paths.name(leaf.path[:-1]), []).append(leaf)
    for leaf in (leaf for group in groups.values() for leaf in group):
        above = paths.name(leaf.path[:-1])
        if above != heading:
            parts.append(f'{"</dl>" if heading is not None else ""}<h2 dir="auto">{_text(above) or "Fields"}</h2><dl>')
            heading = above
        parts.append(_field(leaf, ids[leaf.name], there))
    return "".join(parts) + ("</dl>" if heading is not None else "")


def _field(leaf: Leaf, number: int, there: set[int]) -> str:
    label = _text(_label(leaf.path[-1])) if leaf.path else "value"
    about = [_tag(leaf)]
    if leaf.by_person:
        about.append('<span class="tag person">set by a person</span>')
    if leaf.page:
        about.append(f'<a href="#page{leaf.page}">page {leaf.page}</a>' if leaf.page in there else f"page {leaf.page}")
    if leaf.quote and leaf.quote != leaf.value:
        about.append(f"“<bdi>{_text(_cut(leaf.quote, 200))}</bdi>”")
    about += [
        f'<span class="tag proposed">proposed</span> <bdi>{_text(_cut(_said(value), 200))}</bdi>'
        for value in leaf.proposals[:5]
    ]
    return (
        f'<div class="field {_grade(leaf)}" id="f{number}"><dt dir="auto">{label}</dt>'
        f'<dd dir="auto">{_linked(leaf, number, there)}</dd><dd class="about">{" · ".join(about)}</dd></div>\n'
    )


def _tables(leaves: Sequence[Leaf], ids: Mapping[str, int], there: set[int]) -> list[str]:
    return [_table(table, ids, there) for table in tables_of(leaves)]


def _table(table: Table, ids: Mapping[str, int], there: set[int]) -> str:
    head = "".join(f'<th scope="col" dir="auto">{_text(column)}</th>' for column in table.columns)
    rows: list[str] = []
    for path, row in table.rows.items():
        cells = "".join(_cell(row.get(column), ids, there) for column in table.columns)
        rows.append(f'<tr><th scope="row">{_text(path.removeprefix(table.name))}</th>{cells}</tr>\n')
    return (
        f'<h2 dir="auto">{_text(table.name)} ({len(table.rows):,})</h2>'
        f'<div class="scroll"><table><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(leaf: Leaf | None, ids: Mapping[str, int], there: set[int]) -> str:
    if leaf is None:
        return "<td></td>"
    number = ids[leaf.name]
    numeric = " number" if type(leaf.value) in (int, float) else ""
    person = ' <span class="tag person">person</span>' if leaf.by_person else ""
    proposed = ' <span class="tag proposed">proposal</span>' if leaf.proposals else ""
    hint = _text(f"{leaf.name} · {_verdict(leaf)}" + (f" · page {leaf.page}" if leaf.page else ""))
    return (
        f'<td class="{_grade(leaf)}{numeric}" id="f{number}" title="{hint}" dir="auto">'
        f"{_linked(leaf, number, there)}{person}{proposed}</td>"
    )


def _linked(leaf: Leaf, number: int, there: set[int]) -> str:
    if leaf.value is None or leaf.value == "":
        shown = '<span class="empty">empty</span>'
    else:
        shown = _text(_cut(_said(leaf.value), MAX_VALUE))
    return f'<a href="#b{number}">{shown}</a>' if leaf.boxes and leaf.page in there else shown


def _grade(leaf: Leaf) -> str:
    if leaf.state == "not_found":
        return "gone"
    if leaf.state == "blank":
        return "blank"
    if leaf.confidence is None:
        return "none" if leaf.state is None else "sure"
    return "sure" if leaf.confidence >= SURE else "fair" if leaf.confidence >= FAIR else "poor"


def _verdict(leaf: Leaf) -> str:
    if leaf.state == "not_found":
        return "not on the page"
    if leaf.state == "blank":
        return "blank on the page"
    return "not looked for" if leaf.confidence is None else f"{leaf.confidence:.0%}"


def _tag(leaf: Leaf) -> str:
    return f'<span class="tag {_grade(leaf)}">{_verdict(leaf)}</span>'


def _legend(leaves: Sequence[Leaf]) -> str:
    counts = [_grade(leaf) if _grade(leaf) != "blank" else "none" for leaf in leaves]
    return "".join(
        f'<li class="{grade}">{said} {counts.count(grade):,}</li>' for grade, said in _LEGEND if grade in counts
    )


def _lights(leaves: Sequence[Leaf], ids: Mapping[str, int], there: set[int]) -> str:
    """What lights up together: a field under the pointer and its boxes, a box and its field."""
    numbers = [ids[leaf.name] for leaf in leaves if leaf.boxes and leaf.page in there]
    if len(numbers) > MAX_LIGHTS:
        return ""
    return "".join(
        f"body:has(#f{n}:is(:hover,:focus-within)) #p{n} .box{{outline:2.5px solid var(--tint);"
        f"background:color-mix(in srgb,var(--tint) 30%,transparent)}}"
        f"body:has(#p{n} .box:is(:hover,:focus-visible)) #f{n}{{background:#fff3c9}}\n"
        for n in numbers
    )


def _label(step: str | int) -> str:
    return f"[{step}]" if isinstance(step, int) else step


def _said(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(text: str) -> str:
    """Foreign text as HTML, also within an attribute in double quotes."""
    return html.escape(_CONTROLS.sub("\ufffd", text), quote=True)


def _moment(time: Any) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC" if hasattr(time, "strftime") else str(time)
