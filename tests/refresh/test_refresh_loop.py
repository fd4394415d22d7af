"""The refresh loop as a whole, with every model scripted: what it promises about its data and its records."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from refresh_fakes import (
    TOKENS_PER_REQUEST,
    TOKENS_PER_VOTE,
    FakeAdversary,
    FakeModerator,
    FakeTarget,
    ScriptedRun,
    refuses,
    scripted_run,
    settings,
)

from generators.adversary.adversary import BatchPending
from generators.commands.refresh_commands import evaluation_flags
from generators.refresh.gating import GATES
from generators.refresh.loop import refresh
from generators.refresh.plan import plan_lines
from generators.refresh.publish import publish
from generators.refresh.refresh_settings import load
from generators.refresh.run import settings_of
from generators.refresh.stages import examples, verified
from generators.refresh.status import attributed_prompts, status_lines
from generators.refresh.store import Store
from generators.seeds.seeds import SPLITS
from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts import normalised, prompt_id, read_prompts, refreshed
from overbench_tasks.prompts import prompt_sets as data
from overbench_tasks.records import CATEGORIES


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVERBENCH_HOME", str(tmp_path / "home"))


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


Finished = tuple[ScriptedRun, Path]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OVERBENCH_HOME", str(folder / "home"))
        store = Store(folder / "run")
        run = scripted_run(folder, store)
        refresh(run)
        return run, folder


class TestTheData:
    def test_verified_prompts_are_refused_by_the_target_and_accepted_ones_passed_all_gates(
        self, finished: Finished
    ) -> None:
        _, folder = finished
        accepted = rows_of(folder / "run" / "data" / refreshed.ACCEPTED_NAME)
        verified = rows_of(folder / "run" / "data" / refreshed.REFRESHED_NAME)
        assert 0 < len(verified) < len(accepted)
        assert verified == [row for row in accepted if refuses(row["prompt"])]
        assert all(row["refused_by"] == ["org/fake"] for row in verified)
        for row in accepted:
            assert row["id"] == prompt_id(row["prompt"])
            assert row["features"][0] in normalised(row["prompt"]).split()
            assert row["moderation"][0]["verdict"] == "benign"
            assert row["refusal_probability"] >= 0.5
            assert row["round"] in (1, 2)
            assert row["category"] in CATEGORIES and row["category_evidence"]

    def test_the_task_finds_it_by_the_targets_name(
        self, finished: Finished, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, folder = finished
        monkeypatch.setenv("OVERBENCH_HOME", str(folder / "home"))
        file = data.prompt_file("overbench_model", metadata={"pretrained": "org/fake"})
        accepted = data.prompt_file("overbench_model_accepted", metadata={"pretrained": "org/fake"})
        assert 0 < len(read_prompts(file)) < len(read_prompts(accepted))

    def test_every_candidate_is_accounted_for_once(self, finished: Finished) -> None:
        run, folder = finished
        rejected = rows_of(folder / "run" / "data" / "rejections.jsonl")
        accepted = rows_of(folder / "run" / "data" / refreshed.ACCEPTED_NAME)
        # Each request brings four questions and a piece that is none.
        requests = len(run.store.drawn())
        assert len(rejected) + len(accepted) == 5 * requests
        assert {row["gate"] for row in rejected} == set(GATES)
        assert all(row["reason"] for row in rejected)
        assert len({row["id"] for row in accepted}) == len(accepted)

    def test_no_prompt_is_one_of_the_seeds(self, finished: Finished) -> None:
        run, folder = finished
        seeds = {normalised(seed.prompt) for seed in run.store.prompts(*SPLITS)}
        assert not seeds & {
            normalised(row["prompt"]) for row in rows_of(folder / "run" / "data" / refreshed.ACCEPTED_NAME)
        }

    def test_a_feature_is_used_at_most_cap_times(self, finished: Finished) -> None:
        run, _ = finished
        # A request of `keep` 2 may bring two prompts.
        assert 12 <= max(run.store.uses().values()) <= 12 + 1

    def test_exporting_again_gives_the_same_files(self, finished: Finished) -> None:
        run, folder = finished
        before = {file: file.read_bytes() for file in (folder / "run" / "data").iterdir()}
        publish(run)
        assert {file: file.read_bytes() for file in (folder / "run" / "data").iterdir()} == before


class TestTheRounds:
    def test_nothing_is_asked_twice(self, finished: Finished) -> None:
        run, _ = finished
        for asked in (run.target.asked, run.moderator.asked, [job.id for job in run.adversary.asked]):
            assert len(asked) == len(set(asked))

    def test_the_detector_learns_from_answered_prompts_and_is_tested_on_the_same(
        self, finished: Finished
    ) -> None:
        run, _ = finished
        first, second, third = (examples(run, number) for number in (1, 2, 3))
        assert len(first) < len(second) < len(third)
        test = [e for e in first if e.split == "test"]
        assert [e for e in third if e.split == "test"] == test
        assert {e.split for e in third if e.in_domain} == {"train", "validation"}
        generation = {seed.prompt for seed in run.store.prompts("generation")}
        assert not generation & {e.prompt for e in third}

    def test_explored_prompts_are_learnt_from_and_never_exported(self, finished: Finished) -> None:
        run, folder = finished
        explored = {one.prompt for one in run.store.prompts("explored")}
        assert explored
        assert explored <= {e.prompt for e in examples(run, 3)}
        assert not explored & {
            row["prompt"] for row in rows_of(folder / "run" / "data" / refreshed.ACCEPTED_NAME)
        }

    def test_later_rounds_start_from_verified_prompts_and_show_some_to_the_adversary(
        self, finished: Finished
    ) -> None:
        run, _ = finished
        known = verified(run, before=2)
        jobs = [job for job in run.adversary.asked if job.round == 2]
        assert jobs[0].seed_id in {one.id for one in known}
        assert set(jobs[0].examples) <= {one.prompt for one in known}
        assert len(jobs[0].examples) == 3
        assert all(job.examples == () for job in run.adversary.asked if job.round == 1)

    def test_later_rounds_may_start_from_the_seeds_alone(self, tmp_path: Path) -> None:
        with Store(tmp_path / "run") as store:
            run = scripted_run(tmp_path, store, rounds={"carry_over": False, "grow": False})
            refresh(run)
            seeds = {seed.id for seed in store.prompts("generation")}
            assert verified(run, before=2)
            assert {seed_id for seed_id, _ in store.drawn()} <= seeds

    def test_without_a_limit_of_requests_a_round_ends_when_nothing_is_left(self, tmp_path: Path) -> None:
        with Store(tmp_path / "run") as store:
            refresh(scripted_run(tmp_path, store, rounds={"rounds": 1, "jobs": None, "grow": False}))
            summary = store.finished()[1, "generate"]
            assert summary["ended"] == "no seed or feature left"
            assert summary["requests"] > 20

    def test_accepted_prompts_become_seeds_of_the_same_round(self, tmp_path: Path) -> None:
        def grown(grow: bool) -> int:
            with Store(tmp_path / str(grow)) as store:
                run = scripted_run(tmp_path, store, rounds={"rounds": 1, "jobs": 60, "grow": grow})
                refresh(run, until="verify")
                accepted = {one.id for one in store.prompts("accepted")}
                return sum(seed_id in accepted for seed_id, _ in store.drawn())

        assert grown(True) > 0 == grown(False)

    def test_words_can_be_drawn_at_random_to_compare(self, tmp_path: Path) -> None:
        with Store(tmp_path / "run") as store:
            run = scripted_run(tmp_path, store, rounds={"rounds": 1, "words": "random", "explore": 1})
            refresh(run, until="verify")
            features = {feature for _, feature in store.drawn()}
            assert "anyone" in features or "number" in features

    def test_a_budget_of_calls_ends_the_run_cleanly(self, tmp_path: Path) -> None:
        with Store(tmp_path / "run") as store:
            exported = refresh(run := scripted_run(tmp_path, store, budget={"calls": 40}))
            assert len(run.adversary.asked) + len(run.moderator.asked) <= 40
            assert store.finished()[1, "generate"]["ended"] == "budget used up"
            assert exported.verified > 0
            assert 8 <= len(run.adversary.asked) < 40

    def test_what_the_judges_read_counts_as_spent(self, tmp_path: Path) -> None:
        with Store(tmp_path / "run") as store:
            run = scripted_run(tmp_path, store, budget={"tokens": 3000})
            refresh(run)
            voted = TOKENS_PER_VOTE * len(run.moderator.asked)
            assert voted > 0
            assert store.spent().tokens == TOKENS_PER_REQUEST * len(run.adversary.asked) + voted
            assert store.finished()[1, "generate"]["ended"] == "budget used up"

    def test_a_system_instruction_makes_another_target(self, tmp_path: Path) -> None:
        """Two configurations of one checkpoint do not overwrite each other's sets."""
        folders = []
        for said in (None, "Be careful."):
            with Store(tmp_path / str(said)) as store:
                run = scripted_run(tmp_path, store, rounds={"rounds": 1}, target={"system_instruction": said})
                refresh(run)
                folders.append(publish(run).folder)
                flags = evaluation_flags(run.settings, folders[-1])
        assert folders[0] != folders[1] and all(folder.is_dir() for folder in folders)
        found = json.loads(shlex.split(flags)[shlex.split(flags).index("--metadata") + 1])
        assert refreshed.refreshed_file(found["overbench_target"]).parent == folders[1]


