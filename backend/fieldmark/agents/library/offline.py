"""The offline model's rules for questions over many documents. They are no language model, and say so."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations
from typing import Final

from pydantic import JsonValue

from fieldmark.agents.library.offline_words import DATE, TOTAL, VENDOR, Asked, spoken, understood
from fieldmark.agents.library.tools.submitting import Intent
from fieldmark.agents.offline_rules import NOTE, Done, conversation, foreign, tagged
from fieldmark.domain.folding import fold
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.grounding.labelled_fields import amount, day
from fieldmark.offline_model.messages import Block, Body, bare, call, items, text

HELP: Final = (
    'I understand "how many invoices are over 1,000?", "how many documents are there?", "sum of totals by vendor", '
    '"the highest total of the invoices", "which vendor was paid most?", "when is the invoice of Acme due?", "compare '
    'Acme and Globex", "summarise survey.pdf", "what is 12 * 3?", and questions in the words of the documents, such as '
    '"what does survey.pdf say about the roof?".'
)
_SURE: Final = 0.5
_SUMMARY: Final = re.compile(r"\bsummar(?:y|i[sz]e)|\bzusammenfass|\bfasse?\b.*\bzusammen\b")
_EXPRESSION: Final = re.compile(
    r"(?:what is|what's|calculate|reckon|was ist|berechne)?\s*([\d(][\d\s.+\-*/%^()×÷]*[\d)%])\s*\??\s*", re.IGNORECASE
)
_PART_OF: Final = re.compile(r"(?<=\d)\s?(?:%|percent|prozent) (?:of|von) (?=\d)", re.IGNORECASE)
_MOST_POINTS: Final = 3
_MOST_QUOTE: Final = 300
_MOST_WORDS: Final = 24
_MOST_FITTING: Final = 3
_MOST_GROUPS: Final = 10
_MOST_NAMED: Final = 5
_MOST_PLACES: Final = 2
_LABEL_WORDS: Final = 4
_GLUED: Final = re.compile(r"^[^\d]*:")  # a label that a picture's reader has not set apart: Date:16-03-2018
_NO_KEY: Final = "(none)"
_PAGE: Final = re.compile(
    r"^--- page \d+ of \d+(, for machines)? ---$|^\[([0-9a-f]{12}-(\d+)-\d+)\] (.*)$", re.MULTILINE
)
_FOR_TOTALS: Final = ("total", "summe", "gesamt", "totaal", "zahlen", "amount", "due", "net", "betrag", "inclusive")


def answer(body: Body) -> list[Block] | None:
    """The next turn: a call, or the closing words; None for a request of another agent's."""
    offered = {bare(str(tool.get("name"))) for tool in items(body, "tools")}
    if not {"cite_source", "submit_answer"} <= offered:
        return None
    task, done = conversation(body, _begins)
    texts, own = foreign(task)
    message = (tagged(own, "message") or "").strip()
    turn = _Turn(message, understood(message), _active(texts.get("working state", "")), list(done))
    try:
        _follow(turn)
    except _Next as step:
        return [call(step.tool, step.arguments)]
    return [text(f"{HELP} {NOTE}")]


def _begins(words: str, task: str) -> bool:
    said = tagged(words, "message")
    return said is not None and (words.rstrip().endswith("</message>") or said != tagged(task, "message"))


def _active(state: str) -> list[str]:
    """The documents that the conversation was about, the last one first."""
    try:
        told = as_object(json.loads(state))
    except ValueError:
        return []
    return [str(as_object(one).get("id")) for one in reversed(as_list(told.get("active_documents")))]


class _Next(Exception):
    """The call that a rule goes on with."""

    def __init__(self, tool: str, arguments: JsonObject) -> None:
        self.tool = tool
        self.arguments = arguments


@dataclass(slots=True)
class _Turn:
    """What a person has asked, and the calls made since. A rule is followed from its beginning each time."""

    words: str
    asked: Asked
    active: list[str]
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


