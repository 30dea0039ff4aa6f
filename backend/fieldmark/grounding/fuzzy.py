"""Fuzzy search: text that OCR misread, by at most one edit in ten characters and none in its digits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence

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
    length, edits = len(needle), allowed_edits(needle)
    if not edits or length > MAX_NEEDLE_CHARACTERS:
        return []
    masks: dict[str, int] = {}
    for at, character in enumerate(needle):
        masks[character] = masks.get(character, 0) | 1 << at
    best: list[tuple[int, int]] = []
    least = edits
    seen: set[int] = set()
    for offset in _likely_offsets(needle, text, edits):
        first = bisect_left(starts, offset - edits)
        near = starts[first : bisect_right(starts, offset + edits)]
        for start in sorted(near, key=lambda at: abs(at - offset))[:_MAX_STARTS_AN_OFFSET]:
            if start in seen:
                continue
            seen.add(start)
            away = _distances(masks, length, text[start : start + length + least])
            ends = [
                (edited, start + size)
                for size, edited in enumerate(away, 1)
                if edited <= least and _is_word_end(start + size, text, starts)
            ]
            fitting = [
                one for one in sorted(ends)[:_MAX_ENDS_A_START] if has_same_digits(needle, text[start : one[1]])
            ][:1]
            for edited, end in fitting:
                if edited < least:
                    best, least = [], edited
                best.append((start, end))
            if fitting:
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


def _distances(masks: dict[str, int], length: int, text: str) -> list[int]:
    """The edits from the needle to text[:1], text[:2], …, by bit-parallel dynamic programming."""
    every, last = (1 << length) - 1, 1 << (length - 1)
    plus, minus, score = every, 0, length
    away: list[int] = []
    for character in text:
        equal = masks.get(character, 0)
        vertical = equal | minus
        horizontal = (((equal & plus) + plus) ^ plus) | equal
        up = minus | (every & ~(horizontal | plus))
        down = plus & horizontal
        if up & last:
            score += 1
        elif down & last:
            score -= 1
        up = up << 1 | 1
        down <<= 1
        plus = (down | ~(vertical | up)) & every
        minus = up & vertical & every
        away.append(score)
    return away


def _is_word_end(end: int, text: str, starts: Sequence[int]) -> bool:
    index = bisect_left(starts, end)
    return end == len(text) or (index < len(starts) and starts[index] == end)


def most_similar(needle: str, text: str, starts: Sequence[int]) -> tuple[float, int, int] | None:
    """The (edits a character, start, end) of the whole words most similar to the needle, or None if more than half of
    it differs everywhere. At most _MAX_STARTS words are tried as the first."""
    length = len(needle)
    masks: dict[str, int] = {}
    for at, character in enumerate(needle):
        masks[character] = masks.get(character, 0) | 1 << at
    best: tuple[float, int, int] | None = None
    for start in starts[:_MAX_STARTS]:
        away = _distances(masks, length, text[start : start + length + length // 4 + 1])
        for size, edits in enumerate(away, 1):
            if (
                2 * edits <= length
                and (best is None or edits / length < best[0])
                and _is_word_end(start + size, text, starts)
            ):
                best = (edits / length, start, start + size)
    return best
