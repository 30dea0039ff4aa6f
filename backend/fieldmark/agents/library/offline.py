"""The offline model's rules for questions over many documents: counts and sums of fields, the value of a named field,
and arithmetic. Any other question is answered with the passages that have most of its words."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import reduce
from itertools import product
from typing import Final

from pydantic import JsonValue

from fieldmark.agents.library.fallback import MOST_FOCUS, MOST_READ
from fieldmark.agents.library.tools.submitting import Intent
from fieldmark.agents.offline_rules import (
    NOTE,
    FinishedCall,
    RuleTurn,
    json_object,
    leaf_paths,
    match_paths,
    next_message,
    values_by_path,
)
from fieldmark.domain import paths
from fieldmark.domain.calculator import MAX_CHARACTERS, format_decimal
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.offline_model.messages import Block, Body
from fieldmark.services.labelled_fields import parse_amount
from fieldmark.services.search import MAX_QUERY
from valuegrounding import DocumentIndex, PageWords
from valuegrounding.folding import fold

HELP: Final = (
    'I understand "how many invoices are there?", "sum of totals by vendor", "the highest total of the invoices", '
    '"what is the due date of survey.pdf?" and arithmetic. I cannot read, compare or summarise texts.'
)
_SURE: Final = 0.5
_MOST: Final = 10
_MOST_BLOCKS: Final = 3
_MOST_QUOTE: Final = 300
_STEM: Final = 4
_MOST_CHARACTERS: Final = 300
_OPS: Final = {"sum": "sum", "total": "sum", "average": "avg", "highest": "max", "lowest": "min"}
_SIGNS: Final = {"over": ">", "above": ">", "more than": ">", "under": "<", "below": "<", "less than": "<"}
_ENGLISH: Final = {
    "summe von ": "sum of ",
    "durchschnitt von ": "average ",
    "was ist der höchste wert von ": "highest ",
    " nach monat von ": " by month of ",
    " nach ": " by ",
}
"""The questions that the German web UI suggests."""
_PATHS: Final = {"total": ("total", "amount_due"), "vendor": ("vendor.name", "vendor")}
"""Paths that a word can mean, the most likely first."""
_KIND: Final = r"(?:the |all |our |my )*(?P<{}>invoice|receipt|contract|order|report|document|file)s?"
_FIGURE: Final = re.compile(
    rf"(?:(?:how many|number of|count) {_KIND.format('kind')}"
    rf"(?:(?: are| have| cost)?(?: an?)?(?: (?P<of>[\w.]+))? (?P<sign>{'|'.join(_SIGNS)}) (?P<value>-?[\d.,]*\d)"
    r"| are there| do (?:i|we) have)?"
    rf"|(?:what is )?(?:the )?(?P<op>{'|'.join(_OPS)}) (?:of )?(?:the |all )*(?P<path>[a-z][\w. ]*?)s?"
    rf"(?: of {_KIND.format('of_kind')})?)(?: (?:by|per) (?:(?P<unit>month|year) of )?(?P<group>[\w. ]+))?"
)
_MARGIN: Final = re.compile(
    r".*\b(?P<what>margin|profit)\b.* if (?:the )?(?P<revenue>[a-z]+) (?:is|are|equals?) (?P<value>[\d.,]*\d),? and "
    r"(?:the )?(?P<costs>[a-z]+) (?:is|are|equals?) (?P<sum>.+)"
)
_SUMMAND: Final = re.compile(r"(?:[a-z ]+ )?(?P<value>[\d.,]*\d)(?: ?(?P<share>%|percent) of (?:the )?(?P<of>.+))?")
_PLACE_FIRST: Final = re.compile(r"(?:in|from) (?P<name>.+?), (?P<asked>(?:what|who|when|how much) .+)")
_EXPRESSION: Final = re.compile(r"(?:what is |calculate |compute )?([\d .,+\-*/%^()]+)")
_FIELD: Final = re.compile(
    r"(?:what|who|when|how much) (?:is|was) (?:the )?(?P<field>[\w. ]{1,60}?) (?:of|in) (?P<name>.+)"
)
_BLOCK: Final = re.compile(r"^\[([0-9a-f]{12}-\d+-\d+)\] (.*)$", re.MULTILINE)


def answer(body: Body) -> list[Block] | None:
    """Return the model's next message, or None for a request of another agent."""
    return next_message(body, {"cite_source", "submit_answer"}, _answer_by_rules)


