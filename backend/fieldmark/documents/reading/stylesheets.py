"""The style sheets in an HTML file: which declarations hold for an element, in the order in which the later one wins.

tinycss2 parses the CSS and cssselect2 matches the selectors. The file may be hostile, so there are limits on the size
of the CSS, on the number of selectors and on the steps of matching. Beyond a limit it could no longer be told which
text a person can see. Therefore such a file is unreadable: text whose style is unknown never counts as visible.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import count
from math import inf
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import cssselect2  # pyright: ignore[reportMissingTypeStubs]
import cssselect2.compiler  # pyright: ignore[reportMissingTypeStubs]
import cssselect2.parser  # pyright: ignore[reportMissingTypeStubs]
import cssselect2.tree  # pyright: ignore[reportMissingTypeStubs]
import tinycss2  # pyright: ignore[reportMissingTypeStubs]

from fieldmark.documents.reading.media_queries import applies_on_screen
from fieldmark.errors import OverLimit, Unreadable

css: Any = tinycss2  # without types
selectors: Any = cssselect2
_parser: Any = cssselect2.parser  # pyright: ignore
_Wrapper: Any = cssselect2.tree.ElementWrapper  # pyright: ignore
_Matcher: Any = cssselect2.Matcher  # pyright: ignore
_CompiledSelector: Any = cssselect2.compiler.CompiledSelector  # pyright: ignore

MAX_CSS_CHARACTERS = 2_000_000  # of all sheets of a file; parsing takes about two seconds a million
MAX_SELECTORS = 20_000  # of rules that say anything about visibility; compiling takes about 0.2 ms each
MAX_STEPS = 8_000_000  # of matching; one is a selector tested, an ancestor or a sibling looked at: about a microsecond
MAX_NESTING = 16  # of rules within rules
MAX_SELECTOR_CHARACTERS = 5_000
MAX_VALUE_CHARACTERS = 2_000
MAX_IMPORTS = 100  # of sheets within sheets, as data: URLs

# All that decides whether text can be seen. Other properties are not looked at.
PROPERTIES = frozenset(
    """all background background-color background-image bottom clip clip-path color content-visibility display filter
    float font font-size height inset left margin margin-left margin-top max-height max-width opacity overflow
    overflow-x overflow-y position right scale text-indent top transform translate visibility width zoom
    -webkit-text-fill-color""".split()  # noqa: SIM905
)

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.S)
_CUSTOM_NAME = re.compile(r"(--[^\s,()]+)")
_DATA_URL = re.compile(r"\s*data:([^,]*),(.*)", re.S | re.I)
# Pseudo-classes that browsers know and cssselect2 does not. The stand-in has the same specificity.
_NEVER, _ALWAYS = ":hover", ":not(:hover)"
_STAND_INS = {
    **dict.fromkeys(["defined", "read-only"], _ALWAYS),
    **dict.fromkeys(["valid", "optional"], f":is(form,fieldset,input,select,textarea,button){_ALWAYS}"),
    **dict.fromkeys(
        """autofill -webkit-autofill blank default focus-visible fullscreen in-range indeterminate invalid modal open
        out-of-range picture-in-picture placeholder-shown popover-open read-write required user-valid user-invalid
        -webkit-any-link""".split(),  # noqa: SIM905
        _NEVER,
    ),
}


class Declaration(NamedTuple):
    """A property and its value, in lower case. Names of custom properties (`--name`) keep their case, which counts."""

    name: str
    value: str
    important: bool


class _Rule(NamedTuple):
    """A selector's declarations, and what decides whether and where they hold.

    `layer` is the place of the cascade layer: a later layer is greater, no layer the greatest. `ancestors` are the
    tags, classes (`.name`) and ids (`#name`) that must stand around an element for the selector to match.
    """

    layer: tuple[float, ...]
    declarations: tuple[Declaration, ...]
    ancestors: frozenset[str]


class StyleSheets:
    """The style sheets of a page, ready to be asked about its elements."""

    def __init__(self, root: Any) -> None:
        """Raises Unreadable for sheets beyond a limit."""
        self.is_complete = True  # no sheet lies elsewhere, where it is not read
        self._budget = _Budget()
        self._matcher = _CountingMatcher(self._budget)
        self._selectors = 0
        self._characters = 0
        self._imports = 0
        self._layers: dict[tuple[Any, ...], tuple[float, ...]] = {(): ()}
        self._anonymous = count()
        for node in root.iter("style", "link"):
            if any(ancestor.tag in ("template", "noscript") for ancestor in node.iterancestors()):
                continue
            if node.tag == "link":
                if "stylesheet" in (node.get("rel") or "").lower():
                    self._add_linked(node.get("href"), node.get("media"), ())
            elif (node.get("type") or "text/css").strip().lower() == "text/css" and applies_on_screen(
                node.get("media")
            ):
                self._add_sheet((node.text or "").replace("<!--", " ").replace("-->", " "), ())
        self._elements: dict[Any, Any] = {}
        if self._selectors:
            wrapped = _Element.from_html_root(root)
            wrapped.budget = self._budget
            self._elements = {element.etree_element: element for element in wrapped.iter_subtree()}

    def declarations(self, node: Any) -> list[Declaration]:
        """The declarations that hold for an element. Of two for the same property the later one wins.

        Raises Unreadable if matching takes more steps than a file may.
        """
        matching: list[tuple[tuple[float, ...], Any, tuple[Declaration, ...]]] = []
        if self._elements:
            found: list[tuple[Any, int, str | None, _Rule]] = self._matcher.match(self._elements[node])
            matching = [
                (rule.layer, (specificity, order), rule.declarations)
                for specificity, order, pseudo_element, rule in found
                if pseudo_element is None
            ]
        own = _inline(node.get("style") or "")
        if not matching and not any(declaration.important for declaration in own):
            return list(own)
        normal = sorted(matching, key=lambda rule: rule[:2])
        # Of important declarations, those of an earlier layer win.
        important = sorted(matching, key=lambda rule: (tuple(-place for place in rule[0]), rule[1]))
        return [
            *(declared for *_, rule in normal for declared in rule if not declared.important),
            *(declared for declared in own if not declared.important),
            *(declared for *_, rule in important for declared in rule if declared.important),
            *(declared for declared in own if declared.important),
        ]

    def _add_linked(self, url: str | None, media: Any, layer: tuple[Any, ...]) -> None:
        """A sheet at a URL: read if the URL holds it itself (`data:`), otherwise it lies elsewhere."""
        if not applies_on_screen(media):
            return
        match = _DATA_URL.match(url or "")
        if not match:
            self.is_complete = False
            return
        self._imports += 1
        if self._imports > MAX_IMPORTS:
            raise _too_complex(f"more than {MAX_IMPORTS} sheets within sheets")
        body = unquote_to_bytes(match[2])
        if ";base64" in match[1].lower():
            try:
                body = base64.b64decode(body + b"==", validate=False)
            except ValueError:
                return
        self._add_sheet(body.decode("utf-8", "replace"), layer)

    def _add_sheet(self, text: str, layer: tuple[Any, ...]) -> None:
        self._characters += len(text)
        if self._characters > MAX_CSS_CHARACTERS:
            raise _too_complex(f"more than {MAX_CSS_CHARACTERS:,} characters of CSS")
        self._add_rules(css.parse_stylesheet(text, skip_comments=True, skip_whitespace=True), layer, "")

    def _add_rules(self, rules: Iterable[Any], layer: tuple[Any, ...], parent: str, nesting: int = 0) -> None:
        """Add rules that stand in the rule of the selector `parent`, or in none if that is empty."""
        # Blocks wait here rather than on Python's stack: a sheet may open a hundred thousand of them.
        waiting: list[tuple[Iterator[Any], tuple[Any, ...], str, int]] = [(iter(rules), layer, parent, nesting)]
        while waiting:
            nodes, layer, parent, nesting = waiting[-1]
            node = next(nodes, None)
            if node is None:
                waiting.pop()
            elif node.type == "qualified-rule":
                selector = _nested(node.prelude, parent)
                inner = self._add_rule(selector, node.content, layer) if selector else []
                if inner:
                    if nesting >= MAX_NESTING:
                        raise _too_complex(f"rules within more than {MAX_NESTING} others")
                    waiting.append((iter(inner), layer, selector, nesting + 1))
            elif node.type == "at-rule":
                inside = self._within(node, layer, parent)
                if inside is not None:
                    waiting.append((*inside, nesting))

    def _within(
        self, rule: Any, layer: tuple[Any, ...], parent: str
    ) -> tuple[Iterator[Any], tuple[Any, ...], str] | None:
        """The rules in an at-rule that holds on the screen, with their layer and parent. None if there are none."""
        name = rule.lower_at_keyword
        prelude = [token for token in rule.prelude if token.type not in ("whitespace", "comment")]
        if name == "import":
            url = prelude[0] if prelude else None
            if url is not None and url.type == "function" and url.lower_name == "url":
                url = next((token for token in url.arguments if token.type == "string"), None)
            # `layer`, `layer(name)` and `supports(…)` may stand before the media queries.
            rest = [token for token in prelude[1:] if token.type != "function" and token != "layer"]  # noqa: S105
            self._add_linked(url.value if url is not None and url.type in ("url", "string") else None, rest, layer)
            return None
        if name == "layer":
            names = [tuple(part.strip().split(".")) for part in _text(prelude).split(",") if part.strip()]
            if rule.content is None:
                for each in names:
                    self._place_of(layer + each)
                return None
            layer += names[0] if names else (next(self._anonymous),)
        elif name in ("media", "container"):
            if name == "container" and prelude and prelude[0].type == "ident" and prelude[0].lower_value != "not":
                prelude = prelude[1:]  # the container's name
            if not applies_on_screen(prelude):
                return None
        elif name == "supports":
            # All else is supported: a browser knows more than a list here could.
            if prelude and prelude[0].type == "ident" and prelude[0].lower_value == "not":
                return None
        elif name == "scope":
            if prelude and prelude[0].type == "() block":
                parent = f":where({_text(prelude[0].content)})"
        else:  # fonts, key frames, pages: no rules for elements
            return None
        if rule.content is None:
            return None
        if not parent or name == "scope":
            return iter(css.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True)), layer, parent
        # Within a rule, the block may hold declarations as well.
        return iter(self._add_rule(parent, rule.content, layer)), layer, parent

    def _add_rule(self, selector: str, content: list[Any], layer: tuple[Any, ...]) -> list[Any]:
        """Add a rule's own declarations; the rules that stand in it are returned."""
        nodes: list[Any] = css.parse_blocks_contents(content, skip_comments=True, skip_whitespace=True)
        declarations = tuple(_declarations(nodes))
        inner = [node for node in nodes if node.type in ("qualified-rule", "at-rule")]
        compiled = _compiled(selector) if declarations or inner else []
        for each in compiled if declarations else []:
            self._selectors += 1
            if self._selectors > MAX_SELECTORS:
                raise _too_complex(f"more than {MAX_SELECTORS:,} selectors")
            rule = _Rule(self._place_of(layer), declarations, each.ancestors)
            self._matcher.add_selector(each, rule)
        return inner if compiled else []

    def _place_of(self, layer: tuple[Any, ...]) -> tuple[float, ...]:
        """The order of a cascade layer among all. What stands in a layer itself wins over the layers within it."""
        for depth in range(1, len(layer) + 1):
            self._layers.setdefault(layer[:depth], (*self._layers[layer[: depth - 1]], len(self._layers)))
        return (*self._layers[layer], inf)


