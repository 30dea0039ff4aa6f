"""Full-text search: ranking, access, and the index."""

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
from page_words import text_page

pytestmark = pytest.mark.anyio


@dataclass
class Library:
    """The documents of one user, read and indexed."""

    database: Database
    owner_url: str
    scope: Scope
    read: list[UUID] = field(default_factory=list[UUID])

    async def add_unindexed(self, *pages: str, filename: str = "a.txt") -> UUID:
        """Add a read document that is not indexed yet."""
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
        rows = [text_page(number, text) for number, text in enumerate(pages, start=1)]
        await documents.add_pages(conn, document, self.scope.org_id, rows)
        await documents.finish_reading(conn, document, media_type="text/plain", page_count=len(pages))

    async def add(self, *pages: str, filename: str = "a.txt") -> UUID:
        document = await self.add_unindexed(*pages, filename=filename)
        await search.index(self.database, document)
        return document

    async def search(self, query: str, **options: Any) -> SearchResult:
        async with self.database.as_user(self.scope) as conn:
            return await search.search(conn, self.scope, query, **options)

    async def find_ids(self, query: str, **options: Any) -> list[UUID]:
        return [hit.document_id for hit in (await self.search(query, **options)).hits]

    def extract(self, document: UUID, fields: dict[str, Any], document_type: str | None = None) -> None:
        """Add a completed extraction."""
        query = "insert into extractions (org_id, document_id, created_by) values (%s, %s, %s) returning id"
        sql(self.owner_url, query, self.scope.org_id, document, self.scope.user_id)
        sql(
            self.owner_url,
            """update extractions set extracted_fields = %s, document_type = %s, status = 'completed'
               where document_id = %s""",
            Jsonb(fields),
            document_type,
            document,
        )


@pytest.fixture
def new_library(database, make_user, clone) -> Callable[[], Awaitable[Library]]:
    async def make() -> Library:
        return Library(database, clone.owner_url, await make_user())

    return make


@pytest.fixture
async def library(new_library) -> Library:
    return await new_library()


async def test_any_word_matches_and_rare_words_rank_higher(library):
    roof = await library.add("The survey of the house.\nThe roof leaks in two places.")
    house = await library.add("The survey of a house without damage. The house is sound.")
    assert await library.find_ids("What does the survey say about leaking roofs?") == [roof, house]
    hit = (await library.search("leaking roof")).hits[0]
    assert (hit.filename, hit.page) == ("a.txt", 1)
    assert [hit.snippet[mark.start : mark.end] for mark in hit.marks] == ["roof", "leaks"]
    assert all(0 <= edge <= 1 for mark in hit.marks for edge in mark.box)
    assert await library.find_ids("nothing of that kind") == []
    assert await library.find_ids("the of and") == []  # stop words
    assert await library.find_ids("") == []


async def test_hits_have_pages_and_are_limited_per_document(library):
    pages = [f"Page about copper, and chapter {number}." for number in range(9)]
    long = await library.add(*pages, "Here zinc is named.")
    short = await library.add("Copper is also named here, once, among other metals like iron or tin or lead.")
    assert (await library.search("zinc")).hits[0].page == 10
    assert sorted(await library.find_ids("copper")) == sorted([long] * search.MAX_HITS_PER_DOCUMENT + [short])
    # A search within one document has no such limit.
    inside = (await library.search("copper", filters=DocumentFilters(document_ids=(long,)))).hits
    assert {(hit.document_id, hit.page) for hit in inside} == {(long, page) for page in range(1, 10)}
    assert len(await library.find_ids("copper", filters=DocumentFilters(document_ids=(long,)), limit=4)) == 4


