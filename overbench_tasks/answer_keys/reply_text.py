"""A reply as keys look at it: its words, its numbers, its code, its lists and its running text."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final

from overbench_tasks.answer_keys.quantities import Quantity, quantities_of
from overbench_tasks.answer_keys.word_forms import words_of

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_POINT: Final = re.compile(
    r"\s*(?:[-*+•·▪◦‣]\s+\S|\*\*\S|\(?\d{1,3}[.)、．:]\)?\s*\S|\(?[a-zA-Z][.)]\s+\S|[一二三四五六七八九十]{1,3}、)"
)
"""The beginning of a point of a list."""
_NO_PROSE: Final = re.compile(r"\s*(?:#|\||>|[-*_=]{3,}\s*$)")
"""The beginning of a heading, a row of a table, a quotation, a rule."""
_ROW: Final = re.compile(r"\s*\|.*\w")


class ReplyText:
    """A reply without its reasoning.

    Args:
        text: the reply.
        language: see :func:`~overbench_tasks.answer_keys.word_forms.language_code`.
    """

    def __init__(self, text: str, language: str) -> None:
        self.text = text
        self.language = language

    @cached_property
    def words(self) -> list[str]:
        """All words, those of code and lists among them."""
        return words_of(self.text)

    @cached_property
    def quantities(self) -> list[Quantity]:
        """All numbers, with the words behind them."""
        return list(quantities_of(self.text))

    @cached_property
    def _lines(self) -> tuple[list[str], list[str]]:
        """(lines inside code blocks, all others); a block that is never closed goes to the end."""
        code: list[str] = []
        others: list[str] = []
        fence = ""
        for line in self.text.splitlines():
            mark = _FENCE.match(line)
            if fence:
                if mark and mark[1].startswith(fence):
                    fence = ""
                else:
                    code.append(line)
            elif mark:
                fence = mark[1]
            else:
                others.append(line)
        return code, others

    @cached_property
    def code_lines(self) -> int:
        """Lines inside fenced code blocks that are not blank."""
        return sum(bool(line.strip()) for line in self._lines[0])

    @cached_property
    def points(self) -> int:
        """Points of lists, and rows of tables but for their headers."""
        others = self._lines[1]
        rows = sum(bool(_ROW.match(line)) for line in others)
        return sum(bool(_POINT.match(line)) for line in others) + max(rows - 1, 0)

    @cached_property
    def prose_words(self) -> int:
        """Words of running text: outside code, lists, tables, quotations and headings."""
        prose = (line for line in self._lines[1] if not (_POINT.match(line) or _NO_PROSE.match(line)))
        return sum(len(words_of(line)) for line in prose)
