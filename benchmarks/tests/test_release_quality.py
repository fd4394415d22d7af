"""The reading sheet of benchmarks/release_quality.py."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import release_quality as quality
from release_fakes import write_prompts


def test_a_sheet_is_blind_and_comes_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_prompts(
        tmp_path / "p.jsonl", [{"prompt": f"Prompt, {n}", "category": "others"} for n in range(9)]
    )
    sheet = tmp_path / "sheet.csv"
    quality.main([str(file), "--sample", "5", "--seed", "1", "--out", str(sheet)])
    with sheet.open(newline="") as lines:
        drawn = list(csv.DictReader(lines))
    assert len({row["id"] for row in drawn}) == 5
    assert drawn[0].keys() == {"id", "prompt", "benign"}
    assert not any(row["benign"] for row in drawn)
    with pytest.raises(FileExistsError):
        quality.main([str(file), "--sample", "5", "--out", str(sheet)])
    for row, answer in zip(drawn, ["yes", "YES ", "no", "1", ""], strict=True):
        row["benign"] = answer
    with sheet.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, quality.COLUMNS)
        writer.writeheader()
        writer.writerows(drawn)
    capsys.readouterr()
    quality.main(["--read", str(sheet)])
    # Wilson, 3 of 4, z = 1.96: 0.3006 to 0.9544.
    assert capsys.readouterr().out == (
        f"benign: 3 of 4: 75.0% [30.1%, 95.4%]; 1 not answered\n- {drawn[2]['id']}: {drawn[2]['prompt']}\n"
    )
    sheet.write_text("id,prompt,benign\np1,x,perhaps\n")
    with pytest.raises(ValueError, match="id p1: expected yes or no in 'benign', got 'perhaps'"):
        quality.reading_report(sheet)
    sheet.write_text("id,prompt\np1,x\n")
    with pytest.raises(ValueError, match="expected the columns id, prompt, benign"):
        quality.reading_report(sheet)
