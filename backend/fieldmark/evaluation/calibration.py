"""Calibration: how the confidence of extracted values relates to whether they are right.

Errors cluster: most sit in few documents. So intervals are over documents (a bootstrap that draws whole documents), and
a figure from few documents has a wide interval.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, TypeAlias

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.domain.scoring import ComparedValue, compare_values, is_same_value

SAFE = 0.95
"""The confidence from which a value counts as shown as safe, unless another is given."""
_DRAWS = 1000
_SEED = 1

Kind: TypeAlias = Literal["right", "wrong", "invented", "extra_row"]
"""`invented`: the gold has no value. `extra_row`: the gold has no such list item."""


@dataclass(frozen=True, slots=True)
class JudgedValue:
    """An extracted value, compared with the gold value. `confidence` is from 0 to 1. `strict` is the kind if only case,
    spaces and punctuation may differ, and `kind` if another printed form of the same value is right, too."""

    document: str
    path: str
    confidence: float
    kind: Kind
    strict: Kind


def judge(
    document: str,
    gold: Mapping[str, JsonValue],
    got: Mapping[str, JsonValue],
    confidences: Mapping[str, float],
) -> list[JudgedValue]:
    """Compare every extracted value with the gold. List items are paired by similarity. `confidences` are keyed by path
    name; a value without one has confidence 0."""
    judged: list[JudgedValue] = []
    for leaf in compare_values(dict(gold), dict(got)):
        if not isinstance(leaf.got, str | int | float) or leaf.got == "":
            continue
        name = paths.name(leaf.got_path)
        strict = _kind(leaf, leaf.normalised)
        kind = strict if strict != "wrong" else _kind(leaf, is_same_value(leaf.gold, leaf.got))
        judged.append(JudgedValue(document, name, confidences.get(name) or 0.0, kind, strict))
    return judged


def _kind(leaf: ComparedValue, is_right: bool) -> Kind:
    if leaf.is_extra_item:
        return "extra_row"
    if not leaf.is_in_gold or leaf.gold is None or leaf.gold == "":
        return "invented"
    return "right" if is_right else "wrong"


@dataclass(frozen=True, slots=True)
class Share:
    """A share from 0 to 1, with its 95 % interval over documents. None if it is of nothing."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The values with at least this confidence: their share of all right values, and how many of them are not right."""

    confidence: float
    right_shown: float
    not_right: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """How well confidence separates right values from others.

    `shown` values have at least the confidence `safe`; `extra_rows` of them, which no other figure counts, are in list
    items that the gold lacks. `right_shown` is the share of right values that are shown; `not_right` and
    `not_right_strict` are the shares of shown values that are wrong or invented. `ranking` is the probability that a
    right value has a higher confidence than another (0.5 is chance)."""

    documents: int
    values: int
    safe: float
    shown: int
    right_shown: Share
    not_right: Share
    not_right_strict: Share
    extra_rows: Share
    ranking: float | None
    curve: list[CurvePoint]


def calibrate(judged: Sequence[JudgedValue], safe: float = SAFE) -> Calibration:
    """Return the calibration of judged values."""
    in_gold = [one for one in judged if one.kind != "extra_row"]

    def is_shown(one: JudgedValue) -> bool:
        return one.confidence >= safe

    return Calibration(
        documents=len({one.document for one in judged}),
        values=len(in_gold),
        safe=safe,
        shown=sum(map(is_shown, in_gold)),
        right_shown=_share(in_gold, lambda one: one.kind == "right", is_shown),
        not_right=_share(in_gold, is_shown, lambda one: one.kind != "right"),
        not_right_strict=_share(in_gold, is_shown, lambda one: one.strict != "right"),
        extra_rows=_share(judged, is_shown, lambda one: one.kind == "extra_row"),
        ranking=_ranking(in_gold),
        curve=_curve(in_gold),
    )


