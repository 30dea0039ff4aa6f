"""Dates and times in any format: find them in a text, with the days that each may mean.

A day is (year, month, day), a period (year, month or quarter). `_NAMES` has the month names of all supported languages.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import date
from functools import cached_property
from itertools import permutations
from typing import Final, NamedTuple, TypeAlias

from valuegrounding import calendars, units
from valuegrounding.conventions import Conventions, conventions_of
from valuegrounding.folding import fold

Day: TypeAlias = calendars.Day
Order: TypeAlias = str
"""Order of three numbers: `dmy`, `mdy` or `ymd`; empty if a month name or a four-digit year first makes it clear."""
Period: TypeAlias = tuple[int, str]
"""A year, and a month, `03`, or a quarter, `q1`."""
TimeOfDay: TypeAlias = tuple[int, int, int | None, int | None]
"""Hour, minute, second, and the minutes that its zone is ahead of UTC; None where they are not stated."""

_NAMES: Final = """
en january february march april may june july august september october november december
en jan feb mar apr may jun jul aug sept oct nov dec
en jan feb mar apr may jun jul aug sep oct nov dec
de januar februar märz april mai juni juli august september oktober november dezember
de jänner feber maerz april mai juni juli august september oktober november dezember
de jän feb mrz apr mai jun jul aug sep okt nov dez
de jaen feb mär apr mai jun jul aug sep okt nov dez
fr janvier février mars avril mai juin juillet août septembre octobre novembre décembre
fr janv févr mars avr mai juin juil août sept oct nov déc
fr janv fevr mars avr mai juin juil août sept oct nov déc
fr jan fév mars avr mai jun jul aoû sep oct nov déc
es enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
es ene feb mar abr may jun jul ago setiembre oct nov dic
it gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
it gen febb mar apr mag giu lug ago set ott nov dic
it gennajo febb mar apr mag giu lug ago sett ott nov dic
pt janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
pt jan fev mar abr mai jun jul ago set out nov dez
nl januari februari maart april mei juni juli augustus september oktober november december
nl jan feb mrt apr mei jun jul aug sep okt nov dec
da januar februar marts april maj juni juli august september oktober november december
nb januar februar mars april mai juni juli august september oktober november desember
sv januari februari mars april maj juni juli augusti september oktober november december
fi tammikuu helmikuu maaliskuu huhtikuu toukokuu kesäkuu heinäkuu elokuu syyskuu lokakuu marraskuu joulukuu
pl styczeń luty marzec kwiecień maj czerwiec lipiec sierpień wrzesień październik listopad grudzień
pl stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia
pl sty lut mar kwi maj cze lip sie wrz paź lis gru
cs leden únor březen duben květen červen červenec srpen září říjen listopad prosinec
cs ledna února března dubna května června července srpna září října listopadu prosince
sk január február marec apríl máj jún júl august september október november december
sk januára februára marca apríla mája júna júla augusta septembra októbra novembra decembra
hu január február március április május június július augusztus szeptember október november december
hu jan febr márc ápr máj jún júl aug szept okt nov dec
ro ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie noiembrie decembrie
ro ian feb mar apr mai iun iul aug sept oct noi dec
hr siječanj veljača ožujak travanj svibanj lipanj srpanj kolovoz rujan listopad studeni prosinac
hr siječnja veljače ožujka travnja svibnja lipnja srpnja kolovoza rujna listopada studenoga prosinca
hr siječnja veljače ožujka travnja svibnja lipnja srpnja kolovoza rujna listopada studenog prosinca
tr ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık
tr oca şub mar nis may haz tem ağu eyl eki kas ara
ru январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь
ru января февраля марта апреля мая июня июля августа сентября октября ноября декабря
ru янв фев мар апр май июн июл авг сен окт ноя дек
ru янв февр мар апр май июн июл авг сент окт нояб дек
uk січень лютий березень квітень травень червень липень серпень вересень жовтень листопад грудень
uk січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня
uk січ лют бер квіт трав черв лип серп вер жовт лист груд
el ιανουάριος φεβρουάριος μάρτιος απρίλιος μάιος ιούνιος ιούλιος αύγουστος σεπτέμβριος οκτώβριος νοέμβριος δεκέμβριος
el ιανουαρίου φεβρουαρίου μαρτίου απριλίου μαΐου ιουνίου ιουλίου αυγούστου σεπτεμβρίου οκτωβρίου νοεμβρίου δεκεμβρίου
el ιαν φεβ μαρ απρ μαι ιουν ιουλ αυγ σεπ οκτ νοε δεκ
he ינואר פברואר מרץ אפריל מאי יוני יולי אוגוסט ספטמבר אוקטובר נובמבר דצמבר
he בינואר בפברואר במרץ באפריל במאי ביוני ביולי באוגוסט בספטמבר באוקטובר בנובמבר בדצמבר
he ינואר פברואר מרס אפריל מאי יוני יולי אוגוסט ספטמבר אוקטובר נובמבר דצמבר
ar يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر
th มกราคม กุมภาพันธ์ มีนาคม เมษายน พฤษภาคม มิถุนายน กรกฎาคม สิงหาคม กันยายน ตุลาคม พฤศจิกายน ธันวาคม
th ม.ค ก.พ มี.ค เม.ย พ.ค มิ.ย ก.ค ส.ค ก.ย ต.ค พ.ย ธ.ค
id januari februari maret april mei juni juli agustus september oktober november desember
id jan peb mar apr mei jun jul agu sep okt nop des
hi जनवरी फरवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर
lt sausio vasario kovo balandžio gegužės birželio liepos rugpjūčio rugsėjo spalio lapkričio gruodžio
ar يناير فبراير مارس إبريل ماي يونيه يوليه أوت سبتمبر أكتوبر نوفمبر ديسمبر
"""
# `listopad` is November in Polish and Czech, and October in Croatian.
_MONTH_IN_CROATIAN: Final = {fold(name): 10 for name in ("listopad", "listopada")}
_ENDINGS: Final = {"fi": ("", "ta")}  # 12. tammikuuta
MONTHS: Final = {
    fold(name + ending): month
    for language, *names in map(str.split, _NAMES.strip().splitlines())
    for month, name in enumerate(names, 1)
    for ending in _ENDINGS.get(language, ("",))
    if month != 10 or fold(name) not in _MONTH_IN_CROATIAN
}

_ENGLISH_MONTHS: Final = frozenset(
    fold(name) for line in _NAMES.split("\n") if line.startswith("en ") for name in line.split()[1:]
)
_YEAR_FIRST: Final[frozenset[Order]] = frozenset({"ymd"})
_NAMED: Final[frozenset[Order]] = frozenset({""})
_DAY_FIRST_ORDER: Final[frozenset[Order]] = frozenset({"dmy"})

_ORDINAL = r"(?:st|nd|rd|th|er|ste|de|º|°|o|a)?"
_SEPARATOR = r"[\s\x1f.,/\-'\"]*"
_OF_WORDS = r"(?:(?:day\s)?(?:de|del|of|di|van|the)\s|เดือน\s?|b\.?e\.?\s|พ\.ศ\.\s?)?"
_YEAR = r"(\d{4}|(?<!\s-)(?<!\s-\s)\d{2}(?!\s[^\W\d_]{3,12}\.?,?\s\d{4}))(?!\d)"  # 31 is a day in `1 May - 31 May 2024`
_NUMERIC = re.compile(
    r"(\d(?<!\w\d)(?<!\d[.,:/\-']\d)\d{0,3})(?:(\s?[./\-,·]\s?)(\d{1,2})\s?[./\-,·]\s?(\d{4}|\d{1,2})"
    r"|([\s\x1f])(\d\d)[\s\x1f](\d{4}|\d\d))(?![\d_]|[./\-,:]\d)"
)
# A word before three short numbers that makes them a version or a section number, or a reference number (below).
_VERSION_BEFORE = re.compile(
    r"(?<![^\W_])(?:v|ver|vers|version\w*|release|rel|rev|revision|build|firmware|software|fw|sw|sections?|clause|chapter"
    r"|article|paragraph|abschnitt|kapitel|ziffer|absatz|punkt|artikel|art|abs|chapitre|capitulo|capitolo|версия"
    r"|pos|position|posten|item|line|zeile|step|schritt|figure|fig|abb|abbildung|table|tab|tabelle|appendix|anhang"
    r"|kernel|linux|ubuntu|debian|windows|android|ios|macos|python|java|jdk|node|npm|php|perl|ruby|rust|sdk|api|driver"
    r"|mysql|postgres(?:ql)?|oracle|apache|nginx|docker|chrome|firefox|safari|bios|app|client)"
    r"[\s\x1f.:#]{0,3}\Z|§\s?\Z|(?<![^\W_])v\Z"
)
_REFERENCE_BEFORE = re.compile(
    r"(?<![^\W_])(?:ref|reference|referenz|no|nr|num|nummer|numero|number|az|aktenzeichen|zeichen|order|invoice|rechnung"
    r"|case|file|id|code|tel|telefon|phone|fax|n°|nº)[\s\x1f.:#]{0,3}\Z|#\s?\Z"
)
_WEEK_BEFORE = re.compile(
    r"(?<![^\W_])(?:kw|cw|wk|week|kalenderwoche|woche|semaine|semana|settimana|vecka|uge|uke)[\s\x1f.:#]{0,3}\Z"
)
_LOOK_BACK_CHARACTERS: Final = 20
# Certainty of a time that may be something else, and of a date that may be a reference number or of another year.
UNUSUAL_CERTAINTY: Final = 0.6
_REFERENCE_CERTAINTY: Final = 0.6
WITHOUT_YEAR_CERTAINTY: Final = 0.6
# Certainty of a date in the order of its country; of one whose order is open, is unusual, or contradicts other dates of
# the same format; and of a month's name that two languages use.
_IN_COUNTRY_CERTAINTY: Final = 0.9
AMBIGUOUS_CERTAINTY: Final = 0.4
CONTRADICTED_CERTAINTY: Final = 0.0
_TWO_LANGUAGES_CERTAINTY: Final = 0.9
_LAST_SHORT_YEAR: Final = 35  # of this century
_DAY_FIRST = re.compile(
    rf"(\d(?<![\w.,]\d)\d?){_ORDINAL}{_SEPARATOR}{_OF_WORDS}({units.any_of(MONTHS)})(?![^\W\d_]){_SEPARATOR}{_OF_WORDS}{_YEAR}"
)
_MONTH_FIRST = re.compile(rf"(\d(?<![\d.,]\d)\d?)(?:st|nd|rd|th)?[\s\x1f,.\-/']{{1,3}}{_YEAR}(?!,?\s\d{{4}}(?!\d))")
# The start of a range whose end is a whole date: `3-5 March 2024`, `1.5.-31.5.24`, `May 1 to June 15, 2024`.
_TO: Final = (
    r"\s?(?:[-~]|\.\.\.?|(?<=[\s.])(?:bis(?:\szum)?|to|til|till|until|through|thru|al|au|a|do|tot|t/m|до)(?=\s))\s?"
)
_RANGE_START = re.compile(
    rf"(?<![\w.,:/\-])(?:(?P<name>{units.any_of(MONTHS)})\.?\s(?P<named_day>\d\d?)(?:st|nd|rd|th)?"
    rf"|(?P<first>\d\d?)(?P<separator>[./])\s?(?P<second>\d\d?)\.?"
    rf"|(?P<day>\d\d?)(?P<dot>\.?){_ORDINAL}(?:\s?{_OF_WORDS}(?P<month>{units.any_of(MONTHS)})(?![^\W_])\.?)?){_TO}\Z"
)
# A whole date that touches an identifier or a word: `80101911/26.06.2025`, `26.06.2025/80101911`, `vom26.06.2025`.
_GLUED = re.compile(r"(\d(?<![\d.,:]\d)(?<!\b[^\W\d_]\d)(?:\d?|\d{3}))([./\-])(\d\d?)\2(\d{4}|\d\d)(?!\d|[.,:]\d)")
_WHOLE_DATE: Final = r"(?:\d\d?[.\-]\d\d?[.\-]\d{4}|\d\d\.\d\d\.\d\d|\d{4}-\d\d-\d\d)"
DATE_BEFORE: Final = re.compile(rf"(?<![\d.,:\-]){_WHOLE_DATE}/\Z")
DATE_AFTER: Final = re.compile(rf"/{_WHOLE_DATE}(?![\d.,:\-])")
_MAX_RANGE_START_CHARACTERS: Final = 30
_MONTH_OF_TWO_DAYS = re.compile(rf"(?<![^\W_])([^\W\d_]{{3,12}})\.?\s(\d\d?)(?:st|nd|rd|th)?{_TO}\Z")
_MONTH_BEFORE = re.compile(r"(?<![^\W_])([^\W\d_]{3,12})[\s\x1f.\-/]{0,3}\Z")
_ROMAN: Final = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")
_ROMAN_MONTH = re.compile(
    r"(\d(?<![\w.,/\-]\d)\d?)(?:\s?(?:\.\s?|[/\-])([ivx]{1,4})\s?(?:\.\s?|[/\-])|\s([ivx]{2,4})\s)"
    r"(\d{4}|\d\d)(?!\w|[.,/\-]\d)"
)
_YEAR_BEFORE = re.compile(
    rf"([12](?<!\d\d)\d{{3}})(?:\sm\.)?{_SEPARATOR}([^\W\d_]{{3,12}}){_SEPARATOR}(\d{{1,2}})(?![\d])"
)
_EAST_ASIAN = re.compile(r"(\d(?<!\d\d)\d{3})\s?[年년]\s?(\d{1,2})\s?[月월]\s?(\d{1,2})\s?[日일]")
_VIETNAMESE = re.compile(r"ngay\s(\d\d?)\sthang\s(\d\d?)\snam\s(\d{4})(?!\d)")
_DAY_AND_MONTH = re.compile(
    rf"(\d(?<![\w.,/\-]\d)\d?){_ORDINAL}\.?\s?{_OF_WORDS}({units.any_of(MONTHS)})(?![^\W_]|\.?,?\s?\d{{4}})"
)
# Two digits each without a dot at the end may also be an amount: `17.05`.
_DOTTED_DAY = re.compile(
    r"(\d(?<![\w.,:/\-§]\d)\d?)\.\s?(\d\d?)\.(?!\w|[\-/]\d|\s?\d{4}(?!\d))|(\d(?<![\w.,:/\-§]\d)\d)\.(\d\d)(?![\w.:/%]|[,\-]\d)"
)
_POINT_AND_TWO_DIGITS = re.compile(r"(\d(?<![\d.,]\d)\d{0,8})\.(\d\d)(?![\d.])")
_COMMA_AND_TWO_DIGITS = re.compile(r"\d,\d\d(?!\d)")
_EAST_ASIAN_DAY = re.compile(r"(\d(?<!\d\d)\d?)\s?[月월]\s?(\d\d?)\s?[日일]")
_EAST_ASIAN_YEAR_BEFORE = re.compile(r"[年년]\s?\Z")
_COMPACT_DAY = re.compile(r"(\d(?<![\w.,/\-]\d)\d)(\d\d)((?:19|20)\d\d)(?![\d.,/\-]?\w)")
_PERIOD_YEAR: Final = r"((?:19|20)\d\d)"
_MONTH_AND_YEAR = re.compile(rf"(\d(?<![\w.,:/\-]\d)\d)\s?[./\-]\s?{_PERIOD_YEAR}(?!\w|[.,/\-]\d)")
_MONTH_AND_SHORT_YEAR = re.compile(r"(\d(?<![\w.,:/\-]\d)\d)/(\d\d)(?![\w/]|[.,:\-]\d)")
_YEAR_AND_MONTH = re.compile(r"([12](?<![\w.,:/\-]\d)(?:(?<=1)9|(?<=2)0)\d\d)[/\-](\d\d)(?!\w|[.,:/\-]\d)")
_NAMED_YEAR = re.compile(r"([12](?<![\d.,:]\d)(?:(?<=1)9|(?<=2)0)\d\d|\d(?<=[-/'\s.]\d)\d)(?![^\W年년]|[.,]\d)")
# After `Mar 12`, where it is a day: `Mar 12 2024`, `Mar 12-15`, `Mar 12 14:30`.
_DAY_OF_NAMED_MONTH = re.compile(r"[.,]?\s?\d{4}(?!\d)|\s?[-:]\s?\d|\s\d\d?:\d\d")
_NAME_BEFORE = re.compile(rf"(?<![^\W_])([^\W\d_]{{3,12}})[\s\x1f.,/\-']{{0,3}}{_OF_WORDS}\Z")
_NAME_AFTER = re.compile(
    r"[\s\x1f./\-]{1,3}([^\W\d_]{3,12})(?![^\W_]|[\s\x1f.,/\-]{0,3}\d)|\s?[年년]\s?(\d\d?)\s?[月월](?!\s?\d)"
)
_DAY_BEFORE = re.compile(rf"\d{_ORDINAL}{_SEPARATOR}{_OF_WORDS}\Z")
_QUARTER = (
    r"(?:q\s?([1-4])|([1-4])(?:\.|st|nd|rd|th|er|e|eme|º|°|o)?\s?(?:q|quarter|quartal|kwartaal|trimestre|trim)\.?)"
)
_QUARTER_BEFORE = re.compile(rf"(?<![^\W_]){_QUARTER}[\s\x1f/\-']{{0,3}}{_OF_WORDS}\Z")
_QUARTER_AFTER = re.compile(rf"[\s\x1f./\-]{{0,3}}{_QUARTER}(?![^\W_])")
_DAY_ALONE = re.compile(r"(\d(?<![\d.,]\d)\d?)(?:st|nd|rd|th)?(?![^\W_]|[.:,/\-]\d|,?\s\d{4})")
_TWO_NUMBERS = re.compile(r"(\d(?<![\w.,:/\-]\d)\d)/(\d\d)(?![\w/]|[.:,\-]\d)")
_YEAR_ALONE = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_COMPACT = re.compile(
    r"([12](?<![\w.,/\-]\d)(?:(?<=1)9|(?<=2)0)\d\d)(\d\d)(\d\d)(?:(?![\d.,/\-]?\w)|(?=[/\-t_]?\d{6}(?!\d)))"
)
_TIME = re.compile(
    r"(?P<hour>\d(?<![\d:.,]\d)\d?)(?P<mark>[:h時时点點]|시\s?|\.(?=\d\d(?:\.\d\d)?(?![.,]?\d)))(?P<minute>\d\d)"
    r"(?:(?:[:.]|[分분]\s?)(?P<second>\d\d)秒?)?(?![\d:])[分분]?"
)
# The half of the day, after or before a time. A single letter counts only without a space before it: `8:13p`.
_HALF_AFTER = re.compile(
    r"\s?(?:(?P<a>a\.?\s?m\b\.?|π\.?\s?μ\b\.?|صباحا|ص)|(?P<p>p\.?\s?m\b\.?|μ\.?\s?μ\b\.?|مساء|م"
    r"|(?:uhr\s)?(?:abends|nachmittags)|de\sla\s(?:tarde|noche)|du\ssoir|de\sl'apres-midi))(?![^\W_])|(?P<short>[ap])(?![^\W_])"
)
_HALF_BEFORE = re.compile(
    r"(?:(?<![^\W_])(?<!\d\s)(?:(?P<a>a\.?m)|(?P<p>p\.?m))\.?|(?P<morning>上午|午前|오전)|(?P<evening>下午|午後|晚上|오후))\s?\Z"
)
_ZONE_AFTER = re.compile(
    r"\s?(?:(?P<name>z|utc|gmt|cet|cest|mez|mesz|jst)|(?P<sign>[+-])(?P<h>\d\d):?(?P<m>\d\d))(?![\w:])"
)
_ZONES: Final = {"z": 0, "utc": 0, "gmt": 0, "cet": 60, "mez": 60, "cest": 120, "mesz": 120, "jst": 540}
# A word before two numbers with a colon that makes them a ratio or a verse.
_RATIO_BEFORE = re.compile(
    r"(?<![^\W_])(?:ratio|scale|verhaltnis|massstab|echelle|escala|scala|odds|psalms?|ps|verse|genesis|exodus|matthew|mark"
    r"|luke|john|acts|romans|corinthians|mt|mk|lk|joh|rom|kor|sure|surah|quran)\.?[\s:=]{0,3}\Z"
)
_HOUR_AFTER = re.compile(r"\s?(?:uhr|h|hrs?|hours|horas|heures|klo)(?![^\W_])")
# A word for the hour, or a date. An amount may follow a date too.
_HOUR_BEFORE = re.compile(
    r"(?:(?<![^\W_])(?:uhrzeit|zeit|um|time|heure|hora|ora|tid|tijd|kl|klo|klokken|klockan)|\d[./-]\d\d?[./-]\d{2,4}"
    r"|[^\W\d_]{3}\.?\s\d{4})[\s.:,;|t-]{1,3}\Z"
)
_MONEY_AFTER = re.compile(rf"\s?(?:[{units.SYMBOLS}%‰]|{units.any_of(units.CURRENCY_LETTERS)}(?![^\W_]))")
_MONEY_BEFORE = re.compile(rf"(?:[{units.SYMBOLS}]|(?<![^\W_]){units.any_of(units.CURRENCY_LETTERS)})\s?\Z")
_DIGIT = re.compile(r"\d")
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d))?(?:[.,]\d+)?(\s?(?:Z|[+-]\d\d:?\d\d))?)?")


class PrintedDate(NamedTuple):
    """A printed date: its offsets in the text, and the days that it may mean, each with its order of day, month and
    year."""

    start: int
    end: int
    days: tuple[Day, ...]
    orders: Mapping[Day, frozenset[Order]]
    is_reference: bool = False  # after a word such as "Ref": it may be a reference number
    separator: str = ""  # with dots, the day usually comes first
    is_range_start: bool = False


class _FoundDate(NamedTuple):
    """A date as it is printed, in any calendar."""

    start: int
    end: int
    days: Sequence[tuple[Day, Order]]
    is_reference: bool = False
    separator: str = ""
    is_range_start: bool = False


class DateAndTime(NamedTuple):
    """The days that a text may mean, and its time. A time alone has no days."""

    days: tuple[Day, ...]
    time: TimeOfDay | None


def parse(text: str) -> DateAndTime | None:
    """Return the date, the time, or the date with a time that a text is, or None if it contains anything else."""
    text = text.strip()
    if not 4 <= len(text) <= 60 or not _DIGIT.search(text):
        return None
    iso = _ISO.fullmatch(text)
    if iso:
        days = _valid([(int(iso[1]), int(iso[2]), int(iso[3]))])
        zone = _zone(_ZONE_AFTER.match(iso[7].lower())) if iso[7] else None
        time = (int(iso[4]), int(iso[5]), int(iso[6]) if iso[6] else None, zone) if iso[4] else None
        return DateAndTime(days, time) if days else None
    folded = fold(text)
    for start, end, times in find_times(folded, allow_dots=True):
        if not re.search(r"[^\W_]", folded[:start] + folded[end:]):
            return DateAndTime((), times[0])
    printed = list(find_dates(folded))
    if any(one.is_range_start for one in printed):
        return None  # two days
    for start, end, days, *_ in printed:
        rest = folded[:start] + " " + folded[end:]
        if not re.search(r"[^\W_]", rest):
            return DateAndTime(days, None)
        times = list(find_times(rest, allow_dots=True))
        if len(times) == 1 and not re.search(r"[^\W_]", rest[: times[0][0]] + rest[times[0][1] :]):
            return DateAndTime(days, times[0][2][0])
    return None


def is_iso(text: str) -> bool:
    return _ISO.fullmatch(text) is not None


def find_dates(text: str) -> Iterator[PrintedDate]:
    """Yield the dates in a folded text. Days of other calendars are converted to the Gregorian calendar."""
    convert = calendars.converter_for(text)
    for found in _find_dates_as_printed(text):
        for one in (found, *_range_start(text, found)):
            yield from _as_printed_date(one, convert)
    for start, end, day in calendars.find_dates(text):
        yield from _as_printed_date(_FoundDate(start, end, [(day, "")]), lambda day, _: day)


def _find_dates_as_printed(text: str) -> Iterator[_FoundDate]:
    for found in _NUMERIC.finditer(text):
        if not found[3]:
            if len(found[1]) + len(found[7]) == 6:  # with spaces alone, only 25 12 2018 and 2018 12 25 are dates
                yield _FoundDate(*found.span(), _days_of_numbers(found[1], found[6], found[7]))
            continue
        is_short = len(found[1]) <= 2 and len(found[4]) == 2
        before = text[max(0, found.start() - _LOOK_BACK_CHARACTERS) : found.start()] if is_short else ""
        if not before or not (_VERSION_BEFORE.search(before) or text[found.end() : found.end() + 1].isalpha()):
            is_reference = _REFERENCE_BEFORE.search(before) is not None
            days = _days_of_numbers(found[1], found[3], found[4])
            yield _FoundDate(*found.span(), days, is_reference, found[2].strip())
    for found in _GLUED.finditer(text):
        separator, around = found[2], text[found.start() - 1 : found.start()] + text[found.end() : found.end() + 1]
        is_whole = (len(found[1]) == 4) != (len(found[4]) == 4) or (separator == "." and "/" in around)
        if is_whole and separator not in around and not _NUMERIC.match(text, found.start()):
            days = _days_of_numbers(found[1], found[3], found[4])
            yield _FoundDate(*found.span(), days, separator=separator)
    for found in _DAY_FIRST.finditer(text):
        yield _FoundDate(*found.span(), _days_of_month(found[2], found[1], _years(found[3])))
    for found in _MONTH_FIRST.finditer(text):
        from_start = max(0, found.start() - _LOOK_BACK_CHARACTERS)
        named = _MONTH_BEFORE.search(text, from_start, found.start())
        two_days = _MONTH_OF_TWO_DAYS.search(text, from_start, found.start())
        if named and named[1] in MONTHS:
            yield _FoundDate(named.start(), found.end(), _days_of_month(named[1], found[1], _years(found[2])))
        elif two_days and two_days[1] in MONTHS:  # Jan 1-15, 2023
            for day, is_start in ((two_days[2], True), (found[1], False)):
                days = _days_of_month(two_days[1], day, _years(found[2]))
                yield _FoundDate(two_days.start(), found.end(), days, is_range_start=is_start)
    for found in _ROMAN_MONTH.finditer(text):
        if (name := found[2] or found[3]) in _ROMAN:
            month = _ROMAN.index(name) + 1
            yield _FoundDate(*found.span(), [((year, month, int(found[1])), "") for year in _years(found[4])])
    for found in _YEAR_BEFORE.finditer(text):
        if found[2] in MONTHS:
            yield _FoundDate(*found.span(), _days_of_month(found[2], found[3], (int(found[1]),)))
    # Each pattern starts with its first digit and looks back from there: searching for a character class is fast.
    for pattern in (_EAST_ASIAN, _COMPACT) if "年" in text or "년" in text else (_COMPACT,):
        for found in pattern.finditer(text):
            yield _FoundDate(*found.span(), [((int(found[1]), int(found[2]), int(found[3])), "")])
    for found in _VIETNAMESE.finditer(text):
        yield _FoundDate(*found.span(), [((int(found[3]), int(found[2]), int(found[1])), "")])


def _range_start(text: str, end: _FoundDate) -> Iterator[_FoundDate]:
    """Yield the first day of the range that a date ends: it has the date's year, or the year before."""
    first = _RANGE_START.search(text, max(0, end.start - _MAX_RANGE_START_CHARACTERS), end.start)
    if first is None or end.is_range_start or (first["day"] and end.separator and not first["dot"]):
        return
    days: list[tuple[Day, Order]] = []
    for (year, month, _), order in end.days:
        if first["first"]:
            one, other = int(first["first"]), int(first["second"])
            found = [(one, other)] if order == "mdy" else [(other, one)] if order == "dmy" else []
        elif name := first["name"] or first["month"]:
            found = [(MONTHS[name], int(first["named_day"] or first["day"]))]
        else:
            found = [(month, int(first["day"]))]
        days += [((year if (one, day) < (month, _) else year - 1, one, day), order) for one, day in found]
    if first["first"] and first["separator"] != end.separator:
        return
    yield _FoundDate(first.start(), end.end, days, end.is_reference, end.separator, is_range_start=True)