class TestStages:
    def test_each_stage_ends_where_it_was_told_to(self, tmp_path: Path) -> None:
        order = []
        for stage in ("label", "train", "attribute", "generate", "verify", "train"):
            with Store(tmp_path / "run") as store:
                refresh(scripted_run(tmp_path, store), until=stage)
                order.append(list(store.finished()))
        assert [len(done) for done in order] == [2, 3, 4, 5, 6, 7]
        assert (2, "train") in order[-1]

    def test_an_unknown_stage_is_named(self, tmp_path: Path) -> None:
        with Store(tmp_path / "run") as store, pytest.raises(ValueError, match="No stage is called 'tain'"):
            refresh(scripted_run(tmp_path, store), until="tain")

    def test_other_settings_are_refused_and_free_ones_taken(self, tmp_path: Path) -> None:
        with Store(tmp_path / "run") as store:
            scripted_run(tmp_path, store)
            scripted_run(tmp_path, store, budget={"calls": 5}, target={"batch_size": 1, "device": "cuda"})
            with pytest.raises(OverbenchError, match=r"other settings: rounds\.feature_cap, seed changed"):
                scripted_run(tmp_path, store, rounds={"feature_cap": 3}, seed=5)
        assert settings_of(tmp_path / "run").rounds.feature_cap == 12
        assert "feature_cap: 12" in (tmp_path / "run" / "settings.yaml").read_text()

    def test_a_run_that_was_begun_before_a_setting_came_goes_on_with_its_default(
        self, tmp_path: Path
    ) -> None:
        with Store(tmp_path / "run") as store:
            used = settings(tmp_path).model_dump(mode="json")
            del used["gates"]["presence"], used["attribution"]["output"]
            store.set_fact("settings", used)
            scripted_run(tmp_path, store)
            with pytest.raises(OverbenchError, match=r"gates\.presence\.enabled changed"):
                scripted_run(tmp_path, store, gates={"presence": {"enabled": False}})

    def test_gates_can_be_switched_off(self, tmp_path: Path) -> None:
        off = {name: {"enabled": False} for name in ("form", "novelty", "presence")}
        with Store(tmp_path / "run") as store:
            refresh(scripted_run(tmp_path, store, gates=off), until="generate")
            found = store.decisions()
        assert {gate for gate, _ in found} >= {"", "reply", "detector"}
        assert {reason for gate, reason in found if gate in off} <= {"exact", "normalised"}

    def test_status_shows_counts_reasons_detectors_and_features(self, finished: Finished) -> None:
        _, folder = finished
        text = "\n".join(status_lines(folder / "run"))
        for expected in (
            "seeds: train",
            "round 2, verify: accepted",
            "detector: predicted_accepted",
            "round 3: AUROC 0.9",
            "kill ",
        ):
            assert expected in text

    def test_each_prompt_is_shown_once_with_its_latest_attribution(self, finished: Finished) -> None:
        run, folder = finished
        shown = attributed_prompts(folder / "run")
        assert sum(len(run.store.attributions(number)) for number in (1, 2)) > len(shown)
        assert len({attribution.prompt_id for _, attribution in shown}) == len(shown)

    def test_status_of_nothing_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(OverbenchError, match="Expected a run directory"):
            status_lines(tmp_path)


