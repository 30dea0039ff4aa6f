"""The offline model's rules for questions over many documents: counts and sums of fields, the value of a named field,
otherwise the passages that fit best. They are no language model, and say so."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from fieldmark.agents.library.tools.submitting import Intent
from fieldmark.agents.offline_rules import NOTE, Done, conversation, foreign, leaves_of, meant_at, places_of, tagged
from fieldmark.domain import paths
from fieldmark.domain.folding import fold
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.grounding import DocumentIndex, PageWords
from fieldmark.grounding.labelled_fields import amount
from fieldmark.offline_model.messages import Block, Body, bare, call, items, text

HELP: Final = (
    'I understand "how many invoices are over 1,000?", "sum of totals by vendor", "the highest total of the invoices", '
    '"what is the due date of survey.pdf?", and questions in the words of the documents.'
)
_SURE: Final = 0.5
_MOST_QUOTE: Final = 300
_MOST_GROUPS: Final = 10
_MOST_DOCUMENTS: Final = 2
_OPS: Final = {
    "sum": "sum",
    "total": "sum",
    "average": "avg",
    "mean": "avg",
    "highest": "max",
    "largest": "max",
    "lowest": "min",
    "smallest": "min",
}
_SIGNS: Final = {"over": ">", "above": ">", "more than": ">", "under": "<", "below": "<", "less than": "<"}
_PATHS: Final = {
    "total": ("total", "amount_due", "total_amount"),
    "amount": ("total", "amount"),
    "vendor": ("vendor.name", "vendor"),
    "supplier": ("vendor.name", "vendor", "supplier"),
}
"""Paths that a word may stand for, the most likely first. Any other word is a path itself."""
_KIND: Final = r"(?:the |all |our |my )*(?P<kind>invoice|receipt|contract|order|quote|letter|report|document|file)s?"
_COUNT: Final = (
    rf"(?:how many|number of|count) {_KIND}(?:(?: are| is| have| cost)?(?: a| an)?(?: (?P<of>[\w.]+))? "
    rf"(?P<sign>{'|'.join(_SIGNS)}) (?P<value>-?[\d.,]*\d)| are there| do (?:i|we) have)?"
)
_SUM: Final = (
    rf"(?:what is |what are )?(?:the )?(?P<op>{'|'.join(_OPS)}) (?:of )?(?:the |all )*(?P<path>[a-z][\w.]*?)s?"
    rf"(?: of {_KIND.replace('<kind>', '<of_kind>')})?"
)
_FIGURE: Final = re.compile(rf"(?:{_COUNT}|{_SUM})(?: (?:by|per) (?P<group>[\w.]+))?")
_FIELD: Final = re.compile(
    r"(?:what|which|who|when|how much) (?:is|was|are) (?:the )?(?P<field>[\w. ]{1,60}?) "
    r"(?:of|in|on|from|at|for) (?P<name>.+)"
)
_FILE: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[a-z]\w{1,4}\b", re.IGNORECASE)
_PAGE: Final = re.compile(
    r"^--- page \d+ of \d+(, for machines)? ---$|^\[([0-9a-f]{12}-(\d+)-\d+)\] (.*)$", re.MULTILINE
)
_IDLE: Final = re.compile(
    r"an?|about|all|and|any|are|as|at|be|by|can|did|do|documents?|does|files?|find|for|from|get|had|has|have|how|i|in|is"
    r"|its?|list|many|me|much|my|of|on|or|our|says?|show|tell|that|the|their|there|these|they|this|to|was|we|what|when"
    r"|where|which|who|whose|why|with|you|your"
)


def answer(body: Body) -> list[Block] | None:
    """The next turn: a call, or the closing words; None for a request of another agent's."""
    offered = {bare(str(tool.get("name"))) for tool in items(body, "tools")}
    if not {"cite_source", "submit_answer"} <= offered:
        return None
    task, done = conversation(body, _begins)
    _, own = foreign(task)
    message = (tagged(own, "message") or "").strip()
    try:
        _follow(_Turn(message, list(done)))
    except _NeedsCall as step:
        return [call(step.tool, step.arguments)]
    return [text(f"{HELP} {NOTE}")]


def _begins(words: str, task: str) -> bool:
    said = tagged(words, "message")
    return said is not None and (words.rstrip().endswith("</message>") or said != tagged(task, "message"))


