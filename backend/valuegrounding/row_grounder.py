"""RowGrounder: ground many leaves. Leaves of one row share a line of the page; different rows use different lines."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from pydantic import JsonValue

from valuegrounding import paths
from valuegrounding.candidate_finder import CandidateFinder
from valuegrounding.candidate_ranker import NOT_NEAR, CandidateRanker, RankedSpan, is_beside_key
from valuegrounding.evidence import NO_CLAIM, Claim, Finding, Support
from valuegrounding.locations import locate
from valuegrounding.measures import Measure
from valuegrounding.text_stream import Span
from valuegrounding.word_index import WordIndex

_MAX_RARE_SPANS: Final = 400  # spans; a value with more doesn't help to choose its row's line
_MAX_SPANS_NEAR_LINE: Final = 64  # spans near the row's line that are ranked for such a value

_Line: TypeAlias = tuple[int, int]  # (page, number of the line)
_Leaf: TypeAlias = tuple[paths.Path, str, JsonValue | Measure]  # (path, its name, value)


class _UsedByList:
    """The lines and spans already used by rows of one list. The next row is expected below the line `last`."""

    def __init__(self, last: _Line) -> None:
        self.lines: set[_Line] = set()
        self.span_keys: set[tuple[int, int]] = set()
        self.last = last


class RowGrounder:
    def __init__(self, index: WordIndex, finder: CandidateFinder, ranker: CandidateRanker) -> None:
        self._index = index
        self._finder = finder
        self._ranker = ranker

    def ground(
        self, leaves: Iterable[tuple[paths.Path, JsonValue | Measure]], claims: Mapping[str, Claim]
    ) -> dict[str, Finding]:
        """Return a finding for every (path, value), keyed by path name, in the same order."""
        found: dict[str, Finding] = {}
        rows: dict[paths.Path, list[_Leaf]] = {}
        for path, value in leaves:
            name = paths.name(path)
            depth = max((n for n, step in enumerate(path, 1) if isinstance(step, int)), default=0)
            found[name] = Finding("not_found", None)  # keeps the order of the leaves
            rows.setdefault(path[:depth], []).append((path, name, value))
        lists: dict[paths.Path, _UsedByList] = {}
        for row, members in rows.items():
            progress = None
            if row:
                above = [lists[row[:n]] for n in range(len(row) - 1) if row[:n] in lists]
                progress = lists.setdefault(row[:-1], _UsedByList(above[-1].last if above else (-1, -1)))
            found.update(self._ground_row(members, claims, progress))
        return found

    def _ground_row(
        self, leaves: Sequence[_Leaf], claims: Mapping[str, Claim], progress: _UsedByList | None
    ) -> dict[str, Finding]:
        claimed = {name: claims.get(name, NO_CLAIM) for _, name, _ in leaves}
        found = {name: self._finder.find(value, claimed[name], path) for path, name, value in leaves}
        rare = {
            name: self._ranker.rank(candidates.spans, path, claimed[name])
            for path, name, _ in leaves
            if (candidates := found[name]) is not None and len(candidates.spans) <= _MAX_RARE_SPANS
        }
        line = self._best_line(list(rare.values()), progress) if progress is not None else None
        result: dict[str, Finding] = {}
        for path, name, value in leaves:
            candidates = found[name]
            if candidates is None:
                blank = _is_empty(value) and self._ranker.is_label_printed(path)
                result[name] = Finding("blank" if blank else "not_found", None)
                continue
            if name in rare:
                ranked = rare[name]
            elif line is None or claimed[name].quote:
                ranked = self._ranker.rank(candidates.spans, path, claimed[name])
            else:
                ranked = self._ranker.rank(self._near_line(candidates.spans, line), path, claimed[name])
            if line is None or progress is None:
                span = self._ranker.most_likely([(one[:4], one.span) for one in ranked])
            else:
                span = self._ranker.most_likely(
                    [
                        (
                            (
                                one.outside_quote,
                                *self._distance_from_line(one.span, line),
                                one.span.key in progress.span_keys,
                                *one[1:4],
                            ),
                            one.span,
                        )
                        for one in ranked
                    ]
                )
                progress.span_keys.add(span.key)
            nearness = next((one.nearness for one in ranked if one.span is span), NOT_NEAR)
            supports: tuple[Support, ...] = ("label",) if is_beside_key(nearness) else ()
            result[name] = Finding("found", locate(self._index, candidates, span), supports=supports)
        return result

    def _best_line(self, leaves: Sequence[Sequence[RankedSpan]], progress: _UsedByList) -> _Line | None:
        """Return the line that has spans of the most leaves of a row; of equal lines, the next one after the previous
        row. A leaf counts more if it has few spans or is near its label."""
        scores: defaultdict[_Line, float] = defaultdict(float)
        spans: defaultdict[_Line, set[tuple[int, int]]] = defaultdict(set)
        leaves_on_line: Counter[_Line] = Counter()
        for ranked in leaves:
            on: dict[_Line, float] = {}
            for one in ranked:
                line = self._index.line_of(one.span.first_word)
                spans[line].add(one.span.key)
                weight = 0.5 * (one.nearness < NOT_NEAR) + 1.0 * (not one.outside_quote) - 0.5 * one.other_page
                on[line] = max(on.get(line, weight), weight)
            for line, weight in on.items():
                scores[line] += 1 + weight + 1 / len(on)
            leaves_on_line.update(on)
        if not scores:
            return None
        for line, spans_on_line in spans.items():
            scores[line] -= max(0, leaves_on_line[line] - len(spans_on_line))
        free = scores.keys() - progress.lines if len(leaves) > 1 else set(scores)
        best = min(free or scores, key=lambda line: (-scores[line], line < progress.last, line))
        progress.lines.add(best)
        progress.last = best
        return best

    def _near_line(self, spans: Sequence[Span], line: _Line) -> Sequence[Span]:
        at = bisect_left(spans, line, key=lambda span: self._index.line_of(span.first_word))
        return spans[max(0, at - _MAX_SPANS_NEAR_LINE // 2) : at + _MAX_SPANS_NEAR_LINE // 2]

    def _distance_from_line(self, span: Span, line: _Line) -> tuple[bool, int]:
        page, number = self._index.line_of(span.first_word)
        away = number - line[1]
        return page != line[0], 2 * away if away >= 0 else -3 * away


def _is_empty(value: JsonValue | Measure) -> bool:
    return value is None or value == "" or value == [] or value == {}