def _too_complex(what: str) -> Unreadable:
    return OverLimit(f"The HTML's style sheets hold {what}: it cannot be told which text a person can see.")


@lru_cache(maxsize=4096)
def _inline(text: str) -> tuple[Declaration, ...]:
    """The declarations of an attribute `style`."""
    if not text.strip():
        return ()
    if len(text) > MAX_CSS_CHARACTERS:
        raise _too_complex(f"more than {MAX_CSS_CHARACTERS:,} characters of CSS")
    return tuple(_declarations(css.parse_declaration_list(text, skip_comments=True, skip_whitespace=True)))


def _declarations(nodes: Iterable[Any]) -> Iterator[Declaration]:
    for node in nodes:
        if node.type == "declaration" and (node.lower_name in PROPERTIES or node.name.startswith("--")):
            value = " ".join(_text(node.value).split())
            if len(value) <= MAX_VALUE_CHARACTERS:
                parts = _CUSTOM_NAME.split(value)
                value = "".join(part if at % 2 else part.lower() for at, part in enumerate(parts))
                name = node.name if node.name.startswith("--") else node.lower_name
                yield Declaration(name, value, bool(node.important))


def _text(tokens: Iterable[Any]) -> str:
    """The tokens as CSS without comments; empty if they are nested too deeply for any real value."""
    try:
        return _COMMENT.sub(" ", css.serialize(tokens))
    except RecursionError:
        return ""


