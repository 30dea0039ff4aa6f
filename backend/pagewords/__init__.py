"""Turn a file into pages of visible words with boxes. One module per format, run in a locked-down subprocess.

Start with `read_file`. `sandbox` runs the jobs, `child` does them, `answers` checks what a reader returns.
"""

from pagewords.errors import PagewordsError, Unreadable
from pagewords.pages import DocumentContent, EnclosedFile, Limits, Page, Word
from pagewords.reading_warnings import ReadingWarning
from pagewords.render import render_page
from pagewords.sandbox import read_file, unlock_file

__all__ = [
    "DocumentContent",
    "EnclosedFile",
    "Limits",
    "Page",
    "PagewordsError",
    "ReadingWarning",
    "Unreadable",
    "Word",
    "read_file",
    "render_page",
    "unlock_file",
]
