"""Shards of a cell, joined, are what one lm_eval on all of it writes."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from campaign_fakes import TARGET, InProcess, asked, run
from lm_eval.loggers import EvaluationTracker
from table_files import write_table

from conftest import ANSWER, REFUSAL, ScriptedLM, evaluate
from generators.refresh.refresh_settings import LabellerSettings
from overbench.campaign.campaign_cells import CampaignCell, configurations
from overbench.campaign.campaign_jobs import CAMPAIGN_VARIABLE, environment
from overbench.campaign.campaign_settings import CampaignSettings, RaySettings, SetSettings
from overbench.campaign.engines import processes, servers, shard_worker
from overbench.campaign.engines.joined_shards import join_shards
from overbench.campaign.engines.ray_engine import RayEngine
from overbench.campaign.engines.shards import ShardStore, packed, shards_of
from overbench.campaign.finished_cells import ReplyCount, count_replies
from overbench.campaign.task_specs import TaskSpec, task_spec
from overbench_tasks.chat.provider_shapes import Withheld
from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts import prompt_rows
from overbench_tasks.prompts.task_dataset import KEPT_PROMPTS
from overbench_tasks.providers.model_reply import ModelReply

TIMES = ("config", "date", "start_time", "end_time", "total_evaluation_time_seconds")


def reply(prompt: str) -> str:
    """Some are refused; of the others the provider withholds two."""
    if "kill" in prompt:
        return REFUSAL
    if prompt in ("mend 0", "mend 9"):
        return ModelReply(withheld=Withheld("xai", "Content violates usage guidelines", "BIO"))
    return ANSWER


def logged(source: Path, task: str, out: Path, **options: Any) -> list[Path]:
    """The files of a run as lm_eval writes them: results, samples."""
    tracker = EvaluationTracker(output_path=str(out))
    lm = ScriptedLM(reply)
    results = evaluate(lm, source, task, evaluation_tracker=tracker, **options)
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    tracker.save_results_samples(task, samples[task])
    return sorted(out.rglob("*_*.json*"))


@pytest.mark.parametrize(
    ("task", "size"), [("overbench_hard", None), ("overbench_pairs", None), ("overbench_pairs", 8)]
)
def test_joined_shards_are_what_one_run_writes_and_read_no_prompt_but_their_own(
    task: str, size: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {
            "id": str(n),
            "prompt": f"{('kill', 'mend')[n % 3 == 0]} {n}",
            "pair_id": str(n // 2),
            "label": label,
        }
        for n in range(10)
        for label in [("safe", "unsafe")[n % 2 if task == "overbench_pairs" else 0]]
    ]
    source = write_table(tmp_path / "mine.jsonl", rows)
    wanted = SetSettings(task=task, source=str(source), limit=size)
    one_set = task_spec("mine", wanted, LabellerSettings())
    part = {} if size is None else {"overbench_sample": size}
    settings = {"targets": [{"name": "a", "model_args": "pretrained=a"}], "sets": {"mine": task}}
    one = configurations(CampaignSettings.model_validate(settings))[0]
    cell = CampaignCell(one, replace(one_set, task=task), "")
    store, shards = ShardStore(str(tmp_path / "store")), shards_of(cell, 4)
    store.keep_prompts(cell.task_spec)
    with monkeypatch.context() as nothing_else:
        nothing_else.setenv(KEPT_PROMPTS, json.dumps(store.kept_prompts([cell.task_spec])))
        nothing_else.delattr(prompt_rows, "read_table")
        for shard in shards:
            positions = {task: list(range(shard.start, shard.stop))}
            folder = tmp_path / f"shard-{shard.start}"
            store.put(shard, logged(source, task, folder, samples=positions, metadata=part))
    join_shards(shards, store, tmp_path / "joined")
    results, samples = sorted((tmp_path / "joined").rglob("*_*.json*"))
    whole_results, whole_samples = logged(source, task, tmp_path / "whole", metadata=part)
    assert cell.task_spec.prompts == len(samples.read_text().splitlines()) == (size or 10)
    assert samples.read_text() == whole_samples.read_text()
    found, whole = json.loads(results.read_text()), json.loads(whole_results.read_text())
    assert found["configs"][task]["metadata"]["overbench_blocks"] == {"xai: BIO": 2}
    assert found["results"][task] == pytest.approx(whole["results"][task], nan_ok=True)
    assert {k: v for k, v in found.items() if k not in (*TIMES, "results")} == {
        k: v for k, v in whole.items() if k not in (*TIMES, "results")
    }


def test_shards_of_small_sets_share_a_run_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    one_set = task_spec("overbench_hard", SetSettings(task="overbench_hard", limit=10), LabellerSettings())
    settings = {"targets": [{"name": "a", "model_args": "pretrained=a"}], "sets": {"hard": "overbench_hard"}}
    one = configurations(CampaignSettings.model_validate(settings))[0]
    cells = [CampaignCell(one, replace(one_set, name=name, task=name), "") for name in ("a", "b", "c")]
    shards = [shard for cell in cells for shard in shards_of(cell, 8)]
    assert [(shard.start, shard.stop) for shard in shards[:2]] == [(0, 8), (8, 10)]
    assert [[len(shard) for shard in run] for run in packed(shards, 12)] == [[8], [2, 8], [2, 8], [2]]
    same = CampaignCell(one, replace(one_set, name="same", task="a"), "")
    assert [len(run) for run in packed([*shards_of(cells[0], 10), *shards_of(same, 10)], 20)] == [1, 1]
    store = ShardStore(str(tmp_path))
    assert not store.has(shards[0])
    store.put(shards[0], [Path(__file__)])
    assert store.has(shards[0]) and not store.has(shards[1])
    file = tmp_path / shards[0].name
    file.write_bytes(file.read_bytes()[:-30])
    with (
        pytest.raises(OverbenchError, match=r"000000008.zip can't be read: .*Delete it"),
        store.opened(shards[0]),
    ):
        pass
    with pytest.raises(OverbenchError, match=r"ray.shards: nothing://x can't be used"):
        ShardStore("nothing://x")


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> InProcess:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace())
    return InProcess()


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_what_a_killed_campaign_left_running_is_ended_first_and_shards_are_known_by_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: InProcess
) -> None:
    marks = []

    def start(words: Sequence[str], log: Path, env: dict[str, str], *by: Any) -> Any:
        marks.append(env[CAMPAIGN_VARIABLE])
        return processes.start(words, log, env, *by)

    left = processes.start(["sleep", "60"], tmp_path / "log", environment(tmp_path / "out"))
    monkeypatch.setattr(shard_worker, "start", start)
    monkeypatch.setattr(servers, "start", start)
    serve = f"{sys.executable} -m http.server --bind 127.0.0.1 {{port}}"
    server = {"command": serve, "ready": "http://127.0.0.1:{port}/"}
    sets = {"hard": {"task": "overbench_hard", "limit": 4}}
    settings = {"targets": [{**TARGET, "server": server}], "sets": sets, "report": None}
    assert run(tmp_path, settings, engine=in_process).failures == ()
    assert left.wait(20) == -signal.SIGKILL
    assert marks == [str(tmp_path / "out")] * 2  # the server's, and lm_eval's


def test_one_model_at_another_address_has_replies_of_its_own(tmp_path: Path, in_process: InProcess) -> None:
    settings = {"sets": {"hard": {"task": "overbench_hard", "limit": 4}}, "report": None}
    for name in ("small", "large"):
        target = {**TARGET, "name": name, "model_args": f"model=m,base_url=http://{name}"}
        assert run(tmp_path, {**settings, "targets": [target]}, engine=in_process).new == 1
        (results,) = (tmp_path / "out" / "cells" / name).rglob("results_*.json")
        assert json.loads(results.read_text())["config"]["model_args"]["base_url"] == f"http://{name}"
    assert len(asked(tmp_path)) == 8


def test_what_a_shard_was_told_it_finds_again_whoever_it_is_asked_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: InProcess
) -> None:
    """Of two sets in one lm_eval, one fails; a third joins them; then the one that failed is mended."""

    def fails(log: Path) -> ReplyCount:
        found = count_replies(log)
        found.failed = found.replies * ("samples_hard_" in log.name)
        return found

    sets: dict[str, Any] = {"all": {"task": "overbench", "limit": 4}}
    sets["hard"] = {"task": "overbench_hard", "limit": 4}
    settings = {"targets": [TARGET], "sets": sets, "report": None}
    monkeypatch.setattr(shard_worker, "count_replies", fails)
    found = run(tmp_path, settings, engine=in_process)
    assert (found.new, [one.cells for one in found.failures]) == (1, [("one/plain/greedy/hard",)])
    sets["few"] = {"task": "overbench_xstest_safe", "source": str(tmp_path / "few.csv"), "limit": 4}
    (tmp_path / "few.csv").write_text(
        "id,prompt,type\n" + "".join(f"{n},Why {n}?,homonyms\n" for n in range(4))
    )
    assert run(tmp_path, settings, engine=in_process).new == 1
    monkeypatch.setattr(shard_worker, "count_replies", count_replies)
    assert run(tmp_path, settings, engine=in_process).done == 3
    assert set(asked(tmp_path).values()) == {1}
    assert not [file for file in (tmp_path / "out" / "caches").rglob("*") if file.is_file()]


def test_where_prompts_change_or_cannot_be_kept_other_cells_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: InProcess
) -> None:
    sets: dict[str, Any] = {name: {"source": str(tmp_path / f"{name}.csv")} for name in ("other", "mine")}
    settings = {"targets": [TARGET], "sets": sets, "report": None}
    for name in sets:
        (tmp_path / f"{name}.csv").write_text("prompt\n" + "".join(f"{name} {n}?\n" for n in range(60)))
    keep = ShardStore.keep_prompts

    def changes(store: ShardStore, asked: TaskSpec) -> None:
        if asked.name == "mine":
            (tmp_path / "mine.csv").write_text("prompt\n" + "".join(f"other {n}?\n" for n in range(60)))
        keep(store, asked)

    monkeypatch.setattr(ShardStore, "keep_prompts", changes)
    found = run(tmp_path, settings, engine=in_process)
    assert (found.done, [one.why for one in found.failures]) == (
        1,
        ["mine: The prompts have changed since. Start the campaign again."],
    )
    assert run(tmp_path, settings, engine=in_process).new == 1
    assert set(asked(tmp_path).values()) == {1} and len(asked(tmp_path)) == 120


def test_without_ray_the_engine_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(OverbenchError, match=r"needs Ray: pip install 'overbench\[ray\]'"):
        RayEngine(RaySettings())
