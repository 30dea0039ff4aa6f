"""What another schema does to fields: a table of changes with the right answer of each, and hostile ones."""

from __future__ import annotations

import time

import pytest

from fieldmark.domain import paths
from fieldmark.domain.schema_changes import MOST_PLACES, change_of, difference_of, read_once_removed
from fieldmark.errors import InvalidSchema

S, N, D, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "string", "format": "date"}, {"type": "integer"}
ADDRESS = {"type": "object", "properties": {"city": S}}
WITH_ZIP = {"type": "object", "properties": {"city": S, "zip": S}}


def o(_more=None, /, **properties):
    return {"type": "object", "properties": properties, **(_more or {})}


def closed(**properties):
    return o({"additionalProperties": False}, **properties)


def a(items, **more):
    return {"type": "array", "items": items, **more}


def rows(**properties):
    return o(items=a(o(**properties)))


def refers(target, **properties):
    return o({"$defs": {"T": target}}, **properties)


def either(*forms):
    return {"anyOf": list(forms)}


REF, NULL = {"$ref": "#/$defs/T"}, {"type": "null"}
SUM = {"x-fieldmark": {"rules": [{"sum": ["net", "tax"], "equals": "total"}]}}
GROUNDED = {"x-fieldmark": {"grounded": True}}
NODE = {"type": "object", "properties": {"name": S, "below": a({"$ref": "#/$defs/T"})}}
DEEPER = {"type": "object", "properties": {"name": S, "size": N, "below": a({"$ref": "#/$defs/T"})}}

