"""Measures quality and speed of the search.

Quality: questions with known answers, in `--folder` (cran.xml, cranq.xml, cran.qrel: the Cranfield collection;
xquad.LL.json: XQuAD), which is not in the repository. Each of their documents becomes a document named by its title.
Nothing is tuned to the questions.

Speed: chunks of made-up words with frequencies of a natural language (Zipf), in many organisations, one of which has
30 % of the chunks. Questions are generated the same way, so most have frequent words. The chunks are inserted without
the service; one document is then written by the service's function, which must change nothing.

With `--vectors`, the questions are also searched by meaning, with the model of an installed package.

    pip install '.[bench]' && python bench/search.py --folder <folder>
    pip install '.[bench,vectors]' && python bench/search.py --folder <folder> --vectors
    python bench/search.py --chunks 1000000 --organisations 1000

Exits with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import math
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID, uuid4

import numpy
import psycopg

from fieldmark.agents.registry import agent_rows
from fieldmark.db.embedded import embedded_postgres
from fieldmark.db.migrate import migrate
from fieldmark.db.pool import Database
from fieldmark.domain import search_terms
from fieldmark.domain.ids import new_id
from fieldmark.embedding import Embedder
from fieldmark.embedding.package import PackagedEmbedder
from fieldmark.files import stored_path
from fieldmark.identity.scope import Scope
from fieldmark.services import search
from fieldmark.services.organisations import scope_of_user
from fieldmark.services.search_vectors import VectorIndexer
from fieldmark.stores import documents
from pagewords import Page, Word
from processes import restore_signals, time_limit

DEADLINE_SECONDS = 3000
GOALS = {"cranfield": 0.40, "xquad-en": 0.96, "xquad-de": 0.94, "xquad-zh": 0.96}
GOALS_BY_MEANING = {**GOALS, "cranfield": 0.45}
MAX_MS = 50
MAX_SHARE_OF_TEXT = 3
TERMS_PER_CHUNK = 120
VOCABULARY = 60_000
SEED = 7

JudgedQuestions = tuple[dict[str, tuple[str, str]], dict[str, str], Mapping[str, set[str]]]
"""Documents (name, text), questions, and the documents that answer each question."""


def cranfield(folder: Path) -> JudgedQuestions:
    text = (folder / "cran.xml").read_text(errors="replace")
    parts = re.findall(r"<docno>(.*?)</docno>\s*<title>(.*?)</title>.*?<text>(.*?)</text>", text, re.DOTALL)
    asked = re.findall(r"<title>(.*?)</title>", (folder / "cranq.xml").read_text(errors="replace"), re.DOTALL)
    answers: dict[str, set[str]] = collections.defaultdict(set)
    for line in (folder / "cran.qrel").read_text().splitlines():
        question, _, document, judged = line.split()[:4]
        if int(judged) > 0:
            answers[question].add(document)
    return (
        {number.strip(): (" ".join(title.split()), body) for number, title, body in parts},
        {str(number): question.strip() for number, question in enumerate(asked, start=1)},
        answers,
    )


def xquad(folder: Path, language: str) -> JudgedQuestions:
    passages: dict[str, tuple[str, str]] = {}
    questions: dict[str, str] = {}
    answers: dict[str, set[str]] = {}
    for article in json.loads((folder / f"xquad.{language}.json").read_text())["data"]:
        for paragraph in article["paragraphs"]:
            number = str(len(passages) + 1)
            passages[number] = ("", paragraph["context"])
            for asked in paragraph["qas"]:
                questions[asked["id"]] = asked["question"]
                answers[asked["id"]] = {number}
    return passages, {name: questions[name] for name in sorted(questions)[::2]}, answers


def ndcg(found: Sequence[str], wanted: set[str]) -> float:
    gained = sum(1 / math.log2(place + 2) for place, one in enumerate(found[:10]) if one in wanted)
    return gained / sum(1 / math.log2(place + 2) for place in range(min(10, len(wanted))))


async def measure_quality(
    database: Database, name: str, judged: JudgedQuestions, result_limit: int, embedder: Embedder | None
) -> bool:
    passages, questions, answers = judged
    step = max(1, len(questions) // result_limit)
    questions = {asked: questions[asked] for asked in list(questions)[::step]}
    user_id = uuid4()
    scope = await scope_of_user(database, user_id)
    ids: dict[UUID, str] = {}
    began = time.perf_counter()
    for number, (title, body) in passages.items():
        document = new_id()
        ids[document] = number
        async with database.as_user(scope) as conn:
            await documents.add(
                conn,
                document_id=document,
                org_id=scope.org_id,
                filename=title[:255] or "a.txt",
                storage_path=str(stored_path(scope.org_id, document, "a.txt")),
                byte_size=1,
            )
            words = [Word(word, 0.1, 0.1, 0.2, 0.2) for word in body.split()]
            await documents.add_pages(conn, document, scope.org_id, [Page(1, 600, 800, body, words, "text")])
            await documents.finish_reading(conn, document, media_type="text/plain", page_count=1)
        await search.index(database, document)
    if embedder is not None:
        await VectorIndexer(database, embedder).index_all()
    indexed = (time.perf_counter() - began) / len(passages)
    goal = (GOALS if embedder is None else GOALS_BY_MEANING)[name]

    ours: list[float] = []
    took: list[float] = []
    for asked, question in questions.items():
        if not answers.get(asked):
            continue
        began = time.perf_counter()
        embedding = await search.embed_query(embedder, question)
        async with database.as_user(scope) as conn:
            found = await search.search(conn, scope, question[: search.MAX_QUERY], limit=30, embedding=embedding)
        assert found.semantic == ("off" if embedder is None else "on")
        hits = found.hits
        took.append(time.perf_counter() - began)
        ours.append(ndcg(list(dict.fromkeys(ids[hit.document_id] for hit in hits)), answers[asked]))

    score = statistics.mean(ours)
    print(
        f"{name:10} nDCG@10 {score:.3f} (goal {goal:.2f}); "
        f"{statistics.median(took) * 1000:.1f} ms a question, {indexed * 1000:.1f} ms a document to index; "
        f"{len(ours)} questions",
        flush=True,
    )
    return score >= goal


FILL_ORGANISATIONS = """
set session_replication_role = replica;
insert into auth.users (id) select md5('u' || n)::uuid from generate_series(1, %(orgs)s) as n;
insert into organisations (id, name, created_by) select md5('u' || n)::uuid, 'Of ' || n, md5('u' || n)::uuid
  from generate_series(1, %(orgs)s) as n;
