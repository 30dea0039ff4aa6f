"""Yes-or-no answers on forms: whether a line says yes or no, by its words and its ticked boxes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from valuegrounding.folding import fold

_YES: Final = """
yes true ja oui si vero vrai ano tak evet sim はい 是 да так igen ναι نعم כן हाँ 예 네 ใช่ 有
"""
_NO: Final = """
false nein falso faux hayir nej nee いいえ 否 不 未 無 无 ні nem οχι לא नहीं 아니오 아니요 khong tidak ไม่
unchecked unpaid
"""
# Negations, which come before the words they negate. Some are also answers.
_NOT: Final = """
no not none never without nicht kein keine keiner keinen ohne non ne pas sans aucun aucune sin senza sem nao geen niet
zonder ikke ingen inga inte utan uden uten ei bez nie brak нет не без δεν χωρις لا بدون ללא
cannot nothing nobody hardly
"""
_TICKED: Final = "☑☒✓✔🗹🗸◉●■▣✅"
_EMPTY: Final = "☐□○◯❏❑▢◻⬜▫🞎🞏⚪⭘"
_CROSSED: Final = "✗✘❌"  # means no if other boxes are ticked; otherwise it may itself be a tick

_NEGATIONS: Final = frozenset(fold(_NOT).split())
_ANSWER_WORDS: Final = {
    **dict.fromkeys(fold(_YES).split(), True),
    **dict.fromkeys([*fold(_NO).split(), *_NEGATIONS], False),
}
_OPTION_WORDS: Final = frozenset(fold(_YES).split()) | frozenset(fold("no non não ne " + _NO).split())  # `☐ yes ☒ no`
# Short forms that are answers only at the end, after a question: `Paid: N`.
_SHORT_ANSWERS: Final = {
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
    """Return the answers in a folded line: {False} for `☐ yes ☒ no`. A contradiction gives both, no answer an empty
    set."""
    tokens = list(_TOKEN.finditer(line))
    if not tokens:
        return set()
    kinds = ["word" if one.lastgroup is None and one[0][0].isalnum() else one.lastgroup or "crossed" for one in tokens]
    marks = [n for n, kind in enumerate(kinds) if kind != "word"]
    answers: set[bool] = set()
    if not marks:
        if _NEITHER.search(line):
            return {True, False}
        last = _LAST_WORD.search(line)
        if last and last["word"] in _SHORT_ANSWERS:
            return {_SHORT_ANSWERS[last["word"]]}
        return {_ANSWER_WORDS[one[0]] for one in tokens if one[0] in _ANSWER_WORDS}
    # A box belongs to the yes or no after it, or to the one before it if nothing follows the last box.
    options = {
        n: _ANSWER_WORDS[one[0]] for n, one in enumerate(tokens) if kinds[n] == "word" and one[0] in _ANSWER_WORDS
    }
    step = 1 if marks[-1] + 1 in options or marks[0] - 1 not in options else -1
    for n in marks:
        option = options.pop(n + step, None)
        if kinds[n] == "crossed":
            answers |= {True, False}
        elif option is None:
            answers.add(kinds[n] == "ticked")
        elif kinds[n] == "ticked":
            answers.add(option)
    return answers or set(options.values()) or {True, False}  # none of the boxes is ticked


def item_states(line: Sequence[str], first: int, last: int) -> set[bool]:
    """Return {True} if the form item with words first..last of a line is ticked, {False} if not.

    Return an empty set if the line has no boxes for items, and both values if it is unclear or a negation is between
    the box and the item. A box belongs to the item after it if a box starts the line, and to the item before it if a
    box ends the line. `line` is folded except for single-letter words. A lone `o` before words is an empty box, and an
    `x` beside it a ticked one. Without an `x`, the `o` may be a bullet point.
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
    if any(words[at].strip(":;,.") in _OPTION_WORDS for at in beside):
        return set()
    before = [box for box in boxes if box[1] < first][-1:]
    after = [box for box in boxes if box[0] > last][:1]
    if boxes and boxes[0][0] == 0:
        after = []
    elif boxes and boxes[-1][1] == len(words) - 1:
        before = []
    elif len(boxes) < 2:
        return set()
    elif [words[start - 1][-1:] in (":", "?") for start, *_ in boxes] == [True] + [False] * (len(boxes) - 1):
        after = []  # `Gender: ☒ Male ☐ Female`: the boxes follow the heading of all items
    between = [word for box in before for word in words[box[1] + 1 : first]]
    between += [word for box in after for word in words[last + 1 : box[0]]]
    ticked = {box[2] for box in before + after}
    is_open = any(map(is_negation, between)) or (is_lettered and "x" not in line)
    return {True, False} if ticked and is_open else ticked


def is_answer(word: str) -> bool:
    bare = word.strip(":;,.")
    is_word = bare in _ANSWER_WORDS or bare in _SHORT_ANSWERS or bare in ("n/a", "n.a", "[x]", "(x)")
    return is_word or not any(character.isalnum() for character in bare)


def is_box(word: str) -> bool:
    """Return whether a folded word is a box, or the end of one."""
    token = _TOKEN.fullmatch(word)
    return word in ("]", ")") or (token is not None and not token[0][0].isalnum())


def ends_before_its_box(quote: str) -> bool:
    """Return whether a folded quote ends with an answer whose box comes after it, as in `Yes ☒ No`."""
    tokens = list(_TOKEN.finditer(quote))
    is_answer = [one[0] in _ANSWER_WORDS for one in tokens]
    boxes = [n for n, one in enumerate(tokens) if one.lastgroup]
    return bool(boxes) and boxes[0] > 0 and is_answer[boxes[0] - 1] and is_answer[-1]


def is_negation(word: str) -> bool:
    return word in _NEGATIONS


def is_denied(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether the folded words around a statement may deny it: by a negation, or by a box that is not ticked.
    The box before a statement belongs to it; if there is none, the box after it does."""
    if any(is_negation(word.strip(",;:()")) or _CONTRACTED.search(word) for word in [*before, *after]):
        return True
    kinds = [[one.lastgroup for one in _TOKEN.finditer(" ".join(words)) if one.lastgroup] for words in (before, after)]
    return (kinds[0][-1:] or kinds[1][:1]) == ["empty"]


def is_evidence(value: bool, quote: str, around: str, is_denied: bool = False) -> bool:
    """Return whether a quote, with the text around it on its line, says yes (or no).

    A bare statement such as `I agree to the terms` says yes unless its sentence may deny it. Only a word or an empty
    box says no.
    """
    answers = answers_in(quote)
    if not answers or answers == {True, False}:
        answers = answers_in(around)
    return answers == {value} or (value and not answers and not is_denied)
