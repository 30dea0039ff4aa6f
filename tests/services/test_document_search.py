"""Search: what is found, in whose documents, and how the index keeps up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from extraction_case import sql
from fieldmark.db.pool import Database
from fieldmark.domain.document_filters import DocumentFilters, FieldCondition
from fieldmark.domain.ids import new_id
from fieldmark.errors import Invalid
from fieldmark.files import stored_path
from fieldmark.identity.scope import Scope
from fieldmark.services import search
from fieldmark.services.search import SearchResult
from fieldmark.stores import documents
from fieldmark.stores import search as store
from fieldmark.stores.rows import PageRow
from page_words import words_of

pytestmark = pytest.mark.anyio


@dataclass
class Library:
    """The documents of one user, read and indexed."""

    database: Database
    owner_url: str
    scope: Scope
    read: list[UUID] = field(default_factory=list[UUID])

    async def read_text(self, *pages: str, filename: str = "a.txt") -> UUID:
        """A document that is read, and not indexed yet."""
        document = new_id()
        async with self.database.as_user(self.scope) as conn:
            path = str(stored_path(self.scope.org_id, document, "a.txt"))
            await documents.add(
                conn,
                document_id=document,
                org_id=self.scope.org_id,
                filename=filename,
                storage_path=path,
                byte_size=1,
            )
            await self.add_pages(conn, document, pages)
        return document

    async def add_pages(self, conn: Any, document: UUID, pages: tuple[str, ...]) -> None:
        rows = [PageRow(number, 600, 800, text, words_of(text), "text") for number, text in enumerate(pages, start=1)]
        await documents.add_pages(conn, document, self.scope.org_id, rows)
        await documents.finish_reading(conn, document, media_type="text/plain", page_count=len(pages))

    async def add(self, *pages: str, filename: str = "a.txt") -> UUID:
        document = await self.read_text(*pages, filename=filename)
        await search.index(self.database, document)
        return document

    async def find(self, query: str, **asked: Any) -> SearchResult:
        async with self.database.as_user(self.scope) as conn:
            return await search.search(conn, self.scope, query, **asked)

    async def found(self, query: str, **asked: Any) -> list[UUID]:
        return [hit.document_id for hit in (await self.find(query, **asked)).hits]

    def extract(self, document: UUID, fields: dict[str, Any], document_type: str | None = None) -> None:
        """A completed extraction, as an agent would leave it, with all triggers."""
        made = "insert into extractions (org_id, document_id, created_by) values (%s, %s, %s) returning id"
        sql(self.owner_url, made, self.scope.org_id, document, self.scope.user_id)
        sql(
            self.owner_url,
            """update extractions set extracted_fields = %s, document_type = %s, status = 'completed'
               where document_id = %s""",
            Jsonb(fields),
            document_type,
            document,
        )


@pytest.fixture
def enter(database, make_user, clone) -> Callable[[], Awaitable[Library]]:
    async def make() -> Library:
        return Library(database, clone.owner_url, await make_user())

    return make


@pytest.fixture
async def library(enter) -> Library:
    return await enter()


async def test_any_word_finds_and_rare_ones_say_most(library):
    roof = await library.add("The survey of the house.\nThe roof leaks in two places.")
    house = await library.add("The survey of a house without damage. The house is sound.")
    assert await library.found("What does the survey say about leaking roofs?") == [roof, house]
    hit = (await library.find("leaking roof")).hits[0]
    assert (hit.filename, hit.page) == ("a.txt", 1)
    assert [hit.snippet[mark.start : mark.end] for mark in hit.marks] == ["roof", "leaks"]
    assert all(0 <= edge <= 1 for mark in hit.marks for edge in mark.box)
    assert await library.found("nothing of that kind") == []
    assert await library.found("the of and") == []  # words that say nothing
    assert await library.found("") == []


async def test_the_page_is_told_and_a_long_document_does_not_fill_the_list(library):
    pages = [f"Page about copper, and chapter {number}." for number in range(9)]
    long = await library.add(*pages, "Here zinc is named.")
    short = await library.add("Copper is also named here, once, among other metals like iron or tin or lead.")
    assert (await library.find("zinc")).hits[0].page == 10
    assert sorted(await library.found("copper")) == sorted([long] * search.MAX_HITS_PER_DOCUMENT + [short])
    # Inside one document all are found.
    inside = (await library.find("copper", filters=DocumentFilters(document_ids=(long,)))).hits
    assert {(hit.document_id, hit.page) for hit in inside} == {(long, page) for page in range(1, 10)}
    assert len(await library.found("copper", filters=DocumentFilters(document_ids=(long,)), limit=4)) == 4


async def test_other_languages_accents_and_printed_ids(library):
    german = await library.add("Die Rechnung über die Lieferung der Bücher ist nicht bezahlt.")
    chinese = await library.add("这是关于北京大学的发票")
    printed = await library.add("Reference INV-2024/0077 was paid to DE89 3704 0044 0532 0130 00, EUR 1,234.50")
    assert await library.found("Buch Lieferungen") == [german]
    assert await library.found("北京大学") == [chinese]
    for asked in ("INV-2024/0077", "inv-2024/0077.", "0077", "DE89370400440532013000", "1234.50", "1234"):
        assert await library.found(asked) == [printed], asked
    # Words that say nothing in the question's language do not lead to another, where they are rare.
    await library.add("El informe de la casa con el tejado: the, what, is.")
    english = await library.add("The survey of the house says that the roof leaks.")
    assert await library.found("What is the survey?") == [english]


async def test_what_is_known_of_a_document_leads_to_each_of_its_pages(library):
    document = await library.add("First page about copper.", "Second page about zinc.", filename="Survey_Hilltop.pdf")
    other = await library.add("Third page about zinc.")
    assert [(hit.document_id, hit.page) for hit in (await library.find("hilltop zinc")).hits] == [
        (document, 2),
        (other, 1),
    ]
    assert [(hit.document_id, hit.page) for hit in (await library.find("hilltop")).hits] == [(document, 1)]
    library.extract(document, {"vendor": {"name": "Acme Roofing"}, "items": [{"name": "Ladder"}]}, "survey_report")
    assert (await library.find("acme")).not_indexed == 1
    await search.index(library.database, document)
    assert await library.found("acme") == await library.found("report") == [document]
    assert await library.found("ladder") == []  # an item of a list is left to the pages


async def test_it_says_while_it_lags(library):
    document = await library.read_text("The roof leaks.")
    assert await library.find("roof") == SearchResult([], 1, "off", 0)
    await search.index(library.database, document)
    await search.index(library.database, document)  # twice does no harm
    found = await library.find("roof")
    assert (len(found.hits), found.not_indexed) == (1, 0)
    assert statistics(library) == 1  # the name says nothing


async def test_what_is_deleted_is_found_no_more_and_leaves_nothing(library):
    document = await library.add("The roof leaks.", filename="Hilltop.txt")
    kept = await library.add("The roof is sound.")
    async with library.database.as_user(library.scope) as conn:
        await documents.remove(conn, document)
    assert await library.found("roof") == [kept]  # before its job has run, too
    await search.index(library.database, document)
    assert await library.find("hilltop leaks") == SearchResult([], 0, "off", 0)
    left = sql(library.owner_url, "select count(*) as n from private.search_chunks where document_id = %s", document)
    assert left[0]["n"] == 0
    assert statistics(library) == 1  # the name says nothing


async def test_what_is_read_anew_or_renamed_takes_the_place_of_what_was(library):
    document = await library.add("The roof leaks.", filename="Hilltop.txt")
    async with library.database.as_user(library.scope) as conn:
        await documents.start_reading(conn, document)
    sql(library.owner_url, "update documents set status = 'reading' where id = %s", document)
    assert await library.found("roof") == []
    sql(library.owner_url, "delete from document_pages where document_id = %s", document)
    async with library.database.as_user(library.scope) as conn:
        await library.add_pages(conn, document, ("The cellar is wet.",))
        await conn.execute("select public.rename_document(%s, 'Valley.txt')", (document,))
    await search.index(library.database, document)
    assert await library.found("roof") == await library.found("hilltop") == []
    assert await library.found("cellars") == await library.found("valley") == [document]


async def test_what_changes_while_it_is_indexed_is_indexed_again(library):
    document = await library.read_text("The roof leaks.")
    async with library.database.as_service() as conn:
        before = await store.source(conn, document)
        assert before is not None
    sql(library.owner_url, "update documents set filename = 'Valley.txt' where id = %s", document)
    async with library.database.as_service() as conn:
        assert not await store.write(conn, document, before.change, [])
    assert (await library.find("roof")).not_indexed == 1
    await search.index(library.database, document)
    assert await library.found("valley") == [document]


async def test_of_another_organisation_nothing_is_found_and_nothing_counts(library, enter):
    mine = [await library.add(text) for text in ("The roof leaks.", "The roof is sound, and the cellar is dry.")]
    alone = await library.find("roof cellar")
    other = await enter()
    theirs = [await other.add("The roof, the roof, the cellar, the cellar and the rest.") for _ in range(20)]
    await other.read_text("Roof.")
    assert await library.find("roof cellar") == alone  # neither rank, nor count, nor score
    assert {hit.document_id for hit in alone.hits} == set(mine)
    assert set(await other.found("roof", limit=100)) == set(theirs)
    # Not for who names the other organisation, nor its documents.
    async with library.database.as_user(library.scope) as conn:
        for among in (None, theirs):
            statement = "select * from private.search(%s, array['roof'], %s)"
            assert await (await conn.execute(statement, (other.scope.org_id, among))).fetchall() == []
            statement = "select * from private.search(%s, array['rest'], %s)"
            assert await (await conn.execute(statement, (library.scope.org_id, among))).fetchall() == []
        behind = await (
            await conn.execute("select private.count_unindexed_documents(%s) as n", (other.scope.org_id,))
        ).fetchone()
        assert behind == {"n": 0}
    assert await library.found("roof", filters=DocumentFilters(document_ids=tuple(theirs))) == []


async def test_where_words_are_frequent_filters_come_before_what_is_left_out(library, monkeypatch):
    monkeypatch.setattr(search, "MAX_RANKED_CHUNKS", 8)
    for _ in range(9):
        await library.add("The roof is sound.", filename="other.pdf")
    kept = {await library.add("The roof leaks.", filename=f"{number}.txt") for number in range(5)}
    found = await library.found("roof", filters=DocumentFilters(filename=".txt"))
    assert (len(found), set(found) - kept) == (2, set())


async def test_what_is_indexed_again_counts_once(library):
    one = await library.add("The roof leaks. The roof is wet.", "A dry cellar and a roof.")
    two = await library.add("A cellar and a roof, and a wet garden.")
    assert statistics(library) == 3
    for document in (one, two, one):
        sql(library.owner_url, "update documents set filename = filename || 'x' where id = %s", document)
        await search.index(library.database, document)
        assert statistics(library) == 3
    async with library.database.as_user(library.scope) as conn:
        await documents.remove(conn, one)
    await search.index(library.database, one)
    assert statistics(library) == 1


async def test_filters_leave_what_they_name_and_every_piece_of_it(library):
    cheap, dear = [await library.add(f"The invoice of {day} for a roof.") for day in ("Monday", "Tuesday")]
    for document, total in ((cheap, 10), (dear, 5000)):
        library.extract(document, {"total": total}, "invoice")
    over = DocumentFilters(fields=(FieldCondition.parse("total > 1000"),))
    assert set(await library.found("roof")) == {cheap, dear}
    assert await library.found("roof", filters=over) == [dear]
    assert await library.found("roof", filters=DocumentFilters(document_ids=(cheap,))) == [cheap]
    assert await library.found("roof", filters=DocumentFilters(tags=("none",))) == []


async def test_a_question_has_no_operators_and_is_of_bounded_length(library):
    document = await library.add("The roof leaks.")
    for query in (
        "'roof' & ! | <-> :* (( roof",
        "roof'; drop table documents; --",
        "roof\0 \ud800",
        "roof \u202e %s {}",
    ):
        assert (query, await library.found(query)) == (query, [document])
    # Only the first words are searched.
    assert await library.found(" ".join(f"w{n}" for n in range(200)) + " roof") == []
    with pytest.raises(Invalid):
        await library.find("roof " * 10_000)


async def test_a_hostile_page_is_indexed_all_the_same(library):
    await library.add("x" * 300_000, "漢" * 50_000, "\u202e" * 100 + " roof", "<b>roof</b> & <script>", "a " * 30_000)
    hits = (await library.find("roof")).hits
    assert {hit.page for hit in hits} == {3, 4}
    assert "<script>" in "".join(hit.snippet for hit in hits)  # data, as it stands there


def statistics(library: Library) -> int:
    """How many chunks the organisation counts. What it counts of each term, and in all, is what its chunks have."""
    rows = sql(
        library.owner_url,
        """with piece as (
             select p.* from private.search_chunks as p join private.search_orgs as o on o.number = p.org_number
             where o.org_id = %s
           ), term as (
             select key, count(*)::integer as chunks from piece cross join lateral (select distinct unnest(keys) as key)
             group by key having count(*) > 1)
           select o.chunks, o.chunks = (select count(*) from piece) as are_all,
             o.terms = (select coalesce(sum(length), 0) from piece where number > 0)
               and o.page_chunks = (select count(*) from piece where number > 0) as is_sum,
             array(select (key, chunks) from term order by key)
               = array(
                 select (t.key, t.chunks) from private.search_terms as t where t.org_number = o.number order by key)
               as are_counted
           from private.search_orgs as o where o.org_id = %s""",
        library.scope.org_id,
        library.scope.org_id,
    )
    assert rows[0]["are_all"] and rows[0]["is_sum"] and rows[0]["are_counted"]
    return rows[0]["chunks"]