def find_without_year(text: str) -> Iterator[tuple[int, int, int, int, float]]:
    """Yield the (start, end, month, day, certainty) of the dates in a folded text that have no year after them. Numeric
    ones have two digits each, in either order, `05/02`, or the day and its dot first, `17.05.`."""
    for found in _DAY_AND_MONTH.finditer(text):
        yield *found.span(), MONTHS[found[2]], int(found[1]), WITHOUT_YEAR_CERTAINTY
    for found in _DAY_ALONE.finditer(text):
        named = _MONTH_BEFORE.search(text, max(0, found.start() - _LOOK_BACK_CHARACTERS), found.start())
        if named and (month := MONTHS.get(named[1])):
            certainty = WITHOUT_YEAR_CERTAINTY if named[1] in _ENGLISH_MONTHS else AMBIGUOUS_CERTAINTY
            yield named.start(), found.end(), month, int(found[1]), certainty
    for found in _TWO_NUMBERS.finditer(text):
        readings = {(month, day) for month, day in permutations((int(found[1]), int(found[2]))) if 1 <= month <= 12}
        certainty = WITHOUT_YEAR_CERTAINTY if len(readings) == 1 else AMBIGUOUS_CERTAINTY
        yield from ((*found.span(), month, day, certainty) for month, day in readings)
    points = _POINT_AND_TWO_DIGITS.findall(text)
    has_decimal_points = not _COMMA_AND_TWO_DIGITS.search(text) or any(
        not (0 < int(whole) <= 31 and 0 < int(part) <= 12) for whole, part in points
    )
    for found in _DOTTED_DAY.finditer(text):
        before = text[max(0, found.start() - _LOOK_BACK_CHARACTERS) : found.start()]
        is_money = found[3] and (_MONEY_AFTER.match(text, found.end()) or _MONEY_BEFORE.search(before))
        if not (is_money or _VERSION_BEFORE.search(before)):
            is_sure = not found[3] or not has_decimal_points
            certainty = WITHOUT_YEAR_CERTAINTY if is_sure else AMBIGUOUS_CERTAINTY
            yield *found.span(), int(found[2] or found[4]), int(found[1] or found[3]), certainty
    for found in _EAST_ASIAN_DAY.finditer(text):
        if not _EAST_ASIAN_YEAR_BEFORE.search(text, max(0, found.start() - 2), found.start()):
            yield *found.span(), int(found[1]), int(found[2]), WITHOUT_YEAR_CERTAINTY


