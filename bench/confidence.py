"""Measures how well confidence separates right values from others, on recorded outputs of models with known answers.

    pip install '.[bench]' && python bench/confidence.py FOLDER [--systems claude,gpt] [--safe 0.95] [--disputed FILE]
        [--second SYSTEM] [--svg FILE] [--json FILE]

FOLDER has `documents/X.pdf` (or another kind), `labels/X.json` (the right values), `schemas/X.json`, and
`results/SYSTEM/X.json` with the recorded values as `data`. Needs no model, database or key: files are read by pagewords
and values located as the service does. A label that is itself disputed is left out of all figures, and counted:
`--disputed` is a JSON object from document to path (`rows[].name` for all rows, `rows[]` for rows that the label lacks)
to the reason, by default bench/disputed_labels.json. With `--second`, each system is also judged after a second reading
by that one. `--fit` fits the factors of the doubts, CERTAINTIES in valuegrounding/evidence.py, and prints the ranking
of each system with factors fitted without the document that is judged, and without the system. With `--missing-rows`,
only the hints of rows that are in no item are counted: of the labels, which are complete, and of the labels without one
of their rows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from statistics import mean, median
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parents[1] / "backend"))

from fieldmark.domain.second_reading import compare_readings
from fieldmark.evaluation.calibration import SAFE, Calibration, JudgedValue, calibrate, curve_svg, describe, judge
from fieldmark.services import evidence
from fieldmark.services.missing_rows import located_values
from pagewords import Limits, Unreadable, read_file
from valuegrounding import CERTAINTIES, DocumentIndex, Doubt, after_agreement
from valuegrounding.found_values import row_of

_INDEX = re.compile(r"\[\d+\]")
_AT_MOST = 3  # values of a document that count for a doubt: its values are not independent
_PRIOR, _PRIOR_VALUES = 0.9, 4  # the share of right values that is assumed, and as how many values it counts
_LOWEST, _HIGHEST = 0.7, 0.94  # two doubts stay above 0.5, from which a value is unclear; one is never safe


@dataclass(frozen=True)
class DoubtedValue:
    """A judged value of a system with its doubts."""

    system: str
    judged: JudgedValue
    doubts: tuple[Doubt, ...]


def read_json(file: Path) -> Any:
    return json.loads(file.read_text()) if file.exists() else None


def after_second_reading(
    first: dict[str, Any], second: dict[str, Any], confidences: Mapping[str, float]
) -> dict[str, float]:
    """Return the confidences after a second reading, as services/second_readings.py stores them."""
    compared = compare_readings(first, second)
    result = dict(confidences)
    for name, confidence in confidences.items():
        if name in compared.differs:
            result[name] = confidence * CERTAINTIES["second_reading"]
        elif name in compared.unpaired:
            result[name] = confidence * CERTAINTIES["second_reading_row"]
        elif name in compared.agrees:
            result[name] = after_agreement(confidence)
    return result


async def judged_values(
    folder: Path, systems: list[str], second: str | None
) -> tuple[dict[str, list[JudgedValue]], list[DoubtedValue], list[float]]:
    """Return the judged values of each system, also with a second reading; those of the first with their doubts; and
    the CPU milliseconds that locating the values of a document took."""
    judged: defaultdict[str, list[JudgedValue]] = defaultdict(list)
    doubted: list[DoubtedValue] = []
    milliseconds: list[float] = []
    for file in sorted((folder / "documents").iterdir()):
        label, schema = (
            read_json(folder / "labels" / f"{file.stem}.json"),
            read_json(folder / "schemas" / f"{file.stem}.json"),
        )
        if label is None:
            continue
        try:
            index = DocumentIndex((await read_file(file, file.name, Limits())).pages)
        except Unreadable as error:
            print(f"{file.name}: not read ({error})", file=sys.stderr)
            continue
        for system in systems:
            recorded: dict[str, Any] = read_json(folder / "results" / system / f"{file.stem}.json") or {}
            if fields := recorded.get("data"):
                start = time.process_time()
                found = await evidence.find(uuid4(), index, (), fields, schema=schema, current_fields={}, claims={})
                milliseconds.append((time.process_time() - start) * 1000)
                of_system = judge(file.stem, label, fields, found.confidences)
                judged[system] += of_system
                for one in of_system:
                    proof: Any = found.evidence.get(one.path) or {}
                    doubted.append(DoubtedValue(system, one, tuple(proof.get("doubts", ()))))
                of_second: dict[str, Any] = read_json(folder / "results" / str(second) / f"{file.stem}.json") or {}
                if (other := of_second.get("data")) and system != second:
                    confidences = after_second_reading(fields, other, found.confidences)
                    judged[f"{system} + {second}"] += judge(file.stem, label, fields, confidences)
    return judged, doubted, milliseconds


def fit(values: Sequence[DoubtedValue]) -> dict[str, float]:
    """Return the factor of each doubt that may be fitted: the share of the values with it that are right."""
    fitted: dict[str, float] = {}
    for doubt in (one for one, factor in CERTAINTIES.items() if factor >= _LOWEST):
        right: defaultdict[str, list[bool]] = defaultdict(list)
        for one in values:
            if doubt in one.doubts:
                right[one.judged.document].append(one.judged.kind == "right")
        counts = {document: min(_AT_MOST, len(some)) for document, some in right.items()}
        if counts:
            of_right = sum(counts[document] * mean(some) for document, some in right.items())
            share = (of_right + _PRIOR * _PRIOR_VALUES) / (sum(counts.values()) + _PRIOR_VALUES)
            fitted[doubt] = round(max(_LOWEST, min(_HIGHEST, share)), 2)
    return fitted


def describe_fit(values: Sequence[DoubtedValue]) -> str:
    """Return the fitted factors, and each system's ranking with factors fitted to other documents and systems."""
    systems = sorted({one.system for one in values})

    def ranking(fold_of: Callable[[DoubtedValue], str]) -> str:
        factors = {
            fold: fit([one for one in values if fold_of(one) != fold]) for fold in {fold_of(one) for one in values}
        }

        def refitted(one: DoubtedValue) -> JudgedValue:
            own = factors[fold_of(one)]
            ratio = prod(own.get(doubt, CERTAINTIES[doubt]) / CERTAINTIES[doubt] for doubt in one.doubts)
            return replace(one.judged, confidence=one.judged.confidence * ratio)

        return ", ".join(
            f"{system} {calibrate([refitted(one) for one in values if one.system == system]).ranking or 0:.3f}"
            for system in systems
        )

    return "\n".join(
        [
            f"fitted: {', '.join(f'{doubt} {factor}' for doubt, factor in fit(values).items())}",
            f"ranking, fitted without the document: {ranking(lambda one: one.judged.document)}",
            f"ranking, fitted without the system: {ranking(lambda one: one.system)}",
        ]
    )