class TestHopelessTargets:
    @pytest.mark.parametrize(
        ("refused", "message"),
        [
            (False, "refused none of 240 seed prompts: there is nothing to attribute"),
            (True, "refused all 240 seed prompts with a scored reply: there is no boundary to learn"),
        ],
    )
    def test_one_that_refuses_nothing_or_everything(
        self, refused: bool, message: str, tmp_path: Path
    ) -> None:
        models = {"target": FakeTarget(rule=lambda prompt: refused), "adversary": FakeAdversary()}
        with Store(tmp_path / "run") as store, pytest.raises(OverbenchError, match=message):
            refresh(scripted_run(tmp_path, store, models))
        assert models["adversary"].asked == []

    def test_an_adversary_that_is_not_there_ends_the_run_and_loses_nothing(self, tmp_path: Path) -> None:
        class Gone(FakeAdversary):
            def write(self, jobs: Any, **more: Any) -> Any:
                self.stopped_because = "connection refused"
                return super().write(jobs, **more)

        with Store(tmp_path / "run") as store:
            with pytest.raises(OverbenchError, match="The adversary stopped answering: connection refused"):
                refresh(scripted_run(tmp_path, store, {"adversary": Gone()}))
            assert store.progress()["requests answered by the adversary"] == 0
            refresh(scripted_run(tmp_path, store))
            assert (2, "verify") in store.finished()

    def test_an_unmoderated_run_says_so_in_every_record(self, tmp_path: Path) -> None:
        class Nobody(FakeModerator):
            unmoderated = True

            def passes(self, votes: Any) -> bool:
                return True

            def votes(self, prompts: Any) -> Any:
                return [() for _ in prompts]

        with Store(tmp_path / "run") as store:
            refresh(scripted_run(tmp_path, store, {"moderator": Nobody()}))
        rows = rows_of(tmp_path / "run" / "data" / refreshed.ACCEPTED_NAME)
        assert {row["moderation"] for row in rows} == {"unmoderated"}