def _nested(prelude: list[Any], parent: str) -> str:
    """The selector of a rule that stands in the rule of the selector `parent`.

    Examples in `.a, .b`: `p` is `:is(.a, .b) p`, `&.c` is `:is(.a, .b).c`, `> p` is `:is(.a, .b) > p`.
    """
    text = _text(prelude).strip()
    if not parent or not text:
        return text
    around = f":is({parent})"
    if "&" in text:
        return text.replace("&", around)
    return ", ".join(f"{around} {part}" for part in _split_at_commas(prelude))


def _split_at_commas(tokens: list[Any]) -> Iterator[str]:
    start = 0
    for at, token in enumerate([*tokens, None]):
        if token is None or (token.type == "literal" and token.value == ","):
            if text := _text(tokens[start:at]).strip():
                yield text
            start = at + 1


def _compiled(selector: str) -> list[Any]:
    """The selectors of a list, compiled. None of them if one is not understood, as in a browser."""
    if len(selector) > MAX_SELECTOR_CHARACTERS:
        raise _too_complex(f"a selector of more than {MAX_SELECTOR_CHARACTERS:,} characters")
    try:
        parsed = _parser.parse(_with_stand_ins(css.parse_component_value_list(selector)))
        return [_Selector(each) for each in parsed]
    except (RecursionError, MemoryError):
        raise _too_complex("a selector nested too deeply") from None
    except Exception:  # noqa: BLE001
        # Mostly a SelectorError. But cssselect2 does not foresee every selector: `:has(:hover)` is a SyntaxError (it
        # turns selectors into Python), and `p > |` an AttributeError.
        return []