async def test_languages_accents_and_printed_ids_are_found(library):
    german = await library.add("Die Rechnung über die Lieferung der Bücher ist nicht bezahlt.")
    chinese = await library.add("这是关于北京大学的发票")
    printed = await library.add("Reference INV-2024/0077 was paid to DE89 3704 0044 0532 0130 00, EUR 1,234.50")
    assert await library.find_ids("Buch Lieferungen") == [german]
    assert await library.find_ids("北京大学") == [chinese]
    for query in ("INV-2024/0077", "inv-2024/0077.", "0077", "DE89370400440532013000", "1234.50", "1234"):
        assert await library.find_ids(query) == [printed], query
    # Stop words of the query's language match in no other language, even if they are rare.
    await library.add("El informe de la casa con el tejado: the, what, is.")
    english = await library.add("The survey of the house says that the roof leaks.")
    assert await library.find_ids("What is the survey?") == [english]


async def test_filename_type_and_fields_match_too(library):
    document = await library.add("First page about copper.", "Second page about zinc.", filename="Survey_Hilltop.pdf")
    other = await library.add("Third page about zinc.")
    assert [(hit.document_id, hit.page) for hit in (await library.search("hilltop zinc")).hits] == [
        (document, 2),
        (other, 1),
    ]
    assert [(hit.document_id, hit.page) for hit in (await library.search("hilltop")).hits] == [(document, 1)]
    library.extract(document, {"vendor": {"name": "Acme Roofing"}, "items": [{"name": "Ladder"}]}, "survey_report")
    assert (await library.search("acme")).not_indexed == 1
    await search.index(library.database, document)
    assert await library.find_ids("acme") == await library.find_ids("report") == [document]
    assert await library.find_ids("ladder") == []  # list items are not indexed


async def test_unindexed_documents_are_counted(library):
    document = await library.add_unindexed("The roof leaks.")
    assert await library.search("roof") == SearchResult([], 1, "off", 0)
    await search.index(library.database, document)
    await search.index(library.database, document)  # again
    find_ids = await library.search("roof")
    assert (len(find_ids.hits), find_ids.not_indexed) == (1, 0)
    assert check_chunk_count(library) == 1  # the file name adds none


@pytest.mark.parametrize("clean", [search.index, search.abandon_indexing])
async def test_deleted_document_is_not_found_and_leaves_no_chunks(library, clean):
    document = await library.add("The roof leaks.", filename="Hilltop.txt")
    kept = await library.add("The roof is sound.")
    async with library.database.as_user(library.scope) as conn:
        await documents.remove(conn, document)
    assert await library.find_ids("roof") == [kept]  # even before its job has run
    await clean(library.database, document)
    assert await library.search("hilltop leaks") == SearchResult([], 0, "off", 0)
    left = sql(library.owner_url, "select count(*) as n from private.search_chunks where document_id = %s", document)
    assert left[0]["n"] == 0
    assert check_chunk_count(library) == 1  # the file name adds none


async def test_reread_or_renamed_document_replaces_its_chunks(library):
    document = await library.add("The roof leaks.", filename="Hilltop.txt")
    async with library.database.as_user(library.scope) as conn:
        await documents.start_reading(conn, document)
    sql(library.owner_url, "update documents set status = 'reading' where id = %s", document)
    assert await library.find_ids("roof") == []
    sql(library.owner_url, "delete from document_pages where document_id = %s", document)
    async with library.database.as_user(library.scope) as conn:
        await library.add_pages(conn, document, ("The cellar is wet.",))
        await conn.execute("select public.rename_document(%s, 'Valley.txt')", (document,))
    await search.index(library.database, document)
    assert await library.find_ids("roof") == await library.find_ids("hilltop") == []
    assert await library.find_ids("cellars") == await library.find_ids("valley") == [document]


async def test_document_changed_while_indexed_is_indexed_again(library):
    document = await library.add_unindexed("The roof leaks.")
    async with library.database.as_service() as conn:
        before = await store.find_queued_document(conn, document)
        assert before is not None
    sql(library.owner_url, "update documents set filename = 'Valley.txt' where id = %s", document)
    async with library.database.as_service() as conn:
        assert not await store.write(conn, document, before.change, [])
    assert (await library.search("roof")).not_indexed == 1
    await search.index(library.database, document)
    assert await library.find_ids("valley") == [document]