@dataclass(frozen=True, slots=True)
class _Shown:
    """A block that was read."""

    id: str
    page: int
    words: str
    is_for_machines: bool


def _follow(turn: _Turn) -> None:
    asked = turn.asked
    if found := _EXPRESSION.fullmatch(_PART_OF.sub("% * ", turn.words)):
        _reckon(turn, found[1].strip())
    elif _SUMMARY.search(asked.words):
        _summarise(turn)
    elif asked.compared:
        _compare(turn)
    elif asked.op is not None:
        _figures(turn, asked.op)
    elif asked.field is not None:
        _field(turn)
    _look_up(turn)


def _reckon(turn: _Turn, expression: str) -> None:
    turn.intend(Intent.CALCULATION)
    found = turn.call("calculator", {"expression": expression})
    results = [str(one) for one in as_list(found.data.get("results"))]
    if found.failed or not results:
        return
    said = f"{expression} = {results[0]}. {NOTE}"
    turn.call("submit_calculation", {"answer": said, "formula": expression, "result": results[0], "confidence": _SURE})


# Figures over many documents ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Figures:
    """What query_fields has answered: (key, documents, [(value, currency)]) for each group."""

    found: Done
    groups: list[tuple[str, int, list[tuple[str, str]]]]

    @property
    def expression(self) -> str:
        return str(self.found.data.get("expression"))

    @property
    def is_known(self) -> bool:
        """Whether any document has what was asked for."""
        return not self.found.failed and as_object(self.found.data.get("coverage")).get("with_field") != 0

    @property
    def matched(self) -> str:
        return str(self.found.data.get("matched", 0))

    @property
    def names(self) -> list[str]:
        """The documents that its values stand in, as far as they are told."""
        told = map(as_object, as_list(self.found.data.get("sources")))
        return [*dict.fromkeys(str(one.get("filename")) for one in told)]

    @property
    def values(self) -> list[tuple[str, str]]:
        return [value for _, _, values in self.groups for value in values]


def _query(turn: _Turn, asked: JsonObject) -> _Figures:
    found = turn.call("query_fields", asked)
    groups: list[tuple[str, int, list[tuple[str, str]]]] = []
    for told in map(as_object, as_list(found.data.get("groups"))):
        values = [
            (str(one["value"]), str(one.get("currency") or "")) for one in map(as_object, as_list(told["results"]))
        ]
        key = told.get("key")
        groups.append((_NO_KEY if key is None else str(key), int(str(told["documents"])), values))
    return _Figures(found, groups)


def _tried(turn: _Turn, op: str, over: tuple[str, ...], vendor: str | None, group: str | None) -> _Figures:
    """The figures of the first path that any document has. Fields have other names in other organisations."""
    asked = turn.asked
    paths = over if op != "count" or asked.over else ("",)
    vendors = VENDOR if vendor or (group is not None and spoken(group).get("path") == VENDOR[0]) else ("",)
    days = DATE if asked.days or group in ("month", "year", "monat", "jahr") else ("",)
    ways = [(paths[0], vendors[0], days[0])]
    ways += [(path, vendors[0], days[0]) for path in paths[1:2]]
    ways += [(paths[0], one, days[0]) for one in vendors[1:3]]
    ways += [(paths[0], vendors[0], one) for one in days[1:3]]
    ways += [(paths[0], one, other) for one in vendors[1:2] for other in days[1:2]]
    figures = None
    for path, named, at in ways:
        figures = _query(turn, _question(asked, op, path, named, at, vendor, group))
        if figures.is_known:
            break
    assert figures is not None
    return figures


