"""The offline model's rules for questions over many documents. They are no language model, and say so."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from fieldmark.agents.library.tools.submitting import Intent
from fieldmark.agents.offline_rules import NOTE, Done, conversation, foreign, tagged
from fieldmark.domain.folding import fold
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.offline_model.messages import Block, Body, bare, call, items, text

HELP: Final = (
    'I understand "how many invoices are over 1,000?", "how many documents are there?", "sum of totals by vendor", '
    '"the highest total of the invoices", "summarise survey.pdf", "what is 12 * 3?", and questions in the words of the '
    'documents, such as "what does survey.pdf say about the roof?".'
)
_SURE: Final = 0.5
_NUMBER: Final = r"(-?\d[\d,]*(?:\.\d+)?)"
_SIGN: Final = {
    **dict.fromkeys(("over", "above", "more than", "greater than"), ">"),
    **dict.fromkeys(("under", "below", "less than"), "<"),
    "at least": ">=",
    "at most": "<=",
}
_OVER: Final = re.compile(rf"\b({'|'.join(_SIGN)})\s+\D{{0,3}}{_NUMBER}")
_FIGURE: Final = (
    ("avg", r"average|mean"),
    ("max", r"highest|largest|biggest|greatest|maximum|max"),
    ("min", r"lowest|smallest|minimum|min"),
    ("sum", r"sum|total of (?:all|the)|add up|how much"),
)
_TYPES: Final = ("invoice", "receipt", "contract", "order", "quote", "statement", "survey", "letter", "report")
_PATHS: Final = ("tax", "subtotal", "amount", "price")
_BY: Final = re.compile(r"\b(?:by|per|for each|for every) (?:the )?([\w.\[\]]+)")
_VENDOR: Final = re.compile(r"\b(?:from|by vendor|of vendor) ([a-z][\w&.-]*(?: [a-z][\w&.-]*)?)")
_FILE: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[a-z]\w{1,4}\b", re.IGNORECASE)
_REST: Final = (
    "a about an and any are at be but by did do does find for from has have how i in is it its know like me much my of "
    "on or our please say says tell that the their there these they this to us was we were what when where which who "
    "whose why will with you your document documents file files"
)
_EMPTY: Final = frozenset(_REST.split())
_EXPRESSION: Final = re.compile(
    r"(?:what is|calculate|reckon)?\s*([\d(][\d\s.+\-*/%^()]*[\d)%])\s*\??\s*", re.IGNORECASE
)
_MOST_POINTS: Final = 3
_MOST_QUOTE: Final = 300
_LINE: Final = re.compile(r"^\[([0-9a-f]{12}-\d+-\d+)\] (.*)$", re.MULTILINE)


def answer(body: Body) -> list[Block] | None:
    """The next turn: a call, or the closing words; None for a request of another agent's."""
    offered = {bare(str(tool.get("name"))) for tool in items(body, "tools")}
    if not {"cite_source", "submit_answer"} <= offered:
        return None
    task, done = conversation(body, _begins)
    _, own = foreign(task)
    turn = _Turn((tagged(own, "message") or "").strip(), list(done))
    try:
        _follow(turn)
    except _Next as step:
        return [call(step.tool, step.arguments)]
    return [text(f"{HELP} {NOTE}")]


def _begins(words: str, task: str) -> bool:
    said = tagged(words, "message")
    return said is not None and (words.rstrip().endswith("</message>") or said != tagged(task, "message"))


class _Next(Exception):
    """The call that a rule goes on with."""

    def __init__(self, tool: str, arguments: JsonObject) -> None:
        self.tool = tool
        self.arguments = arguments


@dataclass(slots=True)
class _Turn:
    """What a person has asked, and the calls made since. A rule is followed from its beginning each time."""

    words: str
    done: list[Done] = field(default_factory=list[Done])

    def call(self, tool: str, arguments: JsonObject) -> Done:
        """What the rule's next call has answered. Raises _Next where it was not made yet."""
        for at, one in enumerate(self.done):
            if one.tool == tool:
                self.done = self.done[at + 1 :]
                return one
        raise _Next(tool, arguments)

    def intend(self, intent: Intent) -> None:
        why = "By fixed rules, from the words of the question."
        self.call("record_intent", {"intent": intent.value, "confidence": _SURE, "reasoning": why})


def _follow(turn: _Turn) -> None:
    words = turn.words.casefold()
    if found := _EXPRESSION.fullmatch(turn.words):
        _reckon(turn, found[1].strip())
    elif re.search(r"\bsummar(?:y|i[sz]e)", words):
        _summarise(turn)
    elif (asked := _asked(words)) is not None:
        _figures(turn, asked)
    else:
        _look_up(turn)


def _reckon(turn: _Turn, expression: str) -> None:
    turn.intend(Intent.CALCULATION)
    found = turn.call("calculator", {"expression": expression})
    results = [str(one) for one in as_list(found.data.get("results"))]
    if found.failed or not results:
        _look_up(turn)
        return
    said = f"{expression} = {results[0]}. {NOTE}"
    turn.call("submit_calculation", {"answer": said, "formula": expression, "result": results[0], "confidence": _SURE})


