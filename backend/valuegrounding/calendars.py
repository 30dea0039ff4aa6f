"""Days of other calendars, as days of the Gregorian calendar: Japanese eras, Minguo, Buddhist, Hijri and Jalali."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from typing import Final, TypeAlias

from hijridate import Hijri

from valuegrounding.folding import fold

Day: TypeAlias = tuple[int, int, int]
Converter: TypeAlias = Callable[[Day, bool], Day | None]

# The first year of each era, with the era's names, and its letters on forms.
_ERAS: Final = (
    (2019, "令和 令 r"),
    (1989, "平成 平 h"),
    (1926, "昭和 昭 s"),
    (1912, "大正 大 t"),
    (1868, "明治 明 m"),
    (1912, "中華民國 中华民国 民國 民国"),
)
_FIRST_YEARS: Final = {name: year for year, names in _ERAS for name in names.split()}
_MINGUO_FIRST_YEAR: Final = 1912
_ERA: Final = "|".join(sorted((name for name in _FIRST_YEARS if len(name) > 1), key=len, reverse=True))
_AFTER_ERA: Final = (
    r"\s?(?P<year>元|\d{1,3})\s?[年./\-]\s?(?P<month>\d\d?)\s?[月./\-]\s?(?P<day>\d\d?)(?!\d|[./\-]\d)(?:\s?日)?"
)
_ERA_DATE = re.compile(rf"(?P<era>{_ERA}){_AFTER_ERA}")
_ERA_LETTER_DATE = re.compile(rf"(?<![^\W_])(?P<era>[rhstm令平昭大明])[.\-]?{_AFTER_ERA}")
# A year of three digits is Minguo if it has its Chinese word, or if the document is from Taiwan.
_MINGUO_DATE = re.compile(rf"(?P<era>)(?<!\d)(?=1\d\d\s?年){_AFTER_ERA}")
_MINGUO_NUMBERS = re.compile(rf"(?P<era>)(?<![\w./\-])(?=1\d\d[./\-]){_AFTER_ERA}")
_FROM_TAIWAN = re.compile("統一編號|統編|民國|新台幣|新臺幣|營業稅|臺灣|台灣|台北|臺北|統一發票")
# 二〇二六年三月四日, 令和八年三月四日
_KANJI_DIGITS: Final = {**{digit: at for at, digit in enumerate("〇一二三四五六七八九")}, "零": 0, "○": 0, "元": 1}
_KANJI = "".join(_KANJI_DIGITS)
_KANJI_DATE = re.compile(
    rf"(?:(?P<era>{_ERA})\s?(?P<year>[{_KANJI}十百]{{1,5}})|(?<![{_KANJI}十百])(?P<full>[{_KANJI}]{{4}}))\s?年"
    rf"\s?(?P<month>[{_KANJI}十]{{1,3}})\s?月\s?(?P<day>[{_KANJI}十]{{1,3}})\s?日"
)
_EAST_ASIAN = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_THAI = re.compile("[\u0e01-\u0e2e]")
_ARABIC = re.compile("[\u0620-\u064a]")
_JALALI_MARK = re.compile(r"[پچژگکی]|ه\.? ?ش(?![^\W_])|(?<![^\W_])(?:jalali|shamsi|solar hijri)(?![^\W_])")
_HIJRI_MARK = re.compile(
    r"(?<![^\W_])(?:(?:hijri|hijriyah|umm al-qura|1[34]\d\d ?a\.?h\.?)(?![^\W_])|a\.?h\.? ?1[34]\d\d)"
    r"|[/.\-]1[34]\d\d ?h(?![^\W_])"
)
_BUDDHIST_YEARS: Final = range(2450, 2650)
_MUSLIM_YEARS: Final = range(1300, 1500)
_SHORT_BUDDHIST_YEARS: Final = range(60, 100)

_JALALI_MONTHS: Final = "فروردین اردیبهشت خرداد تیر مرداد شهریور مهر آبان آذر دی بهمن اسفند"
_HIJRI_MONTHS: Final = (
    "محرم,صفر,ربيع الأول,ربيع الآخر,جمادى الأولى,جمادى الآخرة,رجب,شعبان,رمضان,شوال,ذو القعدة,ذو الحجة",
    "المحرم,صفر,ربيع أول,ربيع الثاني,جمادى الأول,جمادى الثانية,رجب,شعبان,رمضان,شوال,ذي القعدة,ذي الحجة",
    "muharram,safar,rabi al-awwal,rabi al-thani,jumada al-awwal,jumada al-thani,rajab,shaban,ramadan,shawwal"
    ",dhu al-qadah,dhu al-hijjah",
)


def _jalali_to_gregorian(year: int, month: int, day: int) -> Day | None:
    day_of_year = (month - 1) * 31 + day if month <= 7 else (month - 1) * 30 + 6 + day
    if not (1 <= month <= 12 and 1 <= day <= 31 and (month <= 6 or day <= 30)):
        return None
    # Exact for 1280 to 1510: a leap year every fourth year, and after each seventh one a year later.
    found = date.fromordinal(226_529 + 365 * year + (8 * year + 21) // 33 + day_of_year)
    return found.year, found.month, found.day


def _hijri_to_gregorian(year: int, month: int, day: int) -> Day | None:
    try:
        found = Hijri(year, month, day).to_gregorian()
    except (ValueError, OverflowError):
        return None
    return found.year, found.month, found.day


_MONTHS: Final = {
    **{fold(name): (_jalali_to_gregorian, month) for month, name in enumerate(_JALALI_MONTHS.split(), 1)},
    **{
        fold(name): (_hijri_to_gregorian, month)
        for names in _HIJRI_MONTHS
        for month, name in enumerate(names.split(","), 1)
    },
}
_NAMED_DATE = re.compile(
    rf"(\d(?<!\w\d)\d?)\s(?:من\s|ماه\s)?({'|'.join(sorted(_MONTHS, key=len, reverse=True))})(?:\sماه)?"
    r"[\s,]{1,2}(?:عام\s|سنة\s|سال\s)?(1[34]\d\d)(?!\w)".replace(" ", r"\s")
)


def find_dates(text: str) -> Iterator[tuple[int, int, Day]]:
    """Yield the (start, end, day) of the dates in a folded text that only another calendar has: with the name of an era
    or month, or with a year of three digits."""
    if _EAST_ASIAN.search(text):
        patterns = [_ERA_DATE, _ERA_LETTER_DATE, _MINGUO_DATE]
        patterns += [_MINGUO_NUMBERS] if _FROM_TAIWAN.search(text) else []
        for found in (found for pattern in patterns for found in pattern.finditer(text)):
            year = 1 if found["year"] == "元" else int(found["year"])
            first = _FIRST_YEARS.get(found["era"], _MINGUO_FIRST_YEAR)
            yield *found.span(), (first - 1 + year, int(found["month"]), int(found["day"]))
        for found in _KANJI_DATE.finditer(text):
            year, month, day = (
                _kanji_number(found[part]) for part in ("year" if found["era"] else "full", "month", "day")
            )
            if year is not None and month is not None and day is not None:
                yield *found.span(), (_FIRST_YEARS[found["era"]] - 1 + year if found["era"] else year, month, day)
    for found in _NAMED_DATE.finditer(text):
        convert, month = _MONTHS[re.sub(r"\s", " ", found[2])]
        if day := convert(int(found[3]), month, int(found[1])):
            yield *found.span(), day


def _kanji_number(text: str) -> int | None:
    """Return the number of kanji digits: 二〇二六, 二十五, 百十三. None if they are no number."""
    if "十" not in text and "百" not in text:
        return int("".join(str(_KANJI_DIGITS[one]) for one in text))
    found = re.fullmatch(
        rf"(?:(?P<hundreds>[{_KANJI}]?)百)?[零〇]?(?:(?P<tens>[{_KANJI}]?)十)?(?P<ones>[{_KANJI}]?)", text
    )
    if found is None:
        return None
    hundreds, tens = (0 if found[one] is None else _KANJI_DIGITS.get(found[one], 1) for one in ("hundreds", "tens"))
    return 100 * hundreds + 10 * tens + _KANJI_DIGITS.get(found["ones"], 0)


def converter_for(text: str) -> Converter:
    """Return a function that converts a day of a folded text to the Gregorian calendar. It gets the day as printed, and
    whether its year is short; it returns None if the calendar of the text has no such day."""
    is_thai = _THAI.search(text) is not None
    convert_muslim = None
    if _JALALI_MARK.search(text):
        convert_muslim = _jalali_to_gregorian
    elif _HIJRI_MARK.search(text) or _ARABIC.search(text):
        convert_muslim = _hijri_to_gregorian

    def convert(day: Day, is_short: bool) -> Day | None:
        year, month, number = day
        if is_thai and is_short and year % 100 in _SHORT_BUDDHIST_YEARS:
            return (2500 - 543 + year % 100, month, number) if year >= 2000 else None
        if year in _BUDDHIST_YEARS:
            return (year - 543, month, number)
        return convert_muslim(*day) if convert_muslim and year in _MUSLIM_YEARS else day

    return convert
