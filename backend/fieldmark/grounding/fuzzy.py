"""Finding text that was misread: by at most one edit in ten characters, and never in its digits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence

# The bound: one character in this many may be inserted, lost or replaced; shorter text allows none.
CHARACTERS_AN_EDIT = 10
LONGEST = 2_000
# The work: so many places of a piece, and so many candidates, are looked at.
_HITS_A_PIECE = 64
_CANDIDATES = 24
_BEGINNINGS = 4
_MOST_STARTS = 1_000

# What OCR takes for each other between letters and digits. Any other change of a digit is another value.
_LOOKS_LIKE = str.maketrans("oildsbzgqt", "0110582997")


def allowed(needle: str) -> int:
    """How many edits a text of these characters may be away."""
    return len(needle) // CHARACTERS_AN_EDIT


def stands(needle: str, text: str, starts: Sequence[int]) -> list[tuple[int, int]]:
    """Where a text of whole words (each beginning at one of `starts`) is most like the needle, within the bound: every
    such (start, end), all with the same number of edits."""
    length, edits = len(needle), allowed(needle)
    if not edits or length > LONGEST:
        return []
    masks: dict[str, int] = {}
    for at, character in enumerate(needle):
        masks[character] = masks.get(character, 0) | 1 << at
    best: list[tuple[int, int]] = []
    least = edits
    seen: set[int] = set()
    for shift in _shifts(needle, text, edits):
        first = bisect_left(starts, shift - edits)
        near = starts[first : bisect_right(starts, shift + edits)]
        for start in sorted(near, key=lambda at: abs(at - shift))[:_BEGINNINGS]:
            if start in seen:
                continue
            seen.add(start)
            away = _distances(masks, length, text[start : start + length + least])
            ends = [
                (edited, start + size)
                for size, edited in enumerate(away, 1)
                if edited <= least and _ends(start + size, text, starts)
            ]
            fitting = [one for one in sorted(ends)[:_BEGINNINGS] if same_digits(needle, text[start : one[1]])][:1]
            for edited, end in fitting:
                if edited < least:
                    best, least = [], edited
                best.append((start, end))
            if fitting:
                break
    return best


def same_digits(wanted: str, printed: str) -> bool:
    """Whether the edits leave the digits as they are, but for a letter taken for the digit that looks like it."""
    if [c for c in wanted if c.isdigit()] == [c for c in printed if c.isdigit()]:
        return True
    return len(wanted) == len(printed) and all(
        a == b or (a.isdigit() != b.isdigit() and a.translate(_LOOKS_LIKE) == b.translate(_LOOKS_LIKE))
        for a, b in zip(wanted, printed, strict=True)
        if a.isdigit() or b.isdigit()
    )


def _shifts(needle: str, text: str, edits: int) -> Iterator[int]:
    """Where the needle may begin: of its edits + 1 pieces at least one was read rightly. The likeliest first."""
    votes: Counter[int] = Counter()
    pieces = edits + 1
    for piece in range(pieces):
        offset = piece * len(needle) // pieces
        part = needle[offset : (piece + 1) * len(needle) // pieces]
        at = text.find(part)
        for _ in range(_HITS_A_PIECE):
            if at < 0:
                break
            votes[at - offset] += 1
            at = text.find(part, at + 1)
    for shift, _ in votes.most_common(max(4, min(_CANDIDATES, 5_000 // len(needle)))):
        yield shift


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


def _ends(end: int, text: str, starts: Sequence[int]) -> bool:
    index = bisect_left(starts, end)
    return end == len(text) or (index < len(starts) and starts[index] == end)


def most_like(needle: str, text: str, starts: Sequence[int]) -> tuple[float, int, int] | None:
    """The (edits a character, start, end) of the whole words that are most like the needle, if less than half of it
    differs. At most _MOST_STARTS words are tried as its beginning."""
    length = len(needle)
    masks: dict[str, int] = {}
    for at, character in enumerate(needle):
        masks[character] = masks.get(character, 0) | 1 << at
    best: tuple[float, int, int] | None = None
    for start in starts[:_MOST_STARTS]:
        away = _distances(masks, length, text[start : start + length + length // 4 + 1])
        for size, edits in enumerate(away, 1):
            if 2 * edits <= length and (best is None or edits / length < best[0]) and _ends(start + size, text, starts):
                best = (edits / length, start, start + size)
    return best
