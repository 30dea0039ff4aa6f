"""Fuzzy search: find text that OCR misread, with at most one edit per ten characters and none in its digits.

rapidfuzz counts the edits. This module chooses which spans to compare, because rapidfuzz's own partial matching ignores
word boundaries and returns only one match.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence

from rapidfuzz.distance.Levenshtein import distance

# One edit (insertion, deletion or substitution) is allowed per this many characters; shorter texts must match exactly.
CHARACTERS_PER_EDIT = 10
MAX_NEEDLE_CHARACTERS = 2_000
# Limits on the work for one needle.
_MAX_HITS_PER_PIECE = 64
_MAX_OFFSETS = 24
_MAX_STARTS_PER_OFFSET = 4
_MAX_ENDS_PER_START = 4
_MAX_STARTS = 1_000

# Letters that OCR takes for digits, and digits for letters. Any other change of a digit makes a different value.
_LOOKS_LIKE = str.maketrans("oildsbzgqt", "0110582997")


def allowed_edits(needle: str) -> int:
    """Return how many edits a printed text may differ from the needle."""
    return len(needle) // CHARACTERS_PER_EDIT


def occurrences(needle: str, text: str, starts: Sequence[int]) -> list[tuple[int, int]]:
    """Return the (start, end) of the whole words with the fewest edits from the needle, within the allowed number.
    `starts` are the offsets at which the words of the text start."""
    length, max_edits = len(needle), allowed_edits(needle)
    if not max_edits or length > MAX_NEEDLE_CHARACTERS:
        return []
    edits = max_edits
    best: list[tuple[int, int]] = []
    seen: set[int] = set()
    for offset in _likely_offsets(needle, text, edits):
        first = bisect_left(starts, offset - edits)
        near = starts[first : bisect_right(starts, offset + edits)]
        for start in sorted(near, key=lambda at: abs(at - offset))[:_MAX_STARTS_PER_OFFSET]:
            if start in seen:
                continue
            seen.add(start)
            # Moving the end by one character changes the distance by at most one.
            if distance(needle, text[start : start + length], score_cutoff=2 * max_edits) > 2 * max_edits:
                continue
            ends = [
                (edited, end)
                for end in _word_ends(start + length - max_edits, start + length + max_edits, text, starts)
                if (edited := distance(needle, text[start:end], score_cutoff=max_edits)) <= max_edits
            ]
            ends = [one for one in sorted(ends)[:_MAX_ENDS_PER_START] if has_same_digits(needle, text[start : one[1]])]
            if ends:
                edited, end = ends[0]
                if edited < max_edits:
                    best, max_edits = [], edited
                best.append((start, end))
                break
    return best


def has_same_digits(needle: str, printed: str) -> bool:
    """Return whether the digits are equal, except for letters and digits that look alike: `O` and `0`."""
    if [c for c in needle if c.isdigit()] == [c for c in printed if c.isdigit()]:
        return True
    return len(needle) == len(printed) and all(
        a == b or (a.isdigit() != b.isdigit() and a.translate(_LOOKS_LIKE) == b.translate(_LOOKS_LIKE))
        for a, b in zip(needle, printed, strict=True)
        if a.isdigit() or b.isdigit()
    )


def most_similar(needle: str, text: str, starts: Sequence[int]) -> tuple[float, int, int] | None:
    """Return the (edits per character, start, end) of the whole words most similar to the needle, or None if more than
    half of the needle differs everywhere. Only the first _MAX_STARTS words are tried as the start."""
    length = len(needle)
    max_edits = length // 2
    best: tuple[int, int] | None = None
    for start in starts[:_MAX_STARTS]:
        for end in _word_ends(
            start + max(1, length - max_edits), start + length + min(max_edits, length // 4 + 1), text, starts
        ):
            # Of equally similar words, the first are kept.
            edited = distance(needle, text[start:end], score_cutoff=max_edits)
            if edited < max_edits or (edited == max_edits and best is None):
                max_edits, best = edited, (start, end)
    return (max_edits / length, *best) if best else None


def _likely_offsets(needle: str, text: str, edits: int) -> Iterator[int]:
    """Yield the offsets at which the needle may start, the most likely first.

    The needle is cut into one piece more than the allowed edits, so at least one piece is printed unchanged.
    """
    votes: Counter[int] = Counter()
    pieces = edits + 1
    for piece in range(pieces):
        offset = piece * len(needle) // pieces
        part = needle[offset : (piece + 1) * len(needle) // pieces]
        at = text.find(part)
        for _ in range(_MAX_HITS_PER_PIECE):
            if at < 0:
                break
            votes[at - offset] += 1
            at = text.find(part, at + 1)
    for likely, _ in votes.most_common(max(4, min(_MAX_OFFSETS, 5_000 // len(needle)))):
        yield likely


def _word_ends(low: int, high: int, text: str, starts: Sequence[int]) -> Iterator[int]:
    first = bisect_left(starts, low)
    previous = -1
    for end in starts[first : bisect_right(starts, high, lo=first)]:
        if end != previous:  # two words begin at one offset if the first has no letters or digits
            yield end
        previous = end
    if low <= len(text) <= high and previous != len(text):
        yield len(text)
