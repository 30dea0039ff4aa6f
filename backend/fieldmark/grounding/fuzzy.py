"""Fuzzy search: text that OCR misread, by at most one edit in ten characters and none in its digits.

rapidfuzz counts the edits. Which spans are compared is decided here: rapidfuzz's own search for a part of a text knows
nothing of words, and answers one place alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence

from rapidfuzz.distance.Levenshtein import distance

# One character in so many may be inserted, lost or replaced. A shorter text must be printed as it is.
CHARACTERS_AN_EDIT = 10
MAX_NEEDLE_CHARACTERS = 2_000
# Bounds of the work for one needle.
_MAX_HITS_A_PIECE = 64
_MAX_OFFSETS = 24
_MAX_STARTS_AN_OFFSET = 4
_MAX_ENDS_A_START = 4
_MAX_STARTS = 1_000

# Letters that OCR takes for digits, and digits for letters. Any other change of a digit makes another value.
_LOOKS_LIKE = str.maketrans("oildsbzgqt", "0110582997")


def allowed_edits(needle: str) -> int:
    """How many edits a printed text may be away from the needle."""
    return len(needle) // CHARACTERS_AN_EDIT


def occurrences(needle: str, text: str, starts: Sequence[int]) -> list[tuple[int, int]]:
    """Every (start, end) of whole words with the fewest edits from the needle, and at most the allowed ones.

    `starts` are the offsets in the text at which its words begin.
    """
    length, least = len(needle), allowed_edits(needle)
    if not least or length > MAX_NEEDLE_CHARACTERS:
        return []
    edits = least
    best: list[tuple[int, int]] = []
    seen: set[int] = set()
    for offset in _likely_offsets(needle, text, edits):
        first = bisect_left(starts, offset - edits)
        near = starts[first : bisect_right(starts, offset + edits)]
        for start in sorted(near, key=lambda at: abs(at - offset))[:_MAX_STARTS_AN_OFFSET]:
            if start in seen:
                continue
            seen.add(start)
            # An end moved by one character changes the distance by one at the most.
            if distance(needle, text[start : start + length], score_cutoff=2 * least) > 2 * least:
                continue
            ends = [
                (edited, end)
                for end in _word_ends(start + length - least, start + length + least, text, starts)
                if (edited := distance(needle, text[start:end], score_cutoff=least)) <= least
            ]
            ends = [one for one in sorted(ends)[:_MAX_ENDS_A_START] if has_same_digits(needle, text[start : one[1]])]
            if ends:
                edited, end = ends[0]
                if edited < least:
                    best, least = [], edited
                best.append((start, end))
                break
    return best


def has_same_digits(wanted: str, printed: str) -> bool:
    """Whether no edit changes a digit, except between a letter and the digit that it looks like: `O` and `0`."""
    if [c for c in wanted if c.isdigit()] == [c for c in printed if c.isdigit()]:
        return True
    return len(wanted) == len(printed) and all(
        a == b or (a.isdigit() != b.isdigit() and a.translate(_LOOKS_LIKE) == b.translate(_LOOKS_LIKE))
        for a, b in zip(wanted, printed, strict=True)
        if a.isdigit() or b.isdigit()
    )


def most_similar(needle: str, text: str, starts: Sequence[int]) -> tuple[float, int, int] | None:
    """The (edits a character, start, end) of the whole words most similar to the needle, or None if more than half of
    it differs everywhere. At most _MAX_STARTS words are tried as the first."""
    length = len(needle)
    least = length // 2
    best: tuple[int, int] | None = None
    for start in starts[:_MAX_STARTS]:
        for end in _word_ends(
            start + max(1, length - least), start + length + min(least, length // 4 + 1), text, starts
        ):
            # Of equally similar words the first are kept.
            edited = distance(needle, text[start:end], score_cutoff=least)
            if edited < least or (edited == least and best is None):
                least, best = edited, (start, end)
    return (least / length, *best) if best else None


def _likely_offsets(needle: str, text: str, edits: int) -> Iterator[int]:
    """The offsets at which the needle may begin, the likeliest first.

    The needle is cut into one piece more than there may be edits, so at least one piece is printed as it is.
    """
    votes: Counter[int] = Counter()
    pieces = edits + 1
    for piece in range(pieces):
        offset = piece * len(needle) // pieces
        part = needle[offset : (piece + 1) * len(needle) // pieces]
        at = text.find(part)
        for _ in range(_MAX_HITS_A_PIECE):
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