insert into memberships (org_id, user_id, role, created_by)
  select md5('u' || n)::uuid, md5('u' || n)::uuid, 'owner', md5('u' || n)::uuid from generate_series(1, %(orgs)s) as n;
insert into private.search_orgs (org_id, languages) select md5('u' || n)::uuid, '{english}'
  from generate_series(1, %(orgs)s) as n;
"""
# Documents of an organisation, with four chunks each.
DOCUMENTS = """
insert into documents (id, org_id, created_by, filename, storage_path, media_type, byte_size, status, page_count)
select md5(%(org)s || d)::uuid, %(org)s::uuid, %(org)s::uuid, 'a.txt',
  concat_ws('/', %(org)s, md5(%(org)s || d)::uuid, 'a.txt'), 'text/plain', 1, 'ready', 1
from generate_series(0, %(pieces)s / 4) as d
returning id
"""
INSERT_KEYS = """
select string_agg(int4send((hashtextextended('word' || n || 'x', seed) >> 32)::integer), '' order by n)
from private.search_orgs, generate_series(0, %s - 1) as n where org_id = %s
"""
INSERT_CHUNKS = """copy private.search_chunks
  (document_id, number, org_number, page, first_word, last_word, language, length, keys, counts) from stdin"""
# Recreated after all rows: row by row would take an hour.
WITHOUT_INDEXES = """
drop index private.search_chunks_keys;
alter table private.search_chunks drop constraint search_chunks_pkey;
alter table private.search_terms drop constraint search_terms_pkey
"""
INDEXES = """
set maintenance_work_mem = '512MB';
create index search_chunks_keys on private.search_chunks using gin (keys) with (fastupdate = off);
alter table private.search_chunks add primary key (document_id, number);
alter table private.search_terms add primary key (org_number, key)
"""
STATISTICS = """
update private.search_orgs as o set chunks = p.chunks, page_chunks = p.chunks, terms = p.terms
from (select org_number, count(*) as chunks, sum(length) as terms from private.search_chunks group by 1) as p
where p.org_number = o.number
"""


def insert_organisations(owner_url: str, chunk_count: int, organisations: int) -> list[UUID]:
    """Insert organisations with chunks. The first one has 30 % of them."""
    generator = numpy.random.default_rng(SEED)
    with psycopg.connect(owner_url) as conn:
        _execute_each(conn, FILL_ORGANISATIONS, {"orgs": organisations})
        _execute_each(conn, WITHOUT_INDEXES)
        orgs = conn.execute("select org_id, number from private.search_orgs order by number").fetchall()
        for place, (org_id, number) in enumerate(orgs):
            share = chunk_count * 3 // 10 if place == 0 else chunk_count * 7 // 10 // max(1, organisations - 1)
            _insert_organisation(conn, generator, org_id, number, share)
        _execute_each(conn, INDEXES)
        _execute_each(conn, STATISTICS)
    with psycopg.connect(owner_url, autocommit=True) as conn:
        conn.execute("vacuum analyze")
        _check_service_writes_same_rows(conn, orgs[-1][0])
    return [row[0] for row in orgs]


def _execute_each(conn: psycopg.Connection, statements: str, parameters: Mapping[str, object] | None = None) -> None:
    for statement in statements.split(";\n"):
        if statement.strip():
            conn.execute(statement.encode(), parameters)


def _insert_organisation(
    conn: psycopg.Connection, generator: numpy.random.Generator, org_id: UUID, number: int, chunk_count: int
) -> None:
    documents_of_it = [
        row[0] for row in conn.execute(DOCUMENTS.encode(), {"org": str(org_id), "pieces": chunk_count}).fetchall()
    ]
    row = conn.execute(INSERT_KEYS.encode(), (VOCABULARY, org_id)).fetchone()
    assert row is not None
    keys = numpy.frombuffer(row[0], ">i4").astype(int)
    in_pieces = numpy.zeros(VOCABULARY, int)
    for begin in range(0, chunk_count, 20_000):
        many = min(20_000, chunk_count - begin)
        words = numpy.exp(generator.random((many, TERMS_PER_CHUNK)) * math.log(VOCABULARY)).astype(int) - 1
        drawn, counts = numpy.unique(words + numpy.arange(many)[:, None] * VOCABULARY, return_counts=True)
        of, word = drawn // VOCABULARY, drawn % VOCABULARY
        in_pieces += numpy.bincount(word, minlength=VOCABULARY)
        order = numpy.lexsort((word, -counts, of))  # frequent words first
        ends = numpy.cumsum(numpy.bincount(of, minlength=many)).tolist()
        of_keys, of_counts = keys[word[order]].tolist(), counts[order].tolist()
        with conn.cursor().copy(INSERT_CHUNKS) as copy:
            first = 0
            for piece, end in enumerate(ends, start=begin):
                often = bytes(count for count in of_counts[first:end] if count > 1).hex()
                copy.write(
                    f"{documents_of_it[piece // 4]}\t{piece % 4 + 1}\t{number}\t1\t0\t10\tenglish\t{TERMS_PER_CHUNK}\t"
                    f"{{{','.join(map(str, of_keys[first:end]))}}}\t\\\\x{often}\n"
                )
                first = end
    of_key = collections.Counter[int]()
    for key, count in zip(keys[in_pieces > 0].tolist(), in_pieces[in_pieces > 0].tolist(), strict=True):
        of_key[key] += count
    with conn.cursor().copy("copy private.search_terms (org_number, key, chunks) from stdin") as copy:
        for key, count in of_key.items():
            if count > 1:
                copy.write(f"{number}\t{key}\t{count}\n")


# A fingerprint of all search rows of an organisation, and a statement that writes one document as the service does.
SEARCH_FINGERPRINT = """
select md5(string_agg(p::text, ',' order by p.document_id, p.number)),
  (select md5(string_agg(t::text, ',' order by key)) from private.search_terms as t where t.org_number = o.number),
  o::text
