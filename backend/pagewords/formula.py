"""Formulas of Word (OMML), and of web pages and OpenDocument (MathML), as one line: `(a+b)/2`, `10⁵`, `√(x+1)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from pagewords.pages import clean
from pagewords.pagination import superscript

Token: TypeAlias = Callable[[Any], str]
"""A function that returns the visible text of a run (Word) or a token (MathML)."""

OMML = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
OMML_RUN = f"{OMML}r"
MATHML = "{http://www.w3.org/1998/Math/MathML}"

_OPERAND = re.compile(r"[^\W_]+(?:[.,][^\W_]+)*[′%]?")
_SCRIPT = re.compile(r"[+\-−]?[0-9]+")
_SIGNS = str.maketrans({"+": "⁺", "-": "⁻", "−": "⁻"})
_LOW_SIGNS = str.maketrans({"+": "₊", "-": "₋", "−": "₋"})
_SHIFTED = frozenset("⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉")
_ROOTS = {"": "√", "2": "√", "3": "∛", "4": "∜"}
_MATHML_ROWS = frozenset("math mrow mstyle mpadded merror menclose mtd".split())  # noqa: SIM905
_MATHML_TOKENS = frozenset("mi mn mo mtext ms".split())  # noqa: SIM905


def gap(before: str, after: str) -> str:
    """Return the space that separates a formula from the text beside it: `2 1/2`."""
    return " " if before[-1:].isalnum() and after[:1].isalnum() else ""


def omml_line(node: Any, token: Token) -> str:
    """Return a Word formula, or a part of one, as a line."""
    return _Omml(token).line(node)


def mathml_line(node: Any, token: Token) -> str:
    """Return a MathML formula, or a part of one, as a line. Its tags may have a namespace."""
    return _MathMl(token).line(node)


def _join(pieces: Iterable[tuple[str, bool]]) -> str:
    """Join parts of a formula, with a space where a part would otherwise merge with letters or digits beside it."""
    line, was_apart = "", False
    for text, is_apart in pieces:
        line += (gap(line, text) if is_apart or was_apart else "") + text
        was_apart = is_apart or (was_apart and not text)
    return line


def _operand(text: str) -> str:
    """Return a part of a formula in parentheses, unless it is a single number or name, or already in parentheses."""
    if len(text) < 2 or _OPERAND.fullmatch(text) or (text[0] == "(" and _closing_index(text) == len(text) - 1):
        return text
    return f"({text})"


def _closing_index(text: str) -> int:
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return at
    return -1


def _fraction(top: str, bottom: str, *, has_line: bool = True) -> str:
    if not top or not bottom:
        return top or bottom
    return f"{_operand(top)}/{_operand(bottom)}" if has_line else f"{top}; {bottom}"


def _as_superscript(text: str) -> str:
    text = text.strip()
    if _SCRIPT.fullmatch(text):
        return superscript(text, "").translate(_SIGNS)
    if len(text) == 1 and not text.isalnum():
        return "°" if text in "∘°" else text
    return text and f"^{_operand(text)}"


def _as_subscript(text: str) -> str:
    text = text.strip()
    if _SCRIPT.fullmatch(text):
        return superscript(text, "", is_lowered=True).translate(_LOW_SIGNS)
    return text and f"_{_operand(text)}"


def _with_scripts(base: str, below: str = "", above: str = "") -> str:
    base = f"({base})" if base[-1:] in _SHIFTED else _operand(base)
    return f"{base}{_as_subscript(below)}{_as_superscript(above)}"


def _add_accent(base: str, mark: str) -> str:
    """Return a base with an accent: `x̂` for a single letter, otherwise the accent as a script."""
    return f"{base}{mark}" if len(base) == 1 and not mark.isalnum() else _with_scripts(base, "", mark)


def _root(radicand: str, degree: str) -> str:
    sign = _ROOTS.get(degree.strip())
    return f"{sign}{_operand(radicand)}" if sign else f"√[{degree.strip()}]{_operand(radicand)}"


def _local(node: Any) -> str:
    return node.tag.rpartition("}")[2] if isinstance(node.tag, str) else ""


class _Omml:
    def __init__(self, token: Token) -> None:
        self._token = token

    def line(self, node: Any) -> str:
        name = _local(node)
        part = self._part
        match name:
            case "f":
                return _fraction(
                    part(node, "num"), part(node, "den"), has_line=_setting(node, "type", "bar") != "noBar"
                )
            case "sSup" | "sSub" | "sSubSup":
                return _with_scripts(part(node, "e"), part(node, "sub"), part(node, "sup"))
            case "sPre":
                return f"{_as_subscript(part(node, 'sub'))}{_as_superscript(part(node, 'sup'))}{part(node, 'e')}"
            case "rad":
                return _root(part(node, "e"), part(node, "deg"))
            case "nary":
                sign = _with_scripts(_setting(node, "chr", "∫"), part(node, "sub"), part(node, "sup"))
                return f"{sign} {part(node, 'e')}"
            case "d":
                signs = (("begChr", "("), ("sepChr", "|"), ("endChr", ")"))
                first, between, last = (_setting(node, sign, default) for sign, default in signs)
                return f"{first}{between.join(self._parts(node, 'e'))}{last}"
            case "m":
                return "; ".join("  ".join(self._parts(row, "e")) for row in node.iterchildren(f"{OMML}mr"))
            case "eqArr":
                return "; ".join(self._parts(node, "e"))
            case "func":
                return f"{part(node, 'fName')} {part(node, 'e')}"
            case "limLow":
                return _with_scripts(part(node, "e"), part(node, "lim"))
            case "limUpp":
                return _with_scripts(part(node, "e"), "", part(node, "lim"))
            case "acc":
                return _add_accent(part(node, "e"), _setting(node, "chr", "\u0302"))
            case "phant" if _setting(node, "show", "1") in ("0", "off", "false"):
                return ""
            case _:
                return self._row(node)

    def _part(self, node: Any, name: str) -> str:
        return " ".join(self._parts(node, name))

    def _parts(self, node: Any, name: str) -> list[str]:
        return [self._row(child) for child in node.iterchildren(f"{OMML}{name}")]

    def _row(self, node: Any) -> str:
        pieces: list[tuple[str, bool]] = []
        for child in node:
            tag = child.tag if isinstance(child.tag, str) else ""
            if tag == OMML_RUN or not tag.startswith(OMML):
                pieces.append((self._token(child), False))
            elif not tag.endswith("Pr"):
                pieces.append((self.line(child), True))
        return _join(pieces)


def _setting(node: Any, name: str, default: str) -> str:
    """Return a property of a structure. A property given without a value is an empty sign."""
    found = node.find(f"{OMML}{_local(node)}Pr/{OMML}{name}")
    return default if found is None else found.get(f"{OMML}val", "")


class _MathMl:
    def __init__(self, token: Token) -> None:
        self._token = token

    def line(self, node: Any) -> str:
        name = _local(node)
        children = [child for child in node if isinstance(child.tag, str)]
        if name in _MATHML_TOKENS or _has_loose_text(node):
            return clean(" ".join(self._token(node).split()))
        if name in _MATHML_ROWS:
            return self._row(children)
        if name == "msqrt":
            return _root(self._row(children), "")
        if name == "mtable":
            rows = [[self.line(cell) for cell in row if isinstance(cell.tag, str)] for row in children]
            return "; ".join("  ".join(row) for row in rows)
        if name == "mfenced":
            first, last = node.get("open", "("), node.get("close", ")")
            return f"{first}{node.get('separators', ',')[:1].join(map(self.line, children))}{last}"
        if name in ("semantics", "maction"):
            return self._row(children[:1])
        if name in ("mphantom", "mprescripts", "none", "annotation", "annotation-xml"):
            return ""
        return self._structure(name, node, children)

    def _structure(self, name: str, node: Any, children: list[Any]) -> str:
        if name == "mmultiscripts":
            return self._multiscripts(children)
        first, second, third = [*map(self.line, children[:3]), "", "", ""][:3]
        rest = "".join(f" {self.line(child)}" for child in children[3:])
        match name:
            case "mfrac":
                line = _fraction(first, second, has_line=node.get("linethickness") not in ("0", "0px", "0pt"))
            case "mroot":
                line = _root(first, second)
            case "msup":
                line = _with_scripts(first, "", second)
            case "msub" | "munder":
                line = _with_scripts(first, second)
            case "msubsup" | "munderover":
                return _with_scripts(first, second, third) + rest
            case "mover":
                line = _add_accent(first, second) if len(second) == 1 else _with_scripts(first, "", second)
            case _:
                return self._token(node)
        return f"{line} {third}{rest}".rstrip()

    def _multiscripts(self, children: list[Any]) -> str:
        base, *scripts = children or [None]
        index = next((index for index, child in enumerate(scripts) if _local(child) == "mprescripts"), len(scripts))
        after, before = (
            "".join(
                (_as_superscript if index % 2 else _as_subscript)(self.line(child))
                for index, child in enumerate(children_of_side)
            )
            for children_of_side in (scripts[:index], scripts[index + 1 :])
        )
        return f"{before}{'' if base is None else self.line(base)}{after}"

    def _row(self, children: list[Any]) -> str:
        pieces: list[tuple[str, bool]] = []
        before = ""
        for child in children:
            name, text = _local(child), self.line(child)
            is_name = name in ("mi", "mo") and len(text) == 1
            # Two numbers are two, while `2x` is one term. An invisible sign still separates.
            is_apart = before == "mn" if name == "mn" else not is_name
            pieces.append((text, is_apart))
            before = name
        return _join(pieces)


def _has_loose_text(node: Any) -> bool:
    return any(text and text.strip() for text in (node.text, *(child.tail for child in node)))
