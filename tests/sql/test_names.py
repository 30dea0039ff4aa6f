"""The names of paths: the database and `domain.paths` write the same ones, for whatever keys a document has."""

from __future__ import annotations

from typing import Any

from doors import Doors
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from fieldmark.domain.invisible import find_invisible
from fieldmark.domain.paths import name, parse, to_sql

STORABLE = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
ANY_TEXT = st.text(STORABLE, max_size=8) | st.text('.[]"\\ a0\n\t\x01\x1f\x7f\x80\xa0\u2028é', max_size=5)
KEYS = ANY_TEXT.filter(lambda key: find_invisible(key, key=True) is None)
DOCUMENTS = st.recursive(
    st.none(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=30,
)
EVERY_ASCII = {
    f"{before}{chr(code)}{after}": None for code in range(1, 160) for before in ("", "a") for after in ("", "a")
}


def paths_of(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for step, child in below for found in ((*path, step), *paths_of(child, (*path, step)))]


@settings(max_examples=60)
@example(EVERY_ASCII)
@given(st.dictionaries(KEYS, DOCUMENTS, max_size=6))
def test_sql_and_python_agree_on_path_names(doors: Doors, document: dict[str, Any]) -> None:
    nodes = doors.owner.execute("select name, path, steps from private.nodes(%s)", [Jsonb(document)]).fetchall()
    steps = {int: "i", str: "k"}
    assert sorted(nodes) == sorted(
        (name(path), to_sql(path), "".join(steps[type(step)] for step in path)) for path in paths_of(document)
    )
    # The same where only what differs is looked at, as the journal and the scores do.
    assert sorted(nodes) == sorted(
        doors.owner.execute("select name, path, steps from private.changes('{}', %s)", [Jsonb(document)]).fetchall()
    )
    # And each leads back to the place that it names.
    assert set(paths_of(document)) == {parse(found) for found, _, _ in nodes}
