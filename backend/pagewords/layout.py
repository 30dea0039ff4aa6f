"""Turn words with boxes into lines of text that keep the columns of the page."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin
from statistics import median

from pagewords.errors import Damaged, OverLimit
from pagewords.pages import (
    MAX_PAGE_CHARACTERS,
    MAX_PAGE_WORDS,
    Page,
    PlacedWord,
    Word,
    is_right_to_left,
)

# In widths of an average character. A space is about 0.6 of one, also in justified text rarely above 1.5.
WIDE_GAP = 1.8
MAX_GAP = 200
BEHIND_HEIGHT = 2.5  # of a word's height: a word as high behind it is on a line of its own
MAX_WORDS_BEHIND = 100  # of a page, the highest
CHARACTER_WIDTH, CHARACTER_HEIGHT = 0.5, 1.2  # of an average character, relative to the size of its font


def layout_page(
    number: int,
    width: float,
    height: float,
    groups: Sequence[tuple[float, list[PlacedWord]]],
    engine: str,
    slope: float = 0.0,
) -> Page:
    """Return the page of these words, whose boxes are in the page's units.

    `groups` are (direction, words): direction 0 is to the right, 1 down, 2 to the left, 3 up; a fraction is a slanted
    line. Each group is laid out in its own direction, one after the other. `slope` is how far the lines of a crooked
    scan fall per unit of width.
    """
    if not (width > 0 and height > 0):
        raise Damaged(f"Page {number} has no area.")
    texts: list[str] = []
    ordered: list[PlacedWord] = []
    for direction, words in groups:
        upright = _rotate_upright(words, direction, width, height)
        behind = _words_behind_others(upright)
        for part in ([at for at in range(len(words)) if at not in behind], sorted(behind)):
            text, order = _text_in_lines([upright[at] for at in part], slope)
            texts += [text] if text else []
            ordered.extend(words[part[index]] for index in order)
    return make_page(number, width, height, "\n".join(texts), ordered, engine)


def make_page(number: int, width: float, height: float, text: str, words: Sequence[PlacedWord], engine: str) -> Page:
    """Return the page of a known text. `words` are the words of `text`, in order."""
    check_size(number, [word.text for word in words])
    placed = [_word(word, width, height) for word in words]
    return Page(number, round(width, 2), round(height, 2), text, placed, engine)


def check_size(number: int, words: Sequence[str]) -> None:
    """Raise Unreadable if a page has too many words or characters."""
    characters = sum(map(len, words))
    if len(words) > MAX_PAGE_WORDS or characters > MAX_PAGE_CHARACTERS:
        raise OverLimit(
            f"Page {number} holds {characters:,} characters in {len(words):,} words; "
            f"the limit is {MAX_PAGE_CHARACTERS:,} in {MAX_PAGE_WORDS:,}. Split the page."
        )


def _word(word: PlacedWord, width: float, height: float) -> Word:
    text, x0, y0, x1, y1, confidence = word
    return Word(
        text,
        round(min(max(x0 / width, 0.0), 1.0), 5),
        round(min(max(y0 / height, 0.0), 1.0), 5),
        round(min(max(x1 / width, 0.0), 1.0), 5),
        round(min(max(y1 / height, 0.0), 1.0), 5),
        None if confidence is None else round(min(max(confidence, 0.0), 1.0), 3),
    )


def _rotate_upright(words: list[PlacedWord], direction: float, width: float, height: float) -> list[PlacedWord]:
    if direction == 0:
        return words
    if direction == 1:
        return [PlacedWord(t, y0, width - x1, y1, width - x0) for t, x0, y0, x1, y1, _ in words]
    if direction == 2:
        return [PlacedWord(t, width - x1, height - y1, width - x0, height - y0) for t, x0, y0, x1, y1, _ in words]
    if direction == 3:
        return [PlacedWord(t, height - y1, x0, height - y0, x1) for t, x0, y0, x1, y1, _ in words]
    return [_rotate_slanted(word, direction * pi / 2) for word in words]


def _rotate_slanted(word: PlacedWord, angle: float) -> PlacedWord:
    """Return a word turned back by an angle. Its length and height are estimated from the box around it."""
    text, x0, y0, x1, y1, _ = word
    across, down = cos(angle), sin(angle)
    em = (x1 - x0 + y1 - y0) / ((CHARACTER_WIDTH * len(text) + CHARACTER_HEIGHT) * (abs(across) + abs(down)))
    half_length, half_height = CHARACTER_WIDTH * len(text) * em / 2, CHARACTER_HEIGHT * em / 2
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    x, y = x * across + y * down, y * across - x * down
    return PlacedWord(text, x - half_length, y - half_height, x + half_length, y + half_height)


def _words_behind_others(words: Sequence[PlacedWord]) -> set[int]:
    """Return the indexes of large words behind smaller ones, such as a watermark: they are on lines of their own."""
    by_height = sorted(range(len(words)), key=lambda at: words[at].y1 - words[at].y0)
    if not words:
        return set()
    usual = words[by_height[len(words) // 2]]
    behind: set[int] = set()
    for at in by_height[-MAX_WORDS_BEHIND:]:
        _, x0, y0, x1, y1, _ = words[at]
        if y1 - y0 > BEHIND_HEIGHT * (usual.y1 - usual.y0) and any(
            x0 < (word.x0 + word.x1) / 2 < x1
            and y0 < (word.y0 + word.y1) / 2 < y1
            and y1 - y0 > BEHIND_HEIGHT * (word.y1 - word.y0)
            for word in words
        ):
            behind.add(at)
    return behind


def _text_in_lines(words: list[PlacedWord], slope: float) -> tuple[str, list[int]]:
    if not words:
        return "", []
    tops = [word.y0 - slope * (word.x0 + word.x1) / 2 for word in words]
    bottoms = [word.y1 - slope * (word.x0 + word.x1) / 2 for word in words]
    order = sorted(range(len(words)), key=lambda index: tops[index] + bottoms[index])

    rows: list[list[int]] = []
    top = bottom = 0.0
    for index in order:
        y0, y1 = tops[index], bottoms[index]
        least = min(bottom - top, y1 - y0)
        # On one line: nearly the same middle, or (a large label before a small value) nearly the same baseline.
        if rows and (abs((y0 + y1) - (top + bottom)) < least or abs(y1 - bottom) < 0.3 * least):
            rows[-1].append(index)
            size = len(rows[-1])
            top += (y0 - top) / size
            bottom += (y1 - bottom) / size
        else:
            rows.append([index])
            top, bottom = y0, y1

    left, right = min(word.x0 for word in words), max(word.x1 for word in words)
    unit = median((word.x1 - word.x0) / len(word.text) for word in words) or 1.0
    lines: list[str] = []
    reading_order: list[int] = []
    foot: float | None = None
    for row in rows:
        placed = _order_line(row, words, right)
        head = min(tops[index] for index in row)
        tall = median(bottoms[index] - tops[index] for index in row)
        if foot is not None and head - foot > 1.3 * tall:
            lines.append("")
        foot = max(bottoms[index] for index in row)
        lines.append(_line([word for _, word in placed], left, unit))
        reading_order.extend(index for index, _ in placed)
    return "\n".join(lines), reading_order


def _order_line(row: Sequence[int], words: Sequence[PlacedWord], right: float) -> list[tuple[int, PlacedWord]]:
    """Return the words of a line (indexes into `words`) in reading order, each as if the line ran to the right.

    A line with mostly right-to-left words is mirrored at `right`. Numbers and Latin words beside each other keep their
    order.
    """
    across = sorted(row, key=lambda index: words[index].x0)
    foreign = [is_right_to_left(words[index].text) for index in across]
    written = sum(strange or words[index].text.isalpha() for index, strange in zip(across, foreign, strict=True))
    if not any(foreign) or 2 * sum(foreign) < written:
        return [(index, words[index]) for index in across]
    runs: list[list[int]] = []
    for index, strange in zip(across, foreign, strict=True):
        last = words[runs[-1][-1]] if runs else None
        unit = (words[index].x1 - words[index].x0) / len(words[index].text)
        is_beside = last is not None and words[index].x0 - last.x1 <= WIDE_GAP * unit
        if last is not None and is_beside and not strange and not is_right_to_left(last.text):
            runs[-1].append(index)
        else:
            runs.append([index])
    placed: list[tuple[int, PlacedWord]] = []
    for run in reversed(runs):
        first, last = words[run[0]], words[run[-1]]
        shift = right - last.x1 - first.x0
        placed += [(i, words[i]._replace(x0=words[i].x0 + shift, x1=words[i].x1 + shift)) for i in run]
    return placed


def _line(row: list[PlacedWord], left: float, unit: float) -> str:
    """Return the text of one line. After a wide gap, text continues in its column of the page, so
    tables stay aligned."""
    own = sum(word.x1 - word.x0 for word in row) / sum(len(word.text) for word in row) or unit
    parts: list[str] = []
    length = 0
    end: float | None = None
    for word in row:
        column = round((word.x0 - left) / unit)
        if end is None:
            gap = min(column, MAX_GAP)
        elif word.x0 - end > WIDE_GAP * own:
            gap = min(max(column - length, 2), MAX_GAP)
        else:
            gap = 1
        parts.append(" " * gap + word.text)
        length += gap + len(word.text)
        end = word.x1 if end is None else max(end, word.x1)
    return "".join(parts)
