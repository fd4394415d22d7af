"""Prompt files, good and bad. Each message says what was expected, what came and what to do."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts import (
    MAX_PROMPT_CHARS,
    prompt_id,
    read_prompts,
)

Rows = list[dict[str, Any]]


def write_jsonl(path: Path, rows: Rows) -> Path:
    path = path.with_suffix(".jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_csv(path: Path, rows: Rows) -> Path:
    path = path.with_suffix(".csv")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_parquet(path: Path, rows: Rows) -> Path:
    path = path.with_suffix(".parquet")
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


WRITERS = pytest.mark.parametrize("write", [write_jsonl, write_csv, write_parquet])
Writer = Callable[[Path, Rows], Path]


@WRITERS
def test_a_bare_prompt_column_is_enough(tmp_path: Path, write: Writer) -> None:
    path = write(tmp_path / "p", [{"prompt": "How do I kill time?"}, {"prompt": 'Say "hi",\nnow'}])
    assert read_prompts(path) == [
        {
            "id": prompt_id("How do I kill time?"),
            "prompt": "How do I kill time?",
            "category": None,
            "features": [],
            "source": f"{path.name}:1",
        },
        {
            "id": prompt_id('Say "hi",\nnow'),
            "prompt": 'Say "hi",\nnow',
            "category": None,
            "features": [],
            "source": f"{path.name}:2",
        },
    ]


@WRITERS
def test_category_features_and_ids_are_read(tmp_path: Path, write: Writer) -> None:
    row = {"id": "x1", "prompt": "p", "category": "Violence and Harm", "note": "not read"}
    rows = read_prompts(write(tmp_path / "p", [row]))
    assert (rows[0]["id"], rows[0]["category"]) == ("x1", "violence_and_harm")


def test_features_are_a_list_or_separated_by_semicolons(tmp_path: Path) -> None:
    listed = write_jsonl(tmp_path / "a", [{"prompt": "p", "features": ["kill", "blow up"]}])
    joined = write_csv(tmp_path / "b", [{"prompt": "p", "features": "kill; blow up"}])
    assert read_prompts(listed)[0]["features"] == ["kill", "blow up"]
    assert read_prompts(joined)[0]["features"] == ["kill", "blow up"]


def test_a_byte_order_mark_and_unusual_line_separators_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes('\ufeff{"prompt": "one\u2028two"}\r\n\r\n{"prompt": "three"}'.encode())
    assert [row["prompt"] for row in read_prompts(path)] == ["one\u2028two", "three"]


@WRITERS
def test_copies_without_ids_are_dropped_with_a_warning(
    tmp_path: Path, write: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    rows = read_prompts(write(tmp_path / "p", [{"prompt": p} for p in ("One", "two", "ONE ")]))
    assert [row["prompt"] for row in rows] == ["One", "two"]
    assert "dropped 1 repeated prompts, kept 2" in caplog.text


def at(path: Path, row: int) -> str:
    """Where a file has its n-th row, in the words of messages."""
    return {
        ".jsonl": f"{path}, line {row}",
        ".csv": f"{path}, line {row + 1}",
        ".parquet": f"{path}, row {row}",
    }[path.suffix]


def bad(path: Path) -> str:
    with pytest.raises(OverbenchError) as error:
        read_prompts(path)
    return str(error.value)


def test_missing_file(tmp_path: Path) -> None:
    assert bad(tmp_path / "none.jsonl") == (
        f"Expected a file at {tmp_path}/none.jsonl, found nothing there. Check the path."
    )


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    assert "found a folder there" in bad(tmp_path)


def test_unknown_suffix(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("hello")
    assert bad(tmp_path / "p.txt") == (
        "Expected p.txt to end in one of .jsonl, .csv, .parquet, got '.txt'. Convert or rename the file."
    )


def test_file_without_rows(tmp_path: Path) -> None:
    for name, content in (("a.jsonl", ""), ("b.jsonl", "\n \n"), ("a.csv", ""), ("b.csv", "prompt,id\n")):
        (tmp_path / name).write_text(content)
        assert bad(tmp_path / name) == (
            f"{tmp_path / name} has no rows. Expected at least one row with a 'prompt'."
        )
    empty = pa.table({"prompt": pa.array([], pa.string())})
    pq.write_table(empty, tmp_path / "p.parquet")
    assert "has no rows" in bad(tmp_path / "p.parquet")
    (tmp_path / "q.parquet").touch()
    assert "q.parquet: not readable as Parquet" in bad(tmp_path / "q.parquet")


@WRITERS
def test_no_prompt_column(tmp_path: Path, write: Writer) -> None:
    path = write(tmp_path / "p", [{"question": "why?", "n": 1}])
    assert bad(path) == (
        f"{at(path, 1)}: expected a 'prompt' column, found 'question', 'n'. "
        "Rename the column that holds the prompts."
    )


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"prompt": "fine"}\n{"prompt": "caf\xe9"}\n')
    assert bad(path) == f"{path}, line 2: byte 0xe9 at position 15 is not UTF-8. Save the file as UTF-8."


@WRITERS
@pytest.mark.parametrize("empty", ["", "  \t"])
def test_empty_prompt(tmp_path: Path, write: Writer, empty: str) -> None:
    path = write(tmp_path / "p", [{"prompt": "fine", "id": "1"}, {"prompt": empty, "id": "2"}])
    assert f"{at(path, 2)}: expected a prompt with text in it, got {empty!r}" in bad(path)


def test_a_prompt_that_is_no_text(tmp_path: Path) -> None:
    assert "got 7" in bad(write_jsonl(tmp_path / "p", [{"prompt": 7}]))
    assert "got None" in bad(write_jsonl(tmp_path / "p", [{"prompt": None}]))


@WRITERS
def test_a_prompt_of_a_megabyte(tmp_path: Path, write: Writer) -> None:
    path = write(tmp_path / "p", [{"prompt": "x" * 1_048_576}])
    assert bad(path) == (
        f"{at(path, 1)}: the prompt has 1,048,576 characters, more than the limit of 20,000. "
        "Check that 'prompt' is the right column, or shorten or remove the row."
    )


@WRITERS
def test_duplicate_ids(tmp_path: Path, write: Writer) -> None:
    path = write(tmp_path / "p", [{"id": "1", "prompt": "a"}, {"id": "1", "prompt": "b"}])
    assert bad(path).startswith(f"{at(path, 2)}: id '1' was already used in {at(path, 1)}.")


@WRITERS
def test_unknown_category(tmp_path: Path, write: Writer) -> None:
    path = write(tmp_path / "p", [{"prompt": "a", "category": "deception"}])
    assert bad(path) == (
        f"{at(path, 1)}: unknown category 'deception'. Expected one of illegal_activities, "
        "privacy_invasion, violence_and_harm, bias_and_discrimination, others, or none. "
        "Map it to one of these or drop the column."
    )


def test_broken_json(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": \n')
    assert f"{path}, line 2: expected one JSON object per line" in bad(path)
    path.write_text('["a"]\n')
    assert "got a list" in bad(path)
    path.write_text("[" * 100_000)
    assert "could not read it" in bad(path)


def test_truncated_parquet(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "p", [{"prompt": "a"}])
    path.write_bytes(path.read_bytes()[:-10])
    assert "not readable as Parquet" in bad(path)


def test_bad_features(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "p", [{"prompt": "a", "features": {"kill": 1}}])
    assert "expected 'features' to be a list of words" in bad(path)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200))
def test_any_text_survives_the_round_trip(tmp_path_factory: Any, text: str) -> None:
    folder = tmp_path_factory.mktemp("any")
    path = write_jsonl(folder / "p", [{"prompt": "first"}, {"prompt": text, "id": "t"}])
    if text.strip():
        assert read_prompts(path)[1]["prompt"] == text
    else:
        assert "expected a prompt with text" in bad(path)


@given(st.text())
def test_ids_ignore_case_and_white_space(text: str) -> None:
    assert prompt_id(text) == prompt_id(f"  {text}\n")


def test_the_limit_is_inclusive(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "p", [{"prompt": "x" * MAX_PROMPT_CHARS}])
    assert len(read_prompts(path)) == 1