def find_compact(text: str) -> Iterator[tuple[int, int, Day, float]]:
    """Yield the (start, end, day, certainty) of eight digits in a folded text that may be a day, month and year, as in
    the boxes of a form: `17051984`. They may also be an identifier."""
    for found in _COMPACT_DAY.finditer(text):
        first, second, year = int(found[1]), int(found[2]), int(found[3])
        days = _valid([(year, second, first), (year, first, second)])
        certainty = WITHOUT_YEAR_CERTAINTY if len(days) == 1 else AMBIGUOUS_CERTAINTY
        yield from ((*found.span(), day, certainty) for day in days)


def find_periods(text: str) -> Iterator[tuple[int, int, Period, float]]:
    """Yield the (start, end, period, certainty) of the months and quarters in a folded text: a year without a day."""
    for pattern, month, year in ((_MONTH_AND_YEAR, 1, 2), (_YEAR_AND_MONTH, 2, 1), (_MONTH_AND_SHORT_YEAR, 1, 2)):
        for found in pattern.finditer(text):
            if 1 <= int(found[month]) <= 12:
                before = text[max(0, found.start() - _LOOK_BACK_CHARACTERS) : found.start()]
                if _WEEK_BEFORE.search(before):
                    continue
                is_short = pattern is _MONTH_AND_SHORT_YEAR
                certainty = _REFERENCE_CERTAINTY if is_short or _REFERENCE_BEFORE.search(before) else 1.0
                yield *found.span(), (_likely_year(found[year]), f"{int(found[month]):02}"), certainty
    usual: Conventions | None = None
    for found in _NAMED_YEAR.finditer(text):
        start, end = max(0, found.start() - _LOOK_BACK_CHARACTERS), found.end()
        year, certainty = _likely_year(found[1]), 1.0 if len(found[1]) == 4 else _REFERENCE_CERTAINTY
        is_apart = len(found[1]) == 2 and text[found.start() - 1] not in "-/'"
        if is_apart and _DAY_OF_NAMED_MONTH.match(text, end):
            continue
        name = _NAME_BEFORE.search(text, start, found.start())
        if name and name[1] in MONTHS:
            if not _DAY_BEFORE.search(text, max(0, name.start() - _LOOK_BACK_CHARACTERS), name.start()):
                # `May 24` is a day where the month comes first.
                if is_apart and name[1] in _ENGLISH_MONTHS and int(found[1]) <= 31:
                    usual = usual or conventions_of(text)
                    certainty = certainty if usual.order == "dmy" else AMBIGUOUS_CERTAINTY
                yield name.start(), end, (year, f"{MONTHS[name[1]]:02}"), certainty
        elif (quarter := _QUARTER_BEFORE.search(text, start, found.start())) and not is_apart:
            yield quarter.start(), end, (year, f"q{quarter[1] or quarter[2]}"), certainty
        elif len(found[1]) == 4 and (quarter := _QUARTER_AFTER.match(text, end)):
            yield found.start(), quarter.end(), (year, f"q{quarter[1] or quarter[2]}"), certainty
        elif len(found[1]) == 4 and (name := _NAME_AFTER.match(text, end)):
            month = int(name[2]) if name[2] else MONTHS.get(name[1], 0)
            if 1 <= month <= 12:
                yield found.start(), name.end(), (year, f"{month:02}"), certainty