class _NeedsCall(Exception):
    """The call that a rule goes on with."""

    def __init__(self, tool: str, arguments: JsonObject) -> None:
        self.tool = tool
        self.arguments = arguments


@dataclass(slots=True)
class _Turn:
    """A question, and the calls made since. A rule is followed from its beginning each time."""

    message: str
    done: list[Done] = field(default_factory=list[Done])

    def call(self, tool: str, arguments: JsonObject) -> Done:
        """Return what the rule's next call has answered. Raises _NeedsCall where it was not made yet."""
        for at, one in enumerate(self.done):
            if one.tool == tool:
                self.done = self.done[at + 1 :]
                return one
        raise _NeedsCall(tool, arguments)

    def intend(self, intent: Intent) -> None:
        why = "By fixed rules, from the words of the question."
        self.call("record_intent", {"intent": intent.value, "confidence": _SURE, "reasoning": why})


@dataclass(frozen=True, slots=True)
class _Shown:
    """A block that was read."""

    id: str
    page: int
    words: str


def _follow(turn: _Turn) -> None:
    words = " ".join(turn.message.casefold().split()).strip(" ?!.")
    if found := _FIGURE.fullmatch(words):
        _figure(turn, found)
    elif (found := _FIELD.fullmatch(words)) and _field(turn, found["field"], found["name"]):
        return
    _look_up(turn)


# Counts and sums ------------------------------------------------------------------------------------------------------


def _figure(turn: _Turn, asked: re.Match[str]) -> None:
    """Answer with a count, a sum, or another figure of a field, where any document has the field."""
    turn.intend(Intent.CALCULATION)
    kind = asked["kind"] or asked["of_kind"]
    named = asked["path"] or asked["of"] or "total"
    value = amount(asked["value"]) if asked["value"] else None
    for path in _paths(named) if asked["op"] or value is not None else ("",):
        for group in _paths(asked["group"]) if asked["group"] else ("",):
            where: JsonObject = {} if kind in (None, "document", "file") else {"document_type": kind}
            figures: list[JsonValue] = [{"op": _OPS[asked["op"]], "path": path} if asked["op"] else {"op": "count"}]
            if value is not None:
                limit = int(value) if value == int(value) else value
                where["fields"] = [{"path": path, "op": _SIGNS[asked["sign"]], "value": limit}]
                figures.append({"op": "count", "path": path})  # with it the query names the documents
            query: JsonObject = {"where": where, "aggregates": figures}
            if group:
                query["group_by"] = _group(group)
            found = turn.call("query_fields", query)
            if not found.failed and as_object(found.data.get("coverage")).get("with_field") != 0:
                _submit_figure(turn, found, is_count=asked["op"] is None, is_grouped=bool(group))
                return


def _paths(named: str) -> tuple[str, ...]:
    singular = named.removesuffix("s")
    return _PATHS.get(named) or _PATHS.get(singular) or (named,)


def _group(named: str) -> JsonObject:
    return {"kind": "document_type"} if named in ("type", "kind") else {"path": named}


def _submit_figure(turn: _Turn, found: Done, *, is_count: bool, is_grouped: bool) -> None:
    lines: list[str] = []
    first = None
    for told in map(as_object, as_list(found.data.get("groups"))[:_MOST_GROUPS]):
        values = [as_object(one) for one in as_list(told.get("results"))]
        shown = ", ".join(f"{one.get('value')} {one.get('currency') or ''}".strip() for one in values)
        shown = str(told.get("documents")) if is_count else shown
        first = first or (shown if is_count else str(values[0].get("value")) if values else None)
        lines.append(f"{told.get('key') or '(none)'}: {shown}" if is_grouped else shown)
    if first is None:
        return
    sources = map(as_object, as_list(found.data.get("sources")))
    names = list(dict.fromkeys(str(one.get("filename")) for one in sources))[:_MOST_GROUPS]
    listed = f" {', '.join(names)}." if names and is_count else ""
    formula = str(found.data.get("expression"))
    said = f"{'; '.join(lines)}.{listed} Computed: {formula}. {NOTE}"
    turn.call("submit_calculation", {"answer": said, "formula": formula, "result": first, "confidence": _SURE})


# One field of a document ----------------------------------------------------------------------------------------------