async def test_other_organisations_affect_neither_hits_nor_scores(library, new_library):
    own_ids = [await library.add(text) for text in ("The roof leaks.", "The roof is sound, and the cellar is dry.")]
    expected = await library.search("roof cellar")
    other = await new_library()
    other_ids = [await other.add("The roof, the roof, the cellar, the cellar and the rest.") for _ in range(20)]
    await other.add_unindexed("Roof.")
    assert await library.search("roof cellar") == expected
    assert {hit.document_id for hit in expected.hits} == set(own_ids)
    assert set(await other.find_ids("roof", limit=100)) == set(other_ids)
    # Naming the other organisation or its documents returns nothing.
    async with library.database.as_user(library.scope) as conn:
        for among in (None, other_ids):
            statement = "select * from private.search(%s, array['roof'], %s)"
            assert await (await conn.execute(statement, (other.scope.org_id, among))).fetchall() == []
            statement = "select * from private.search(%s, array['rest'], %s)"
            assert await (await conn.execute(statement, (library.scope.org_id, among))).fetchall() == []
        unindexed = await (
            await conn.execute("select private.count_unindexed_documents(%s) as n", (other.scope.org_id,))
        ).fetchone()
        assert unindexed == {"n": 0}
    assert await library.find_ids("roof", filters=DocumentFilters(document_ids=tuple(other_ids))) == []


async def test_filters_are_applied_before_frequent_words_are_cut_off(library, monkeypatch):
    monkeypatch.setattr(search, "MAX_RANKED_CHUNKS", 8)
    for _ in range(9):
        await library.add("The roof is sound.", filename="other.pdf")
    kept = {await library.add("The roof leaks.", filename=f"{number}.txt") for number in range(5)}
    find_ids = await library.find_ids("roof", filters=DocumentFilters(filename=".txt"))
    assert (len(find_ids), set(find_ids) - kept) == (2, set())


async def test_reindexed_document_counts_once(library):
    one = await library.add("The roof leaks. The roof is wet.", "A dry cellar and a roof.")
    two = await library.add("A cellar and a roof, and a wet garden.")
    assert check_chunk_count(library) == 3
    for document in (one, two, one):
        sql(library.owner_url, "update documents set filename = filename || 'x' where id = %s", document)
        await search.index(library.database, document)
        assert check_chunk_count(library) == 3
    async with library.database.as_user(library.scope) as conn:
        await documents.remove(conn, one)
    await search.index(library.database, one)
    assert check_chunk_count(library) == 1


async def test_filters_select_documents(library):
    cheap, dear = [await library.add(f"The invoice of {day} for a roof.") for day in ("Monday", "Tuesday")]
    for document, total in ((cheap, 10), (dear, 5000)):
        library.extract(document, {"total": total}, "invoice")
    over = DocumentFilters(fields=(FieldCondition.parse("total > 1000"),))
    assert set(await library.find_ids("roof")) == {cheap, dear}
    assert await library.find_ids("roof", filters=over) == [dear]
    assert await library.find_ids("roof", filters=DocumentFilters(document_ids=(cheap,))) == [cheap]
    assert await library.find_ids("roof", filters=DocumentFilters(tags=("none",))) == []


async def test_query_has_no_operators_and_a_length_limit(library):
    document = await library.add("The roof leaks.")
    for query in (
        "'roof' & ! | <-> :* (( roof",
        "roof'; drop table documents; --",
        "roof\0 \ud800",
        "roof \u202e %s {}",
    ):
        assert (query, await library.find_ids(query)) == (query, [document])
    # Only the first words are searched.
    assert await library.find_ids(" ".join(f"w{n}" for n in range(200)) + " roof") == []
    with pytest.raises(Invalid):
        await library.search("roof " * 10_000)


async def test_hostile_pages_are_indexed(library):
    await library.add("x" * 300_000, "漢" * 50_000, "\u202e" * 100 + " roof", "<b>roof</b> & <script>", "a " * 30_000)
    hits = (await library.search("roof")).hits
    assert {hit.page for hit in hits} == {3, 4}
    assert "<script>" in "".join(hit.snippet for hit in hits)  # text, unchanged


def check_chunk_count(library: Library) -> int:
    """Return how many chunks the organisation counts, after checking all its counters against its chunks."""
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
