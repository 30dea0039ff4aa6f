"""Measures how many values the library valuegrounding locates correctly on receipts, and how fast.

    pip install '.[bench]' && python bench/grounding.py ../shared/samples [--misses] [--repeat 3]

Needs no model. The samples folder contains `sroie/key/NNN.json` (four values per receipt) and `sroie/box/NNN.csv` (text
lines with boxes). It is not in the repository.

A location on a receipt is correct if the characters in its boxes, assumed equally wide within a word, equal the value
ignoring case, spaces and punctuation. For LONG or more characters, 90 % similarity suffices. Dates and amounts may be
formatted differently. No token may be cut between two letters or digits, or within a number. Times are CPU seconds,
including building the index.
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

from valuegrounding import DocumentIndex, Location, PageWords

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
    at: list[int]  # offset of each word in the text
    values: dict[str, str]


@dataclass
class Score:
    values: int = 0
    located: int = 0
    right: int = 0
    wrong: int = 0
    seconds: float = 0.0
    misses: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        def percentage(count: int) -> str:
            return f"{100 * count / self.values:5.1f} % ({count})"

        return (
            f"located {percentage(self.located)}  right {percentage(self.right)}  wrong {percentage(self.wrong)}  "
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


def schema_values(values: dict[str, str]) -> dict[str, Any]:
    """Return the values as a schema would define them: ISO dates, totals as numbers, the company in title case."""
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


def normalized(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def covered_text(place: Location, words: Sequence[Sequence[Any]]) -> tuple[str, bool]:
    """Return the characters in the boxes of a location, and whether a token is cut at an edge."""
    found: list[str] = []
    cut = False
    for x0, y0, x1, y1 in place.boxes:
        for word in words:
            text, a, top, b, bottom = word[:5]
            shared = min(y1, bottom) - max(y0, top)  # lines of a skewed photograph overlap
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
        return parsed_date(text) == value or normalized(text) == normalized(value)
    a, b = normalized(value), normalized(text)
    if a != b and (day := parsed_date(value)):
        return parsed_date(text) == day
    if a != b and (number := parsed_number(value)) is not None:
        return parsed_number(text) == number
    return a == b or (len(a) >= LONG and SequenceMatcher(None, a, b, autojunk=False).ratio() >= ALIKE)


def locate_all(all_receipts: Sequence[Receipt], wanted: Sequence[dict[str, Any]], score: Score) -> None:
    for receipt, values in zip(all_receipts, wanted, strict=True):
        started = time.process_time()
        index = DocumentIndex([PageWords(1, receipt.words)])
        places = {name: index.find(value, label=(name,)) for name, value in values.items()}
        score.seconds += time.process_time() - started
        for name, value in values.items():
            place = places[name]
            text, cut = covered_text(place, receipt.words) if place else ("", False)
            score_location(score, receipt, name, value, place is not None, text, cut, place.match if place else "")


def score_location(
    score: Score, receipt: Receipt, name: str, value: Any, located: bool, text: str, cut: bool, match: str
) -> None:
    right = located and is_right(value, text, cut)
    score.values += 1
    score.located += located
    score.right += right
    score.wrong += located and not right
    if not right:
        score.misses.append(f"    {receipt.name} {name}: {value!r} -> {text!r}{' cut' if cut else ''} {match}")


def check_receipts(folder: Path, misses: bool, repeat: int) -> None:
    everything = list(receipts(folder))
    print(f"{len(everything)} receipts, {sum(len(r.words) for r in everything):,} words; long is {LONG} characters")
    for title, wanted in (
        ("values as printed", [receipt.values for receipt in everything]),
        ("values as a schema has them", [schema_values(receipt.values) for receipt in everything]),
    ):
        print(title)
        # The fastest attempt: other load only adds time.
        tries = [Score() for _ in range(repeat)]
        for one in tries:
            locate_all(everything, wanted, one)
        score = min(tries, key=lambda score: score.seconds)
        print(f"  {score}")
        if misses:
            print("\n".join(score.misses))


def printed_forms(value: Any) -> list[str]:
    """Return ways to print a value, independent of our own code."""
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        day = datetime.fromisoformat(value)
        found = [
            day.strftime(form) for form in ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d.%m.%y")
        ]
        months = "januari februari maart april mei juni juli augustus september oktober november december".split()  # noqa: SIM905
        return [*found, f"{day.day} {months[day.month - 1]} {day.year}", day.strftime("%B %d, %Y")]
    if isinstance(value, str) and not re.fullmatch(r"\d+\.\d+", value):
        return [value, "€"] if value == "EUR" else [value]
    number, found = float(value), []
    for places in range(5):
        text = f"{number:,.{places}f}"
        if float(text.replace(",", "")) == number:
            found += [text, text.replace(",", ""), text.translate(str.maketrans(",.", ".,")), f"{number:.{places}f}"]
            found += [text.replace(",", "").replace(".", ","), text.replace(",", " ").replace(".", ",")]
    return list(dict.fromkeys(found))


def is_printed(value: Any, text: str) -> bool:
    """Return whether a text contains a printing of the value as whole tokens."""
    return any(
        re.search(
            ("" if printing == "€" else r"(?<![\w.,/-])")
            + r"\s+".join(re.escape(percentage) for percentage in printing.split())
            + r"(?![\w]|[.,/-]\w)",
            text,
            re.I,
        )
        for printing in printed_forms(value)
        if printing.strip()
    )


def check_absent_values(folder: Path, misses: bool) -> None:
    """Search values of three other receipts, and values with one digit changed. A result that is_printed does not
    confirm is a false one."""
    everything = list(receipts(folder))
    asked: dict[str, Score] = {"of other receipts": Score(), "with one digit changed": Score()}
    for at, receipt in enumerate(everything):
        index = DocumentIndex([PageWords(1, receipt.words)])
        for shift in (97, 194, 291):
            for name, value in schema_values(everything[(at + shift) % len(everything)].values).items():
                search_value(asked["of other receipts"], receipt, index, name, value)
        for name, value in receipt.values.items():
            digits = [n for n, character in enumerate(value) if character.isdigit()]
            if digits:
                n = digits[at % len(digits)]
                changed = value[:n] + str((int(value[n]) + 1 + at % 8) % 10) + value[n + 1 :]
                search_value(
                    asked["with one digit changed"], receipt, index, name, schema_values({name: changed})[name]
                )
    for name, score in asked.items():
        print(
            f"values {name}: {score.values}, of them {score.located} found, {score.wrong} of those not as they are "
            f"({100 * score.wrong / score.values:.2f} %)"
        )
        if misses:
            print("\n".join(score.misses))


def search_value(score: Score, receipt: Receipt, index: DocumentIndex, name: str, value: Any) -> None:
    place = index.find(value, label=(name,))
    score.values += 1
    score.located += place is not None
    if place is not None and not is_printed(value, receipt.text):
        score.wrong += 1
        score.misses.append(f"    {receipt.name} {name}: {value!r} -> {place.quote!r} {place.match}")


def measure_long_document(folder: Path, repeat: int) -> None:
    """Measure 300 pages of three receipts each, with an extraction of 50 rows of four fields."""
    everything = list(receipts(folder))
    pages = [
        PageWords(
            number + 1,
            [
                [text, x0, round((third + y0) / 3, 5), x1, round((third + y1) / 3, 5), sure]
                for third in range(3)
                for text, x0, y0, x1, y1, sure in everything[(number + 100 * third) % len(everything)].words
            ],
        )
        for number in range(300)
    ]
    fields = {"receipts": [schema_values(receipt.values) for receipt in everything[20:70]]}
    times: list[float] = []
    found = 0
    for _ in range(repeat):
        started = time.process_time()
        findings = DocumentIndex(pages).ground(fields, {})
        times.append(time.process_time() - started)
        found = sum(finding.state == "found" for finding in findings.values())
    words = sum(len(page.words) for page in pages)
    print(
        f"a document of {len(pages)} pages, {words:,} words: {found} of {len(findings)} leaves found, index included, "
        f"in {', '.join(f'{seconds:.2f}' for seconds in times)} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", type=Path)
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    check_receipts(options.samples / "sroie", options.misses, options.repeat)
    check_absent_values(options.samples / "sroie", options.misses)
    measure_long_document(options.samples / "sroie", options.repeat)


if __name__ == "__main__":
    main()
