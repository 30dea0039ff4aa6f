"""The offline model's rules for questions over many documents: counts and sums of fields, the value of a named field,
otherwise the best passage."""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

from pydantic import JsonValue

from fieldmark.agents.library.tools.submitting import Intent
from fieldmark.agents.offline_rules import NOTE, Done, RuleTurn, follow, json_object, leaves_of, meant_at, places_of
from fieldmark.domain import paths
from fieldmark.domain.folding import fold
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.grounding import DocumentIndex, PageWords
from fieldmark.grounding.labelled_fields import amount
from fieldmark.offline_model.messages import Block, Body

HELP: Final = (
    'I understand "how many invoices are over 1,000?", "sum of totals by vendor", "the highest total of the invoices", '
    '"what is the due date of survey.pdf?", and questions in the words of the documents.'
)
_SURE: Final = 0.5
_MOST: Final = 10
_OPS: Final = {"sum": "sum", "total": "sum", "average": "avg", "highest": "max", "lowest": "min"}
_SIGNS: Final = {"over": ">", "above": ">", "more than": ">", "under": "<", "below": "<", "less than": "<"}
_PATHS: Final = {"total": ("total", "amount_due"), "vendor": ("vendor.name", "vendor")}
"""Paths that a word may stand for, the most likely first. Any other word is a path itself."""
_KIND: Final = r"(?:the |all |our |my )*(?P<{}>invoice|receipt|contract|order|report|document|file)s?"
_FIGURE: Final = re.compile(
    rf"(?:(?:how many|number of|count) {_KIND.format('kind')}"
    rf"(?:(?: are| have| cost)?(?: an?)?(?: (?P<of>[\w.]+))? (?P<sign>{'|'.join(_SIGNS)}) (?P<value>-?[\d.,]*\d)"
    r"| are there| do (?:i|we) have)?"
    rf"|(?:what is )?(?:the )?(?P<op>{'|'.join(_OPS)}) (?:of )?(?:the |all )*(?P<path>[a-z][\w.]*?)s?"
    rf"(?: of {_KIND.format('of_kind')})?)(?: (?:by|per) (?P<group>[\w.]+))?"
)
_FIELD: Final = re.compile(
    r"(?:what|which|who|when|how much) (?:is|was|are) (?:the )?(?P<field>[\w. ]{1,60}?) "
    r"(?:of|in|on|from|for) (?P<name>.+)"
)
_FILE: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[a-z]\w{1,4}\b", re.IGNORECASE)
_LINE: Final = re.compile(
    r"^--- page \d+ of \d+(, for machines)? ---$|^\[([0-9a-f]{12}-(\d+)-\d+)\] (.*)$", re.MULTILINE
)
_IDLE: Final = re.compile(
    r"about|all|and|any|are|can|did|do|documents?|does|files?|find|for|from|had|has|have|how|its?|list|many|much|our|says?"
    r"|show|tell|that|the|there|these|this|was|what|when|where|which|who|why|with|you|your|an|as|at|be|by|in|is|me|my|of"
    r"|on|or|to|we"
)


class _Block(NamedTuple):
    """A block that was read."""

    id: str
    page: int
    words: str


def answer(body: Body) -> list[Block] | None:
    """Return the next turn, or None for a request of another agent's."""
    return follow(body, {"cite_source", "submit_answer"}, _rules)


def _rules(turn: RuleTurn) -> str:
    words = " ".join((turn.message or "").casefold().split()).strip(" ?!.")
    if found := _FIGURE.fullmatch(words):
        _figure(turn, found)
    elif found := _FIELD.fullmatch(words):
        _field(turn, found["field"], found["name"])
    _passage(turn)
    return HELP


def _intend(turn: RuleTurn, intent: Intent) -> None:
    why = "By fixed rules, from the words of the question."
    turn.call("record_intent", {"intent": intent.value, "confidence": _SURE, "reasoning": why})


def _figure(turn: RuleTurn, asked: re.Match[str]) -> None:
    """Answer with a count, a sum, or another figure of a field, if any document has the field."""
    _intend(turn, Intent.CALCULATION)
    kind = asked["kind"] or asked["of_kind"]
    named = asked["path"] or asked["of"] or "total"
    value = amount(asked["value"]) if asked["value"] else None
    for path in _PATHS.get(named, (named,)) if asked["op"] or value is not None else ("",):
        for group in _PATHS.get(asked["group"], (asked["group"],)) if asked["group"] else ("",):
            where: JsonObject = {} if kind in (None, "document", "file") else {"document_type": kind}
            figures: list[JsonValue] = [{"op": _OPS[asked["op"]], "path": path} if asked["op"] else {"op": "count"}]
            if value is not None:
                limit = int(value) if value == int(value) else value
                where["fields"] = [{"path": path, "op": _SIGNS[asked["sign"]], "value": limit}]
                figures.append({"op": "count", "path": path})  # with it the query names the documents
            query: JsonObject = {"where": where, "aggregates": figures}
            query |= {"group_by": {"path": group}} if group else {}
            found = turn.call("query_fields", query)
            if not found.failed and as_object(found.data.get("coverage")).get("with_field") != 0:
                _submit_figure(turn, found, is_count=asked["op"] is None, is_grouped=bool(group))
                return