class _Selector(_CompiledSelector):
    """cssselect2's compiled selector, and what must stand around an element for it to match."""

    def __init__(self, parsed: Any) -> None:
        super().__init__(parsed)  # pyright: ignore[reportUnknownMemberType]
        self.ancestors: frozenset[str] = frozenset(_ancestors_in(parsed.parsed_tree))


def _ancestors_in(tree: Any) -> Iterator[str]:
    """The tags, classes and ids that a selector wants around an element. In `.a > b ~ i` that is `.a`."""
    while isinstance(tree, _parser.CombinedSelector):
        left = tree.left
        if tree.combinator in (" ", ">"):
            compound = left.right if isinstance(left, _parser.CombinedSelector) else left
            for simple in compound.simple_selectors:
                if isinstance(simple, _parser.ClassSelector):
                    yield f".{simple.class_name}"
                elif isinstance(simple, _parser.IDSelector):
                    yield f"#{simple.ident}"
                elif isinstance(simple, _parser.LocalNameSelector):
                    yield simple.lower_local_name
        tree = left


def _with_stand_ins(tokens: list[Any]) -> list[Any]:
    """The selector with stand-ins for what browsers know and cssselect2 does not."""
    result: list[Any] = []
    for token in tokens:
        after_colon = bool(result) and result[-1].type == "literal" and result[-1].value == ":"
        after_two = after_colon and len(result) > 1 and result[-2].type == "literal" and result[-2].value == ":"
        if after_two and token.type in ("ident", "function"):
            # Pseudo-elements hold no text of the document. Any of them will do.
            token = css.parse_one_component_value("before")
        elif after_colon and token.type == "ident" and token.lower_value in _STAND_INS:
            result.pop()
            result += css.parse_component_value_list(_STAND_INS[token.lower_value])
            continue
        elif after_colon and token.type == "function" and token.lower_name == "dir":
            result.pop()
            is_leftward = _text(token.arguments).strip().lower() == "rtl"
            result += css.parse_component_value_list("[dir=rtl i]" if is_leftward else ":not([dir=rtl i])")
            continue
        elif token.type == "function":
            token.arguments = _with_stand_ins(token.arguments)
        elif token.type == "[] block":
            # An attribute of any namespace: HTML has one.
            while token.content and token.content[0].type == "literal" and token.content[0].value in ("*", "|"):
                token.content = token.content[1:]
        result.append(token)
    return result


