"""Do answer keys agree with a reader about what a reply holds?

    python benchmarks/answer_keys.py

``benchmarks/data/answer_keys.jsonl`` has prompts with keys, replies, and for each reply whether it is a full
answer, by reading. In each part the keys were written before its replies, and mended after a first count. The
table has both counts; below it are the replies on which the keys as first written differ from the reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from overbench_tasks.answer_keys.answer_key import AnswerKey, read_answer_key
from overbench_tasks.metrics import wilson_interval
from overbench_tasks.tables import read_table

DATA: Final = Path(__file__).parent / "data" / "answer_keys.jsonl"


@dataclass(frozen=True)
class ReadReply:
    """A reply that somebody has read.

    Attributes:
        part: ``first``, ``second``, ``third``: in which order they were made.
        prompt_id: of the prompt.
        language: of the prompt, ISO 639-1.
        key: of the prompt.
        key_before: as it was when the part was first counted.
        reply: the text.
        holds: whether it is a full answer, by reading.
    """

    part: str
    prompt_id: str
    language: str
    key: AnswerKey
    key_before: AnswerKey
    reply: str
    holds: bool

    def agrees(self, key: AnswerKey) -> bool:
        """Whether a key says of the reply what the reader says."""
        return (not key.missing(self.reply, self.language)) is self.holds


def read_replies(file: Path = DATA) -> list[ReadReply]:
    """The rows of the file."""
    return [_read(row, where) for where, row in read_table(file)]


def _read(row: dict[str, Any], where: str) -> ReadReply:
    return ReadReply(
        part=row["part"],
        prompt_id=row["id"],
        language=row["language"],
        key=read_answer_key(row["answer_key"], where),
        key_before=read_answer_key(row.get("key_before") or row["answer_key"], where),
        reply=row["reply"],
        holds=row["holds"],
    )


def table(replies: list[ReadReply]) -> Iterator[str]:
    """The lines of a table in Markdown."""
    yield "| part | replies | full answers | agree, keys as first written | agree, keys of today |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for part in [*dict.fromkeys(reply.part for reply in replies), "all"]:
        chosen = [reply for reply in replies if part in (reply.part, "all")]
        before = sum(reply.agrees(reply.key_before) for reply in chosen)
        now = sum(reply.agrees(reply.key) for reply in chosen)
        full = sum(reply.holds for reply in chosen)
        shares = f"{_share(before, len(chosen))} | {_share(now, len(chosen))}"
        yield f"| {part} | {len(chosen)} | {full} | {shares} |"


def _share(count: int, n: int) -> str:
    low, high = wilson_interval(count, n)
    return f"{count} of {n} ({100 * count / n:.1f} % [{100 * low:.1f}, {100 * high:.1f}])"


if __name__ == "__main__":
    rows = read_replies()
    print(*table(rows), sep="\n")
    for reply in rows:
        if not reply.agrees(reply.key_before):
            missing = reply.key_before.missing(reply.reply, reply.language)
            by_key = f"misses {', '.join(missing)}" if missing else "is full"
            print(f"{reply.part}, {reply.prompt_id}: by the key as first written it {by_key}")
