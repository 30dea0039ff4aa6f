"""From words with boxes to lines of text: what stands side by side on the page stands side by side in the text."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from fieldmark.documents.reading.pages import MAX_PAGE_CHARACTERS, MAX_PAGE_WORDS, Page, Piece, Word
from fieldmark.errors import Unreadable

# In widths of an average character. A space is about 0.6 of one, also in justified text rarely above 1.5.
WIDE_GAP = 1.8
MAX_GAP = 200


def compose(
    number: int, width: float, height: float, groups: Sequence[tuple[int, list[Piece]]], engine: str, slope: float = 0.0
) -> Page:
    """Make a page of pieces whose boxes are in the page's units.

    `groups` are (direction, pieces): text of direction 0 runs to the right, 1 down, 2 to the left, 3 up. Each group is
    laid out in its own direction, one after the other. `slope` is the rise (downwards, per unit to the right) of the
    lines of a crooked scan.
    """
    if not (width > 0 and height > 0):
        raise Unreadable(f"Page {number} has no area.")
    texts: list[str] = []
    ordered: list[Piece] = []
    for direction, pieces in groups:
        text, order = _lines(_turned(pieces, direction, width, height), slope if direction == 0 else 0.0)
        texts.append(text)
        ordered.extend(pieces[index] for index in order)
    return place(number, width, height, "\n".join(texts), ordered, engine)


def place(number: int, width: float, height: float, text: str, pieces: Sequence[Piece], engine: str) -> Page:
    """Make a page whose text is known: `pieces` are the words of `text`, in its order."""
    check_amount(number, [piece.text for piece in pieces])
    words = [_word(piece, width, height) for piece in pieces]
    return Page(number, round(width, 2), round(height, 2), text, words, engine)


def check_amount(number: int, words: Sequence[str]) -> None:
    """Raises Unreadable for more words than a page may hold, or longer ones."""
    characters = sum(map(len, words))
    if len(words) > MAX_PAGE_WORDS or characters > MAX_PAGE_CHARACTERS:
        raise Unreadable(
            f"Page {number} holds {characters:,} characters in {len(words):,} words; "
            f"a page may hold {MAX_PAGE_CHARACTERS:,} in {MAX_PAGE_WORDS:,}."
        )


def _word(piece: Piece, width: float, height: float) -> Word:
    text, x0, y0, x1, y1, confidence = piece
    return Word(
        text,
        round(min(max(x0 / width, 0.0), 1.0), 5),
        round(min(max(y0 / height, 0.0), 1.0), 5),
        round(min(max(x1 / width, 0.0), 1.0), 5),
        round(min(max(y1 / height, 0.0), 1.0), 5),
        None if confidence is None else round(min(max(confidence, 0.0), 1.0), 3),
    )


def _turned(pieces: list[Piece], direction: int, width: float, height: float) -> list[Piece]:
    """The pieces as they stand when the page is turned so that their text runs to the right."""
    if direction == 0:
        return pieces
    if direction == 1:
        return [Piece(t, y0, width - x1, y1, width - x0) for t, x0, y0, x1, y1, _ in pieces]
    if direction == 2:
        return [Piece(t, width - x1, height - y1, width - x0, height - y0) for t, x0, y0, x1, y1, _ in pieces]
    return [Piece(t, height - y1, x0, height - y0, x1) for t, x0, y0, x1, y1, _ in pieces]


def _lines(pieces: list[Piece], slope: float) -> tuple[str, list[int]]:
    """The text of the pieces line by line, and the pieces' indexes in the order of that text."""
    if not pieces:
        return "", []
    tops = [piece.y0 - slope * (piece.x0 + piece.x1) / 2 for piece in pieces]
    bottoms = [piece.y1 - slope * (piece.x0 + piece.x1) / 2 for piece in pieces]
    order = sorted(range(len(pieces)), key=lambda index: tops[index] + bottoms[index])

    rows: list[list[int]] = []
    top = bottom = 0.0
    for index in order:
        y0, y1 = tops[index], bottoms[index]
        least = min(bottom - top, y1 - y0)
        # On one line: nearly the same middle, or (a large label before a small value) nearly the same foot.
        if rows and (abs((y0 + y1) - (top + bottom)) < least or abs(y1 - bottom) < 0.3 * least):
            rows[-1].append(index)
            size = len(rows[-1])
            top += (y0 - top) / size
            bottom += (y1 - bottom) / size
        else:
            rows.append([index])
            top, bottom = y0, y1

    left = min(piece.x0 for piece in pieces)
    unit = median((piece.x1 - piece.x0) / len(piece.text) for piece in pieces) or 1.0
    lines: list[str] = []
    reading: list[int] = []
    foot: float | None = None
    for row in rows:
        row.sort(key=lambda index: pieces[index].x0)
        head = min(tops[index] for index in row)
        tall = median(bottoms[index] - tops[index] for index in row)
        if foot is not None and head - foot > 1.3 * tall:
            lines.append("")
        foot = max(bottoms[index] for index in row)
        lines.append(_line([pieces[index] for index in row], left, unit))
        reading.extend(row)
    return "\n".join(lines), reading


def _line(row: list[Piece], left: float, unit: float) -> str:
    """One line; after a wide gap the text goes on in the column where the page has it, so that tables stay tables."""
    own = sum(piece.x1 - piece.x0 for piece in row) / sum(len(piece.text) for piece in row) or unit
    parts: list[str] = []
    length = 0
    end: float | None = None
    for piece in row:
        column = round((piece.x0 - left) / unit)
        if end is None:
            gap = min(column, MAX_GAP)
        elif piece.x0 - end > WIDE_GAP * own:
            gap = min(max(column - length, 2), MAX_GAP)
        else:
            gap = 1
        parts.append(" " * gap + piece.text)
        length += gap + len(piece.text)
        end = piece.x1 if end is None else max(end, piece.x1)
    return "".join(parts)
