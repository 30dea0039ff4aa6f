"""Colours, and whether a person can tell two of them apart."""

from __future__ import annotations

from typing import Final

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

WHITE: Final[Colour] = (255, 255, 255)
BLACK: Final[Colour] = (0, 0, 0)

# A change of fewer than 16 of 255 levels is not seen. A power of two: visibility.py finds it in many pixels at once.
LEAST_CONTRAST = 16


def is_distinct(colour: Colour | None, background: Colour | None) -> bool:
    """Whether a person can tell the two apart. Also true where one of them is not known."""
    if colour is None or background is None:
        return True
    return any(abs(ours - behind) >= LEAST_CONTRAST for ours, behind in zip(colour, background, strict=True))


def from_hex(digits: str | None) -> Colour | None:
    """The colour of six hexadecimal digits, or of the last six of eight. None for anything else."""
    digits = (digits or "")[-6:]
    try:
        return (int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)) if len(digits) == 6 else None
    except ValueError:
        return None
