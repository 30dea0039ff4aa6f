"""What a database consists of, as lines of text: for comparing two of them so that a person can read the difference."""

from __future__ import annotations

import psycopg

# Each answers one column of text, of what is ours: in `public` and `private`, the policies on Storage, the database.
_QUERIES = {
    "schema": """
        select format('%s %s', n.nspname, coalesce(n.nspacl::text, ''))
        from pg_namespace as n where n.nspname = any ('{public,private}') or n.nspname = 'queue'""",
    "relation": """
        select format('%s kind=%s rls=%s force=%s options=%s rights=%s comment=%s', c.oid::regclass, c.relkind,
            c.relrowsecurity, c.relforcerowsecurity, c.reloptions, c.relacl, obj_description(c.oid, 'pg_class'))
        from pg_class as c where c.relnamespace::regnamespace::text = any ('{public,private}')""",
    "view": """
        select format('%s %s', c.oid::regclass, pg_get_viewdef(c.oid))
        from pg_class as c where c.relnamespace::regnamespace::text = any ('{public,private}')
            and c.relkind in ('v', 'm')""",
    "column": """
        select format('%s.%s #%s %s null=%s default=%s identity=%s generated=%s collation=%s rights=%s comment=%s',
            a.attrelid::regclass, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), not a.attnotnull,
            pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attgenerated, a.attcollation::regcollation, a.attacl,
            col_description(a.attrelid, a.attnum))
        from pg_attribute as a
        join pg_class as c on c.oid = a.attrelid
        left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where c.relnamespace::regnamespace::text = any ('{public,private}') and a.attnum > 0 and not a.attisdropped""",
    "constraint": """
        select format('%s %s %s', case when c.conrelid <> 0 then c.conrelid::regclass::text end, c.conname,
            pg_get_constraintdef(c.oid))
        from pg_constraint as c where c.connamespace::regnamespace::text = any ('{public,private}')""",
    "index": """
        select pg_get_indexdef(i.indexrelid)
        from pg_index as i join pg_class as c on c.oid = i.indexrelid
        where c.relnamespace::regnamespace::text = any ('{public,private}')""",
    "function": """
        select format('%s owner=%s rights=%s comment=%s %s', p.oid::regprocedure, p.proowner::regrole, p.proacl,
            obj_description(p.oid, 'pg_proc'), pg_get_functiondef(p.oid))
        from pg_proc as p where p.pronamespace::regnamespace::text = any ('{public,private}')
            and p.prokind in ('f', 'p')""",
    "type": """
        select format('%s %s', t.oid::regtype, t.typtype)
        from pg_type as t where t.typnamespace::regnamespace::text = any ('{public,private}')""",
    "policy": """
        select format('%s.%s %s %s %s for %s using %s check %s', schemaname, tablename, policyname, permissive, roles,
            cmd, qual, with_check)
        from pg_policies where schemaname = any ('{public,private}') or schemaname = 'storage'""",
    "trigger": """
        select format('%s %s', pg_get_triggerdef(t.oid), t.tgenabled)
        from pg_trigger as t join pg_class as c on c.oid = t.tgrelid
        where c.relnamespace::regnamespace::text = any ('{public,private}') and not t.tgisinternal""",
    "default right": """
        select format('%s in %s: %s %s', defaclrole::regrole, defaclnamespace::regnamespace, defaclobjtype, defaclacl)
        from pg_default_acl where defaclnamespace::regnamespace::text = any ('{public,private}')""",
    "publication": """
        select format('%s %s.%s', pubname, schemaname, tablename)
        from pg_publication_tables where schemaname = any ('{public,private}')""",
    "bucket": "select format('%s %s public=%s', id, name, public) from storage.buckets",
    "database": "select datacl::text from pg_database where datname = current_database()",
}


def described(connection: psycopg.Connection) -> list[str]:
    """The whole of it, sorted: `kind: what`."""
    # Names with their schema, whatever the connection's own search_path.
    with connection.transaction():
        connection.execute("set local search_path = pg_catalog")
        return sorted(
            f"{kind}: {line}"
            for kind, query in _QUERIES.items()
            for (line,) in connection.execute(query.encode()).fetchall()
        )
