"""docs/supabase.md names what exists. (tests/front_ends runs its blocks.)"""

from __future__ import annotations

import re
from pathlib import Path

from role_connections import Roles

PAGE = (Path(__file__).parents[2] / "docs" / "supabase.md").read_text("utf-8")


def test_supabase_page_lists_published_tables(roles: Roles) -> None:
    published = roles.owner.execute("select tablename from pg_publication_tables where pubname = 'supabase_realtime'")
    listed = re.findall(r"`(\w+)`", PAGE.split("Realtime publishes")[1].split(".")[0])
    assert {name for (name,) in published.fetchall()} == set(listed)


def public_functions(roles: Roles) -> dict[str, list[str]]:
    """Return the arguments of each public function, with `?` after optional ones."""
    with roles.as_owner() as connection:
        rows = connection.execute(
            """select p.proname, coalesce((
                 select array_agg(
                   a.name || case when n > p.pronargs - p.pronargdefaults then '?' else '' end order by n)
                 from unnest(p.proargnames[1:p.pronargs]) with ordinality as a (name, n)), '{}')
               from pg_proc as p
               where p.pronamespace = 'public'::regnamespace
                 and has_function_privilege('authenticated', p.oid, 'execute')"""
        )
        return dict(rows.fetchall())


def test_docs_list_every_public_function_with_arguments(roles: Roles) -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*)\|", PAGE, re.MULTILINE)
    assert {name: re.findall(r"`(p_\w+\??)`", arguments) for name, arguments in rows} == public_functions(roles)