def _answer_by_rules(turn: RuleTurn) -> str:
    words = " ".join((turn.message or "").casefold().split()).strip(" ?!.")
    if found := _PLACE_FIRST.fullmatch(words):
        words = f"{found['asked']} in {found['name']}"
    if (found := _EXPRESSION.fullmatch(words)) and len(words) <= MAX_CHARACTERS and found[1].strip("0123456789., "):
        _calculation(turn, found[1])
    elif (found := _MARGIN.fullmatch(words[:_MOST_CHARACTERS])) and (expression := _margin(found)):
        _calculation(turn, expression, f"{found['what']} = {found['revenue']} - {found['costs']}")
    elif found := _FIGURE.fullmatch(reduce(lambda text, word: text.replace(word, _ENGLISH[word]), _ENGLISH, words)):
        _figure(turn, found)
    elif found := _FIELD.fullmatch(words):
        _field(turn, found["field"], found["name"])
    _passages(turn, words)
    return HELP


def _intend(intent: Intent) -> tuple[str, JsonObject]:
    why = "By fixed rules, from the words of the question."
    return "record_intent", {"intent": intent.value, "confidence": _SURE, "reasoning": why}


def _calculation(turn: RuleTurn, expression: str, formula: str = "") -> None:
    """Answer with the value of an expression, if it has one."""
    turn.call(*_intend(Intent.CALCULATION))
    done = turn.call("calculator", {"expression": expression})
    for result in as_list(done.data.get("results")):
        said = f"{formula and f'{formula} = '}{expression} = {result}. {NOTE}"
        given: JsonObject = {"answer": said, "formula": formula or expression, "result": result, "confidence": _SURE}
        turn.call("submit_calculation", given)


def _margin(asked: re.Match[str]) -> str | None:
    """Return revenue less costs as an expression. The costs are amounts, and shares of the revenue."""
    revenue = _plain_number(asked["value"])
    costs: list[str] = []
    for summand in re.split(r" plus | and | \+ ", asked["sum"]):
        found = _SUMMAND.fullmatch(summand)
        if found is None or found["of"] not in (None, asked["revenue"]):
            return None
        costs.append(f"{_plain_number(found['value'])}{f'% * {revenue}' if found['share'] else ''}")
    return f"{revenue} - ({' + '.join(costs)})"


def _plain_number(printed: str) -> str:
    return format_decimal(Decimal(str(parse_amount(printed) or 0)))


def _figure(turn: RuleTurn, asked: re.Match[str]) -> None:
    """Answer with a count, a sum, or another figure of a field, if any document has the field."""
    turn.call(*_intend(Intent.CALCULATION))
    kind = asked["kind"] or asked["of_kind"]
    named = asked["path"] or asked["of"] or "total"
    value = parse_amount(asked["value"]) if asked["value"] else None
    of = _paths_of(named) if asked["op"] or value is not None else ("",)
    by = _paths_of(asked["group"]) if asked["group"] else ("",)
    for path, group in product(of, by):
        where: JsonObject = {} if kind in (None, "document", "file") else {"document_type": kind}
        figures: list[JsonValue] = [{"op": _OPS[asked["op"]], "path": path} if asked["op"] else {"op": "count"}]
        if value is not None:
            where["fields"] = [{"path": path, "op": _SIGNS[asked["sign"]], "value": value}]
            figures.append({"op": "count", "path": path})  # with it the query names the documents
        query: JsonObject = {"where": where, "aggregates": figures}
        query |= {"group_by": {"path": group, "kind": asked["unit"] or "field"}} if group else {}
        found = turn.call("query_fields", query)
        if not found.failed and as_object(found.data.get("coverage")).get("with_field") != 0:
            _submit_figure(turn, found, is_count=asked["op"] is None, is_grouped=bool(group))
            return


def _paths_of(words: str) -> tuple[str, ...]:
    """Return the paths that words can mean, the most likely first: "net amount" is `net_amount` or `net.amount`."""
    return _PATHS.get(words) or tuple(dict.fromkeys(words.replace(" ", joint) for joint in ("_", ".")))


