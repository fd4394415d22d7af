"""The run directory keeps what it was given, once, and belongs to one process at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from generators.refresh.store import RunInUseError, Store, StoreError


def prompt_row(key: str, prompt: str = "text") -> dict[str, object]:
    return {"id": key, "prompt": prompt, "part": "train", "round": 0, "position": 0}


def test_a_row_is_written_once(tmp_path: Path) -> None:
    with Store(tmp_path / "run") as store:
        store.add("prompts", [prompt_row("a", "first")])
        store.add("prompts", [prompt_row("a", "second"), prompt_row("b")])
        assert [tuple(row) for row in store.rows("SELECT id, prompt FROM prompts ORDER BY id")] == [
            ("a", "first"),
            ("b", "text"),
        ]
        store.set_fact("seed", {"n": 1})
        store.set_fact("seed", {"n": 2})
        assert store.fact("seed") == {"n": 1}
        assert store.fact("nothing") is None


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        with pytest.raises(RuntimeError), store.transaction():
            store.add("prompts", [prompt_row("a")])
            raise RuntimeError
        assert store.value("SELECT COUNT(*) FROM prompts") == 0


def test_text_that_is_no_unicode_is_kept_as_far_as_it_is(tmp_path: Path) -> None:
    hostile = "\ud800 {{ 7*7 }} \x00 \u202e' DROP TABLE prompts; --"
    with Store(tmp_path) as store:
        store.add("prompts", [prompt_row("a", hostile)])
        assert store.value("SELECT prompt FROM prompts") == hostile.replace("\ud800", "?")


def test_stages_are_finished_once(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        assert store.summary(1, "train") is None
        store.finish(1, "train", {"n": 3})
        assert store.summary(1, "train") == {"n": 3}
        assert store.summary(2, "train") is None


def test_a_second_process_is_refused_and_may_look(tmp_path: Path) -> None:
    code = (
        "from generators.refresh.store import Store; from pathlib import Path; "
        f"Store(Path({str(tmp_path)!r}))"
    )
    with Store(tmp_path) as store:
        store.set_fact("x", 1)
        second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "RunInUseError: Another process works on" in second.stderr
        with pytest.raises(RunInUseError):
            Store(tmp_path)
        with Store(tmp_path, read_only=True) as reader:
            assert reader.fact("x") == 1
    with Store(tmp_path) as store:
        assert store.fact("x") == 1


def test_a_killed_process_leaves_no_lock_and_no_torn_row(tmp_path: Path) -> None:
    code = textwrap.dedent(f"""
        import itertools
        from pathlib import Path
        from generators.refresh.store import Store
        store = Store(Path({str(tmp_path)!r}))
        print("ready", flush=True)
        for n in itertools.count():
            with store.transaction():
                for half in "ab":
                    row = {{"id": f"{{n}}{{half}}", "prompt": "p" * 3000, "part": "train", "round": n}}
                    store.add("prompts", [row | {{"position": 0}}])
    """)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    while True:
        with Store(tmp_path, read_only=True) as reader:
            if reader.value("SELECT COUNT(*) FROM prompts") > 20:
                break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with Store(tmp_path) as store:
        assert store.value("SELECT COUNT(*) FROM prompts") % 2 == 0
        assert store.value("PRAGMA integrity_check") == "ok"


def test_no_run_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"Expected a run directory with run\.sqlite at"):
        Store(tmp_path, read_only=True)


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        Store(tmp_path / "file" / "run")


def test_a_full_disk_says_that_nothing_is_lost(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add("prompts", [prompt_row("a")])
        pages = store.value("PRAGMA page_count")
        store.rows(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match=r"full.*What was there is safe"):
            store.add("prompts", [prompt_row("b", "x" * 1_000_000)])
    with Store(tmp_path) as store:
        assert [row["id"] for row in store.rows("SELECT id FROM prompts")] == ["a"]
