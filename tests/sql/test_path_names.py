"""SQL and `domain.paths` format path names alike, for any keys."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb
from role_connections import Roles

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
def test_sql_and_python_agree_on_path_names(roles: Roles, document: dict[str, Any]) -> None:
    nodes = roles.owner.execute("select name, path, steps from private.nodes(%s)", [Jsonb(document)]).fetchall()
    steps = {int: "i", str: "k"}
    assert sorted(nodes) == sorted(
        (name(path), to_sql(path), "".join(steps[type(step)] for step in path)) for path in paths_of(document)
    )
    # The same for changed nodes only, which the journal and the scores use.
    assert sorted(nodes) == sorted(
        roles.owner.execute("select name, path, steps from private.changes('{}', %s)", [Jsonb(document)]).fetchall()
    )
    # Each name parses to the path it names.
    assert set(paths_of(document)) == {parse(found) for found, _, _ in nodes}