def is_disputed(one: JudgedValue, disputed: Mapping[str, str]) -> bool:
    pattern = _INDEX.sub("[]", one.path)
    return pattern in disputed or (one.kind == "extra_row" and pattern.rpartition(".")[0] in disputed)


async def count_missing_rows(folder: Path) -> str:
    """Return how many complete lists have a line that looks like a missing row, and how many deleted rows are found."""
    chance, counts = random.Random(1), Counter[str]()
    for file in sorted((folder / "documents").iterdir()):
        label = read_json(folder / "labels" / f"{file.stem}.json")
        if label is None:
            continue
        index = DocumentIndex((await read_file(file, file.name, Limits())).pages)
        found = await evidence.find(uuid4(), index, (), label, schema=None, current_fields={}, claims={})
        values = list(located_values(found.evidence))
        rows: defaultdict[Any, set[Any]] = defaultdict(set)
        for one in values:
            if row := row_of(one.path):
                rows[row[:-1]].add(row)
        listed = index.missing_rows(values)
        counts["lists"] += len(rows)
        counts["lists with a line"] += len({one.path for one in listed})
        counts["lines"] += len(listed)
        for path, some in rows.items():
            for row in chance.sample(sorted(some, key=str), min(8, len(some))) if len(some) >= 4 else ():
                left = [one for one in values if one.path[: len(row)] != row]
                own = [(one.page, *one.boxes[0][1::2]) for one in values if one.path[: len(row)] == row]
                counts["deleted"] += 1
                counts["deleted and found"] += any(
                    one.path == path and page == one.page and top < (one.box[1] + one.box[3]) / 2 < bottom
                    for one in index.missing_rows(left)
                    for page, top, bottom in own
                )
    return ", ".join(f"{name}: {count}" for name, count in counts.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--systems", help="default: all of the folder")
    parser.add_argument("--second", metavar="SYSTEM", help="the system of the second reading")
    parser.add_argument("--safe", type=float, default=SAFE, help="the confidence from which a value counts as shown")
    parser.add_argument("--disputed", type=Path, default=Path(__file__).with_name("disputed_labels.json"))
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--wrong", action="store_true", help="also list the values shown that are not right")
    parser.add_argument("--fit", action="store_true", help="also fit the factors of the doubts")
    parser.add_argument("--missing-rows", action="store_true", help="count the hints of missing rows instead")
    options = parser.parse_args()
    if options.missing_rows:
        print(asyncio.run(count_missing_rows(options.folder)))
        return
    systems = (
        options.systems.split(",")
        if options.systems
        else sorted(p.name for p in (options.folder / "results").iterdir())
    )
    disputed: dict[str, dict[str, str]] = read_json(options.disputed) or {}
    judged, doubted, milliseconds = asyncio.run(judged_values(options.folder, systems, options.second))
    calibrations: dict[str, Calibration] = {}
    for system, values in judged.items():
        kept = [one for one in values if not is_disputed(one, disputed.get(one.document, {}))]
        calibrations[system] = calibrate(kept, options.safe)
        print(f"{system} ({len(values) - len(kept)} disputed values left out)")
        for name, figure in describe(calibrations[system]).items():
            print(f"    {name:34} {figure}")
        for share in (0.8, 0.9):
            at = next((point for point in calibrations[system].curve if point.right_shown >= share), None)
            if at is not None:
                print(
                    f"    {f'not right at {at.right_shown:.1%} shown':34} {at.not_right:.2%} (from {at.confidence:g})"
                )
        for one in kept if options.wrong else ():
            if one.kind in ("wrong", "invented") and one.confidence >= options.safe:
                print(f"      {one.document} {one.path} {one.kind}")
    if options.fit:
        print(
            describe_fit([one for one in doubted if not is_disputed(one.judged, disputed.get(one.judged.document, {}))])
        )
    if milliseconds:
        count = sum(map(len, judged.values())) / len(milliseconds)
        print(
            f"locating and checking the values of a document ({count:.0f}): mean {mean(milliseconds):.1f}, median "
            f"{median(milliseconds):.1f} ms of CPU"
        )
    if options.svg:
        options.svg.write_text(curve_svg(calibrations))
    if options.json:
        options.json.write_text(json.dumps({name: asdict(one) for name, one in calibrations.items()}, indent=1))


if __name__ == "__main__":
    main()
