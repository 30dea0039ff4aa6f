from __future__ import annotations

from valuegrounding.paths import name, walk


def test_every_leaf_of_any_json_has_a_path_with_its_own_name() -> None:
    value = {"a.b": 1, "a": {"b": [None, {"c": "x"}], "d": {}}, " ": [], "[0]": True}
    assert [(name(path), leaf) for path, leaf in walk(value)] == [
        ('["a.b"]', 1),
        ("a.b[0]", None),
        ("a.b[1].c", "x"),
        ("a.d", {}),
        ('[" "]', []),
        ('["[0]"]', True),
    ]
    assert list(walk([])) == [((), [])] and list(walk({})) == []
    assert [name(path) for path, _ in walk([["x"]])] == ["[0][0]"]