def parse_period(text: str) -> Period | None:
    """Return the month or quarter that a text is, or None if it contains anything else or is ambiguous."""
    if not 5 <= len(text) <= 30:
        return None
    folded = fold(text)
    found = {
        period
        for start, end, period, _ in find_periods(folded)
        if not re.search(r"[^\W_]", folded[:start] + folded[end:])
    }
    return found.pop() if len(found) == 1 else None


def years_in(text: str) -> frozenset[int]:
    return frozenset(int(found[0]) for found in _YEAR_ALONE.finditer(text))


def find_times(text: str, allow_dots: bool = False) -> Iterator[tuple[int, int, tuple[TimeOfDay, ...]]]:
    """Yield the (start, end, possible times) of the times of day in a folded text: `8:13 pm` is 20:13, `8:13` is 8:13.

    `8.13` is a time only next to a date or a word such as Uhr, or with `allow_dots`.
    """
    for found in _TIME.finditer(text):
        hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
        before = text[max(0, found.start() - _LOOK_BACK_CHARACTERS) : found.start()]
        end, zone = found.end(), None
        if half := _HALF_AFTER.match(text, end):
            end = half.end()
        half = half or _HALF_BEFORE.search(before)
        if half:
            if not 1 <= hour <= 12:
                continue
            is_late = not {"p", "evening"}.isdisjoint(key for key, part in half.groupdict().items() if part)
            hour = hour % 12 + (12 if is_late or half[0] == "p" else 0)
        elif found["mark"] == "." and not allow_dots and not _is_marked_as_time(text, found):
            continue
        # `08:00-12:00` are opening hours.
        printed_zone = _ZONE_AFTER.match(text, end)
        if printed_zone and (printed_zone["name"] or found["second"]):
            zone = _zone(printed_zone)
        if not _RATIO_BEFORE.search(before) and hour < 24 and minute < 60:
            yield found.start(), end, ((hour, minute, second if found["second"] else None, zone),)