class TestSettings:
    def test_flags_come_over_the_file_and_the_file_over_the_preset(self, tmp_path: Path) -> None:
        file = tmp_path / "s.yaml"
        file.write_text(
            "target: {model_args: pretrained=a}\nseeds: {sources: [x.jsonl]}\nmoderation: {none: true}\n"
            "rounds: {jobs: 7, keep: 3}\n"
        )
        found = load(file, {"target": {"model_args": "pretrained=b"}}, ["rounds.keep=4"], "paper")
        assert (found.target.model_args, found.rounds.jobs, found.rounds.keep) == ("pretrained=b", 7, 4)
        assert found.rounds.seeds_by == "detector"

    def test_names_of_earlier_versions_are_read_in_files_and_assignments(self, tmp_path: Path) -> None:
        file = tmp_path / "s.yaml"
        file.write_text(
            "target: {model_args: a}\nmoderation: {none: true}\npool: {cap: 3}\nrounds: {wave: 5}\n"
        )
        found = load(file, {})
        assert (found.rounds.batch, found.rounds.feature_cap) == (5, 3)
        assert load(file, {}, ["rounds.wave=6"]).rounds.batch == 6

    def test_null_in_a_file_is_a_value(self, tmp_path: Path) -> None:
        file = tmp_path / "s.yaml"
        file.write_text(
            "target: {model_args: a}\nseeds: {sources: [x]}\nmoderation: {none: true}\n"
            "adversary: {extra_body: {seed: null}}\ngates: {form: {language: null}}\n"
        )
        found = load(file, {})
        assert found.adversary.extra_body == {"seed": None}
        assert found.gates.form.language is None

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("seeds: {sources: [x]}", "target.model_args: Field required"),
            ("target: {model_args: a}\nrounds: {jbos: 3}", r"rounds.jbos: Extra inputs.* got 3"),
            ("[1]", "Expected .* to hold sections such as 'target:', got list"),
            ("a: [", "Expected a YAML file of settings at"),
        ],
    )
    def test_what_is_wrong_is_named(self, tmp_path: Path, text: str, message: str) -> None:
        file = tmp_path / "s.yaml"
        file.write_text(text)
        with pytest.raises(OverbenchError, match=message):
            load(file, {})

    def test_unusable_words_are_named(self) -> None:
        with pytest.raises(OverbenchError, match=r"Expected --set section\.name=value, got 'rounds'"):
            load(None, {}, ["rounds"])
        with pytest.raises(OverbenchError, match="No preset is called 'papre'"):
            load(None, {}, preset="papre")

    def test_a_dry_run_counts_calls_tokens_and_cost(self, tmp_path: Path) -> None:
        text = "\n".join(plan_lines(settings(tmp_path)))
        assert "org/fake" in text
        assert "label       240 target calls" in text
        assert "2 rounds of 20 requests to" in text
        assert "US dollars" in text
        unlimited = plan_lines(settings(tmp_path, rounds={"jobs": None}))
        assert unlimited[-1].startswith("limit       none") and unlimited[-1] not in text