def _question(
    asked: Asked, op: str, path: str, named: str, at: str, vendor: str | None, group: str | None
) -> JsonObject:
    conditions: list[JsonValue] = [_condition(path, sign, value) for sign, value in asked.over]
    conditions += [_condition(at, sign, value) for sign, value in asked.days]
    conditions += [_condition(named, "contains", vendor)] if vendor else []
    conditions += [_condition("currency", "=", asked.currency)] if asked.currency else []
    where: JsonObject = {"fields": conditions} if conditions else {}
    where |= {"document_type": asked.kind} if asked.kind else {}
    where |= {"filename": asked.file} if asked.file else {}
    figure: JsonObject = {"op": "count"} if op == "count" else {"op": op, "path": path}
    told: JsonObject = {"where": where, "aggregates": [figure]}
    if op == "count" and group is None and conditions:  # what the condition holds for, and where that stands
        told["aggregates"] = [figure, {"op": "count", "path": as_object(conditions[0])["path"]}]
    if group is not None:
        told["group_by"] = spoken(group) | ({"path": named} if named and "kind" not in spoken(group) else {})
        told["group_by"] |= {"path": at} if at and "kind" in spoken(group) else {}
    return told


def _condition(path: JsonValue, op: str, value: JsonValue) -> JsonObject:
    return {"path": path, "op": op, "value": value}


def _figures(turn: _Turn, op: str) -> None:
    asked = turn.asked
    turn.intend(Intent.CALCULATION)
    numbers = TOTAL if asked.field is None or asked.field in (VENDOR, DATE) else asked.field
    vendor = " ".join(asked.subject) or None
    if vendor and asked.group == vendor:
        vendor = None
    figures = _tried(turn, op, numbers, vendor, asked.group)
    if figures.found.failed or not figures.groups or (op != "count" and not figures.values):
        return
    if vendor and figures.matched == "0" and not asked.is_named:
        return  # these words are no vendor's name
    if asked.group is not None:
        _groups(turn, figures)
        return
    values = figures.values
    if op == "count":
        named = figures.names[:_MOST_NAMED]
        more = int(figures.matched) - len(named)
        rest = f" and {more} more" if more > 0 else ""
        listed = f" {', '.join(named)}{rest}." if named else ""
        _give(turn, figures, f"{figures.matched}.{listed} Reckoned: {figures.expression}.", figures.matched)
        return
    values = sorted(values, key=lambda one: Decimal(one[0]), reverse=op != "min")
    if op == "avg":
        values = [_rounded(turn, *one) for one in values]
    first, currency = values[0]
    said = f"{_money(values)}. Reckoned: {figures.expression}."
    if op in ("max", "min"):  # where it stands: the others were looked through, and are not behind it
        path = as_object(as_list(figures.found.arguments["aggregates"])[0])["path"]
        only = _narrowed(turn, figures, path, json.loads(first))
        if only.names and (first, currency) in only.values:
            said = f"{_money(values[:1])}, in {', '.join(only.names[:3])}. Reckoned: {figures.expression}."
            said += f" In other currencies: {_money(values[1:])}." if values[1:] else ""
    _give(turn, figures, said, first)


def _rounded(turn: _Turn, value: str, currency: str) -> tuple[str, str]:
    """An average as people read it."""
    if len(value.partition(".")[2]) <= _MOST_PLACES:
        return value, currency
    found = turn.call("calculator", {"expression": f"round({value}, {_MOST_PLACES})"})
    return str(next(iter(as_list(found.data.get("results"))), value)), currency


def _narrowed(turn: _Turn, figures: _Figures, path: JsonValue, value: JsonValue) -> _Figures:
    """The same figures, of those documents alone that have a value."""
    where = as_object(figures.found.arguments.get("where"))
    conditions: list[JsonValue] = [*as_list(where.get("fields")), _condition(path, "=", value)]
    only: JsonObject = {**where, "fields": conditions}
    return _query(turn, {"where": only, "aggregates": as_list(figures.found.arguments["aggregates"])})


