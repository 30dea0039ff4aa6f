"""What a run has done so far, as the ledger tells: what it has read, cited, reckoned and searched for. What an answer
may say is checked against this, so it holds across a crash, and whatever the model believes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Final, Literal
from uuid import UUID

from fieldmark.db.pool import Connection
from fieldmark.domain.answers import AnswerCoverage, DocumentRead, RecordedIntent, Source, ToolCallMade, Trace
from fieldmark.domain.json_values import JsonObject, as_list, as_object
from fieldmark.domain.statuses import CallStatus
from fieldmark.stores import tool_calls
from fieldmark.stores.tool_calls import RecordedCall
from fieldmark.tools.toolset import ToolInput

INVALID: Final[Literal["answer_invalid"]] = "answer_invalid"
"""The code of an answer that was refused for what it says."""

GAVE_UP: Final = "gave_up"
"""In what a call that ends the run tells programs: why there is no answer."""

SUBMITTING: Final = ("submit_answer", "submit_summary", "submit_calculation")

MOST_CALLS: Final = 100
"""Calls that an answer lists."""

_BLOCK: Final = re.compile(r"([0-9a-f]{12})-(\d{1,7})-(\d{1,7})")
_DIGITS: Final = 12


def block_id(document_id: UUID, page: int, number: int) -> str:
    """The name of a block: of its document, its page and its number there. The same in every run.

    >>> block_id(UUID(int=10), 2, 3)
    '00000000000a-2-3'
    """
    return f"{document_id.hex[-_DIGITS:]}-{page}-{number}"


@dataclass(frozen=True, slots=True)
class ReadBlock:
    """A block that was shown to the run."""

    document_id: UUID
    page: int
    number: int


@dataclass(frozen=True, slots=True)
class Record:
    """The calls of a run that have run, in their order."""

    calls: Sequence[RecordedCall]
    # What comes with the answer that is being submitted.
    given: Mapping[int, Source] = field(default_factory=dict[int, Source])

    @classmethod
    async def of(cls, conn: Connection, run_id: UUID) -> Record:
        return cls(await tool_calls.recorded(conn, run_id))

    def done(self, *tools: str) -> Iterator[RecordedCall]:
        """The calls of these tools that went well."""
        return (call for call in self.calls if call.tool in tools and call.status is CallStatus.DONE)

    @property
    def intent(self) -> str | None:
        """What the run has last said that it is asked for."""
        said = [as_object(call.data).get("intent") for call in self.done("record_intent")]
        return str(said[-1]) if said else None

    @property
    def trace(self) -> Trace:
        """The way to the answer so far."""
        intents = list(self.done("record_intent"))
        return Trace(
            intent=RecordedIntent.model_validate(intents[-1].arguments) if intents else None,
            next_step=str(as_object(intents[-1].data).get("next_step")) if intents else None,
            documents_read=[DocumentRead(document_id=one, filename=name) for one, name in self.documents.items()],
            tool_calls_made=[
                ToolCallMade(tool=call.tool, input=call.arguments, code=call.code)
                for call in self.calls
                if call.tool not in SUBMITTING
            ][:MOST_CALLS],
        )

    def repeated(self, tool: str, args: ToolInput) -> RecordedCall | None:
        """The last call of a tool with the same arguments that went well. Its answer may be given again."""
        return next(
            (
                call
                for call in reversed(list(self.done(tool)))
                if type(args).model_validate(call.arguments) == args and not as_object(call.data).get("not_indexed")
            ),
            None,
        )

    @property
    def found(self) -> set[tuple[str, str]]:
        """What searches have found so far: ids of documents with a page."""
        hits = [as_list(as_object(call.data).get("hits")) for call in self.done("search_documents")]
        return {_found_at(as_object(hit)) for some in hits for hit in some}

    @property
    def has_answered(self) -> bool:
        return any(GAVE_UP not in as_object(call.data) for call in self.done(*SUBMITTING))

    @property
    def was_refused(self) -> bool:
        """Whether an answer was refused for what it says."""
        return any(call.tool in SUBMITTING and call.code == INVALID for call in self.calls)

    def read(self) -> Iterator[tuple[UUID, str, int, int, int]]:
        """What was shown of documents: id, name, page, first and last block there."""
        for call in self.done("read_document", "read_multiple_documents"):
            for document in as_list(as_object(call.data).get("read")):
                told = as_object(document)
                for shown in as_list(told.get("shown")):
                    page, first, last = (int(str(one)) for one in as_list(shown))
                    yield UUID(str(told["document_id"])), str(told["name"]), page, first, last

    def block(self, named: str) -> ReadBlock | None:
        """The block of a name, if it was shown to this run."""
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
        """What was cited, by number. A number that was cited again is what it was cited as last."""
        found: dict[int, Source] = {}
        for call in self.done("cite_source"):
            source = Source.model_validate(as_object(call.data)["source"])
            found[source.number] = source
        return {**found, **self.given}

    @property
    def sources(self) -> list[Source]:
        """What was cited, in order."""
        return [source for _, source in sorted(self.citations.items())]

    @property
    def searched(self) -> list[str]:
        """What was looked for in all documents, each once."""
        said = [str(as_object(call.data).get("searched", "")) for call in self.done("search_documents", "query_fields")]
        return [one for one in dict.fromkeys(said) if one]

    @property
    def coverage(self) -> list[AnswerCoverage]:
        """The coverage of each exact question, each once. One that asks for a field which no document has says
        nothing of the others: it is told where all are so."""
        found = [as_object(call.data).get("coverage") for call in self.done("query_fields")]
        told = [AnswerCoverage.model_validate(one) for one in found if one]
        told = [one for one in told if one.with_field] or told[:1]
        return [one for at, one in enumerate(told) if one not in told[:at]]

    def coverage_beside(self, sources: Sequence[Source]) -> list[AnswerCoverage]:
        """The coverage that an answer with these sources shows: beside sources, not that of questions to fields that no
        document has."""
        return [one for one in self.coverage if one.with_field] if sources else self.coverage

    def results(self) -> Iterator[tuple[Decimal, RecordedCall]]:
        """What was reckoned in this run, and by which call."""
        for call in self.done("calculator", "query_fields"):
            for one in as_list(as_object(call.data).get("results")):
                if (value := decimal(str(one))) is not None:
                    yield value, call

    @property
    def values(self) -> list[Source]:
        """The first values behind the figures that were asked for."""
        told = [as_list(as_object(call.data).get("sources")) for call in self.done("query_fields")]
        return [Source.model_validate(one) for some in told for one in some]

    @property
    def keys(self) -> list[str]:
        """By what figures were told apart: vendors, months."""
        told = [as_list(as_object(call.data).get("groups")) for call in self.done("query_fields")]
        return [str(as_object(one).get("key")) for some in told for one in some]

    def count(self, *tools: str) -> int:
        """How often these tools were called, whatever came of it."""
        return sum(call.tool in tools for call in self.calls)

    @property
    def documents(self) -> dict[UUID, str]:
        """The documents that were read, by id, with their names."""
        return {document_id: name for document_id, name, *_ in self.read()}

    @property
    def tools(self) -> Counter[str]:
        """How often each tool has done something."""
        return Counter(call.tool for call in self.calls if call.status is CallStatus.DONE)


def _found_at(hit: JsonObject) -> tuple[str, str]:
    return str(hit.get("doc_id")), str(hit.get("page"))


def decimal(said: str) -> Decimal | None:
    """A number as it is written in an answer; None for what is none.

    >>> decimal("1250.50"), decimal("12,50"), decimal("NaN")
    (Decimal('1250.50'), None, None)
    """
    try:
        value = Decimal(said.strip())
    except InvalidOperation:
        return None
    return value if value.is_finite() else None
