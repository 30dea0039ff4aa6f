"""Answers: whether a line of a page says yes or no, by its words and by the boxes that are ticked."""

from __future__ import annotations

import re
from typing import Final

_YES: Final = "yes true ja oui si vero vrai ano tak evet sim はい 是"
_NO: Final = """
no not none never false nein nicht kein keine keiner keinen non ne pas aucun falso faux nao nie hayir nej nee niet geen
ei いいえ 否 without ohne sans sin unchecked unpaid
"""
_TICKED: Final = "☑☒✓✔🗹🗸◉●■▣✅"
_EMPTY: Final = "☐□○◯❏❑▢"
_CROSSED: Final = "✗✘❌"  # no beside a tick elsewhere, or itself the mark in a box

_NEGATIONS: Final = frozenset(
    ["not", "nicht", "kein", "keine", "keinen", "never", "without", "ohne", "sans", "sin", "ne", "non"]
)
_WORDS: Final = {**dict.fromkeys(_YES.split(), True), **dict.fromkeys(_NO.split(), False)}
_TOKEN = re.compile(
    rf"(?P<ticked>[{_TICKED}]|[\[(] ?[x*✓✔✗] ?[\])])|(?P<empty>[{_EMPTY}]|\[ ?_* ?\])|[{_CROSSED}]|[^\W_]+"
)


def answers_in(line: str) -> set[bool]:
    """What a folded line answers: of `☐ yes ☒ no` only no; both where it says both; nothing where it says neither."""
    tokens = list(_TOKEN.finditer(line))
    if not tokens:
        return set()
    kinds = ["word" if one.lastgroup is None and one[0][0].isalnum() else one.lastgroup or "crossed" for one in tokens]
    marks = [n for n, kind in enumerate(kinds) if kind != "word"]
    said: set[bool] = set()
    if not marks:
        return {_WORDS[one[0]] for one in tokens if one[0] in _WORDS}
    # A mark belongs to the yes or no behind it, or before it if the last of them has none behind.
    options = {n: _WORDS[one[0]] for n, one in enumerate(tokens) if kinds[n] == "word" and one[0] in _WORDS}
    step = 1 if marks[-1] + 1 in options or marks[0] - 1 not in options else -1
    for n in marks:
        option = options.pop(n + step, None)
        if kinds[n] == "crossed":
            said |= {True, False}
        elif option is None:
            said.add(kinds[n] == "ticked")
        elif kinds[n] == "ticked":
            said.add(option)
    return said or set(options.values())


def is_answer(word: str) -> bool:
    """Whether a folded word is a yes, a no, a box, or only punctuation."""
    bare = word.strip(":;,.")
    return bare in _WORDS or not any(character.isalnum() for character in bare) or bare in ("[x]", "(x)")


def is_negation(word: str) -> bool:
    """Whether a folded word turns what follows it into its contrary."""
    return word in _NEGATIONS


def is_evidence(value: bool, quote: str, around: str) -> bool:
    """Whether a quote says a yes or a no, with what stands before and behind it on its line.

    A statement alone, as `I agree to the terms`, says yes. Nothing says no but a word or an empty box.
    """
    said = answers_in(quote)
    if not said or said == {True, False}:
        said = answers_in(around)
    return said == {value} or (value and not said)