# What takes longer than others to do.
_STEPS_OF_A_MATCH = 10
_STEPS_OF_AN_ELEMENT = 12


class _Budget:
    """The steps that matching may still take. Raises Unreadable when they are used up."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def spend(self, steps: int = 1) -> None:
        self._left -= steps
        if self._left < 0:
            raise _too_complex(f"rules that take more than {MAX_STEPS:,} steps to match")


class _CountingMatcher(_Matcher):
    """cssselect2's matcher, which counts its steps, and does not test a selector that wants other ancestors."""

    def __init__(self, budget: _Budget) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._budget = budget

    def add_relevant_selectors(self, element: Any, selectors: list[Any], relevant_selectors: list[Any]) -> None:
        """Append those of the selectors that match the element."""
        around = element.around
        spend = self._budget.spend
        spend(len(selectors) // 4 + 1)
        for test, specificity, order, pseudo, rule in selectors:
            if rule.ancestors <= around:
                spend()
                try:
                    is_match = test(element)
                except ValueError:  # `:local-link` of an address that is none
                    is_match = False
                if is_match:
                    spend(_STEPS_OF_A_MATCH)
                    relevant_selectors.append((specificity, order, pseudo, rule))


class _Siblings(list[Any]):
    """The children of an element. Going through them costs steps, asking for their number does not."""

    budget: _Budget

    def __iter__(self) -> Iterator[Any]:
        self.budget.spend(_STEPS_OF_AN_ELEMENT * len(self))
        return super().__iter__()

    def __getitem__(self, key: Any) -> Any:
        found: Any = super().__getitem__(key)
        if isinstance(key, slice):
            self.budget.spend(len(found))
        return found


class _Element(_Wrapper):
    """cssselect2's element, without its caches whose size is the square of a page's, and each look around a step.

    Its `previous_siblings` calls itself for each sibling, too many times for a long list.
    """

    budget: _Budget = _Budget()

    def __init__(self, etree_element: Any, parent: Any, *rest: Any, **options: Any) -> None:
        super().__init__(etree_element, parent, *rest, **options)  # pyright: ignore[reportUnknownMemberType]
        if parent is not None:
            self.budget = parent.budget

    @property
    def around(self) -> frozenset[str]:
        """The tags, classes and ids of the elements around this one."""
        return frozenset[str]() if self.parent is None else self.parent.around_children

    @cached_property
    def around_children(self) -> frozenset[str]:
        own = {self.local_name.lower(), f"#{self.id}", *(f".{name}" for name in self.classes)}
        around = self.around
        if own <= around:
            return around
        self.budget.spend(len(around) + len(own))
        return around | own

    @cached_property
    def etree_children(self) -> _Siblings:
        children = _Siblings(child for child in self.etree_element if isinstance(child.tag, str))
        children.budget = self.budget
        return children

    @property
    def ancestors(self) -> Iterator[Any]:
        return self._following("parent")

    @property
    def previous_siblings(self) -> Iterator[Any]:
        return self._following("previous")

    def _following(self, name: str) -> Iterator[Any]:
        element = getattr(self, name)
        while element is not None:
            self.budget.spend()
            yield element
            element = getattr(element, name)