def _groups(turn: _Turn, figures: _Figures) -> None:
    """Figures told apart, or of the largest group alone."""
    asked = turn.asked
    told = [(key, _money(values) or str(count), values) for key, count, values in figures.groups]
    groups = [one for one in told if one[0] != _NO_KEY]
    groups += [] if groups and asked.extreme else [one for one in told if one[0] == _NO_KEY]
    if asked.extreme == "bottom":
        groups = groups[::-1]
    key, said, values = groups[0]
    first = values[0][0] if values else said
    if asked.extreme is None:
        lines = [f"{key}: {said}" for key, said, _ in groups[:_MOST_GROUPS]]
        total = int(str(figures.found.data.get("groups_total", len(groups))))
        lines += [f"and {total - _MOST_GROUPS} more"] if len(groups) > _MOST_GROUPS else []
        _give(turn, figures, f"{'; '.join(lines)}. Reckoned: {figures.expression}.", first)
        return
    if asked.group is not None and "path" in (by := as_object(figures.found.arguments.get("group_by"))):
        _narrowed(turn, figures, by["path"], key)
    rest = "; ".join(f"{key}: {said}" for key, said, _ in groups[1:4])
    told = f"{key}: {said}. Then {rest}." if rest else f"{key}: {said}."
    _give(turn, figures, f"{told} Reckoned: {figures.expression}.", first)


def _give(turn: _Turn, figures: _Figures, said: str, result: str) -> None:
    turn.call(
        "submit_calculation",
        {"answer": f"{said} {NOTE}", "formula": figures.expression, "result": result, "confidence": _SURE},
    )


def _money(values: list[tuple[str, str]]) -> str:
    """Values with their currencies: 12.50 EUR, 3.00 USD."""
    return ", ".join(f"{value} {currency}".strip() for value, currency in values)


def _compare(turn: _Turn) -> None:
    """Two vendors' sums, or the totals of two documents where no vendors are known; and by how much they differ."""
    turn.intend(Intent.CALCULATION)
    found: list[tuple[str, str, str, str]] = []
    sums = True
    for subject in turn.asked.compared:
        name = " ".join(subject)
        if sums:
            figures = _tried(turn, "sum", TOTAL, name, None)
            if len(figures.values) == 1:
                found.append((name, *figures.values[0], ""))
                continue
            if found or figures.is_known:  # nothing of it, or several currencies
                return
            sums = False
        values = _values(turn, TOTAL, subject, None, 1, len(found) + 1)
        if not values or not isinstance(values[0].value, int | float):
            return
        found.append((name, json.dumps(values[0].value), values[0].currency, f" [{values[0].number}]"))
    (one, first, currency, at), (other, second, another, there) = found
    said = f"{one}: {_money([(first, currency)])}{at}; {other}: {_money([(second, another)])}{there}."
    result = first
    if currency != another:
        said += " These are not of one currency."
        turn.call("calculator", {"expression": first})
    else:
        high, low = (first, second) if Decimal(first) >= Decimal(second) else (second, first)
        difference = turn.call("calculator", {"expression": f"{high} - {low}"})
        result = str(as_list(difference.data.get("results"))[0])
        more = one if high == first else other
        said += f" {more} is higher by {_money([(result, currency)])}." if high != low else f" They differ by {result}."
    formula = f"the total of {one} beside the total of {other}"
    turn.call(
        "submit_calculation",
        {"answer": f"{said} {NOTE}", "formula": formula, "result": result, "confidence": _SURE},
    )


# A field of one document ----------------------------------------------------------------------------------------------


def _field(turn: _Turn) -> None:
    """A field of the documents that the question names: of each that fits, with where it is printed."""
    asked = turn.asked
    assert asked.field is not None
    if asked.field == TOTAL and asked.is_named and asked.subject and asked.file is None:
        _figures(turn, "sum")  # what was paid to somebody
    if not asked.subject and asked.file is None and not (asked.is_again and turn.active):
        return
    turn.intend(Intent.QA)
    found = _values(turn, asked.field, asked.subject, asked.file, _MOST_FITTING)
    if found:
        said = [
            f"{one.name}: {one.spelt} is {_plain(one.value)}, printed “{one.quote}” [{one.number}]." for one in found
        ]
        many = f"{len(said)} documents fit. " if len(said) > 1 else ""
        turn.call("submit_answer", {"answer": f"{many}{' '.join(said)} {NOTE}", "confidence": _SURE})


