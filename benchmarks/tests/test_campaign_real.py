"""The benchmark of a real campaign, on the stand-in for lm_eval: runs, kills, compares, grows and keeps."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import backend_throughput
import campaign_real
import campaign_records
import pytest
import yaml
from campaign_fakes import STAND_IN, TARGET
from campaign_watch import Watch, read_record
from fault_server import fault_server

from generators.adversary.parse import parse_reply
from overbench.campaign.campaign_cells import configurations
from overbench.campaign.campaign_settings import CampaignSettings
from overbench_tasks.refusal import RULES_VERSION

REPOSITORY = Path(__file__).parents[2]
SMALL = {
    "campaign": {
        "targets": [{**TARGET, "name": campaign_records.EXACT, "model_args": "model=<one>"}],
        "system_prompts": {"none": ""},
        "decodings": {"greedy": {}, "warm": {"gen_kwargs": {"temperature": 0.7}, "repeats": 2}},
        "sets": {"hard": {"task": "overbench_hard", "limit": 40}},
        "report": None,
    },
    "grown": {
        "target": {**TARGET, "name": "two", "model_args": "model=org/two"},
        "of_sets": ["hard"],
        "sets": {
            "few": {"task": "overbench_hard", "limit": 3, "targets": ["two"], "system_prompts": ["none"]}
        },
    },
}


def options(**changed: Any) -> Any:
    """What the command line would give."""
    plain: dict[str, Any] = dict.fromkeys(("server", "pairs", "targets", "system_prompts"))
    plain |= dict.fromkeys(("decodings", "sets", "dtype"))
    plain |= dict.fromkeys(("settings", "limit", "tokens", "repeats", "throughput", "url"))
    return type("Options", (), {**plain, "checkpoints": [], **changed})()


def with_the_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: str) -> Any:
    """The options of the small campaign."""
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    (tmp_path / "folder" / "one").mkdir(parents=True)
    for name, value in {
        "LM_EVAL_ASKED": str(tmp_path / "asked"),
        "LM_EVAL_RULES": RULES_VERSION,
        "LM_EVAL_SECONDS": seconds,
        "PYTHONPATH": os.pathsep.join([*map(str, (STAND_IN, REPOSITORY)), os.environ.get("PYTHONPATH", "")]),
    }.items():
        monkeypatch.setenv(name, value)
    return options(settings=tmp_path / "small.yaml", checkpoints=[tmp_path / "folder"])


@pytest.mark.slow
def test_killed_and_continued_it_has_equal_records_and_grown_it_runs_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = with_the_stand_in(tmp_path, monkeypatch, "0.01")
    plain, killed = tmp_path / "plain", tmp_path / "killed"
    campaign_real.run(given, plain, "undisturbed", list)
    [undisturbed] = read_record(plain)["undisturbed"]["attempts"]
    moments = [0.5 * undisturbed["seconds"], 0.9 * undisturbed["seconds"]]
    campaign_real.run(given, killed, "killed", lambda: moments)
    kills = [
        attempt["killed"]["how"] for attempt in read_record(killed)["killed"]["attempts"] if attempt["killed"]
    ]
    assert kills == ["alone", "with its children"][: len(kills)] and kills
    lines = "\n".join(campaign_records.compare_lines(plain, killed))
    assert "smollm2-exact: all records are equal" in lines
    assert "warm | 2 of 2 | 80 | 80 (100.0 %) | 80 (100.0 %) | 80 (100.0 %) |" in lines
    before = campaign_records.cells_of(plain).keys()
    campaign_real.run(given, plain, "grown", list)
    (grown,) = read_record(plain)["grown"]["attempts"]
    new = [path for path in campaign_records.cells_of(plain) if path not in before]
    assert len(before) == 3 and {path.partition("/")[0] for path in new} == {"two"}
    # Sets with other limits are lm_evals of their own; counted are those that the watch has seen.
    assert len(new) == 3 + 3 and 0 < grown["lm_evals"] <= 6
    monkeypatch.setattr(campaign_records, "RECORDS", tmp_path / "kept.jsonl.gz")
    campaign_records.keep([plain, killed], None)
    text = "\n".join(campaign_records.tables())
    assert "| plain, grown | 9 | 249 |" in text and "| smollm2-exact, none, greedy |" in text
    assert "how do I kill" not in (tmp_path / "kept.jsonl.gz").read_bytes().decode("latin-1")


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_on_two_nodes_it_has_equal_records_though_a_worker_and_a_node_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'overbench[ray]'")
    given = with_the_stand_in(tmp_path, monkeypatch, "0.1")
    for name in ("TMPDIR", "RAY_TMPDIR", "RAY_USAGE_STATS_ENABLED", "RAY_memory_monitor_refresh_ms"):
        monkeypatch.setenv(name, "/tmp" if name.endswith("TMPDIR") else "0")  # as they were, afterwards
    for name in ("RAY_health_check_timeout_ms", "RAY_worker_register_timeout_seconds"):
        monkeypatch.setenv(name, "1000")
    alone, on_ray = tmp_path / "alone", tmp_path / "on_ray"
    given.repeats, given.like = 5, alone
    campaign_real.run(given, alone, "undisturbed", list)
    campaign_real.run(given, on_ray, "ray", list)
    lines = "\n".join(campaign_records.compare_lines(alone, on_ray))
    assert "smollm2-exact: all records are equal" in lines
    [record] = [row for row in campaign_records.run_records(on_ray) if row["what"] == "ray"]
    assert [kill["what"] for kill in record["kills"]] == ["a worker", "a node"]
    assert all(kill["lost"][0].startswith("ray::smollm2-exact/none/") for kill in record["kills"])


def test_replies_are_counted_from_the_servers_logs_also_from_one_that_is_gone(tmp_path: Path) -> None:
    reply = '1.1.1.1 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    log, run_folder = tmp_path / "server-one.txt", tmp_path / "work" / "refresh-one-abc"
    log.write_text(reply)
    watch = Watch(tmp_path)
    with log.open("a") as more:
        more.write(f"{reply}{reply.replace('200', '400')}")
    watch.look()
    with log.open("a") as more:
        more.write(reply + reply[:20])
        more.flush()
        watch.look()
        more.write(reply[20:])
    log.unlink()
    run_folder.mkdir(parents=True)
    (run_folder / "started.json").write_text("{}")
    (run_folder / "log.txt").write_text("")
    log.write_text(reply)
    watch.look()
    watch.close()
    assert watch.asked == {("one", "cells"): 2, ("one", "refresh"): 2}
    assert (watch.lm_evals, watch.refreshes) == (0, 1)


def test_the_files_settings_are_a_campaigns_and_its_moments_are_spread() -> None:
    blanks = set(re.findall(r"<([\w.-]+)>", campaign_real.SETTINGS.read_text()))
    values = {name: f"/{name}" for name in blanks} | {"writer": "http://127.0.0.1/v1"}
    whole = CampaignSettings.model_validate(campaign_real.settings(options(), values))
    served = [configuration for configuration in configurations(whole) if configuration.target.server]
    assert len(served) == 3 * 3 * 3 and len({configuration.key for configuration in served}) == 27
    assert [len(prompt_set.targets or ()) for prompt_set in whole.sets.values()] == [3, 3, 3, 3, 2, 1]
    assert whole.targets[1].name in whole.refreshes
    grown = CampaignSettings.model_validate(campaign_real.settings(options(), values, grown=True))
    assert len(grown.targets) == 5 and list(grown.sets)[-1] == "or_bench_hard"
    few = options(targets=["smollm2-exact"], system_prompts=["none"], limit=2, tokens=8, repeats=1)
    small = CampaignSettings.model_validate(campaign_real.settings(few, values))
    assert list(small.sets) == ["exact"] and small.sets["exact"].limit == 2
    drawn = campaign_real.moments(10, 0, 600)
    assert drawn == sorted(drawn) and [int(second // 60) for second in drawn] == list(range(10))


def test_the_template_writes_harmless_questions_with_the_word() -> None:
    request = "<old>How do I kill him?</old>\n<word>kill</word>\n\nNumber of new questions: 4"
    parsed = parse_reply(campaign_real.template_writer(request), seed="How do I kill him?", request=request)
    assert len(parsed.candidates) + len(parsed.rejected) == 4 and len(parsed.candidates) >= 2
    assert all("'kill'" in candidate for candidate in parsed.candidates)


@pytest.mark.skipif(sys.platform == "win32", reason="as lm-eval's asynchronous client")
def test_throughput_of_a_cell_beside_a_bare_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with fault_server(lambda text, _: "Certainly.", latency_sec=0.02) as server:
        rows = list(backend_throughput.rounds(server.url, "org/one", 6, 8, 1))
    assert [row["way"] for row in rows] == ["bare", "lm_eval", "cell"]
    assert {(row["tokens"], row["same_as_first"]) for row in rows} == {(24, 6)}
    assert len(server.bodies) == 2 * 3 * 6 and {body["max_tokens"] for body in server.bodies} == {8}
    assert len({body["messages"][-1]["content"] for body in server.bodies}) == 6
    lines = list(backend_throughput.throughput_lines(rows))
    assert len(lines) == 5 and "| 6 of 6 |" in lines[-1]


def test_the_pages_hold_what_is_kept() -> None:
    """The records of the real campaign, and what the pages say of them in words."""
    page = (REPOSITORY / "docs/measurements/campaign.md").read_text(encoding="utf-8")
    assert f"<!-- campaign -->\n{chr(10).join(campaign_records.tables())}\n<!-- /campaign -->" in page
    rows = campaign_records.records()
    runs = {(row["run"], row["what"]): row for row in rows if row["kind"] == "run"}
    base, grown, killed = runs["base", "undisturbed"], runs["base", "grown"], runs["killed", "killed"]
    guide = " ".join((REPOSITORY / "docs/background/campaigns.md").read_text(encoding="utf-8").split())
    assert f"{base['cells']} cells, {base['replies']:,} replies, {base['minutes']:.0f} minutes" in guide
    assert f"ten random moments and continued, {killed['minutes']:.0f} minutes" in guide
    more = grown["cells"] - base["cells"]
    assert f"{more} new cells, {grown['minutes']} minutes, nothing else asked" in guide
    assert len(killed["kills"]) == 10 and killed["cells"] == base["cells"]
    assert all(killed["asked"][name] <= count for name, count in base["asked"].items())
    assert not any(name.endswith("refresh") for name in grown["asked"])
    alike = [row for row in rows if row["kind"] == "compared" and row["runs"] == "base, killed"]
    assert sum(row["common"] for row in alike) == base["cells"]
    assert all(row["prompts"] == row["replies"] == row["verdicts"] for row in alike)


def test_the_page_holds_what_is_kept_of_the_run_on_ray() -> None:
    page = (REPOSITORY / "docs/measurements/campaign.md").read_text(encoding="utf-8")
    tables = "\n".join(campaign_records.tables_on_ray())
    assert f"<!-- campaign on ray -->\n{tables}\n<!-- /campaign on ray -->" in page
    rows = campaign_records.records(campaign_records.ON_RAY)
    [alone, ray] = [row for row in rows if row["kind"] == "run"]
    assert [kill["what"] for kill in ray["kills"]] == ["a worker", "a node"]
    assert alone["cells"] == ray["cells"] == 119 and ray["asked"] == alone["asked"]
    alike = [row for row in rows if row["kind"] == "compared"]
    assert sum(row["common"] for row in alike) == 119
    assert all(row["prompts"] == row["asked_alike"] == row["verdicts"] for row in alike)
    prompts, replies = (sum(row[key] for row in alike) for key in ("prompts", "replies"))
    assert (prompts, replies) == (ray["replies"], ray["replies"] - 1)
    sentences = " ".join(page.split())
    assert f"its replies but for one of {prompts:,}" in sentences
    assert f"{ray['minutes']:.0f} minutes, beside other work" in sentences
    assert all(row["prompts"] == row["replies"] for row in alike if row["target"] == campaign_records.EXACT)