def _zone(printed: re.Match[str] | None) -> int | None:
    if printed is None or printed["name"]:
        return _ZONES[printed["name"]] if printed else None
    return (int(printed["h"]) * 60 + int(printed["m"])) * (-1 if printed["sign"] == "-" else 1)


def _is_marked_as_time(text: str, found: re.Match[str]) -> bool:
    before = text[max(0, found.start() - _LOOK_BACK_CHARACTERS) : found.start()]
    return _HOUR_AFTER.match(text, found.end()) is not None or (
        _HOUR_BEFORE.search(before) is not None and _MONEY_AFTER.match(text, found.end()) is None
    )


def is_same_time(value: TimeOfDay, printed: TimeOfDay) -> bool:
    """Return whether two times are the same. Seconds that only one of them has must be zero, and a zone that only one
    of them has may be any."""
    zones = {value[3], printed[3]} - {None}
    return value[:2] == printed[:2] and (value[2] or 0) == (printed[2] or 0) and len(zones) < 2


def _days_of_numbers(a: str, b: str, c: str) -> list[tuple[Day, Order]]:
    """Return the days that three numbers may mean in any order of day, month and year: 02/03/24 may mean six."""
    if len(a) > 2:
        return [] if len(a) == 3 or len(c) > 2 else [((int(a), int(b), int(c)), "")]
    if len(c) == 1:
        return []
    days: list[tuple[Day, Order]] = [((year, int(b), int(a)), "dmy") for year in _years(c)]
    days += [((year, int(a), int(b)), "mdy") for year in _years(c)]
    return days + [((year, int(b), int(c)), "ymd") for year in _years(a)] if len(a) == len(c) == 2 else days


