"""Score extracted fields against gold values, which are known to be correct. Scalars are compared one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic import JsonValue
from rapidfuzz.distance import Indel

from fieldmark.domain import paths
from fieldmark.domain.fields import MISSING, Missing
from fieldmark.domain.numbers import is_number
from valuegrounding import DocumentIndex, PageWords
from valuegrounding.decimals import canonical_decimal
from valuegrounding.folding import fold_alphanumeric
from valuegrounding.paths import walk

MaybeValue: TypeAlias = JsonValue | Missing

MAX_PAIRS = 250_000
"""Maximum number of item pairs compared to match two lists: 500 × 500. Items of longer lists are paired by index."""
MAX_COMPARED_CHARACTERS = 500
"""Only the beginning of a text is compared for similarity."""
MIN_SIMILARITY = 0.6
"""Texts below this similarity (0..1) count as entirely different."""
MIN_ITEM_SIMILARITY = 1 / 3
"""List items below this similarity (0..1) are not paired: one is missing, and the other is extra."""

_NUMBER = re.compile(r"[-+]?(?!0\d)\d{1,40}(\.\d{1,40})?")


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """A gold value and the extracted value matched to it, each with its path. MISSING if one side has no value: then
    its path is where the value would be."""

    gold_path: paths.Path
    got_path: paths.Path
    gold: MaybeValue
    got: MaybeValue
    unpaired_item: paths.Path = ()
    """The list item without a counterpart that the value is in, if any. The path of its list is that in the gold."""

    @property
    def field(self) -> str:
        """The path without list indexes: `items[*].price`."""
        steps = self.gold_path if self.gold is not MISSING else self.got_path
        return _field_pattern(steps)

    @property
    def is_in_gold(self) -> bool:
        """Whether the gold has the field. A gold value of null means that the document leaves the field blank."""
        return not isinstance(self.gold, Missing)

    @property
    def is_extra_item(self) -> bool:
        """Whether the extracted value is in a list item that has no counterpart."""
        return bool(self.unpaired_item) and self.gold is MISSING

    @property
    def exact(self) -> bool:
        """Whether both are equal as JSON. A missing value equals a gold null."""
        if self.gold is None and self.got is MISSING:
            return True
        same = type(self.gold) is type(self.got) and self.gold == self.got
        return same or (is_number(self.gold) and is_number(self.got) and self.gold == self.got)

    @property
    def normalised(self) -> bool:
        """Whether both are equal ignoring case, accents, spaces, punctuation and trailing zeros."""
        return self.exact or (
            self.is_in_gold and self.got is not MISSING and normalise(self.gold) == normalise(self.got)
        )


@dataclass(slots=True)
class Tally:
    """Counts of gold values, by how well the extracted value matches. `extra` counts values that the gold lacks."""

    gold: int = 0
    exact: int = 0
    normalised: int = 0
    located: int = 0
    extra: int = 0

    def add(self, other: Tally) -> None:
        self.gold += other.gold
        self.exact += other.exact
        self.normalised += other.normalised
        self.located += other.located
        self.extra += other.extra

    def rate(self, measure: str) -> float | None:
        """Return the share of gold values that meet `measure`, 0..1. None if there are no gold values."""
        return getattr(self, measure) / self.gold if self.gold else None


MEASURES = ("exact", "normalised", "located")


@dataclass(slots=True)
class Score:
    """The score of one extraction: a tally for each field, and all values that are wrong, missing or extra."""

    fields: dict[str, Tally] = field(default_factory=dict[str, Tally])
    faults: list[ComparedValue] = field(default_factory=list[ComparedValue])


def score(
    gold: Mapping[str, JsonValue],
    got: Mapping[str, JsonValue],
    *,
    gold_evidence: Mapping[str, Any] | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> Score:
    """Return the score of extracted fields. Evidence is keyed by path name, as in an extraction.

    A value is located if it is correct (normalised) and its evidence has the state `found`. If the gold has a location
    too, the two must overlap. A blank value is located if it is correct and its evidence is not `found`.
    """
    result = Score()
    for leaf in compare_values(dict(gold), dict(got)):
        tally = result.fields.setdefault(leaf.field, Tally())
        if not leaf.is_in_gold:
            tally.extra += 1
            result.faults.append(leaf)
            continue
        tally.gold += 1
        tally.exact += leaf.exact
        tally.normalised += leaf.normalised
        tally.located += leaf.normalised and _is_located(leaf, gold_evidence or {}, evidence or {})
        if not leaf.normalised:
            result.faults.append(leaf)
    return result


def total(tallies: Iterable[Tally]) -> Tally:
    whole = Tally()
    for tally in tallies:
        whole.add(tally)
    return whole


def compare_values(
    gold: MaybeValue, got: MaybeValue, gold_path: paths.Path = (), got_path: paths.Path = ()
) -> Iterator[ComparedValue]:
    """Yield every leaf of two extractions with its counterpart. List items are paired by similarity, in any order."""
    if isinstance(gold, dict) and isinstance(got, dict) and ((gold and got) or not gold_path):
        for key in [*gold, *(key for key in got if key not in gold)]:
            yield from compare_values(
                gold.get(key, MISSING), got.get(key, MISSING), (*gold_path, key), (*got_path, key)
            )
    elif isinstance(gold, list) and isinstance(got, list) and gold and got:
        partner = dict(_match_items(gold, got))
        for index, item in enumerate(gold):
            if (other := partner.get(index)) is not None:
                yield from compare_values(item, got[other], (*gold_path, index), (*got_path, other))
                continue
            for steps, value in walk(item, (*gold_path, index)):
                beside = (*got_path, *steps[len(gold_path) :])
                yield ComparedValue(steps, beside, value, MISSING, (*gold_path, index))
        for index in sorted(set(range(len(got))) - set(partner.values())):
            for steps, value in walk(got[index], (*got_path, index)):
                beside = (*gold_path, *steps[len(got_path) :])
                yield ComparedValue(beside, steps, MISSING, value, (*gold_path, index))
    elif _is_leaf(gold) and _is_leaf(got):
        yield ComparedValue(gold_path, got_path, gold, got)
    else:  # a leaf on one side and a container on the other, or nothing on one side
        for side, (node, path) in enumerate(((gold, gold_path), (got, got_path))):
            for steps, value in () if isinstance(node, Missing) else walk(node, path):
                yield (
                    ComparedValue(steps, (*got_path, *steps[len(path) :]), value, MISSING)
                    if side == 0
                    else ComparedValue((*gold_path, *steps[len(path) :]), steps, MISSING, value)
                )


def _field_pattern(steps: paths.Path) -> str:
    return re.sub(r"\[\d+\]", "[*]", paths.name(steps))


def normalise(value: MaybeValue) -> str:
    """Return a value for comparison: numbers in canonical form, texts as their letters and digits only."""
    if isinstance(value, bool) or value is None or isinstance(value, Missing | dict | list):
        return str(value)
    number = _number(value)
    if number is not None:
        return number
    text = " ".join(str(value).split())
    return fold_alphanumeric(text) or text


def _number(value: str | int | float) -> str | None:
    """Return the canonical text of a number, also if given as text: `12.50`, but not `12,50` or `007`."""
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        return None
    return canonical_decimal(value)


def is_same_value(gold: object, got: JsonValue) -> bool:
    """Return whether two values mean the same: either is found in the other as if that were printed, as a whole.

    >>> is_same_value("3/28/20", "2020-03-28"), is_same_value("１２ｋｇ", "12 kg"), is_same_value("12 kg net", "12 kg")
    (True, True, False)
    """
    return _is_printed_as(gold, got) or (isinstance(gold, str | int | float) and _is_printed_as(got, gold))


def _is_printed_as(printed: object, value: JsonValue) -> bool:
    words = str(printed).split() if isinstance(printed, str | int | float) and not isinstance(printed, bool) else []
    if not words or isinstance(value, bool):
        return False
    width = 1 / len(words)
    line = [[word, at * width, 0.1, (at + 0.9) * width, 0.11] for at, word in enumerate(words)]
    found = DocumentIndex([PageWords(1, line)]).find(value)
    return found is not None and found.match != "fuzzy" and found.quote.split() == words


def _is_leaf(node: MaybeValue) -> bool:
    return isinstance(node, Missing) or not isinstance(node, dict | list) or not node


def _match_items(gold: Sequence[JsonValue], got: Sequence[JsonValue]) -> list[tuple[int, int]]:
    """Return pairs of indexes, most similar items first. Items that are too different stay unpaired."""
    if len(gold) * len(got) > MAX_PAIRS:
        return [(index, index) for index in range(min(len(gold), len(got)))]
    ours, theirs = [_signature(item) for item in gold], [_signature(item) for item in got]
    ranked = sorted((-_similarity(a, b), i, j) for i, a in enumerate(ours) for j, b in enumerate(theirs))
    rows, columns = dict[int, int](), set[int]()
    for negative_similarity, row, column in ranked:
        if -negative_similarity >= MIN_ITEM_SIMILARITY and row not in rows and column not in columns:
            rows[row] = column
            columns.add(column)
    return list(rows.items())


def _signature(item: JsonValue) -> dict[str, str]:
    return {_field_pattern(steps): normalise(value) for steps, value in walk(item, (0,))}


def _similarity(one: Mapping[str, str], other: Mapping[str, str]) -> float:
    """Return the share of equal values, 0..1. A similar value counts less than half."""
    whole = len(one.keys() | other.keys())
    return sum(_value_similarity(one[name], other[name]) for name in one.keys() & other.keys()) / whole


def _value_similarity(one: str, other: str) -> float:
    if one == other:
        return 1.0
    return 0.4 * Indel.normalized_similarity(
        one[:MAX_COMPARED_CHARACTERS], other[:MAX_COMPARED_CHARACTERS], score_cutoff=MIN_SIMILARITY
    )


def _is_located(leaf: ComparedValue, gold_evidence: Mapping[str, Any], evidence: Mapping[str, Any]) -> bool:
    claim: dict[str, Any] = evidence.get(paths.name(leaf.got_path)) or {}
    if leaf.gold in (None, "") or leaf.gold == [] or leaf.gold == {}:
        return claim.get("state") != "found"
    if claim.get("state") != "found":
        return False
    truth: dict[str, Any] = gold_evidence.get(paths.name(leaf.gold_path)) or {}
    if truth.get("state") != "found" or not truth.get("boxes"):
        return True
    ours: list[list[float]] = truth["boxes"]
    theirs: list[list[float]] = claim.get("boxes") or []
    return truth.get("page") == claim.get("page") and any(_overlap(one, other) for one in ours for other in theirs)


def _overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