from private.search_orgs as o join private.search_chunks as p on p.org_number = o.number
where o.org_id = %s group by o.org_id
"""
WRITE_AGAIN = """
with word as materialized (
  select (hashtextextended('word' || n || 'x', o.seed) >> 32)::integer as key, min('word' || n || 'x') as term
  from private.search_orgs as o, generate_series(0, %(vocabulary)s) as n where o.org_id = %(org)s group by 1
), document as (
  select min(document_id::text)::uuid as id from private.search_chunks as p
  join private.search_orgs as o on o.number = p.org_number where o.org_id = %(org)s
), due as (
  insert into private.indexing_queue (document_id, org_id) select id, %(org)s from document
  returning document_id, change
)
select document_id, change, (
  select jsonb_agg(to_jsonb(p) - 'keys' || jsonb_build_object('counts', encode(p.counts, 'hex'), 'terms', (
    select jsonb_agg(w.term order by k.place)
    from unnest(p.keys) with ordinality as k (key, place) join word as w using (key)
  ))) from private.search_chunks as p where p.document_id = due.document_id)
from due
"""


def _check_service_writes_same_rows(conn: psycopg.Connection, org_id: UUID) -> None:
    """Exit unless the service's function writes the rows that exist."""
    before = conn.execute(SEARCH_FINGERPRINT.encode(), (org_id,)).fetchone()
    row = conn.execute(WRITE_AGAIN.encode(), {"org": org_id, "vocabulary": VOCABULARY}).fetchone()
    assert row is not None
    conn.execute("select private.write_search_chunks(%s, %s, %s)", (row[0], row[1], json.dumps(row[2])))
    if before is None or conn.execute(SEARCH_FINGERPRINT.encode(), (org_id,)).fetchone() != before:
        sys.exit("What was filled in is not what the service would have written.")


