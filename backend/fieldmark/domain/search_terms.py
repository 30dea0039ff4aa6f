"""Search terms: split words into terms, detect a text's language, and split pages into chunks.

`Rechnung INV-2024/0077` gives `rechnung`, and `inv`, `2024`, `0077`, `inv20240077`. Queries are split by the same
rules. Postgres stems the terms (`supabase/schemas/search.sql`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import regex

from fieldmark.domain.invisible import INVISIBLE_IN_KEY

MAX_CHUNK_TERMS: Final = 400
"""Maximum number of terms in a chunk, unless a single word has more."""
MAX_LENGTH: Final = 64
MAX_TERMS_PER_WORD: Final = 2000
"""Bounds the terms of one word: a file may contain a "word" of a megabyte."""

_RUN = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_SEPARATED = regex.compile(r"[\p{L}\p{M}\p{N}]+(?:[-_./:&@#+][\p{L}\p{M}\p{N}]+)+")
_NUMBER = re.compile(r"[0-9]{1,3}(?:[.,'’][0-9]{3})*(?P<cents>[.,][0-9]{1,2})?|[0-9]+(?P<rest>[.,][0-9]+)?")
_EDGE = regex.compile(r"^[^\p{L}\p{M}\p{N}]+|[^\p{L}\p{M}\p{N}]+$")
# Written without spaces between words, or with spaces between phrases: Thai as Chinese.
_UNSPACED: Final = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー"
_SAME_SPACING = regex.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = regex.compile(rf"[{_UNSPACED}]")
_INVISIBLE = regex.compile(INVISIBLE_IN_KEY)
_IBAN_START = re.compile(r"[A-Za-z]{2}[0-9]{2}(?:[A-Za-z0-9]{4})?")
_IBAN_GROUP = re.compile(r"[A-Za-z0-9]{1,4}")
_IBAN_LENGTH: Final = range(15, 35)


def terms(words: Sequence[str]) -> list[list[str]]:
    """Return the terms of each word, in lower case, with accents."""
    found = [_terms(word) for word in words]
    for at, word in enumerate(words):
        if _IBAN_START.fullmatch(word) and (whole := _grouped_iban(words, at)):
            found[at].append(whole)
    return found


def _terms(word: str) -> list[str]:
    if word.isascii():
        word = word.lower()
        if word.isalnum() and not word.isdigit():
            return [word[:MAX_LENGTH]]
    else:
        word = unicodedata.normalize("NFKC", _INVISIBLE.sub("", word)).casefold()
    bare = _EDGE.sub("", word)
    if number := _NUMBER.fullmatch(bare):
        digits = re.sub("[^0-9]", "", bare)[:MAX_LENGTH]
        decimals = number["cents"] or number["rest"] or ""
        whole = digits[: len(digits) + 1 - len(decimals)] if decimals else digits
        return list(dict.fromkeys((digits, whole)))
    found = [term for run in _RUN.findall(bare) for term in _split_run(run)][:MAX_TERMS_PER_WORD]
    if len(found) > 1 and _SEPARATED.fullmatch(bare):
        found.append("".join(_RUN.findall(bare))[:MAX_LENGTH])
    return found


def _split_run(run: str) -> Iterator[str]:
    """Yield a run of letters and digits, or its character pairs in a script without spaces."""
    if run.isascii() or not _IS_UNSPACED.search(run):
        yield run[:MAX_LENGTH]
        return
    for part in _SAME_SPACING.findall(run):
        if _IS_UNSPACED.match(part):
            yield from (part[at : at + 2] for at in range(max(1, len(part) - 1)))
        else:
            yield part[:MAX_LENGTH]


def _grouped_iban(words: Sequence[str], at: int) -> str | None:
    """Return the IBAN printed in groups of four that starts at word `at`, or None."""
    groups = [words[at]]
    for word in words[at + 1 : at + 9]:
        bare = _EDGE.sub("", word)
        if len(groups[-1]) != 4 or not _IBAN_GROUP.fullmatch(bare):
            break
        groups.append(bare)
        if bare != word:
            break
    whole = "".join(groups)
    return whole.lower() if len(groups) > 1 and len(whole) in _IBAN_LENGTH else None


# Words that are frequent in one language and rare in the others, and words of its invoices.
_COMMON_WORDS: Final = {
    "english": "the of and to is that for with was this from are by which at it invoice due amount payment receipt",
    "german": "der die und das den von zu mit ist für auf dem des ein eine nicht sich im rechnung betrag datum summe "
    "mwst gesamt steuer über",
    "french": "le la les des et est une dans pour que qui sur par pas au du avec ce sont facture montant tva numéro",
    "spanish": "el los las una que en por con del para es se al como fue más factura importe fecha número y",
    "italian": "il che di è per una non con del della gli nel alla sono dei fattura importo iva data numero",
    "portuguese": "os um uma que não com para em do da dos das ao é mais foi fatura valor número data",
    "dutch": "het een van en niet dat voor zijn met op te aan bij ook factuur bedrag btw datum totaal",
    "swedish": "och att det som en på är av för med till inte den ett om faktura belopp moms",
    "danish": "og at det som en på er af for med til ikke den et om faktura beløb moms hvor",
    "norwegian": "og at det som en på er av for med til ikke den et om faktura beløp mva hvor",
    "finnish": "ja on ei se että oli mutta hän joka kuin myös tai lasku summa alv päivämäärä",
    "hungarian": "a az és hogy nem is egy meg volt csak mint számla összeg áfa dátum",
    "romanian": "și în de la cu pe este care nu din pentru sau factură sumă dată",
    "turkish": "ve bir bu için ile de da olarak çok daha fatura tutar tarih kdv toplam",
}
_LANGUAGES_BY_WORD: Final = {
    word: frozenset(name for name, words in _COMMON_WORDS.items() if word in words.split())
    for words in _COMMON_WORDS.values()
    for word in words.split()
}
_SCRIPTS: Final = {
    "russian": regex.compile(r"\p{Cyrillic}"),
    "greek": regex.compile(r"\p{Greek}"),
    "arabic": regex.compile(r"\p{Arabic}"),
    "hindi": regex.compile(r"\p{Devanagari}"),
    "tamil": regex.compile(r"\p{Tamil}"),
    "armenian": regex.compile(r"\p{Armenian}"),
}
_LATIN = regex.compile(r"\p{Latin}")
DEFAULT_LANGUAGE: Final = "english"
"""Language of Latin text whose language is unknown."""
SIMPLE: Final = "simple"
"""Postgres' text search configuration without stemming."""
LANGUAGES: Final = frozenset({*_COMMON_WORDS, *_SCRIPTS, SIMPLE})
_MIN_COUNT: Final = 3