def _submit_figure(turn: RuleTurn, found: FinishedCall, *, is_count: bool, is_grouped: bool) -> None:
    lines: list[str] = []
    results: list[str] = []
    groups = [as_object(one) for one in as_list(found.data.get("groups"))]
    listed = [group for at, group in enumerate(groups) if at < _MOST or group.get("key") is None]
    for group in listed:
        values = [as_object(one) for one in as_list(group.get("results"))]
        shown = ", ".join(f"{one.get('value')} {one.get('currency') or ''}".strip() for one in values)
        shown = str(group.get("documents")) if is_count else shown
        results += [shown] if is_count else [str(one.get("value")) for one in values]
        lines += [f"{group.get('key') or '(none)'}: {shown}" if is_grouped else shown] if shown else []
    if not results:
        return
    # A value that a person set has no place in a document, and so no source.
    names = [*dict.fromkeys(str(as_object(one).get("filename")) for one in as_list(found.data.get("sources")))][:_MOST]
    rest = int(results[0]) - len(names) if is_count and not is_grouped else 0
    lines += ["and other groups"] if found.data.get("groups_total") != len(listed) else []
    formula = str(found.data.get("expression"))
    of = f" ({', '.join(names)}{f' and {rest} more' if rest > 0 else ''})" if is_count and names else ""
    said = f"{'; '.join(lines)}{of}\n\nComputed: {formula}. {NOTE}"
    turn.call("submit_calculation", {"answer": said, "formula": formula, "result": results[0], "confidence": _SURE})


def _field(turn: RuleTurn, named: str, subject: str) -> None:
    """Answer with the value of a field and where it is printed, if the best document has it."""
    turn.call(*_intend(Intent.QA))
    document: JsonValue = subject
    if "." not in subject:
        hits = as_list(turn.call("search_documents", {"query": subject, "max_results": 1}).data.get("hits"))
        document = as_object(hits[0]).get("document_id") if hits else None
    if document is None:
        return
    summary = turn.call("get_document_summary", {"document_id": document})
    places = values_by_path(json_object(summary.data.get("fields")))
    for path in match_paths(named, leaf_paths(places))[:1]:
        value = places[path]
        for block, words in _BLOCK.findall(turn.call("read_document", {"document_id": document}).answer):
            if (quote := _printed_form(value, words)) is not None:
                said = f"{summary.data.get('name')}: {paths.name(path)} is {value}, printed “{quote}” [1]. {NOTE}"
                # A quote of one character is refused.
                cited: JsonObject = {"number": 1, "block_id": block, "quote": quote if quote[1:] else words[:300]}
                turn.call("submit_answer", {"answer": said, "confidence": _SURE, "citations": [cited]})
                return


def _passages(turn: RuleTurn, question: str) -> None:
    """Answer with the blocks that have most words of the question, in the documents that match it best."""
    turn.call(*_intend(Intent.UNKNOWN))
    found = turn.call("search_documents", {"query": question[:MAX_QUERY], "max_results": _MOST}).data
    ids: list[JsonValue] = [*dict.fromkeys(str(as_object(hit)["document_id"]) for hit in as_list(found.get("hits")))]
    wanted: JsonObject = {"document_ids": ids[:MOST_READ], "focus_query": question[:MOST_FOCUS]}
    text = turn.call("read_multiple_documents", wanted).answer if ids else ""
    stems = {word[:_STEM] for word in re.findall(r"\w+", fold(question)) if len(word) >= _STEM}
    # A block of a copy of the same file is the same passage.
    by_words = {words: block for block, words in _BLOCK.findall(text) if len(words) > _STEM}
    blocks = [(block, words) for words, block in by_words.items()]
    blocks.sort(key=lambda one: -sum(stem in fold(one[1]) for stem in stems))
    cited: list[JsonValue] = [
        {"number": number, "block_id": block, "quote": words[:_MOST_QUOTE].rpartition(" ")[0] or words}
        for number, (block, words) in enumerate(((one, f"{words} ") for one, words in blocks[:_MOST_BLOCKS]), 1)
    ]
    shown = "\n".join(f"- “{as_object(one)['quote']}” [{as_object(one)['number']}]" for one in cited)
    said = [f"These passages have most of your words:\n\n{shown}" if cited else "I found no passage with these words."]
    said += ["Some documents are not indexed yet: ask again in a moment."] if found.get("not_indexed") else []
    said += [f"{HELP} {NOTE}"]
    given: JsonObject = {"citations": cited} if cited else {"nothing_found": True}
    turn.call("submit_answer", {"answer": "\n\n".join(said), "confidence": _SURE, **given})


def _printed_form(value: JsonValue, block: str) -> str | None:
    """Return how a block prints a value, or None if it does not."""
    words: list[list[str | float]] = [
        [word, at * 0.001, 0.0, at * 0.001 + 0.0009, 0.01] for at, word in enumerate(block.split())
    ]
    place = DocumentIndex([PageWords(1, words)]).find(value)
    return None if place is None else place.quote