@dataclass(frozen=True, slots=True)
class _Value:
    """A field of a document, cited."""

    number: int
    name: str
    spelt: str
    value: JsonValue
    currency: str
    quote: str


def _values(
    turn: _Turn, paths: tuple[str, ...], subject: tuple[str, ...], file: str | None, most: int, first: int = 1
) -> list[_Value]:
    """A field of the documents that say all words of a subject, cited with the numbers from `first`."""
    about = " ".join(subject)
    if about or file:
        query: JsonObject = {"query": about or file or turn.words, "max_results": 10}
        query |= {"filters": {"filename": file}} if file else {}
        hits = [as_object(one) for one in as_list(turn.call("search_documents", query).data.get("hits"))]
        candidates = [*dict.fromkeys(str(hit["document_id"]) for hit in hits)]
    else:
        candidates = turn.active[:1]
    found: list[_Value] = []
    for document in candidates[: most + 1]:
        told = turn.call("get_document_summary", {"document": document})
        fields = _fields_of(told.data)
        path = next((path for path in paths if fields.get(path) is not None), None)
        if told.failed or path is None or not _fits(turn.asked, subject, told.data):
            continue
        place = _printed(_blocks(turn.call("read_document", {"document": document})), fields[path], path)
        if place is None:
            continue
        block, quote = place
        number = first + len(found)
        cited = turn.call("cite_source", {"number": number, "block_id": block.id, "quote": quote})
        if not cited.failed:
            spelt = path.replace("_", " ").replace(".", " ")
            currency = str(fields.get("currency") or "")
            found.append(_Value(number, str(told.data.get("name")), spelt, fields[path], currency, quote))
        if len(found) == most:
            break
    return found


def _fields_of(data: JsonObject) -> dict[str, JsonValue]:
    """The fields of a summary by path; none where there was no room for all of them."""
    try:
        fields = as_object(json.loads(str(data.get("fields", "{}"))))
    except ValueError:
        return {}
    found: dict[str, JsonValue] = {}
    for name, value in fields.items():
        inner = as_object(value) if isinstance(value, dict) else {"": value}
        found |= {f"{name}.{key}".rstrip("."): one for key, one in inner.items() if not isinstance(one, dict | list)}
    return found


def _fits(asked: Asked, subject: tuple[str, ...], data: JsonObject) -> bool:
    """Whether a document is of the kind and says all that the question names it by."""
    if asked.kind is not None and data.get("document_type") not in (None, asked.kind) and not subject:
        return False
    said = fold(f"{data.get('name')} {data.get('fields')} {data.get('begins')}")
    return all(_says(said, word) for word in subject)


def _says(said: str, word: str) -> bool:
    """Whether folded words say a word, also in the plural or a compound."""
    stem = word[:-1] if len(word) > 4 and word.endswith("s") else word
    return re.search(rf"(?<![^\W_]){re.escape(stem)}" if len(stem) > 1 else rf"\b{re.escape(stem)}\b", said) is not None


def _printed(shown: list[_Shown], value: JsonValue, path: str) -> tuple[_Shown, str] | None:
    """The block that prints a value, and the words that do, with those before it that label it."""
    found: list[tuple[int, int, _Shown, str]] = []
    for block in shown:
        words = block.words.split()
        for begin, end in _places(words, value):
            start = begin
            while start and begin - start < _LABEL_WORDS and not re.search(r"\d", words[start - 1]):
                start -= 1
            label = fold(" ".join(words[start:begin]))
            names = _FOR_TOTALS if path in TOTAL else path.replace(".", "_").split("_")
            while start < begin and len(words[start]) < 2:
                start += 1  # a tax rate's letter of the line before
            hits = sum(name in label for name in names) if "sub" not in label or "sub" in path else 0
            quote = " ".join(words[start if hits else begin : end])
            found.append((block.is_for_machines, -hits, block, quote))
    return min(found, key=lambda one: one[:2])[2:] if found else None