def _share(
    judged: Iterable[JudgedValue],
    is_counted: Callable[[JudgedValue], bool],
    has: Callable[[JudgedValue], bool],
) -> Share:
    """Return the share of the counted values that have a property, with its interval."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for one in judged:
        if is_counted(one):
            counts[one.document][0] += has(one)
            counts[one.document][1] += 1
    pairs = list(counts.values())
    whole = sum(count for _, count in pairs)
    if not whole:
        return Share(None, None, None)
    drawn: list[float] = []
    dice = random.Random(_SEED)  # noqa: S311  statistics
    for _ in range(_DRAWS):
        sample = dice.choices(pairs, k=len(pairs))
        drawn.append(sum(part for part, _ in sample) / sum(count for _, count in sample))
    drawn.sort()
    low, high = drawn[int(_DRAWS * 0.025)], drawn[int(_DRAWS * 0.975) - 1]
    return Share(sum(part for part, _ in pairs) / whole, low, high)


def _by_confidence(judged: Sequence[JudgedValue]) -> list[tuple[float, int, int]]:
    """Return each confidence with its number of right and of other values, highest first."""
    ordered = sorted(judged, key=lambda one: -one.confidence)
    found: list[tuple[float, int, int]] = []
    for confidence, group in groupby(ordered, key=lambda one: one.confidence):
        kinds = [one.kind == "right" for one in group]
        found.append((confidence, sum(kinds), len(kinds) - sum(kinds)))
    return found


def _ranking(judged: Sequence[JudgedValue]) -> float | None:
    above = won = 0.0
    levels = _by_confidence(judged)
    all_right, all_others = sum(right for _, right, _ in levels), sum(others for _, _, others in levels)
    for _, right, others in levels:
        won += others * (above + right / 2)
        above += right
    return won / (all_right * all_others) if all_right and all_others else None


def _curve(judged: Sequence[JudgedValue]) -> list[CurvePoint]:
    levels = _by_confidence(judged)
    all_right = sum(right for _, right, _ in levels)
    points: list[CurvePoint] = []
    right_so_far = others_so_far = 0
    for confidence, right, others in levels if all_right else ():
        right_so_far, others_so_far = right_so_far + right, others_so_far + others
        not_right = others_so_far / (right_so_far + others_so_far)
        points.append(CurvePoint(confidence, right_so_far / all_right, not_right))
    return points


def curve_svg(calibrations: Mapping[str, Calibration]) -> str:
    """Return a drawing of the curves, each with its name: not right (up) against right values shown (right)."""
    width, height, edge = 640, 400, 48
    colours = ("#2f55d4", "#bd7600", "#1b7146", "#b3261e", "#61646f", "#7a3ea8")
    highest = max((point.not_right for one in calibrations.values() for point in one.curve), default=0.0)
    top = next((limit for limit in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if highest <= limit), 1.0)

    def place(point: CurvePoint) -> str:
        across = edge + point.right_shown * (width - 2 * edge)
        return f"{across:.1f},{height - edge - point.not_right / top * (height - 2 * edge):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12"><rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{edge}" y="20">Not right, of the values shown</text>',
        f'<text x="{width - edge}" y="{height - 10}" text-anchor="end">Right values shown</text>',
    ]
    for tick in range(6):
        across = edge + tick / 5 * (width - 2 * edge)
        up = height - edge - tick / 5 * (height - 2 * edge)
        parts.append(f'<path d="M{edge} {up:.1f}H{width - edge}" stroke="#e3e4e9"/>')
        parts.append(f'<text x="{edge - 4}" y="{up + 4:.1f}" text-anchor="end">{tick / 5 * top:.1%}</text>')
        parts.append(f'<text x="{across:.1f}" y="{height - edge + 16}" text-anchor="middle">{tick * 20} %</text>')
    for at, (name, one) in enumerate(calibrations.items()):
        colour = colours[at % len(colours)]
        points = " ".join(place(point) for point in one.curve)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        label = name.replace("&", "&amp;").replace("<", "&lt;")
        parts.append(f'<text x="{edge + 8}" y="{edge + 16 * at}" fill="{colour}">{label}</text>')
    return "".join([*parts, "</svg>\n"])


def describe(calibration: Calibration) -> dict[str, Any]:
    """Return the figures as one line of short texts, for a table."""

    def text(share: Share) -> str:
        if share.value is None or share.low is None or share.high is None:
            return "–"
        return f"{share.value:.2%} ({share.low:.2%} to {share.high:.2%})"

    return {
        "documents": str(calibration.documents),
        "shown": str(calibration.shown),
        "right values shown": text(calibration.right_shown),
        "not right": text(calibration.not_right),
        "not right, strictly": text(calibration.not_right_strict),
        "in rows that are not in the gold": text(calibration.extra_rows),
        "ranking": "–" if calibration.ranking is None else f"{calibration.ranking:.3f}",
    }
