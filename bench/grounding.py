"""Whether values are found where they stand, and how fast: on receipts beside LangExtract's aligner, on PDFs and scans.

    pip install '.[bench]' 'langextract==1.7.*'
    python bench/grounding.py ../shared/samples [--misses]

LangExtract is not needed for our own figures, and no model is. The samples folder holds `sroie/key/NNN.json` (four values
a receipt), `sroie/box/NNN.csv` (the lines of its text with their boxes), PDFs with `*.truth.json`, and scans with
`*.textract.json` (the OCR's words). Nothing of it is committed.

What is right on receipts is judged from the boxes alone: the characters under them, taken as equally wide in their word,
must equal the value after folding case, space and punctuation; from LONG such characters on 90 % alike is enough; a date
or an amount may be printed differently; and no token may be cut: not between two letters or two digits, nor in a number.
Of LangExtract the characters of its interval are judged. Times are CPU seconds, building the words' index included.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "backend"))

from fieldmark.domain.grounding import Grounds, PageWords, Place

LONG = 10
ALIKE = 0.9
DATES = (
    "%d/%m/%Y %d-%m-%Y %d.%m.%Y %d/%m/%y %d-%m-%y %d.%m.%y %Y-%m-%d %Y/%m/%d %Y%m%d "
    "%d%b%Y %d-%b-%Y %d-%b-%y %d%b%y %d%B%Y %b%d,%Y %d%B,%Y"
)


@dataclass
class Receipt:
    name: str
    text: str
    words: list[list[Any]]
    at: list[int]  # where each word begins in the text
    values: dict[str, str]


@dataclass
class Score:
    """Of one way of finding."""

    values: int = 0
    located: int = 0
    right: int = 0
    wrong: int = 0
    seconds: float = 0.0
    misses: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        def part(count: int) -> str:
            return f"{100 * count / self.values:5.1f} % ({count})"

        return (
            f"located {part(self.located)}  right {part(self.right)}  wrong {part(self.wrong)}  "
            f"{self.values / self.seconds:,.0f} values/s"
        )


def receipts(folder: Path) -> Iterator[Receipt]:
    for key in sorted((folder / "key").glob("*.json")):
        values = json.loads(key.read_text())
        lines: list[str] = []
        words: list[list[Any]] = []
        at: list[int] = []
        rows = [
            (line.split(",", 8)[:8], line.split(",", 8)[8])
            for line in (folder / "box" / f"{key.stem}.csv").read_text().splitlines()
            if line.count(",") >= 8
        ]
        width = max(float(edge) for edges, _ in rows for edge in edges[::2])
        height = max(float(edge) for edges, _ in rows for edge in edges[1::2])
        offset = 0
        for edges, text in rows:
            xs, ys = [float(edge) / width for edge in edges[::2]], [float(edge) / height for edge in edges[1::2]]
            left, pitch = min(xs), (max(xs) - min(xs)) / max(len(text), 1)
            for word in re.finditer(r"\S+", text):
                a, b = left + pitch * word.start(), left + pitch * word.end()
                words.append([word[0], round(a, 5), round(min(ys), 5), round(b, 5), round(max(ys), 5), 1.0])
                at.append(offset + word.start())
            lines.append(text)
            offset += len(text) + 1
        yield Receipt(key.stem, "\n".join(lines), words, at, {name: value for name, value in values.items() if value})


def as_schema(values: dict[str, str]) -> dict[str, Any]:
    """The values as a schema would have them: dates ISO, totals as numbers, the company in title case."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name == "date" and (day := parsed_date(value)):
            found[name] = day
        elif name == "total" and (number := parsed_number(value)) is not None:
            found[name] = number
        else:
            found[name] = value.title() if name == "company" else value
    return found


def parsed_date(text: str) -> str | None:
    tight = re.sub(r"\s+", "", text)
    for form in DATES.split():
        try:
            return datetime.strptime(tight, form).date().isoformat()
        except ValueError:
            continue
    return None


def parsed_number(text: str) -> float | None:
    found = re.fullmatch(r"[^\d]*(\d[\d,]*(?:\.\d+)?)[^\d]*", text)
    return float(found[1].replace(",", "")) if found else None