def _years(text: str) -> tuple[int, ...]:
    return (int(text),) if len(text) == 4 else (2000 + int(text), 1900 + int(text))


def _likely_year(text: str) -> int:
    this_century, *others = _years(text)
    return others[0] if others and int(text) > _LAST_SHORT_YEAR else this_century


def _days_of_month(name: str, day: str, years: tuple[int, ...]) -> list[tuple[Day, Order]]:
    """Return the days of a named month. `listopad` names two months."""
    month, other = MONTHS[name], _MONTH_IN_CROATIAN.get(name)
    months = [(month, "")] if other is None else [(month, f"{name} {month}"), (other, f"{name} {other}")]
    return [((year, number, int(day)), order) for year in years for number, order in months]


def _as_printed_date(found: _FoundDate, convert: calendars.Converter) -> Iterator[PrintedDate]:
    orders: defaultdict[Day, frozenset[Order]] = defaultdict(frozenset)
    printed = {day for day, _ in found.days}
    for day, order in found.days:
        is_short = not printed.isdisjoint([(day[0] - 100, *day[1:]), (day[0] + 100, *day[1:])])
        if (converted := convert(day, is_short)) and _is_valid_day(converted):
            orders[converted] |= {order}
    if orders:
        yield PrintedDate(
            found.start, found.end, tuple(orders), orders, found.is_reference, found.separator, found.is_range_start
        )