# name: (old, new, fields, locks, carries, read again, conflicts, broken rules)
TABLE = {
    # A schema that says the same.
    "the same": (o(a=S), o(a=S), {"a": "x"}, "", "a", "", "", ""),
    "the same, and a place without a value": (o(a=S, b=S), o(a=S, b=S), {"a": "x"}, "", "a", "", "", ""),
    "another title": (o(a=S), o({"title": "T"}, a={**S, "title": "A"}), {}, "", "", "", "", ""),
    "another order": (o(a=S, b=S), o(b=S, a=S), {"a": "x"}, "", "a", "", "", ""),
    "enum in another order": (o(a={"enum": ["x", "y"]}), o(a={"enum": ["y", "x"]}), {}, "", "", "", "", ""),
    # Fields come and go.
    "a field more": (o(a=S), o(a=S, b=S), {"a": "x"}, "", "a", "b", "", ""),
    "a field more, which has a value already": (o(a=S), o(a=S, b=S), {"a": "x", "b": "y"}, "", "a b", "", "", ""),
    "a field more, with a wrong value already": (o(a=S), o(a=S, b=N), {"a": "x", "b": "y"}, "", "a", "b", "", ""),
    "a field less, in an open schema": (o(a=S, b=S), o(a=S), {"a": "x", "b": "y"}, "", "a b", "", "", ""),
    "a field less, in a closed one": (o(a=S, b=S), closed(a=S), {"a": "x", "b": "y"}, "", "a", "", "b:no_place", ""),
    "one less that a person set": (o(b=S), closed(), {"b": "y"}, "b", "", "", "b:no_place", ""),
    "one less that has none": (o(a=S, b=S), closed(a=S), {"a": "x"}, "", "a", "", "", ""),
    "a field may not be any more": (o(b=S), o(b=False), {"b": "y"}, "", "", "", "b:no_place", ""),
    "a field that never may be": (o(a=S), o(a=S, b=False), {"a": "x"}, "", "a", "", "", ""),
    "an object less, in a closed one": (
        *(o(v=ADDRESS), closed(), {"v": {"city": "x", "zip": "1"}}, "v.city"),
        *("", "", "v:no_place", ""),
    ),
    "renamed, in a closed schema": (o(a=S), closed(b=S), {"a": "x"}, "", "", "b", "a:no_place", ""),
    "no fields at all": (o(a=S), o(a=S, b=S), {}, "", "", "b", "", ""),
    "unevaluated": (
        *(o(a=S, b=S), o({"allOf": [o(a=S)], "unevaluatedProperties": False}), {"a": "x", "b": "y"}, ""),
        *("a", "", "b:no_place", ""),
    ),
    # A field is said otherwise.
    "another type": (o(a=S), o(a=N), {"a": "x"}, "", "", "a", "", ""),
    "another type, of what a person set": (o(a=S), o(a=N), {"a": "x"}, "a", "", "", "a:locked", ""),
    "another type that admits the value": (o(a=N), o(a=WHOLE), {"a": 3}, "", "a", "", "", ""),
    "a type more": (o(a=S), o(a={"type": ["string", "null"]}), {"a": "x"}, "", "a", "", "", ""),
    "a type more, and a blank": (o(a=S), o(a={"type": ["string", "null"]}), {"a": None}, "", "", "a", "", ""),
    "a type more, and a person's blank": (
        *(o(a=S), o(a={"type": ["string", "null"]}), {"a": None}, "a"),
        *("a", "", "", ""),
    ),
    "a blank that was admitted": (*(o(a=either(S, NULL)), o(a=either(S, NULL))), {"a": None}, "", "a", "", "", ""),
    "a format that the value has": (o(a=S), o(a=D), {"a": "2024-05-01"}, "", "a", "", "", ""),
    "a format that it has not": (o(a=S), o(a=D), {"a": "May"}, "", "", "a", "", ""),
    "a format, and no value": (o(a=S), o(a=D), {}, "", "", "a", "", ""),
    "an enum with the value": (o(a=S), o(a={"enum": ["x"]}), {"a": "x"}, "", "a", "", "", ""),
    "an enum without it": (o(a=S), o(a={"enum": ["y"]}), {"a": "x"}, "", "", "a", "", ""),
    "an enum with more": (o(a={"enum": ["x"]}), o(a={"enum": ["x", "y"]}), {}, "", "", "a", "", ""),
    "a description, and a value": (o(a=S), o(a={**S, "description": "net"}), {"a": "x"}, "", "a", "", "", ""),
    "a description, and none": (o(a=S), o(a={**S, "description": "net"}), {}, "", "", "a", "", ""),
    "a pattern": (o(a=S), o(a={"pattern": "^A"}), {"a": "x"}, "", "", "a", "", ""),
    "an object where text was": (o(v=S), o(v=ADDRESS), {"v": "x"}, "", "", "v", "", ""),
    "text where an object was": (o(v=ADDRESS), o(v=S), {"v": {"city": "x"}}, "", "", "v", "", ""),
    "text where an object was, partly a person's": (
        *(o(v=WITH_ZIP), o(v=S), {"v": {"city": "x", "zip": "1"}}, "v.zip"),
        *("", "v", "v.zip:locked", ""),
    ),
    # What must be.
    "required, and there": (o(a=S), o({"required": ["a"]}, a=S), {"a": "x"}, "", "a", "", "", ""),
    "required, and not there": (o(a=S), o({"required": ["a"]}, a=S), {}, "", "", "a", "", ""),
    "required before": (o({"required": ["a"]}, a=S), o({"required": ["a"]}, a=S, b=S), {"b": "x"}, "", "b", "", "", ""),
    "grounded, and found": (o(a=S), o(a={**S, **GROUNDED}), {"a": "found"}, "", "a", "", "", ""),
    "grounded, and not found": (o(a=S), o(a={**S, **GROUNDED}), {"a": "x"}, "", "", "a", "", ""),
    "grounded, and a person's": (o(a=S), o(a={**S, **GROUNDED}), {"a": "x"}, "a", "a", "", "", ""),
    "grounded, and no value": (o(a=S), o(a={**S, **GROUNDED}), {}, "", "", "a", "", ""),
    # Objects.
    "a field more in an object": (o(v=ADDRESS), o(v=WITH_ZIP), {"v": {"city": "x"}}, "", "v.city", "v.zip", "", ""),
    "a field more in an object that is not there": (o(v=ADDRESS), o(v=WITH_ZIP), {}, "", "", "v", "", ""),
    "an object more": (o(a=S), o(a=S, v=ADDRESS), {"a": "x"}, "", "a", "v", "", ""),
    "fields enough": (
        *(o(v=WITH_ZIP), o(v={**WITH_ZIP, "minProperties": 2}), {"v": {"city": "x"}}, ""),
        *("", "v", "", ""),
    ),
    # Lists.
    "items that stay valid": (
        *(rows(x=S), rows(x={"type": ["string", "number"]}), {"items": [{"x": "1"}]}, ""),
        *("items[0].x", "", "", ""),
    ),
    "a column more": (
        *(rows(x=S), rows(x=S, y=S), {"items": [{"x": "1"}, {"x": "2", "y": "3"}]}, ""),
        *("items[0].x items[1].x items[1].y", "items[0].y", "", ""),
    ),
    "a column more, in many rows": (
        *(rows(x=S), rows(x=S, y=S), {"items": [{"x": "1"}] * 21}, "items[3].x"),
        *("items[3].x", "items", "", ""),
    ),
    "an item that is not admitted": (
        *(rows(x=S), rows(x=N), {"items": [{"x": "1"}, {"x": 2}]}, ""),
        *("", "items", "", ""),
    ),
    "items that are not admitted, one a person's": (
        *(rows(x=S), rows(x=N), {"items": [{"x": "1"}, {"x": "2"}]}, "items[1].x"),
        *("", "items", "items[1].x:locked", ""),
    ),
    "more items": (o(l=a(S)), o(l=a(S, minItems=2)), {"l": ["x"]}, "", "", "l", "", ""),
    "more items, all a person's": (o(l=a(S)), o(l=a(S, minItems=2)), {"l": ["x"]}, "l[0]", "l[0]", "", "l:locked", ""),
    "items that differ": (o(l=a(S)), o(l=a(S, uniqueItems=True)), {"l": ["x", "x"]}, "", "", "l", "", ""),
    "an empty list, said otherwise": (rows(x=S), rows(x=N), {"items": []}, "", "", "items", "", ""),
    "an empty list": (rows(x=S), rows(x=S), {"items": []}, "", "items", "", "", ""),
    "a column less, in closed rows": (
        *(rows(x=S, y=S), o(items=a(closed(x=S))), {"items": [{"x": "1", "y": "2"}]}, ""),
        *("items[0].x", "", "items[0].y:no_place", ""),
    ),
    "fewer places in a row": (
        *(o(p={"prefixItems": [S, S]}), o(p={"prefixItems": [S], "items": False}), {"p": ["x", "y"]}, ""),
        *("p[0]", "", "p[1]:no_place", ""),
    ),
    "a column more, two lists deep": (
        *(o(l=a(rows(x=S))), o(l=a(rows(x=S, y=S))), {"l": [{"items": [{"x": "1"}]}]}, ""),
        *("l[0].items[0].x", "l[0].items[0].y", "", ""),
    ),
    # However it is said.
    "behind a reference": (
        *(refers(ADDRESS, v=REF), refers(WITH_ZIP, v=REF), {"v": {"city": "x"}}, ""),
        *("v.city", "v.zip", "", ""),
    ),
    "the same behind another name": (
        *(refers(ADDRESS, v=REF), o({"$defs": {"U": ADDRESS}}, v={"$ref": "#/$defs/U"}), {}, ""),
        *("", "", "", ""),
    ),
    "behind a reference, or null": (
        *(refers(ADDRESS, v=either(REF, NULL)), refers(WITH_ZIP, v=either(REF, NULL)), {"v": {"city": "x"}}, ""),
        *("v.city", "v.zip", "", ""),
    ),
    "in allOf": (
        *(o(a=S), {"type": "object", "allOf": [o(a=S), o(b=S)]}, {"a": "x"}, ""),
        *("a", "b", "", ""),
    ),
    "in allOf, and required there": (
        *(o(a=S), {**o(a=S), "allOf": [{"required": ["a"]}]}, {}, ""),
        *("", "a", "", ""),
    ),
    "in one of two forms": (
        *(o(v=either(ADDRESS)), o(v=either(ADDRESS, o(street=S))), {"v": {"city": "x"}}, ""),
        *("v.city", "v.street", "", ""),
    ),
    "no form fits": (
        *(o(v=S), o(v={"oneOf": [N, ADDRESS]}), {"v": "x"}, ""),
        *("", "v", "", ""),
    ),
    "in then": (
        *(o(a=S), {**o(a=S), "if": {"required": ["a"]}, "then": o(b=S)}, {"a": "x"}, ""),
        *("a", "b", "", ""),
    ),
    "beside a key": (
        *(o(a=S), {**o(a=S), "dependentSchemas": {"a": o(b=S)}}, {"a": "x"}, ""),
        *("a", "b", "", ""),
    ),
    "dependent": (o(a=S, b=S), {**o(a=S, b=S), "dependentRequired": {"a": ["b"]}}, {"a": "x"}, "", "a", "b", "", ""),
    "the root wants one of two": (
        *(o(a=S, b=S), {**o(a=S, b=S), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"c": 1}, "c"),
        *("c", "a b", "", ""),
    ),
    "round in a circle": (
        *(refers(NODE, t=REF), refers(DEEPER, t=REF), {"t": {"name": "x", "below": [{"name": "y", "below": []}]}}, ""),
        *("t.name t.below[0].name", "t.size t.below[0].size t.below[0].below", "", ""),
    ),
    "a map": (
        *(o(m={"additionalProperties": ADDRESS}), o(m={"additionalProperties": WITH_ZIP}), {"m": {"k": {"city": "x"}}}),
        *("", "m.k.city", "m.k.zip", "", ""),
    ),
    "what cannot be told": (
        *(o(v=ADDRESS), o(v={"$dynamicRef": "#"}), {"v": {"city": "x"}}, ""),
        *("", "v", "", ""),
    ),
    "a key with dots": (o(), o(**{"a.b": S}), {}, "", "", '["a.b"]', "", ""),
    # Rules.
    "a rule that holds": (
        *(o(net=N, tax=N, total=N), o(SUM, net=N, tax=N, total=N), {"net": 1, "tax": 2, "total": 3}, ""),
        *("net tax total", "", "", ""),
    ),
    "a rule that is broken": (
        *(o(net=N, tax=N, total=N), o(SUM, net=N, tax=N, total=N), {"net": 1, "tax": 2, "total": 4}, ""),
        *("net tax total", "", "", "sum"),
    ),
    "a rule over what is read again": (
        *(o(net=N, tax=N, total=S), o(SUM, net=N, tax=N, total=N), {"net": 1, "tax": 2, "total": "4"}, ""),
        *("net tax", "total", "", ""),
    ),
}


