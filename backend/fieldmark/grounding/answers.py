"""Answers: whether a line of a page says yes or no, by its words and by the boxes that are ticked."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from fieldmark.domain.folding import fold

_YES: Final = """
yes true ja oui si vero vrai ano tak evet sim はい 是 да так igen ναι نعم כן हाँ 예 네 ใช่ 有
"""
_NO: Final = """
false nein falso faux hayir nej nee いいえ 否 不 未 無 无 ні nem οχι לא नहीं 아니오 아니요 khong tidak ไม่
unchecked unpaid
"""
# Before what they deny; some are an answer, too.
_NOT: Final = """
no not none never without nicht kein keine keiner keinen ohne non ne pas sans aucun aucune sin senza sem nao geen niet
zonder ikke ingen inga inte utan uden uten ei bez nie brak нет не без δεν χωρις لا بدون ללא
cannot nothing nobody hardly
"""
_TICKED: Final = "☑☒✓✔🗹🗸◉●■▣✅"
_EMPTY: Final = "☐□○◯❏❑▢◻⬜▫🞎🞏⚪⭘"
_CROSSED: Final = "✗✘❌"  # no beside a tick elsewhere, or itself the mark in a box

_NEGATIONS: Final = frozenset(fold(_NOT).split())
_WORDS: Final = {**dict.fromkeys(fold(_YES).split(), True), **dict.fromkeys([*fold(_NO).split(), *_NEGATIONS], False)}
_OPTIONS: Final = frozenset(fold(_YES).split()) | frozenset(fold("no non não ne " + _NO).split())  # `☐ yes ☒ no`
# Answers only where they stand alone behind a question: Paid: N.
_SHORT: Final = {
    **dict.fromkeys(["y", "j", "o", "s", "1", "t", "da", "co"], True),
    **dict.fromkeys(["n", "0", "f", "nu"], False),
}
_LAST_WORD = re.compile(r"(?:[:?] ?|(?<=[^\W_]) (?=[yn]\W*\Z))(?P<word>[^\W_]+)\W*\Z")
# Neither yes nor no: a dash, or not applicable.
_NEITHER = re.compile(r"[:?] ?-+ ?\Z|(?<!\w)n(?:/a|\.a\.?)(?!\w)")
_CONTRACTED = re.compile("n['’]t\\b")
_TOKEN = re.compile(
    rf"(?P<ticked>[{_TICKED}]|[\[(] ?[x*✓✔✗] ?[\])])"
    rf"|(?P<empty>[{_EMPTY}]|\[ ?_* ?\]|\( ?_* ?\)|_{{2,}})|[{_CROSSED}]|[^\W_]+"
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
        if _NEITHER.search(line):
            return {True, False}
        last = _LAST_WORD.search(line)
        if last and last["word"] in _SHORT:
            return {_SHORT[last["word"]]}
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
    return said or set(options.values()) or {True, False}  # boxes of which none is ticked


def item_is_ticked(line: Sequence[str], first: int, last: int) -> set[bool]:
    """Return whether the item with words first..last of a line is ticked; empty where its line has no boxes of items,
    both where nobody can tell, or where a negation is between the box and the words.

    A box is that of the item behind it where one begins the line, and of the item before it where one ends the line.
    `line` is folded but for words of one letter. A lone `o` before words is an empty box, and an `x` beside it a ticked
    one; without an `x` it may only be the bullet of a list.
    """
    words = list(line)
    is_lettered = "o" in words and words[0] in ("o", "x")
    if is_lettered:
        words = [{"o": "○", "x": "☒"}.get(word, word) for word in words]
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))
    boxes: list[tuple[int, int, bool]] = []
    for token in _TOKEN.finditer(" ".join(words)):
        if token.lastgroup is None and token[0] in _CROSSED:
            return set()
        if token.lastgroup is not None:
            ends = bisect_right(starts, token.start()) - 1, bisect_right(starts, token.end() - 1) - 1
            boxes.append((*ends, token.lastgroup == "ticked"))
    beside = {at for start, end, _ in boxes for at in (start - 1, end + 1) if 0 <= at < len(words)}
    if any(words[at].strip(":;,.") in _OPTIONS for at in beside):
        return set()
    before = [box for box in boxes if box[1] < first][-1:]
    behind = [box for box in boxes if box[0] > last][:1]
    if boxes and boxes[0][0] == 0:
        behind = []
    elif boxes and boxes[-1][1] == len(words) - 1:
        before = []
    elif len(boxes) < 2:
        return set()
    between = [word for box in before for word in words[box[1] + 1 : first]]
    between += [word for box in behind for word in words[last + 1 : box[0]]]
    ticked = {box[2] for box in before + behind}
    is_open = any(map(is_negation, between)) or (is_lettered and "x" not in line)
    return {True, False} if ticked and is_open else ticked


def is_answer(word: str) -> bool:
    """Whether a folded word is a yes, a no, a box, or only punctuation."""
    bare = word.strip(":;,.")
    is_word = bare in _WORDS or bare in _SHORT or bare in ("n/a", "n.a", "[x]", "(x)")
    return is_word or not any(character.isalnum() for character in bare)


def is_box(word: str) -> bool:
    """Whether a folded word is a box, or the end of one."""
    token = _TOKEN.fullmatch(word)
    return word in ("]", ")") or (token is not None and not token[0][0].isalnum())


def is_negation(word: str) -> bool:
    """Whether a folded word turns what follows it into its contrary."""
    return word in _NEGATIONS


def denies(before: Sequence[str], behind: Sequence[str]) -> bool:
    """Whether the folded words on both sides of a statement may deny it: a negation, or a box that is not ticked. The
    box before a statement is its own, else the one behind it."""
    if any(is_negation(word.strip(",;:()")) or _CONTRACTED.search(word) for word in [*before, *behind]):
        return True
    kinds = [[one.lastgroup for one in _TOKEN.finditer(" ".join(words)) if one.lastgroup] for words in (before, behind)]
    return (kinds[0][-1:] or kinds[1][:1]) == ["empty"]


def is_evidence(value: bool, quote: str, around: str, is_denied: bool = False) -> bool:
    """Whether a quote says a yes or a no, with what stands before and behind it on its line.

    A statement alone, as `I agree to the terms`, says yes, unless something in its sentence may deny it. Nothing says
    no but a word or an empty box.
    """
    said = answers_in(quote)
    if not said or said == {True, False}:
        said = answers_in(around)
    return said == {value} or (value and not said and not is_denied)
