"""What a run has read, cited, computed and searched for, according to the ledger. Answers are checked against this
record, so the check survives a crash and does not depend on the model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Final, Literal
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.domain.answers import (
    AnswerCoverage,
    DocumentRead,
    FigureTable,
    RecordedIntent,
    Source,
    ToolCallMade,
    Trace,
)
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.statuses import CallStatus
from fieldmark.stores import tool_calls
from fieldmark.stores.tool_calls import RecordedCall
from fieldmark.tools.toolset import ToolInput

INVALID: Final[Literal["answer_invalid"]] = "answer_invalid"
"""The code of an answer that was refused for what it says."""

FALLBACK_CODE: Final = "fallback_code"
"""Key in the data of a call that ends the run: why there is no answer."""

SUBMITTING: Final = ("submit_answer", "submit_summary", "submit_calculation")

MOST_CALLS: Final = 100
"""Calls that an answer lists."""

MOST_TABLES: Final = 3
"""Field queries whose figures an answer lists."""

_BLOCK: Final = re.compile(r"([0-9a-f]{12})-(\d{1,7})-(\d{1,7})")
_DIGITS: Final = 12


def block_id(document_id: UUID, page: int, number: int) -> str:
    """Return a block's id, made of its document, page and number. It is the same in every run.

    >>> block_id(UUID(int=10), 2, 3)
    '00000000000a-2-3'
    """
    return f"{document_id.hex[-_DIGITS:]}-{page}-{number}"


@dataclass(frozen=True, slots=True)
class ReadBlock:
    """A block of text that this run has read."""

    document_id: UUID
    page: int
    number: int


@dataclass(frozen=True, slots=True)
class Record:
    """The finished and refused calls of a run, in order."""

    calls: Sequence[RecordedCall]
    # What comes with the answer that is being submitted.
    given: Mapping[int, Source] = field(default_factory=dict[int, Source])
    # Only these citations count, if set.
    used: Collection[int] | None = None

    @classmethod
    async def of(cls, conn: Connection, run_id: UUID) -> Record:
        return cls(await tool_calls.list_ended(conn, run_id))

    def successful_calls(self, *tools: str) -> Iterator[RecordedCall]:
        """Return the successful calls of these tools."""
        return (call for call in self.calls if call.tool in tools and call.status is CallStatus.DONE)

    @property
    def intent(self) -> str | None:
        """The intent that the run last recorded."""
        said = [as_object(call.data).get("intent") for call in self.successful_calls("record_intent")]
        return str(said[-1]) if said else None

    @property
    def trace(self) -> Trace:
        """The steps to the answer so far."""
        intents = list(self.successful_calls("record_intent"))
        return Trace(
            intent=RecordedIntent.model_validate(intents[-1].arguments) if intents else None,
            next_step=str(as_object(intents[-1].data).get("next_step")) if intents else None,
            documents_read=[DocumentRead(document_id=one, filename=name) for one, name in self.documents.items()],
            tool_calls_made=[
                ToolCallMade(
                    tool=call.tool, input=call.arguments, code=call.code, status=call.status, output=call.output
                )
                for call in self.calls
                if call.tool not in SUBMITTING
            ][:MOST_CALLS],
            figures=self.figures,
        )

    @property
    def figures(self) -> list[FigureTable]:
        """The figures of the last distinct field queries that found documents."""
        found = {str(call.arguments): as_object(call.data) for call in self.successful_calls("query_fields")}
        tables = [data for data in found.values() if data.get("matched") and "where" in data]
        return [FigureTable.model_validate(data) for data in tables[-MOST_TABLES:]]

    def find_same_call(self, tool: str, args: ToolInput) -> RecordedCall | None:
        """Return the last successful call with the same arguments. Its result can be reused."""
        return next(
            (
                call
                for call in reversed(list(self.successful_calls(tool)))
                if type(args).model_validate(call.arguments) == args and not as_object(call.data).get("not_indexed")
            ),
            None,
        )

    @property
    def found(self) -> set[tuple[str, str]]:
        """The document ids and pages that searches have found so far."""
        hits = [as_list(as_object(call.data).get("hits")) for call in self.successful_calls("search_documents")]
        return {_found_at(as_object(hit)) for some in hits for hit in some}

    @property
    def has_answered(self) -> bool:
        return any(FALLBACK_CODE not in as_object(call.data) for call in self.successful_calls(*SUBMITTING))

    @property
    def was_refused(self) -> bool:
        """Whether an answer was refused for its content."""
        return any(call.tool in SUBMITTING and call.code == INVALID for call in self.calls)

    def read(self) -> Iterator[tuple[UUID, str, int, int, int]]:
        """Yield the parts of documents that were read: id, name, page, first and last block of the page."""
        for call in self.successful_calls("read_document", "read_multiple_documents"):
            for document in as_list(as_object(call.data).get("read")):
                read = as_object(document)
                for shown in as_list(read.get("shown")):
                    page, first, last = (int(str(one)) for one in as_list(shown))
                    yield UUID(str(read["document_id"])), str(read["name"]), page, first, last

    def block(self, named: str) -> ReadBlock | None:
        """Return the block with an id, if this run has read it."""
        found = _BLOCK.fullmatch(named.strip().strip("[]"))
        if found is None:
            return None
        page, number = int(found[2]), int(found[3])
        for document_id, _, at, first, last in self.read():
            if document_id.hex[-_DIGITS:] == found[1] and at == page and first <= number <= last:
                return ReadBlock(document_id, page, number)
        return None

    @property
    def citations(self) -> dict[int, Source]:
        """The sources cited, by number. For a number cited twice, the last source."""
        found: dict[int, Source] = {}
        for call in self.successful_calls("cite_source"):
            source = Source.model_validate(as_object(call.data)["source"])
            found[source.number] = source
        found |= self.given
        return found if self.used is None else {number: found[number] for number in found if number in self.used}

    @property
    def sources(self) -> list[Source]:
        return [source for _, source in sorted(self.citations.items())]

    @property
    def searched(self) -> list[str]:
        """The distinct searches over all documents."""
        said = [
            str(as_object(call.data).get("searched", ""))
            for call in self.successful_calls("search_documents", "query_fields")
        ]
        return [one for one in dict.fromkeys(said) if one]

    @property
    def coverage(self) -> list[AnswerCoverage]:
        """The distinct coverages of the field queries. A query for a field that no document has is only included if
        there are no others."""
        found = [as_object(call.data).get("coverage") for call in self.successful_calls("query_fields")]
        coverages = [AnswerCoverage.model_validate(one) for one in found if one]
        coverages = [one for one in coverages if one.with_field] or coverages[:1]
        return [one for at, one in enumerate(coverages) if one not in coverages[:at]]

    def coverage_beside(self, sources: Sequence[Source]) -> list[AnswerCoverage]:
        """Return the coverage to show with these sources: with sources, without queries for fields that no document
        has."""
        return [one for one in self.coverage if one.with_field] if sources else self.coverage

    def results(self) -> Iterator[tuple[Decimal, RecordedCall]]:
        """Yield the figures computed in this run, each with its call."""
        for call in self.successful_calls("calculator", "query_fields"):
            for one in as_list(as_object(call.data).get("results")):
                if (value := decimal(str(one))) is not None:
                    yield value, call

    @property
    def computed(self) -> list[str]:
        """The distinct computations of this run, with their results."""
        return list(dict.fromkeys(computation(call) for call in self.successful_calls("calculator", "query_fields")))

    @property
    def values(self) -> list[Source]:
        """The first values behind the results of field queries."""
        found = [as_list(as_object(call.data).get("sources")) for call in self.successful_calls("query_fields")]
        return [Source.model_validate(one) for some in found for one in some]

    @property
    def keys(self) -> list[str]:
        """The keys of the groups in field queries, such as vendors or months."""
        found = [as_list(as_object(call.data).get("groups")) for call in self.successful_calls("query_fields")]
        return [str(as_object(one).get("key")) for some in found for one in some]

    def count(self, *tools: str) -> int:
        """Return how often these tools were called, including failed and refused calls."""
        return sum(call.tool in tools for call in self.calls)

    @property
    def documents(self) -> dict[UUID, str]:
        """Return the filenames of the documents that were read, by id."""
        return {document_id: name for document_id, name, *_ in self.read()}

    @property
    def tools(self) -> Counter[str]:
        return Counter(call.tool for call in self.calls if call.status is CallStatus.DONE)


def computation(call: RecordedCall) -> str:
    """Return what a call computed, with its first results: `1200 * 3 = 3600`."""
    data = as_object(call.data)
    return f"{str(data.get('expression'))[:120]} = {', '.join(map(str, as_list(data.get('results'))[:5]))}"


def _found_at(hit: JsonObject) -> tuple[str, str]:
    return str(hit.get("document_id")), str(hit.get("page"))


def decimal(text: str) -> Decimal | None:
    """Parse a number in an answer. Return None if it is not a finite decimal number.

    >>> decimal("1250.50"), decimal("12,50"), decimal("NaN")
    (Decimal('1250.50'), None, None)
    """
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        return None
    return value if value.is_finite() else None