def _asked(words: str) -> JsonObject | None:
    """The question to the fields that words ask; None where they ask none."""
    counts = re.search(r"\b(?:how many|number of|count)\b", words)
    op = next((op for op, said in _FIGURE if re.search(rf"\b(?:{said})\b", words)), None)
    if counts is None and op is None:
        return None
    where: JsonObject = {}
    if kind := next((kind for kind in _TYPES if re.search(rf"\b{kind}s?\b", words)), None):
        where["document_type"] = kind
    path = next((path for path in _PATHS if re.search(rf"\b{path}(?:s|es)?\b", words)), "total")
    conditions: list[JsonValue] = []
    if over := _OVER.search(words):
        number = json.loads(over[2].replace(",", "").lstrip("0") or "0")
        conditions.append({"path": path, "op": _SIGN[over[1]], "value": number})
    said = _VENDOR.search(words)
    if vendor := [one for word in (said[1].split() if said else ()) if (one := word.strip("?.")) not in _EMPTY]:
        conditions.append({"path": "vendor", "op": "contains", "value": " ".join(vendor)})
    where |= {"fields": conditions} if conditions else {}
    figure: JsonObject = {"op": "count"} if counts else {"op": op or "sum", "path": path}
    asked: JsonObject = {"where": where, "aggregates": [figure]}
    if by := _BY.search(words):
        asked["group_by"] = _group(by[1].rstrip("?."))
    return asked


def _group(by: str) -> JsonObject:
    if by in ("type", "kind"):
        return {"kind": "document_type"}
    if by == "tag":
        return {"kind": "tag"}
    if by in ("month", "year"):
        return {"kind": by, "path": "date"}
    return {"path": by}


def _figures(turn: _Turn, asked: JsonObject) -> None:
    turn.intend(Intent.CALCULATION)
    found = turn.call("query_fields", asked)
    groups = [as_object(one) for one in as_list(found.data.get("groups"))]
    results = [str(one) for one in as_list(found.data.get("results"))]
    told = [_figures_of(one) for one in groups]
    lines = told
    if "group_by" in asked:
        keys = [str(one["key"]) if one.get("key") is not None else "(none)" for one in groups]
        lines = [f"{key}: {said}" for key, said in zip(keys, told, strict=True)]
    numbers = [number for said in told for number in re.findall(r"-?\d+(?:\.\d+)?", said)] + results
    first = numbers[0] if numbers else None
    if found.failed or first is None:
        _look_up(turn)
        return
    said = "; ".join(lines) or first
    expression = str(found.data.get("expression"))
    turn.call(
        "submit_calculation",
        {"answer": f"{said}. {NOTE}", "formula": expression, "result": first, "confidence": _SURE},
    )


def _figures_of(group: JsonObject) -> str:
    """The figures of a group: 12.50 EUR, 3.00 USD."""
    figures = [as_object(one) for one in as_list(group.get("results"))]
    return ", ".join(f"{one['value']} {one.get('currency') or ''}".strip() for one in figures) or str(
        group["documents"]
    )


def _wanted(words: str) -> list[str]:
    """The words of a question that say what it is about."""
    return [one for one in re.findall(r"\w+", fold(_FILE.sub(" ", words))) if one not in _EMPTY]


def _look_up(turn: _Turn) -> None:
    turn.intend(Intent.QA)
    wanted = _wanted(turn.words)
    query: JsonObject = {"query": " ".join(wanted) or turn.words, "max_results": 5}
    named = _FILE.search(turn.words)
    if named:
        query["filters"] = {"filename": named[0]}
    found = turn.call("search_documents", query)
    hits = [as_object(one) for one in as_list(found.data.get("hits"))]
    if not hits:
        _nothing(turn, found)
        return
    best = hits[0]
    read = turn.call("read_document", {"document": best["document_id"], "page": best["page"]})
    block = _best(read.answer, wanted, 1)
    if not block:
        _nothing(turn, found)
        return
    points = _cited(turn, block)
    if not points:
        _nothing(turn, found)
        return
    said = f"{best['name']}, page {best['page']}, says: {' '.join(points)} {NOTE}"
    turn.call("submit_answer", {"answer": said, "confidence": _SURE})


def _summarise(turn: _Turn) -> None:
    turn.intend(Intent.SUMMARIZATION)
    named = _FILE.search(turn.words)
    if named is None:
        found = turn.call("search_documents", {"query": " ".join(_wanted(turn.words)) or turn.words, "max_results": 5})
        hits = [as_object(one) for one in as_list(found.data.get("hits"))]
        if not hits:
            _nothing(turn, found)
            return
        document = str(hits[0]["document_id"])
    else:
        document = named[0]
    read = turn.call("read_document", {"document": document})
    points = _cited(turn, _best(read.answer, [], _MOST_POINTS))
    if not points:
        found = turn.call("search_documents", {"query": turn.words, "max_results": 1})
        _nothing(turn, found)
        return
    summary = f"How it begins: {points[0]} {NOTE}"
    turn.call("submit_summary", {"summary": summary, "key_points": list[JsonValue](points), "confidence": _SURE})


def _nothing(turn: _Turn, found: Done) -> None:
    said = f"I found nothing about this. {found.answer.strip() if found.data.get('behind') else ''} {NOTE}"
    turn.call("submit_answer", {"answer": said, "confidence": _SURE, "nothing_found": True})


def _best(read: str, wanted: list[str], most: int) -> list[tuple[str, str]]:
    """The blocks that say most of the words, in the document's order; the first ones where no words are wanted."""
    blocks = _LINE.findall(read)
    if wanted:
        said = [(sum(word in fold(words) for word in wanted), block, words) for block, words in blocks]
        most_said = max((hits for hits, *_ in said), default=0)
        blocks = [(block, words) for hits, block, words in said if hits == most_said and hits]
    return blocks[:most]


def _cited(turn: _Turn, blocks: list[tuple[str, str]]) -> list[str]:
    """What blocks say, each with its citation."""
    points: list[str] = []
    for number, (block, words) in enumerate(blocks, 1):
        quote = words if len(words) <= _MOST_QUOTE else words[:_MOST_QUOTE].rpartition(" ")[0]
        cited = turn.call("cite_source", {"number": number, "block_id": block, "quote": quote})
        points += [] if cited.failed else [f"“{quote}” [{number}]"]
    return points