def changed(old, new, fields, locks=()):
    evidence = {
        paths.name((key,)): {"state": "found" if value == "found" else "not_found"} for key, value in fields.items()
    }
    return change_of(old, new, fields, evidence, set(locks))


@pytest.mark.parametrize("name", TABLE)
def test_what_becomes_of_fields(name):
    old, new, fields, locks, carries, again, conflicts, broken = TABLE[name]
    found = changed(old, new, fields, locks.split())
    assert (
        [paths.name(path) for path in found.carries],
        [paths.name(path) for path in found.read_again],
        [f"{paths.name(one.path)}:{one.why}" for one in found.conflicts],
        [one.code for one in found.violations],
    ) == (carries.split(), again.split(), conflicts.split(), broken.split())


def test_of_more_places_than_a_run_reads_keys_of_the_root_are_read():
    old = o(**{f"v{n}": o() for n in range(3)})
    new = o(**{f"v{n}": o(**{f"k{m}": S for m in range(MOST_PLACES // 2)}) for n in range(3)})
    found = changed(old, new, {f"v{n}": {} for n in range(3)})
    assert found.read_again == [("v0",), ("v1",), ("v2",)]


def test_of_more_violations_than_are_told_apart_all_is_read_but_what_a_person_set():
    fields = {"l": ["x"] * 6_000, "a": "x"}
    found = changed(o(l=a(S), a=S), o(l=a(N), a=S), fields, {"a"})
    assert (found.carries, found.read_again, found.conflicts) == ([("a",)], [("l",), ("a",)], [])


def test_what_is_taken_away_is_read_again_where_it_has_a_place():
    old = o(a=S, p={"prefixItems": [ADDRESS, ADDRESS]})
    new = closed(a=N, p={"prefixItems": [WITH_ZIP], "items": False})
    fields = {"a": "x", "p": [{"city": "x"}, {"city": "y"}], "b": 1}
    found = changed(old, new, fields, {"a"})
    assert [paths.name(path) for path in found.read_again] == ["p[0].zip"]
    assert {paths.name(one.path) for one in found.conflicts} == {"a", "b", "p[1]"}
    assert [paths.name(path) for path in read_once_removed(found, new, fields)] == ["a", "p"]


# How two schemas differ -----------------------------------------------------------------------------------------------

DIFFERENCES = {
    "nothing": (o(a=S), o(a=S), "", "", ""),
    "added, removed, changed": (o(a=S, b=S, c=S), o(a=S, c=N, d=S), "d", "b", "c"),
    "below an object": (o(v=ADDRESS), o(v=WITH_ZIP), "v.zip", "", ""),
    "of items": (rows(x=S), rows(x=N, y=S), "items[*].y", "", "items[*].x"),
    "behind a reference, in two places": (
        *(refers(ADDRESS, v=REF, w=REF), refers(WITH_ZIP, v=REF, w=REF)),
        *("v.zip w.zip", "", ""),
    ),
    "required": (o(a=S), o({"required": ["a"]}, a=S), "", "", "a"),
    "items at all": (o(l={"type": "array"}), o(l=a(S)), "", "", "l"),
    "a description of an object": (o(v=ADDRESS), o(v={**ADDRESS, "description": "of the vendor"}), "", "", "v"),
    "round in a circle": (
        *(refers(NODE, t=REF), refers(DEEPER, t=REF)),
        *("t.size", "", ""),
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_how_schemas_differ(name):
    old, new, added, removed, otherwise = DIFFERENCES[name]
    found = difference_of(old, new)
    assert (found.added, found.removed, found.changed, found.rules, found.more) == (
        *(added.split(), removed.split(), otherwise.split()),
        *(False, False),
    )


def test_other_rules_are_said():
    assert difference_of(o(net=N), o(SUM, net=N)).rules


def test_of_many_places_some_are_named():
    found = difference_of(o(), o(**{f"k{n}": S for n in range(2_000)}))
    assert found.more and len(found.added) == 1_000


# Hostile schemas ------------------------------------------------------------------------------------------------------


def laughs(depth, leaf):
    """References that double at each step."""
    twice = {f"d{n}": o(a={"$ref": f"#/$defs/d{n + 1}"}, b={"$ref": f"#/$defs/d{n + 1}"}) for n in range(depth)}
    return o({"$defs": {**twice, f"d{depth}": leaf}}, v={"$ref": "#/$defs/d0"})


def test_references_that_double_cost_no_time():
    began = time.process_time()
    assert changed(laughs(40, S), laughs(40, N), {}).read_again == [("v",)]
    assert len(difference_of(laughs(12, S), laughs(12, N)).changed) == 1_000
    assert time.process_time() - began < 10


def circles(count, leaf):
    """Each refers to all."""
    each = {f"d{n}": o(leaf=leaf, **{f"k{m}": {"$ref": f"#/$defs/d{m}"} for m in range(count)}) for n in range(count)}
    return o({"$defs": each}, v={"$ref": "#/$defs/d0"})


def test_many_rows_cost_little_each():
    fields = {"items": [{"x": "1"}] * 20_000}
    began = time.process_time()
    found = changed(rows(x=S), rows(x=S, y=S), fields)
    assert found.read_again == [("items",)] and not found.carries
    assert time.process_time() - began < 10


def test_circles_without_end_are_refused_in_time():
    began = time.process_time()
    with pytest.raises(InvalidSchema):
        difference_of(circles(60, S), circles(60, N))
    with pytest.raises(InvalidSchema):
        changed(circles(60, S), circles(60, N), {})
    assert time.process_time() - began < 10


def test_a_chain_of_thousands_of_references_is_refused():
    def chain(leaf):
        each = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(3_000)}
        return o({"$defs": {**each, "d3000": leaf}}, v={"$ref": "#/$defs/d0"})

    with pytest.raises(InvalidSchema):
        difference_of(chain(S), chain(N))


@pytest.mark.parametrize(
    "broken",
    [
        {"properties": [1], "required": 7, "items": 3, "allOf": {"a": 1}, "anyOf": "x", "prefixItems": {}},
        {"properties": {"a": {"$ref": 5}, "b": {"$ref": "http://elsewhere/x"}, "c": {"$ref": "#/none/~1/9"}}},
        {"properties": {"a": 7, "b": [], "c": None}, "x-fieldmark": []},
        {"$defs": {"d": {"$ref": "#/$defs/d"}}, "properties": {"a": {"$ref": "#/$defs/d"}}},
    ],
)
def test_an_older_schema_may_be_none(broken):
    # A front end has begun the extraction with it, and nobody has checked it.
    assert changed(broken, o(a=S, e=S), {"a": "x"}).read_again == [("e",)]
    difference_of(broken, o(a=S))


def test_a_new_schema_that_cannot_be_used_is_refused():
    with pytest.raises(InvalidSchema):
        changed(o(a=S), {"properties": {"a": {"$ref": "#/$defs/none"}}}, {"a": "x"})