def _field(turn: _Turn, named: str, subject: str) -> bool:
    """Answer with the value of a field and where it is printed, from the first document that has it."""
    turn.intend(Intent.QA)
    for document in _search(turn, subject):
        told = turn.call("get_document_summary", {"document": document})
        places = {} if told.failed else places_of(_json(told.data.get("fields")), ())
        path = next(iter(meant_at(named, leaves_of(places))), None)
        if path is None:
            continue
        for block in _blocks(turn.call("read_document", {"document": document})):
            place = _index(block.words).find(places[path])
            if place is None:
                continue
            quote = place.quote
            if turn.call("cite_source", {"number": 1, "block_id": block.id, "quote": quote}).failed:
                break
            value = places[path] if isinstance(places[path], str) else json.dumps(places[path])
            said = f"{told.data.get('name')}: {paths.name(path)} is {value}, printed “{quote}” [1]. {NOTE}"
            turn.call("submit_answer", {"answer": said, "confidence": _SURE})
            return True
    return False


def _json(written: JsonValue) -> JsonObject:
    try:
        return as_object(json.loads(str(written)))
    except ValueError:  # it was shortened
        return {}


def _index(words: str) -> DocumentIndex:
    spelt: list[list[str | float]] = []
    for number, word in enumerate(words.split()):
        spelt.append([word, number * 0.001, 0.0, number * 0.001 + 0.0009, 0.01])
    return DocumentIndex([PageWords(1, spelt)])


# Passages -------------------------------------------------------------------------------------------------------------


def _look_up(turn: _Turn) -> None:
    """Answer with the passage that contains most words of the question."""
    turn.intend(Intent.QA)
    wanted = _wanted(turn.message)
    documents = _search(turn, turn.message)
    failed = ""
    for document in documents:
        asked: JsonObject = {"document": document}
        read = turn.call("read_document", asked | ({"focus": " ".join(wanted)[:300]} if wanted else {}))
        failed = read.answer.strip() if read.failed and read.code == "not_read" else failed
        best = _best(_blocks(read), wanted)
        if best is None:
            continue
        quote = best.words if len(best.words) <= _MOST_QUOTE else best.words[:_MOST_QUOTE].rpartition(" ")[0]
        if not turn.call("cite_source", {"number": 1, "block_id": best.id, "quote": quote}).failed:
            said = f"Page {best.page} says: “{quote}” [1]. {NOTE}"
            turn.call("submit_answer", {"answer": said, "confidence": _SURE})
    said = " ".join(f"I found nothing about this. {failed} {NOTE}".split())
    turn.call("submit_answer", {"answer": said, "confidence": _SURE, "nothing_found": True})


def _search(turn: _Turn, words: str) -> list[str]:
    """Search the documents, or the file that the words name. Return ids, best first."""
    named = _FILE.search(words)
    query: JsonObject = {"query": " ".join(_wanted(words)) or words, "max_results": 5}
    query |= {"filters": {"filename": named[0]}} if named else {}
    hits = as_list(turn.call("search_documents", query).data.get("hits"))
    found = [*dict.fromkeys(str(as_object(hit).get("document_id")) for hit in hits)]
    return found[:_MOST_DOCUMENTS] or ([named[0]] if named else [])


def _wanted(words: str) -> list[str]:
    found = re.findall(r"\w\w+", fold(_FILE.sub(" ", words)))
    return [one for one in dict.fromkeys(found) if not _IDLE.fullmatch(one)]


def _blocks(read: Done) -> list[_Shown]:
    """The blocks that a document was shown in, without those for machines."""
    found: list[_Shown] = []
    is_for_machines = False
    for line in _PAGE.finditer("" if read.failed else read.answer):
        if line[2] is None:
            is_for_machines = line[1] is not None
        elif not is_for_machines:
            found.append(_Shown(line[2], int(line[3]), line[4]))
    return found


def _best(shown: list[_Shown], wanted: list[str]) -> _Shown | None:
    """The block with most of the words; None where the document has not more than half of them."""
    said = {block.id: {word for word in wanted if _says(fold(block.words), word)} for block in shown}
    there = {word for words in said.values() for word in words}
    if not shown or (wanted and 2 * len(there) <= len(wanted)):
        return None
    return max(shown, key=lambda block: len(said[block.id]))


def _says(words: str, wanted: str) -> bool:
    stem = wanted[:-1] if len(wanted) > 4 and wanted.endswith("s") else wanted
    return re.search(rf"\b{re.escape(stem)}", words) is not None
