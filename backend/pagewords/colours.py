"""Colours of text and of what is behind it, in office documents and HTML: text in the colour of its background is not
seen."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

MIN_CONTRAST = 16  # levels of 255 in any of red, green and blue, as in a PDF

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_HEX = re.compile(r"#?(?:[0-9A-Fa-f]{2})?([0-9A-Fa-f]{2})([0-9A-Fa-f]{2})([0-9A-Fa-f]{2})")
_THEME_NAMES = {
    "background1": "lt1", "light1": "lt1", "bg1": "lt1", "text1": "dk1", "dark1": "dk1", "tx1": "dk1",
    "background2": "lt2", "light2": "lt2", "bg2": "lt2", "text2": "dk2", "dark2": "dk2", "tx2": "dk2",
    "hyperlink": "hlink", "followedHyperlink": "folHlink",
}  # fmt: skip


class Colour(NamedTuple):
    """Red, green and blue, from 0 to 255."""

    red: float
    green: float
    blue: float


BLACK, WHITE = Colour(0, 0, 0), Colour(255, 255, 255)


def is_same(one: Colour | None, other: Colour | None) -> bool:
    """Return whether two colours look the same. An unknown colour (None) differs from every other."""
    if one is None or other is None:
        return False
    return all(abs(a - b) < MIN_CONTRAST for a, b in zip(one, other, strict=True))


def hex_colour(text: str | None) -> Colour | None:
    """Return the colour of `RRGGBB` or `AARRGGBB`, with or without `#`; else None."""
    match = _HEX.fullmatch(text or "")
    return None if match is None else Colour(*(int(part, 16) for part in match.groups()))


def theme_colours(root: Any | None) -> dict[str, Colour]:
    """Return the colours of an Office theme by their names, such as `lt1`."""
    found = {"lt1": WHITE, "dk1": BLACK}
    for node in root.iterfind(f"{_A}themeElements/{_A}clrScheme/*") if root is not None else ():
        for colour in node:
            if isinstance(node.tag, str) and (known := hex_colour(colour.get("lastClr") or colour.get("val"))):
                found[node.tag.removeprefix(_A)] = known
    return found


def theme_colour(theme: Mapping[str, Colour], name: str) -> Colour | None:
    """Return a colour of a theme by the name that a document has for it, such as `background1`."""
    return theme.get(_THEME_NAMES.get(name, name))


def tinted(colour: Colour, tint: float) -> Colour:
    """Return a colour that is lighter by a share of the way to white, or darker if the share is negative."""
    hue, lightness, saturation = colorsys.rgb_to_hls(*(level / 255 for level in colour))
    lightness = lightness * (1 + tint) if tint < 0 else lightness + (1 - lightness) * tint
    return Colour(*(255 * level for level in colorsys.hls_to_rgb(hue, min(max(lightness, 0), 1), saturation)))


def mixed(over: Colour, under: Colour, opacity: float) -> Colour:
    """Return what is seen of a colour with this opacity over another one."""
    return Colour(*(opacity * a + (1 - opacity) * b for a, b in zip(over, under, strict=True)))