def folded(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def covered(place: Place, words: Sequence[Sequence[Any]]) -> tuple[str, bool]:
    """The characters under the boxes of a place, and whether a token is cut at an edge of them."""
    found: list[str] = []
    cut = False
    for x0, y0, x1, y1 in place.boxes:
        for word in words:
            text, a, top, b, bottom = word[:5]
            shared = min(y1, bottom) - max(y0, top)  # lines of a crooked photograph overlap
            if shared < 0.9 * (bottom - top) or shared < 0.6 * (y1 - y0) or b <= x0 or a >= x1:
                continue
            pitch = (b - a) / len(text)
            under = [n for n in range(len(text)) if x0 - 1e-5 <= a + (n + 0.5) * pitch <= x1 + 1e-5]
            if under:
                found.append(text[under[0] : under[-1] + 1])
                cut = cut or is_cut(text, under[0], under[-1] + 1)
    return " ".join(found), cut


def is_cut(text: str, start: int, end: int) -> bool:
    for at in (start, end):
        if not 0 < at < len(text):
            continue
        a, b = text[at - 1], text[at]
        if (a.isalpha() and b.isalpha()) or (a.isdigit() and b.isdigit()):
            return True
        if re.search(r"\d[.,]?\Z", text[:at]) and re.match(r"[.,]?\d", text[at:]):
            return True
    return False


def is_right(value: Any, text: str, cut: bool) -> bool:
    if cut:
        return False
    if isinstance(value, float):
        return parsed_number(text) == value
    if re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        return parsed_date(text) == value or folded(text) == folded(value)
    a, b = folded(value), folded(text)
    if a != b and (day := parsed_date(value)):
        return parsed_date(text) == day
    if a != b and (number := parsed_number(value)) is not None:
        return parsed_number(text) == number
    return a == b or (len(a) >= LONG and SequenceMatcher(None, a, b, autojunk=False).ratio() >= ALIKE)


def ours(all_receipts: Sequence[Receipt], wanted: Sequence[dict[str, Any]], score: Score) -> None:
    for receipt, values in zip(all_receipts, wanted, strict=True):
        started = time.process_time()
        grounds = Grounds([PageWords(1, receipt.words)])
        places = {name: grounds.find(value, label=(name,)) for name, value in values.items()}
        score.seconds += time.process_time() - started
        for name, value in values.items():
            place = places[name]
            text, cut = covered(place, receipt.words) if place else ("", False)
            judge(score, receipt, name, value, place is not None, text, cut, place.match if place else "")


def langextract(all_receipts: Sequence[Receipt], wanted: Sequence[dict[str, Any]], score: Score) -> None:
    from langextract import resolver  # pyright: ignore
    from langextract.core import data  # pyright: ignore

    aligner = resolver.WordAligner()
    for receipt, values in zip(all_receipts, wanted, strict=True):
        groups = [[data.Extraction(name, str(value)) for name, value in values.items()]]
        started = time.process_time()
        aligned = aligner.align_extractions(groups, receipt.text)
        score.seconds += time.process_time() - started
        for (name, value), extraction in zip(values.items(), aligned[0], strict=True):
            span = extraction.char_interval
            text = receipt.text[span.start_pos : span.end_pos] if span else ""
            cut = bool(span) and is_cut(receipt.text, span.start_pos, span.end_pos)
            judge(score, receipt, name, value, bool(span), text, cut, str(extraction.alignment_status))


def judge(
    score: Score, receipt: Receipt, name: str, value: Any, located: bool, text: str, cut: bool, match: str
) -> None:
    right = located and is_right(value, text, cut)
    score.values += 1
    score.located += located
    score.right += right
    score.wrong += located and not right
    if not right:
        score.misses.append(f"    {receipt.name} {name}: {value!r} -> {text!r}{' cut' if cut else ''} {match}")


def on_receipts(folder: Path, misses: bool) -> None:
    everything = list(receipts(folder))
    print(f"{len(everything)} receipts, {sum(len(r.words) for r in everything):,} words; long is {LONG} characters")
    ways = {"ours": ours}
    try:
        import langextract as _  # noqa: F401  # pyright: ignore

        ways["langextract"] = langextract
    except ImportError:
        print("langextract is not installed: our figures only")
    for title, wanted in (
        ("values as printed", [receipt.values for receipt in everything]),
        ("values as a schema has them", [as_schema(receipt.values) for receipt in everything]),
    ):
        print(title)
        scores: dict[str, Score] = {}
        for name, way in ways.items():
            scores[name] = Score()
            way(everything, wanted, scores[name])
            print(f"  {name:12} {scores[name]}")
            if misses and name == "ours":
                print("\n".join(scores[name].misses))
        if len(scores) == 2:
            a, b = scores["ours"], scores["langextract"]
            print(f"  ours / langextract: {a.values / a.seconds / (b.values / b.seconds):.1f} x its speed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", type=Path)
    parser.add_argument("--misses", action="store_true")
    options = parser.parse_args()
    on_receipts(options.samples / "sroie", options.misses)


if __name__ == "__main__":
    main()
