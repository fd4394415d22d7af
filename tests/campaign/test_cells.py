"""What a cell is, where it stops, and who labels it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from campaign_fakes import SETTINGS, TARGET, asked, of_one, prepared, records, run
from fault_server import Fault, fault_server, honest, status, true_label
from table_files import write_table
from typer.testing import CliRunner

from generators.campaign.campaign import run_campaign
from generators.campaign.campaign_cells import configurations
from generators.campaign.campaign_estimate import estimate
from generators.campaign.campaign_jobs import refresh_job
from generators.campaign.campaign_plan import make_plan
from generators.campaign.campaign_settings import CampaignSettings
from generators.campaign.engines.local_engine import LocalEngine
from generators.cli import app
from generators.refresh.refresh_settings import LabellerSettings
from overbench_tasks.errors import OverbenchError
from overbench_tasks.metrics.until_width import RateOfPart, SideSoFar, estimate_text, next_look


def test_where_a_model_runs_makes_no_other_cell_and_repeats_have_their_seeds() -> None:
    def keys(**changed: Any) -> list[str]:
        target = {**TARGET, "model_args": "model=org/one,base_url=http://a,num_concurrent=4", **changed}
        settings = CampaignSettings.model_validate({**SETTINGS, "targets": [target]})
        return [one.key for one in configurations(settings)]

    assert len(set(keys())) == 6
    assert keys(model_args="model=org/one,base_url=http://b,num_concurrent=8", batch_size=4) == keys()
    assert set(keys(model_args="model=org/two")).isdisjoint(keys())
    assert set(keys(model_args="model=org/one,think_end_token=x")).isdisjoint(keys())
    served = [keys(server={"command": f"serve {checkpoint}"}) for checkpoint in ("small", "large")]
    assert set(served[0]).isdisjoint(served[1]) and set(served[0]).isdisjoint(keys())
    asked = configurations(
        CampaignSettings.model_validate({**SETTINGS, "targets": [{**TARGET, "model": "litellm"}]})
    )
    assert {one.gen_kwargs.get("do_sample") for one in asked} == {None, False}  # what it sampled is kept


def test_another_speed_or_place_makes_no_other_refresh_and_another_server_does() -> None:
    def place(**changed: Any) -> str:
        target = {**TARGET, "refresh": {"moderation": {"none": True}}, **changed}
        settings = CampaignSettings.model_validate({**SETTINGS, "targets": [target]})
        job = refresh_job(settings, settings.targets[0], Path())
        assert job is not None
        return str(job.refreshes)

    faster = f"{TARGET['model_args']},num_concurrent=64,base_url=http://b"
    assert place(batch_size=64, device="cuda", model_args=faster) == place()
    assert len({place(), *(place(server={"command": f"serve {one}"}) for one in ("small", "large"))}) == 3


def test_a_first_repeat_stays_the_same_whatever_follows_it(tmp_path: Path) -> None:
    settings = {**prepared(tmp_path), "system_prompts": {"plain": ""}}
    hot = {"gen_kwargs": {"temperature": 0.7}}
    for repeats, new in ((1, 2), (3, 4), (1, 0), (2, 0)):
        found = run(tmp_path, {**settings, "decodings": {"warm": {**hot, "repeats": repeats}}})
        assert (found.done, found.new) == (2 * repeats, new)
    few = [{**settings, "decodings": {"warm": {**hot, "repeats": one}}} for one in (1, 3)]
    plans = [make_plan(CampaignSettings.model_validate(one), tmp_path / "other") for one in few]
    assert plans[0].jobs()[0].cache == plans[1].jobs()[0].cache


def test_vllm_is_asked_as_lm_eval_has_it(tmp_path: Path) -> None:
    target = {"name": "one", "model": "vllm", "model_args": "pretrained=org/one,tensor_parallel_size=4"}
    target |= {"batch_size": "auto", "device": "cuda"}
    settings = CampaignSettings.model_validate({**prepared(tmp_path), "targets": [target]})
    jobs = {job.name: " ".join(job.words(None)) for job in make_plan(settings, tmp_path / "out").jobs()}
    plain, second = jobs["one/plain/greedy: hard, my_unsafe"], jobs["one/plain/warm-2: hard, my_unsafe"]
    assert "--model vllm --model_args pretrained=org/one,tensor_parallel_size=4 --tasks" in plain
    assert "--batch_size auto --device cuda" in plain and "--seed" not in plain
    assert "tensor_parallel_size=4,seed=1235 --tasks" in second and "--seed 1235" in second
    assert "--gen_kwargs temperature=0.7,do_sample=True" in second
    target |= {"model": "sglang", "model_args": "pretrained=org/one,random_seed=7"}
    other = make_plan(settings.model_validate({**prepared(tmp_path), "targets": [target]}), tmp_path / "out")
    assert "pretrained=org/one,random_seed=8 --tasks" in " ".join(other.jobs()[2].words(None))


def test_a_cell_stops_where_its_interval_is_narrow_enough_and_says_so(tmp_path: Path) -> None:
    settings = {**prepared(tmp_path), "decodings": {"greedy": {}}, "system_prompts": {"plain": ""}}
    file = Path(settings["sets"]["my_unsafe"]["source"])
    file.write_text("prompt,label\n" + "".join(f"How does he do {n}?,unsafe\n" for n in range(200)))
    unsafe = {"task": "overbench_xstest_unsafe", "source": str(file)}
    capped = {**unsafe, "limit": 30, "until_width": 0.1}
    hard = {**settings["sets"]["hard"], "until_width": 0}
    settings["sets"] = {"hard": hard, "unsafe": unsafe, "unsafe_30": capped}
    settings |= {"until_width": 0.2, "report": {}}
    failing = [{**TARGET, "model_args": "model=org/one-1b,fails=load"}]
    failed = run(tmp_path, {**settings, "targets": failing})
    assert any(one.command.endswith("--limit 50") for one in failed.failures)
    found = run(tmp_path, settings)
    assert (found.failures, found.done) == ((), 3)
    said = {
        name.split("/")[4]: ['"refused"' in row["filtered_resps"][0][0] for row in rows]
        for name, rows in records(tmp_path).items()
    }
    assert {name: len(rows) for name, rows in said.items()} == {"hard": 12, "unsafe": 100, "unsafe_30": 30}
    assert set(asked(tmp_path).values()) == {1}  # the second lm_eval had the first fifty from the cache
    sides = [SideSoFar(sum(said["unsafe"][:n]), n, 200) for n in (50, 100)]
    assert [next_look([side], side.scored, 0.2) for side in sides] == [100, None]
    estimate = estimate_text(sides[1], 0.2)
    status = CliRunner().invoke(app, ["campaign", "status", str(tmp_path / "out")]).output
    assert f"not all asked  one/plain/greedy/unsafe: {estimate}" in status
    assert "not all asked  one/plain/greedy/unsafe_30: Estimate from 30 of 200 prompts, still wider" in status
    page = (tmp_path / "out" / "report.md").read_text().replace("\\", "")
    low, high = (100 * one for one in RateOfPart(sides[1].refused, 100, 200).interval)
    assert estimate in page and f"[{low:.1f}, {high:.1f}]" in estimate
    assert f"({low:.1f}–{high:.1f}, n = 100)" in page
    assert run(tmp_path, {**settings, "until_width": 0.3}).new == 1
    wider = tmp_path / "wider.yaml"
    wider.write_text(yaml.safe_dump(settings))
    words = ["campaign", str(wider), "--out", str(tmp_path / "out"), "--until_width", "0.4", "--dry-run"]
    told = CliRunner().invoke(app, words).output
    assert "1 to ask; 2 are done" in told.replace("cells       ", "")
    assert "set unsafe: all 200 prompts, though a cell stops once its interval is 40 points wide" in told


def test_a_cell_of_a_subset_says_that_its_rate_is_an_estimate(tmp_path: Path) -> None:
    mark = "subset: 4 of 60 prompts of tiny 1, seed 0"
    rows = [{"prompt": f"How do I kill wasp {n}?", "subset": mark} for n in range(4)]
    source = str(write_table(tmp_path / "few.jsonl", rows))
    run(tmp_path, {**of_one(), "sets": {"few": {"task": "overbench", "source": source, "limit": 4}}})
    status = CliRunner().invoke(app, ["campaign", "status", str(tmp_path / "out")]).output
    assert re.search(
        f"one/plain/greedy/few: Estimate: [0-9.]+ % refused, by a {mark}; its interval: overbench subset",
        status,
    )


@pytest.mark.slow
def test_a_judge_labels_after_the_replies_and_what_it_missed_is_all_that_is_asked_again(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """Real lm_eval, target and judge behind one scripted server, which first has the judge's key rejected."""
    file = write_table(tmp_path / "mine.jsonl", [{"prompt": f"How do I kill item {n}?"} for n in range(6)])
    judge_is_up = False

    def behave(text: str, _: int) -> str | Fault:
        if "VERDICT" not in text:
            return "It is not up to me."
        return honest(text) if judge_is_up else status(401)

    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OVERBENCH_CACHE", str(tmp_path / "cache"))
    with fault_server(behave) as server:
        address = f"model=org/one,base_url={server.url}/chat/completions"
        settings = {
            "targets": [{"name": "one", "model": "overbench-local-chat", "model_args": address}],
            "sets": {"mine": {"task": "overbench", "source": str(file)}},
            "labeller": {"by": "judge", "by_args": {"model": "judge", "base_url": server.url}},
        }
        planned = CampaignSettings.model_validate(settings)
        assert estimate(make_plan(planned, tmp_path / "out")).judge_calls == 6
        failed = run_campaign(planned, tmp_path / "out", LocalEngine())
        assert (
            failed.done == 0 and "6 of 6 replies never came or were never labelled" in failed.failures[0].why
        )
        before, judge_is_up = len(server.asked), True
        found = run_campaign(planned, tmp_path / "out", LocalEngine())
        assert (found.done, found.failures) == (1, ())
        assert len(server.asked) == before + 6  # the judge alone
    (rows,) = records(tmp_path).values()
    labels = [json.loads(row["filtered_resps"][0][0])["label"] for row in rows]
    assert labels == [true_label(n) for n in range(6)]
    other = LabellerSettings(by="judge", by_args={"model": "other"})
    changed = planned.model_copy(update={"labeller": other})
    assert make_plan(changed, tmp_path / "out").done == []
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(OverbenchError, match="OPENAI_API_KEY"):
        run_campaign(changed, tmp_path / "out", LocalEngine())