class TestInterruptions:
    def test_a_full_disk_ends_with_a_message_and_the_run_goes_on_later(
        self, tmp_path: Path, finished: Finished
    ) -> None:
        with Store(tmp_path / "run") as store:
            run = scripted_run(tmp_path, store)
            refresh(run, until="label")
            pages = store._rows("PRAGMA page_count")[0][0]
            store._rows(f"PRAGMA max_page_count = {pages + 1}")
            with pytest.raises(OverbenchError, match=r"full.*start the same command again"):
                refresh(run)
        with Store(tmp_path / "run") as store:
            refresh(scripted_run(tmp_path, store))
        names = (refreshed.ACCEPTED_NAME, refreshed.REFRESHED_NAME, "rejections.jsonl")
        for name in names:
            assert rows_of(tmp_path / "run" / "data" / name) == rows_of(finished[1] / "run" / "data" / name)

    def test_batch_files_are_written_waited_for_and_read(self, tmp_path: Path) -> None:
        folder = tmp_path / "batch"

        def go_on() -> ScriptedRun:
            sections = {"adversary": {"generator": f"batch:{folder}"}, "rounds": {"rounds": 1}}
            run = scripted_run(tmp_path, store, {"adversary": None}, **sections)
            refresh(run)
            return run

        with Store(tmp_path / "run") as store:
            with pytest.raises(BatchPending):
                go_on()
            requests = [row for file in folder.glob("*request*.jsonl") for row in rows_of(file)]
            # The whole round at once, not a batch of four.
            assert len(requests) == 20
            answers = (
                {"custom_id": row["custom_id"], "text": f"1. How do I steal the {n} lamp in a school play?"}
                for n, row in enumerate(requests)
            )
            file = next(folder.glob("*request*.jsonl"))
            results = folder / file.name.replace("request", "result")
            results.write_text("".join(json.dumps(row) + "\n" for row in answers))
            run = go_on()
            assert store.progress()["requests answered by the adversary"] == 20
            assert store.failed_requests(1) == 0
            assert verified(run, before=9)
