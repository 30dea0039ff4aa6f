"""No regular expression of the package takes quadratic time. All patterns are collected from module attributes and
sources, and run on long texts built from their own characters."""

from __future__ import annotations

import ast
import importlib
import itertools
import os
import pkgutil
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import regex

import fieldmark
import pagewords
import processisolation
import valuegrounding

METHODS: Final = {"search", "findall", "finditer", "sub", "subn", "split", "match", "fullmatch"}
FLAGS_AT: Final = {
    "compile": 1,
    "search": 2,
    "match": 2,
    "fullmatch": 2,
    "findall": 2,
    "finditer": 2,
    "split": 3,
    "sub": 4,
}
OF_USERS: Final = {"fieldmark.domain.ecma_patterns"}
"""Modules that run patterns of users' schemas: those have a time limit, see tests/domain/test_validation.py."""
SIGNS: Final = (
    *' \n\t-1aA([{.,/<"_é中\u00a0\u200b:;=$#*\\',
    *(",1", "1,", "1 ", "a ", "a.", "1.", "-a", "a\n", "\n-", "ab1", "a-", "1/", "$1", "<a", '\\"', "e\u0301"),
)
SHORT: Final = (500, 1_500)
LONG: Final = 30_000
SECONDS: Final = 0.5
"""CPU time for LONG characters, before the kernel ends the process. Linear patterns need some milliseconds."""


def modules() -> Iterator[Any]:
    for package in (fieldmark, pagewords, processisolation, valuegrounding):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def is_pattern(value: Any) -> bool:
    return isinstance(value, re.Pattern | regex.Pattern)


def contained_values(value: Any) -> Iterator[Any]:
    if is_pattern(value):
        yield value
    elif isinstance(value, dict | list | tuple | set | frozenset):
        inner: Any = value  # pyright: ignore[reportUnknownVariableType]
        for one in inner.values() if isinstance(value, dict) else inner:
            yield from contained_values(one)


def parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SystemError:  # Python 3.11, rarely in a process with threads: github.com/python/cpython/issues/106905
        return ast.parse(text)