def detect_language(text_terms: Sequence[str], default: str | None = None) -> str:
    """Return the Postgres text search configuration for a text's terms. Return `default` if the text is too short."""
    counts: dict[str, float] = {}
    for term in text_terms:
        names = _LANGUAGES_BY_WORD.get(term, ())
        for name in names:
            counts[name] = counts.get(name, 0) + 1 / len(names)
    best = max(counts, key=counts.__getitem__, default=None)
    if best is not None and counts[best] >= (_MIN_COUNT if default else 1):
        # A page in another language has many words of that language, not only a few names.
        return default if default and counts[best] < 2 * counts.get(default, 0) else best
    sample = "".join(text_terms[:200])
    for name, script in _SCRIPTS.items():
        if 2 * len(script.findall(sample)) > len(sample):
            return name
    if default:
        return default
    return DEFAULT_LANGUAGE if 2 * len(_LATIN.findall(sample)) > len(sample) else SIMPLE


@dataclass(frozen=True, slots=True)
class Chunk:
    """Part of a page: words `first` to `last`, counted from 0, with their terms."""

    page: int
    first: int
    last: int
    language: str
    terms: list[str]


def chunks(pages: Sequence[tuple[int, Sequence[str]]]) -> list[Chunk]:
    """Split pages, given as (number, words), into chunks of similar length. No chunk spans two pages."""
    by_page = [(number, terms(words)) for number, words in pages]
    beginning = [term for _, page in by_page[:20] for word in page for term in word]
    main_language = detect_language(beginning)
    return [chunk for number, page in by_page for chunk in _page_chunks(number, page, main_language)]


def _page_chunks(number: int, words: list[list[str]], main_language: str) -> Iterator[Chunk]:
    total = sum(map(len, words))
    if not total:
        return
    most = -(-total // -(-total // MAX_CHUNK_TERMS))
    language = detect_language([term for word in words for term in word], main_language)
    first, held = 0, list[str]()
    for at, found in enumerate(words):
        if held and len(held) + len(found) > most:
            yield Chunk(number, first, at - 1, language, held)
            first, held = at, []
        held.extend(found)
    if held:
        yield Chunk(number, first, len(words) - 1, language, held)