def _submit_figure(turn: RuleTurn, found: Done, *, is_count: bool, is_grouped: bool) -> None:
    lines: list[str] = []
    results: list[str] = []
    for group in map(as_object, as_list(found.data.get("groups"))[:_MOST]):
        values = [as_object(one) for one in as_list(group.get("results"))]
        shown = ", ".join(f"{one.get('value')} {one.get('currency') or ''}".strip() for one in values)
        shown = str(group.get("documents")) if is_count else shown
        results += [shown] if is_count else [str(one.get("value")) for one in values]
        lines.append(f"{group.get('key') or '(none)'}: {shown}" if is_grouped else shown)
    if not results:
        return
    sources = map(as_object, as_list(found.data.get("sources")))
    names = list(dict.fromkeys(str(one.get("filename")) for one in sources))[:_MOST] if is_count else []
    formula = str(found.data.get("expression"))
    said = " ".join(
        [f"{'; '.join(lines)}.", *([f"{', '.join(names)}."] if names else []), f"Computed: {formula}.", NOTE]
    )
    turn.call("submit_calculation", {"answer": said, "formula": formula, "result": results[0], "confidence": _SURE})


def _field(turn: RuleTurn, named: str, subject: str) -> None:
    """Answer with the value of a field and where it is printed, if one of the best documents has it."""
    _intend(turn, Intent.QA)
    for document in _search(turn, subject):
        told = turn.call("get_document_summary", {"document": document})
        places = {} if told.failed else places_of(json_object(told.data.get("fields")), ())
        path = next(iter(meant_at(named, leaves_of(places))), None)
        if path is None:
            continue
        for block in _blocks(turn.call("read_document", {"document": document})):
            if (quote := _printed(places[path], block)) is not None:
                value = places[path] if isinstance(places[path], str) else json.dumps(places[path])
                said = f"{told.data.get('name')}: {paths.name(path)} is {value}, printed “{quote}” [1]."
                _submit(turn, said, block, quote)


def _printed(value: JsonValue, block: _Block) -> str | None:
    """Return how a block prints a value, or None if it does not."""
    words = block.words.split()
    spelt: list[list[str | float]] = [
        [word, at * 0.001, 0.0, at * 0.001 + 0.0009, 0.01] for at, word in enumerate(words)
    ]
    place = DocumentIndex([PageWords(1, spelt)]).find(value)
    return None if place is None else place.quote


def _passage(turn: RuleTurn) -> None:
    """Answer with the passage that contains most words of the question."""
    _intend(turn, Intent.QA)
    wanted, failed = _wanted(turn.message or ""), ""
    for document in _search(turn, turn.message or ""):
        asked: JsonObject = {"document": document}
        read = turn.call("read_document", asked | ({"focus": " ".join(wanted)[:300]} if wanted else {}))
        failed = read.answer.strip() if read.failed and read.code == "not_read" else failed
        said = {
            block: {word for word in wanted if word.removesuffix("s") in fold(block.words)} for block in _blocks(read)
        }
        if said and (not wanted or 2 * len(set[str]().union(*said.values())) > len(wanted)):
            best = max(said, key=lambda block: len(said[block]))
            quote = best.words if len(best.words) <= 300 else best.words[:300].rpartition(" ")[0]
            _submit(turn, f"Page {best.page} says: “{quote}” [1].", best, quote)
    nothing = " ".join(f"I found nothing about this. {failed} {NOTE}".split())
    turn.call("submit_answer", {"answer": nothing, "confidence": _SURE, "nothing_found": True})


def _submit(turn: RuleTurn, said: str, block: _Block, quote: str) -> None:
    if not turn.call("cite_source", {"number": 1, "block_id": block.id, "quote": quote}).failed:
        turn.call("submit_answer", {"answer": f"{said} {NOTE}", "confidence": _SURE})


def _search(turn: RuleTurn, words: str) -> list[str]:
    """Search the documents, or the file that the words name. Return ids, best first."""
    named = _FILE.search(words)
    query: JsonObject = {"query": " ".join(_wanted(words)) or words, "max_results": 5}
    query |= {"filters": {"filename": named[0]}} if named else {}
    hits = as_list(turn.call("search_documents", query).data.get("hits"))
    found = [*dict.fromkeys(str(as_object(hit).get("document_id")) for hit in hits)]
    return found[:2] or ([named[0]] if named else [])


def _wanted(words: str) -> list[str]:
    found = re.findall(r"\w\w+", fold(_FILE.sub(" ", words)))
    return [one for one in dict.fromkeys(found) if not _IDLE.fullmatch(one)]


def _blocks(read: Done) -> list[_Block]:
    """The blocks that a document was shown in, without those for machines."""
    found: list[_Block] = []
    is_for_machines = False
    for line in _LINE.finditer("" if read.failed else read.answer):
        if line[2] is None:
            is_for_machines = line[1] is not None
        elif not is_for_machines:
            found.append(_Block(line[2], int(line[3]), line[4]))
    return found