def _places(words: list[str], value: JsonValue) -> list[tuple[int, int]]:
    """Where words print a value: a number or a day in any spelling, a text as it stands."""
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [(at, at + 1) for at, word in enumerate(words) if re.search(r"\d", word) and _is_amount(word, value)]
    spelt = fold(str(value))
    if re.fullmatch(r"\d{4}-\d\d-\d\d", spelt):
        spans = [(at, at + size) for size in (1, 3) for at in range(len(words) - size + 1)]
        return [(a, b) for a, b in spans if _is_day(" ".join(words[a:b]), spelt)]
    size = len(str(value).split())
    return [
        (at, at + size)
        for at in range(len(words) - size + 1)
        if fold(" ".join(words[at : at + size])).strip(".,:;") == spelt.strip(".,:;")
    ]


def _is_amount(word: str, value: float) -> bool:
    printed = amount(_GLUED.sub("", word).strip(":;"))
    return printed is not None and abs(abs(printed) - abs(value)) < 1e-9


def _is_day(words: str, value: str) -> bool:
    words = _GLUED.sub("", words)
    found = [day(words), day(words, month_first=True)]
    return any(one is not None and one[0] == value and len(one[1]) >= len(words) - 1 for one in found)


def _plain(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# What documents say ---------------------------------------------------------------------------------------------------


def _look_up(turn: _Turn) -> None:
    turn.intend(Intent.QA)
    asked = turn.asked
    wanted = list(asked.wanted)
    query: JsonObject = {"query": " ".join(wanted) or turn.words, "max_results": 5}
    query |= {"filters": {"filename": asked.file}} if asked.file else {}
    found = turn.call("search_documents", query)
    hits = [as_object(one) for one in as_list(found.data.get("hits"))]
    documents = [*dict.fromkeys(str(hit["document_id"]) for hit in hits)]
    if asked.is_again and turn.active:  # what was talked of comes first, if it says it at all
        documents.sort(key=lambda one: turn.active.index(one) if one in turn.active else len(turn.active))
    if not documents and asked.file:
        documents = [asked.file]
    for document in documents[:2]:
        wants: JsonObject = {"document": document}
        wants |= {"focus": " ".join(wanted)[:300]} if wanted else {}
        read = turn.call("read_document", wants)
        if read.failed:
            why = read.answer.strip() if read.code == "not_read" else ""
            _nothing(turn, found, why)
            return
        name = next((str(one.get("name")) for one in hits if one.get("document_id") == document), asked.file or "")
        best = _best(_blocks(read), wanted, fold(name))
        if best is None:
            continue
        points = _cited(turn, [best])
        if points:
            said = f"{name}, page {best[0].page}, says: {points[0]} {NOTE}"
            turn.call("submit_answer", {"answer": said, "confidence": _SURE})
    _nothing(turn, found)


def _summarise(turn: _Turn) -> None:
    asked = turn.asked
    turn.intend(Intent.SUMMARIZATION)
    document = asked.file or (turn.active[0] if turn.active and not asked.subject else None)
    wanted = [one for one in asked.wanted if not _SUMMARY.search(one) and one not in ("fasse", "summary")]
    if document is None:
        found = turn.call("search_documents", {"query": " ".join(wanted) or turn.words, "max_results": 5})
        hits = [as_object(one) for one in as_list(found.data.get("hits"))]
        if not hits:
            _nothing(turn, found)
            return
        document = str(hits[0]["document_id"])
    read = turn.call("read_document", {"document": document})
    blocks = [block for block in _blocks(read) if not block.is_for_machines and len(block.words.split()) > 1]
    points = _cited(turn, [(block, _start(block.words)) for block in blocks[:_MOST_POINTS]])
    if not points:
        found = turn.call("search_documents", {"query": turn.words, "max_results": 1})
        _nothing(turn, found, read.answer.strip() if read.code in ("not_read", "not_found", "ambiguous") else "")
        return
    summary = f"How it begins: {points[0]} {NOTE}"
    turn.call("submit_summary", {"summary": summary, "key_points": list[JsonValue](points), "confidence": _SURE})


def _nothing(turn: _Turn, found: Done, why: str = "") -> None:
    told = " ".join(one for one in (why, found.answer.strip() if found.data.get("behind") else "") if one)
    said = " ".join(f"I found nothing about this. {told} {NOTE}".split())
    turn.call("submit_answer", {"answer": said, "confidence": _SURE, "nothing_found": True})


def _blocks(read: Done) -> list[_Shown]:
    """The blocks that a document was shown in."""
    found: list[_Shown] = []
    is_for_machines = False
    for line in _PAGE.finditer(read.answer):
        if line[2]:
            found.append(_Shown(line[2], int(line[3]), line[4], is_for_machines))
        else:
            is_for_machines = line[1] is not None
    return found


def _best(shown: list[_Shown], wanted: list[str], name: str) -> tuple[_Shown, str] | None:
    """The block that says most of the words, and the part of it that does; rare words say more. None where the
    document, with its name, does not say more than half of them."""
    printed = [block for block in shown if not block.is_for_machines] or shown
    if not wanted:
        return (printed[0], _start(printed[0].words)) if printed else None
    said = {block.id: {word for word in wanted if _says(fold(block.words), word)} for block in printed}
    there = {word for words in said.values() for word in words}
    named = {word for word in wanted if _says(name.replace("_", " "), word)}
    if not there or 2 * len(there | named) <= len(wanted):
        return None
    often = {word: sum(word in words for words in said.values()) for word in there}
    order = {word: at for at, word in enumerate(wanted)}  # of two that say as much: what is asked for first
    best = max(
        printed,
        key=lambda block: (
            sum(1 / often[word] for word in said[block.id]),
            -min((order[word] for word in said[block.id]), default=0),
        ),
    )
    return best, _part(best.words, said[best.id])


def _part(words: str, wanted: set[str]) -> str:
    """The few words of a block that say most of what is wanted: a sentence where there is one."""
    spelt = words.split()
    if len(spelt) <= _MOST_WORDS:
        return _start(words)
    at = [number for number, word in enumerate(spelt) if any(_says(fold(word), one) for one in wanted)]
    pairs = (
        [(a, b) for a, b in combinations([*at, *at[-1:]], 2) if b - a < _MOST_WORDS] or [(at[0], at[0])]
        if at
        else [(0, 0)]
    )
    first, last = max(pairs, key=lambda pair: (sum(pair[0] <= one <= pair[1] for one in at), pair[0] - pair[1]))
    begin = next(
        (n + 1 for n in range(first - 1, max(first - _MOST_WORDS, -1), -1) if spelt[n].endswith((".", "!", "?"))),
        max(0, first - 4),
    )
    end = next(
        (n + 1 for n in range(last, min(last + _MOST_WORDS, len(spelt))) if spelt[n].endswith((".", "!", "?"))),
        min(len(spelt), last + 9),
    )
    return _start(" ".join(spelt[begin:end]))


def _start(words: str) -> str:
    return words if len(words) <= _MOST_QUOTE else words[:_MOST_QUOTE].rpartition(" ")[0]


def _cited(turn: _Turn, places: list[tuple[_Shown, str]]) -> list[str]:
    """What blocks say, each with its citation."""
    points: list[str] = []
    for number, (block, quote) in enumerate(places, 1):
        cited = turn.call("cite_source", {"number": number, "block_id": block.id, "quote": quote})
        points += [] if cited.failed else [f"“{quote}” [{number}]"]
    return points
