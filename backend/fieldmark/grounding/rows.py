"""Grounding many leaves at once: those of a row share a line of the page, and different rows take different lines."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from pydantic import JsonValue

from fieldmark.domain import paths
from fieldmark.grounding.choice import NOWHERE, Choice, Ranked
from fieldmark.grounding.evidence import NO_CLAIM, Claim, Finding
from fieldmark.grounding.index import Index
from fieldmark.grounding.places import place
from fieldmark.grounding.search import Search
from fieldmark.grounding.strand import Span

_RARE: Final = 400  # places; a value that stands in more says nothing of its row's line
_ABOUT: Final = 64  # places of such a value about its row's line that are weighed

_Line: TypeAlias = tuple[int, int]  # (page, number of the line)
_Leaf: TypeAlias = tuple[paths.Path, str, JsonValue]  # with the path's name


class _Taken:
    """Which lines and places the rows of one list have taken. `last` is the line after which the next is looked for: of
    a list within a row, that row's."""

    def __init__(self, last: _Line) -> None:
        self.lines: set[_Line] = set()
        self.places: set[tuple[int, int]] = set()
        self.last = last


class Rows:
    """DocumentIndex leaves on one document."""

    def __init__(self, index: Index, search: Search, choice: Choice) -> None:
        self._index = index
        self._search = search
        self._choice = choice

    def ground(self, leaves: Iterable[tuple[str, JsonValue]], claims: Mapping[str, Claim]) -> dict[str, Finding]:
        """A finding for every leaf, by path name as they are given."""
        found: dict[str, Finding] = {}
        rows: dict[paths.Path, list[_Leaf]] = {}
        for name, value in leaves:
            path = paths.parse(name) if name else ()
            depth = max((n for n, step in enumerate(path, 1) if isinstance(step, int)), default=0)
            found[name] = Finding("not_found", None)  # keeps the order of the leaves
            rows.setdefault(path[:depth], []).append((path, name, value))
        lists: dict[paths.Path, _Taken] = {}
        for row, members in rows.items():
            taken = None
            if row:
                above = [lists[row[:n]] for n in range(len(row) - 1) if row[:n] in lists]
                taken = lists.setdefault(row[:-1], _Taken(above[-1].last if above else (-1, -1)))
            found.update(self._row(members, claims, taken))
        return found

    def _row(self, leaves: Sequence[_Leaf], claims: Mapping[str, Claim], taken: _Taken | None) -> dict[str, Finding]:
        """The leaves of one row, or those that are in none."""
        said = {name: claims.get(name, NO_CLAIM) for _, name, _ in leaves}
        found = {name: self._search.candidates(value, said[name]) for _, name, value in leaves}
        rare = {
            name: self._choice.ranked(candidates.spans, path, said[name])
            for path, name, _ in leaves
            if (candidates := found[name]) is not None and len(candidates.spans) <= _RARE
        }
        line = self._line_of(list(rare.values()), taken) if taken is not None else None
        result: dict[str, Finding] = {}
        for path, name, value in leaves:
            candidates = found[name]
            if candidates is None:
                blank = _is_empty(value) and self._choice.is_printed(path)
                result[name] = Finding("blank" if blank else "not_found", None)
                continue
            if name in rare:
                ranked = rare[name]
            elif line is None or said[name].quote:
                ranked = self._choice.ranked(candidates.spans, path, said[name])
            else:
                ranked = self._choice.ranked(self._about(candidates.spans, line), path, said[name])
            if line is None or taken is None:
                span = self._choice.likeliest([(one[:4], one.span) for one in ranked])
            else:
                span = self._choice.likeliest(
                    [
                        (
                            (
                                one.outside,
                                *self._from_line(one.span, line),
                                one.span.where in taken.places,
                                *one[1:4],
                            ),
                            one.span,
                        )
                        for one in ranked
                    ]
                )
                taken.places.add(span.where)
            result[name] = Finding("found", place(self._index, candidates, span))
        return result

    def _line_of(self, leaves: Sequence[Sequence[Ranked]], taken: _Taken) -> _Line | None:
        """The line that most leaves of a row can stand on, each in a place of its own, rare ones and those below their
        label counting more; of equal ones the next after the row before."""
        scores: defaultdict[_Line, float] = defaultdict(float)
        places: defaultdict[_Line, set[tuple[int, int]]] = defaultdict(set)
        wanted: Counter[_Line] = Counter()
        for ranked in leaves:
            on: dict[_Line, float] = {}
            for one in ranked:
                line = self._index.line(one.span.word)
                places[line].add(one.span.where)
                likely = (0.5 if one.kind < NOWHERE else 0.0) + (0.0 if one.outside else 1.0) - 0.5 * one.elsewhere
                on[line] = max(on.get(line, likely), likely)
            for line, likely in on.items():
                scores[line] += 1 + likely + 1 / len(on)
            wanted.update(on)
        if not scores:
            return None
        for line, places_there in places.items():
            scores[line] -= max(0, wanted[line] - len(places_there))
        free = scores.keys() - taken.lines if len(leaves) > 1 else set(scores)
        best = min(free or scores, key=lambda line: (-scores[line], line < taken.last, line))
        taken.lines.add(best)
        taken.last = best
        return best

    def _about(self, spans: Sequence[Span], line: _Line) -> Sequence[Span]:
        """Of very many places those about a line."""
        at = bisect_left(spans, line, key=lambda span: self._index.line(span.word))
        return spans[max(0, at - _ABOUT // 2) : at + _ABOUT // 2]

    def _from_line(self, span: Span, line: _Line) -> tuple[bool, int]:
        """How far a span is from a row's line: below it counts as nearer than above."""
        page, number = self._index.line(span.word)
        away = number - line[1]
        return page != line[0], 2 * away if away >= 0 else -3 * away


def _is_empty(value: JsonValue) -> bool:
    return value is None or value == "" or value == [] or value == {}