def certainties(printed: Iterable[PrintedDate], text: str) -> Iterator[tuple[PrintedDate, Day, float]]:
    """Yield each day that each date of a folded text may mean, with its certainty: 1 if it is unambiguous.

    Unambiguous dates, such as 25/12/2018, decide the order of the others. Without any, dates with dots have the day
    first; a day that is also printed with a month's name has the same order; and the text may name a country.
    """
    dates = list(printed)
    usual_orders = _UsualOrders(dates, text)
    for one in dates:
        several = frozenset[Order]().union(*one.orders.values())
        for day, own in one.orders.items():
            certainty = 1.0
            if own == _YEAR_FIRST != several:
                certainty = AMBIGUOUS_CERTAINTY
            elif not several - own <= _YEAR_FIRST:
                likely, certainty, other_certainty = usual_orders.of(one)
                certainty = certainty if not likely or own & likely else other_certainty
            if one.is_reference:
                certainty = min(certainty, _REFERENCE_CERTAINTY)
            is_short = (day[0] - 100, *day[1:]) in one.orders or (day[0] + 100, *day[1:]) in one.orders
            if is_short and (day[0] < 2000) == (day[0] % 100 <= _LAST_SHORT_YEAR):
                certainty = min(certainty, AMBIGUOUS_CERTAINTY)
            yield one, day, certainty