async def measure_speed(
    database: Database, owner_url: str, chunk_count: int, organisations: int, questions: int
) -> bool:
    began = time.perf_counter()
    orgs = await asyncio.to_thread(insert_organisations, owner_url, chunk_count, organisations)
    print(
        f"{chunk_count:,} pieces of {organisations:,} organisations made in {time.perf_counter() - began:.0f} s",
        flush=True,
    )
    generator = random.Random(1)
    took: dict[str, list[float]] = {"the largest": [], "another": []}
    for number in range(questions + 20):
        for whose in took:
            org = orgs[0] if whose == "the largest" else generator.choice(orgs[1:])
            words = [
                int(math.exp(generator.random() * math.log(VOCABULARY)) - 1) for _ in range(generator.randint(2, 8))
            ]
            asked = " ".join(f"word{word}x" for word in words)
            began = time.perf_counter()
            async with database.as_user(Scope(org, org)) as conn:
                await search.search(conn, Scope(org, org), asked)
            if number >= 20:  # the first ones warm the caches
                took[whose].append((time.perf_counter() - began) * 1000)
    with psycopg.connect(owner_url) as conn:
        made = conn.execute("select sum(terms) from private.search_orgs").fetchone()
    assert made is not None
    worst = 0.0
    for whose, each in took.items():
        each.sort()
        p95 = each[int(len(each) * 0.95)]
        worst = max(worst, p95)
        print(f"{whose}: median {statistics.median(each):.1f} ms, p95 {p95:.1f} ms (goal {MAX_MS})", flush=True)
    # English text has about ten bytes per term: the term, a space, and stop words.
    return _check_index_size(owner_url, int(made[0]) * 10) and worst <= MAX_MS


def _check_index_size(owner_url: str, text: int) -> bool:
    """Return whether the index is small compared to the text of this many bytes."""
    with psycopg.connect(owner_url) as conn:
        sizes = conn.execute(
            """select pg_table_size('private.search_chunks'), pg_indexes_size('private.search_chunks'),
                 pg_total_relation_size('private.search_terms')"""
        ).fetchone()
    assert sizes is not None
    of_pieces, of_indexes, of_terms = (int(size) for size in sizes)
    ratio = (of_pieces + of_indexes + of_terms) / text
    print(
        f"index {ratio:.1f} times the text (goal {MAX_SHARE_OF_TEXT}): {of_pieces / 1e6:,.1f} MB pieces, "
        f"{of_indexes / 1e6:,.1f} MB their indexes, {of_terms / 1e6:,.1f} MB terms, of {text / 1e6:,.1f} MB",
        flush=True,
    )
    return ratio <= MAX_SHARE_OF_TEXT


async def main(
    home: Path, folder: Path | None, chunk_count: int, organisations: int, questions: int, *, by_meaning: bool
) -> int:
    with embedded_postgres(home, 18) as server:
        await migrate(server.owner_url, app_password=server.app_password, agents=agent_rows())
        reached = True
        embedder = PackagedEmbedder() if by_meaning else None
        async with Database(server.app_url, size=5) as database:
            if folder is not None:
                sets = {"cranfield": cranfield(folder)} if (folder / "cran.xml").exists() else {}
                for language in ("en", "de", "zh"):
                    if (folder / f"xquad.{language}.json").exists():
                        sets[f"xquad-{language}"] = xquad(folder, language)
                for name, judged in sets.items():
                    reached &= await measure_quality(database, name, judged, questions, embedder)
                text = sum(len(f"{a} {b}".encode()) for passages, _, _ in sets.values() for a, b in passages.values())
                reached &= _check_index_size(server.owner_url, text)
            if chunk_count:
                reached &= await measure_speed(database, server.owner_url, chunk_count, organisations, questions)
        if embedder is not None:
            await embedder.close()
    return 0 if reached else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--chunks", type=int, default=0)
    parser.add_argument("--organisations", type=int, default=1000)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--vectors", action="store_true")
    chosen = parser.parse_args()
    restore_signals()
    assert search_terms.MAX_CHUNK_TERMS >= TERMS_PER_CHUNK
    with (
        tempfile.TemporaryDirectory(prefix="fieldmark-bench-search-") as place,
        time_limit(DEADLINE_SECONDS, Path(place)),
    ):
        sys.exit(
            asyncio.run(
                main(
                    Path(place),
                    chosen.folder,
                    chosen.chunks,
                    chosen.organisations,
                    chosen.questions,
                    by_meaning=chosen.vectors,
                )
            )
        )