class Source:
    """The regular expression calls in a module's source."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.space: dict[str, Any] = vars(module)
        text = Path(module.__file__).read_text("utf-8")
        self.has_literals = re.search(r"\b(?:re|regex)\.", text) is not None
        # Most modules use no pattern, and parsing takes long.
        self.tree = parse(text if self.has_literals or re.search(rf"\.(?:{'|'.join(METHODS)})\b", text) else "")
        self.used = {
            (name, node.attr)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Attribute) and node.attr in METHODS and getattr(node.value, "id", "") != "re"
            for name in [getattr(node.value, "id", getattr(node.value, "attr", ""))]
        }

    def literals(self, node: ast.AST | None = None, inside: Any = None) -> Iterator[tuple[str, Any]]:
        """Yield method and pattern of each call of `re` or `regex`."""
        for child in ast.iter_child_nodes(node or self.tree):
            function = child if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else inside
            if (
                isinstance(child, ast.Call)
                and isinstance(child.func, ast.Attribute)
                and getattr(child.func.value, "id", "") in ("re", "regex")
                and child.func.attr in FLAGS_AT
                and (function or child.func.attr != "compile")  # compiled patterns are found as attributes
            ):
                flags: Any = [one.value for one in child.keywords if one.arg == "flags"]
                flags = self.evaluate((flags or child.args[FLAGS_AT[child.func.attr] :] or [ast.Constant(0)])[0])
                engine = re if getattr(child.func.value, "id", "") == "re" else regex
                for text in self.texts(child.args[0], function):
                    yield child.func.attr, text if is_pattern(text) else engine.compile(text, flags)
            yield from self.literals(child, function) if self.has_literals else ()

    def evaluate(self, node: Any) -> Any:
        return eval(ast.unparse(node), self.space)

    def texts(self, node: Any, function: Any) -> list[Any]:
        """Return the possible values of an expression. An unknown part of a concatenation is `x`."""
        if isinstance(node, ast.JoinedStr):
            parts = [self.texts(one, function) for one in node.values]
            return ["".join(map(str, one)) for one in itertools.product(*parts)]
        if isinstance(node, ast.FormattedValue):
            try:
                return self.texts(node.value, function)
            except NameError:
                return ["x"]
        if isinstance(node, ast.IfExp):
            return self.texts(node.body, function) + self.texts(node.orelse, function)
        if isinstance(node, ast.Subscript):
            return [*self.evaluate(node.value).values()]
        if isinstance(node, ast.Name) and function is not None:
            names = [one.arg for one in function.args.args]
            run_arguments = [
                one.value
                for one in ast.walk(function)
                if isinstance(one, ast.Assign) and any(getattr(to, "id", "") == node.id for to in one.targets)
            ] + [
                one.args[names.index(node.id)]
                for one in ast.walk(self.tree)
                if isinstance(one, ast.Call) and getattr(one.func, "id", "") == function.name and node.id in names
            ]
            if run_arguments:
                return [
                    text for one in run_arguments for text in self.texts(one, None if node.id in names else function)
                ]
        return [self.evaluate(node)]


def collect() -> dict[Any, tuple[str, set[str]]]:
    """Return every pattern with a location and the methods it is used with."""
    found: dict[Any, tuple[str, set[str]]] = {}

    def add(pattern: Any, where: str, methods: set[str]) -> None:
        kinds = {one if one in ("match", "fullmatch") else "search" for one in methods or METHODS}
        found.setdefault(pattern, (where, set()))[1].update(kinds)

    sources = [Source(module) for module in modules()]
    used = {pair for source in sources for pair in source.used}
    for source in sources:
        name = source.module.__name__
        for attribute, value in source.space.items():
            own = {method for one, method in used if one == attribute} if is_pattern(value) else set[str]()
            # Patterns in a list are used by another name; `split` is usually a method of str.
            for pattern in contained_values(value):
                add(pattern, f"{name}.{attribute}", own or {method for _, method in source.used} - {"split"})
        try:
            for method, pattern in source.literals():
                add(pattern, name, METHODS if method == "compile" else {method})
        except NameError as error:
            if name not in OF_USERS:
                raise AssertionError(f"{name}: it is not known which pattern {error.name} is.") from error
    return found


def texts_for(pattern: Any) -> list[tuple[str, str]]:
    """Return prefixes and the text to repeat after each: the pattern's characters, and what leads to each of its
    repetitions."""
    tries = dict.fromkeys(("", one) for one in SIGNS)
    tries |= dict.fromkeys(itertools.product(("1", "a", "1-"), " \n1a-"))
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    own = [*dict.fromkeys(re.sub(r"\\.|[\[\](){}?*+|^$]", "", text))][:8]
    tries |= dict.fromkeys(("", one + two) for one in own for two in [*own, " ", "1", "a"])
    # The literal text that the pattern needs before a repetition.
    words = re.findall(r"(?:[^\W\d_]|[ /<>!\"'(#-]){2,}", text)[:6]
    tries |= dict.fromkeys(("", one + two) for one, two in itertools.pairwise(["", *words, ""]) if words)
    tries |= dict.fromkeys(itertools.product(words, " 1a-"))
    return [*tries]


def run(pattern: Any, method: str, prefix: str, repeated: str, size: int) -> None:
    text: Any = prefix + repeated * (size // len(repeated)) + "\x00"
    text = text if isinstance(pattern.pattern, str) else text.encode("latin-1", "ignore")
    if method == "search":
        pattern.sub(text[:0], text)
    else:
        getattr(pattern, method)(text)


def cpu_seconds(*run_arguments: Any) -> float:
    began = time.thread_time()
    run(*run_arguments)
    return time.thread_time() - began


def slow_patterns(patterns: list[tuple[Any, str]]) -> Iterator[tuple[Any, str, str, str]]:
    """Yield the patterns that need more than SECONDS of CPU time, each with method, prefix and repeated text."""
    tries = [(*one, prefix, repeated) for one in patterns for prefix, repeated in texts_for(one[0])]
    while tries:
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            for one in tries:
                os.write(writer, b".")
                signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
                # Quadratic time shows with a short text already; most patterns need no long one.
                longer = cpu_seconds(*one, SHORT[1])
                if longer > 0.001 and longer > 5 * cpu_seconds(*one, SHORT[0]):
                    run(*one, LONG)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as report_pipe:
            at = len(report_pipe.read()) - 1
        ended = os.waitpid(child, 0)[1]
        assert ended == 0 or os.WIFSIGNALED(ended)
        if ended == 0:
            return
        yield tries[at]
        tries = [one for one in tries[at:] if one[:2] != tries[at][:2]]


def test_no_pattern_takes_quadratic_time() -> None:
    found = collect()
    slow = slow_patterns([(one, method) for one in found for method in sorted(found[one][1])])
    assert [f"{found[one][0]} {method} {text}: {one.pattern!r}"[:500] for one, method, *text in slow] == []
    assert len(found) > 150


def test_slow_pattern_is_detected() -> None:
    slow = [(r"\d+x", "search"), (r"^\s*\d", "search"), (r"\s*(\d+)\s*-?\s*", "fullmatch"), (r"(?:a+)+b", "match")]
    patterns = [(re.compile(text, re.MULTILINE), method) for text, method in [*slow, (r"(?<!\d)\d+(?!\d)", "search")]]
    assert [(pattern.pattern, method) for pattern, method, *_ in slow_patterns(patterns)] == slow