def usual_order(text: str) -> Order | None:
    """Return the order of day and month in the ambiguous dates of a folded text, or None if nothing shows it."""
    dates = list(find_dates(text))
    likely, *_ = _UsualOrders(dates, text).of(PrintedDate(0, 0, (), {}, separator="/"))
    return next(iter(likely)) if len(likely) == 1 else None


class _UsualOrders:
    """The order of day, month and year in the ambiguous dates of a folded text."""

    def __init__(self, dates: Iterable[PrintedDate], text: str) -> None:
        self._text = text
        self._by_separator = defaultdict[str, set[Order]](set)
        self._named_days = set[Day]()
        for one in dates:
            orders = frozenset[Order]().union(*one.orders.values())
            if orders <= _NAMED:
                self._named_days.update(one.days)
            elif len(numeric := orders - _YEAR_FIRST) == 1 and not one.is_reference:
                self._by_separator[one.separator] |= numeric
        self._all = set[Order]().union(*self._by_separator.values())

    @cached_property
    def _conventions(self) -> Conventions:
        return conventions_of(self._text)

    def of(self, date: PrintedDate) -> tuple[Set[Order], float, float]:
        """Return the likely orders of a date, with the certainties of a day in such an order, and of any other day."""
        same = self._by_separator.get(date.separator, set[Order]())
        if len(same) == 1:
            return same, 1.0, CONTRADICTED_CERTAINTY
        if len(self._all) == 1:
            return self._all, 1.0, AMBIGUOUS_CERTAINTY
        if date.separator == ".":
            return _DAY_FIRST_ORDER, 1.0, AMBIGUOUS_CERTAINTY
        if not date.separator and any(" " in order for own in date.orders.values() for order in own):
            return set(), _TWO_LANGUAGES_CERTAINTY, _TWO_LANGUAGES_CERTAINTY
        named = {order for day, own in date.orders.items() if day in self._named_days for order in own}
        if len(named) == 1:
            return named, 1.0, AMBIGUOUS_CERTAINTY
        country = None if self._all else self._conventions.order
        if country is None:
            return set(), AMBIGUOUS_CERTAINTY, AMBIGUOUS_CERTAINTY
        return {country}, _IN_COUNTRY_CERTAINTY, AMBIGUOUS_CERTAINTY


def _valid(days: list[Day]) -> tuple[Day, ...]:
    return tuple(dict.fromkeys(day for day in days if _is_valid_day(day)))


def _is_valid_day(day: Day) -> bool:
    try:
        date(*day)
    except ValueError:
        return False
    return day[0] >= 1000
