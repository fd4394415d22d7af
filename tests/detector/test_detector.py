"""The detector: a tiny BERT with a tokenizer of a few words, trained for real on a learnable task."""

from __future__ import annotations

import json
import pickle
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from generators.detector import training
from generators.detector.detector import check_encoder, train
from generators.detector.detector_model import Detector
from generators.detector.detector_report import DetectorReport
from generators.detector.detector_settings import DetectorSettings, Example, Split, checked_splits
from generators.detector.encoder import add_mean_pooling, device_of, load_encoder
from generators.detector.scores import auroc, brier, compare, expected_calibration_error, labels_of
from generators.detector.training import LikeLengths, baseline_log_odds, class_weight_ratio, example_weights
from generators.detector.tuning import UNCALIBRATED, calibrate, choose_threshold, sigmoid
from generators.models import models
from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts import read_prompts

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("sklearn")

DATA = Path(__file__).parents[1] / "data"
MADE_BY_0_1 = DATA / "made_by_0.1"
TRIGGERS = ["steal", "kill", "bomb", "poison"]
HARMLESS = ["bake", "paint", "plant", "read"]
FILLERS = [f"word{i}" for i in range(60)]
SHARES: tuple[tuple[Split, int], ...] = (("train", 120), ("validation", 60), ("test", 60))


def examples(seed: int = 0, noise: float = 0.0) -> list[Example]:
    """Prompts with one trigger are refused, others not; ``noise`` is the share of wrong labels."""
    rng = random.Random(seed)
    made: dict[str, Example] = {}
    for split, n in SHARES:
        while sum(example.split == split for example in made.values()) < n:
            refused = len(made) % 2 == 0
            words = [rng.choice(TRIGGERS if refused else HARMLESS), *rng.sample(FILLERS, rng.randint(2, 8))]
            rng.shuffle(words)
            label = refused != (rng.random() < noise)
            made.setdefault(" ".join(words), Example(" ".join(words), label, split))
    return list(made.values())


def build_encoder(folder: Path, words: Sequence[str]) -> Path:
    """A BERT of two layers with random weights, and its fast tokenizer."""
    import torch
    from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
    from tokenizers.models import WordPiece
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]
    tokenizer = Tokenizer(WordPiece({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=40,
        hidden_dropout_prob=0.1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_encoder(tmp_path_factory.mktemp("encoder") / "tiny-bert", TRIGGERS + HARMLESS + FILLERS)


@pytest.fixture(scope="module")
def tiny(encoder: Path) -> Callable[..., DetectorSettings]:
    def make(**changes: Any) -> DetectorSettings:
        values: dict[str, Any] = {"model": str(encoder), "learning_rate": 5e-3, "epochs": 4, "device": "cpu"}
        return DetectorSettings(**(values | changes))

    return make


Tiny = Callable[..., DetectorSettings]


@pytest.fixture(scope="module")
def trained(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DetectorReport]:
    folder = tmp_path_factory.mktemp("run") / "detector"
    return folder, train(examples(), folder, tiny(), progress=False)


def weights_of(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


# --- training


def test_it_learns_what_the_target_refuses(trained: tuple[Path, DetectorReport]) -> None:
    folder, report = trained
    found = report.test["all"].detector
    assert found.auroc.value is not None and found.auroc.value > 0.95
    assert found.f1.value is not None and found.f1.value > 0.9
    detector = Detector.load(folder, "cpu")
    assert detector.refuses(["word1 steal word2", "word1 bake word2"]) == [True, False]
    high, low = detector.probabilities(["word1 steal word2", "word1 bake word2"])
    assert high >= detector.threshold > low


def test_the_folder_is_an_ordinary_transformers_folder(trained: tuple[Path, DetectorReport]) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder, _ = trained
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert model.config.id2label == {0: "accepted", 1: "refused"}
    assert tokenizer.is_fast and tokenizer.model_max_length == 40
    with torch.inference_mode():
        logits = model(**tokenizer(["word1 steal word2"], return_tensors="pt")).logits[0]
    (ours,) = Detector.load(folder, "cpu").log_odds(["word1 steal word2"])
    assert ours == pytest.approx(float(logits[1] - logits[0]), abs=1e-4)


def test_nothing_else_is_left_over(trained: tuple[Path, DetectorReport]) -> None:
    folder, _ = trained
    assert [path.name for path in folder.parent.iterdir()] == ["detector"]
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "model.safetensors", "detector.json", "README.md", "tokenizer.json"} <= names
    assert all(
        path.is_file() and path.suffix in {".json", ".safetensors", ".md"} for path in folder.iterdir()
    )


def test_the_report_is_kept_beside_the_weights(trained: tuple[Path, DetectorReport]) -> None:
    folder, report = trained
    kept = json.loads((folder / "detector.json").read_text())
    assert DetectorReport.model_validate(kept["report"]) == report
    assert DetectorReport.model_validate_json(report.model_dump_json()) == report
    assert kept["settings"]["learning_rate"] == 5e-3
    assert set(kept["versions"]) == {"overbench", "torch", "transformers", "scikit-learn"}
    counts = report.counts["train"]
    assert (counts.prompts, counts.refused, counts.in_domain) == (120, 60, 0)
    assert report.test["all"].prompts == 60


def test_the_card_has_figures_but_no_prompt_and_no_path(
    trained: tuple[Path, DetectorReport], encoder: Path
) -> None:
    folder, report = trained
    card = (folder / "README.md").read_text()
    assert str(report.test["all"].detector.auroc) in card and str(report.test["all"].baseline.f1) in card
    assert "| train | 120 | 60 | 0 | 0 |" in card and "| learning_rate | 0.005 |" in card
    assert "limits" in card and "tiny-bert" in card
    assert not any(example.prompt in card for example in examples())
    assert str(encoder.parent) not in card
    assert str(encoder.parent) not in (folder / "config.json").read_text()


def test_same_examples_in_any_order_give_the_same_weights(
    trained: tuple[Path, DetectorReport], tiny: Tiny, tmp_path: Path
) -> None:
    folder, report = trained
    shuffled = examples()
    random.Random(5).shuffle(shuffled)
    assert train(shuffled, tmp_path / "again", tiny(), progress=False) == report
    assert weights_of(tmp_path / "again") == weights_of(folder)
    train(examples(), tmp_path / "other", tiny(seed=1), progress=False)
    assert weights_of(tmp_path / "other") != weights_of(folder)


def test_random_states_stay_as_they_were(tiny: Tiny, tmp_path: Path) -> None:
    import torch
    from transformers.utils import logging

    before = (random.getstate(), pickle.dumps(np.random.get_state()), torch.get_rng_state().tolist())
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    train(examples(), tmp_path / "d", tiny(epochs=1), progress=False)
    assert before == (random.getstate(), pickle.dumps(np.random.get_state()), torch.get_rng_state().tolist())
    assert (level, bars) == (logging.get_verbosity(), logging.is_progress_bar_enabled())


def test_it_says_nothing_but_its_bar(
    tiny: Tiny, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    train(examples(), tmp_path / "quiet", tiny(epochs=1), progress=False)
    out, err = capfd.readouterr()
    assert (out, err.strip(), caplog.messages) == ("", "", [])
    train(examples(), tmp_path / "bar", tiny(epochs=1), progress=True)
    out, err = capfd.readouterr()
    assert out == "" and "detector: 100%" in err and "validation_auroc=" in err and "loss" not in err


def test_training_stops_early_and_keeps_the_best_epoch(tiny: Tiny, tmp_path: Path) -> None:
    made = examples(noise=0.25)
    report = train(made, tmp_path / "d", tiny(epochs=8, patience=1), progress=False)
    seen = report.validation_auroc
    assert 1 < len(seen) < 8
    assert max(seen) == seen[report.best_epoch - 1] and report.best_epoch < len(seen)
    validation = [example for example in made if example.split == "validation"]
    kept = Detector.load(tmp_path / "d", "cpu").log_odds([example.prompt for example in validation])
    assert auroc(np.array([e.refused for e in validation]), np.array(kept)) == pytest.approx(max(seen))


def test_in_domain_examples_weigh_what_is_set(tiny: Tiny, tmp_path: Path) -> None:
    """Seeds with a trigger are refused, generated prompts with a trigger are not: the heavier ones win."""
    made = []
    for i, example in enumerate(examples()):
        generated = i % 4 < 2
        made.append(replace(example, refused=example.refused and not generated, in_domain=generated))
    asked = ["word1 steal word2", "word3 kill word4", "word5 poison word9"]
    means = []
    for weight in (0.05, 20.0):
        chosen = tiny(in_domain_weight=weight, balance="none", epochs=6)
        train(made, tmp_path / f"w{weight}", chosen, progress=False)
        means.append(np.mean(Detector.load(tmp_path / f"w{weight}", "cpu").log_odds(asked)))
    assert means[0] - means[1] > 2 and means[1] < 0


def test_generated_test_prompts_are_reported_apart(tiny: Tiny, tmp_path: Path) -> None:
    made = [replace(example, in_domain=i % 2 == i % 4) for i, example in enumerate(examples())]
    report = train(made, tmp_path / "d", tiny(epochs=1), progress=False)
    assert set(report.test) == {"all", "seeds", "in_domain"}
    assert report.test["seeds"].prompts + report.test["in_domain"].prompts == 60
    assert report.counts["test"].in_domain == report.test["in_domain"].prompts
    text = "\n".join(report.lines())
    assert "test, the generated prompts: 30, 15 refused" in text and "60 generated (30 refused)" in text
    assert report.tuned_on == "all"  # 30 generated prompts in validation, 15 of each label: too few


def test_generated_prompts_tune_once_there_are_enough(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("generators.detector.tuning.ENOUGH", 10)
    made = [replace(example, in_domain=i % 2 == i % 4) for i, example in enumerate(examples(noise=0.2))]
    report = train(made, tmp_path / "d", tiny(epochs=1), progress=False)
    everything = train(made, tmp_path / "a", tiny(epochs=1, tune_on="all"), progress=False)
    assert (report.tuned_on, everything.tuned_on) == ("in_domain", "all")
    assert report.calibration != everything.calibration
    assert weights_of(tmp_path / "d") == weights_of(tmp_path / "a")


def test_nothing_is_tuned_where_nothing_shall_be(tiny: Tiny, tmp_path: Path) -> None:
    report = train(
        examples(), tmp_path / "d", tiny(epochs=1, calibrate=False, threshold="half"), progress=False
    )
    assert (report.threshold, report.calibration, report.tuned_on) == (0.5, UNCALIBRATED, "none")
    assert "bias +0.000, tuned on none of validation" in "\n".join(report.lines())
    assert report.brier_uncalibrated == report.test["all"].detector.brier
    detector = Detector.load(tmp_path / "d", "cpu")
    prompts = [example.prompt for example in examples()]
    assert detector.refuses(prompts) == [value >= 0 for value in detector.log_odds(prompts)]


# --- a training that does not end


class Killed(BaseException):
    """Stands in for SIGKILL and for Ctrl-C."""


def test_an_interrupted_training_leaves_nothing(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("generators.detector.detector.model_card", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(examples(), tmp_path / "d", tiny(epochs=1), progress=False)
    assert not list(tmp_path.iterdir())


def test_a_killed_training_is_not_taken_for_finished(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> str:
        raise Killed

    with monkeypatch.context() as killed:
        killed.setattr("generators.detector.detector.model_card", die)
        killed.setattr(shutil, "rmtree", lambda *_, **__: None)  # a killed process cleans nothing up
        with pytest.raises(Killed):
            train(examples(), tmp_path / "d", tiny(epochs=1), progress=False)
    (left,) = tmp_path.iterdir()
    assert (left / "model.safetensors").exists()
    with pytest.raises(OverbenchError, match="found no folder there"):
        Detector.load(tmp_path / "d")
    with pytest.raises(OverbenchError, match=r"detector\.json is missing: .* its training was"):
        Detector.load(left)
    train(examples(), tmp_path / "d", tiny(epochs=1), progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_a_failed_training_keeps_the_detector_that_was_there(
    trained: tuple[Path, DetectorReport], tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors import SafetensorError

    def full(*_: object) -> str:
        raise SafetensorError("No space left on device")

    folder = tmp_path / "d"
    shutil.copytree(trained[0], folder)
    monkeypatch.setattr("generators.detector.detector.model_card", full)
    with pytest.raises(OSError, match=r"weights cannot be written to .*: No space left on device"):
        train(examples(), folder, tiny(epochs=1), progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["d"]
    assert weights_of(folder) == weights_of(trained[0]) and Detector.load(folder, "cpu").threshold > 0


def test_a_folder_of_something_else_is_left_alone(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("five years of work")
    with pytest.raises(OverbenchError, match="found something else there"):
        train(examples(), tmp_path, tiny(), progress=False)
    assert (tmp_path / "thesis.txt").exists()


def test_a_diverged_training_says_so() -> None:
    with pytest.raises(OverbenchError, match=r"diverged.*Lower learning_rate"):
        training._validation_metrics(SimpleNamespace(predictions=np.array([[0.1, np.nan]]), label_ids=[1]))


# --- examples that can't train


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda made: [], "no labelled prompts"),
        (
            lambda made: [replace(e, refused=False) for e in made],
            "refuses none of the 240 labelled prompts: there is nothing to learn.*Try other seeds",
        ),
        (
            lambda made: [replace(e, refused=True) for e in made],
            "refuses all of the 240 labelled prompts: there is no boundary.*chat template",
        ),
        (lambda made: [e for e in made if e.split != "validation"], "validation split, but it is empty"),
        (lambda made: [e for e in made if e.split != "test"], "test split, but it is empty"),
        (
            lambda made: [e for e in made if e.split != "test" or e.refused],
            "test split, but it has 30 prompts, all of them refused",
        ),
        (
            lambda made: [e for e in made if e.split != "train" or not e.refused],
            "train split, but it has 60 prompts, none of them refused. Use more seeds",
        ),
        (
            lambda made: [*made, Example(made[0].prompt.upper() + "  ", True, "test")],
            r"1 prompts are in more than one split \(train, test\), such as ob-",
        ),
    ],
)
def test_examples_that_cannot_train(
    change: Callable[[list[Example]], list[Example]], message: str, tmp_path: Path
) -> None:
    # No such encoder: the examples are looked at before anything is loaded.
    with pytest.raises(OverbenchError, match=message):
        train(change(examples()), tmp_path / "d", DetectorSettings(model="none"), progress=False)
    assert not list(tmp_path.iterdir())


def test_splits_do_not_depend_on_the_order_of_examples() -> None:
    made = examples()
    assert checked_splits(made) == checked_splits(reversed(made))


# --- encoders that can't be used


def test_an_encoder_without_a_fast_tokenizer(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    slow = SimpleNamespace(is_fast=False)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *_, **__: slow)
    chosen = DetectorSettings(model=str(encoder))
    with pytest.raises(OverbenchError, match=r"fast tokenizer.*got SimpleNamespace from .*tiny-bert"):
        train(examples(), tmp_path / "d", chosen, progress=False)
    with pytest.raises(OverbenchError, match="Attribution cannot work without it"):
        check_encoder(chosen)
    assert not list(tmp_path.iterdir())


def test_an_encoder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OverbenchError, match=r"'no/such-encoder' \(hub id.*overbench models minilm-l6-v2"):
        check_encoder(DetectorSettings(model="no/such-encoder"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(OverbenchError, match=r"the folder .*empty"):
        check_encoder(DetectorSettings(model=str(tmp_path / "empty")))


def test_damaged_weights_of_an_encoder(encoder: Path, tmp_path: Path) -> None:
    shutil.copytree(encoder, tmp_path / "e")
    (tmp_path / "e" / "model.safetensors").write_bytes(b"oops")
    with pytest.raises(OverbenchError, match="Cannot load the detector's encoder"):
        train(examples(), tmp_path / "d", DetectorSettings(model=str(tmp_path / "e")), progress=False)


def test_a_device_that_is_not_there(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(OverbenchError, match=r"device is cuda, and torch finds none here\. Use auto or cpu"):
        check_encoder(DetectorSettings(model=str(encoder), device="cuda"))
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert device_of("auto").type == "cpu"


@pytest.mark.parametrize(
    "bad",
    [
        {"threshold": 1.2},
        {"threshold": "best"},
        {"learning_rate": 0},
        {"epochs": 0},
        {"unknown": 1},
        {"in_domain_weight": 0},
    ],
)
def test_settings_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DetectorSettings(**bad)


def test_the_papers_settings_are_the_defaults() -> None:
    chosen = DetectorSettings()
    assert (chosen.model, chosen.learning_rate, chosen.epochs) == ("microsoft/deberta-v3-base", 2e-5, 3)


# --- loading and predicting


def test_load_says_what_is_wrong(trained: tuple[Path, DetectorReport], tmp_path: Path) -> None:
    with pytest.raises(OverbenchError, match=r"found no folder there. Train one first"):
        Detector.load(tmp_path / "none")
    with pytest.raises(OverbenchError, match=r"detector\.json is missing"):
        Detector.load(tmp_path)
    folder = tmp_path / "d"
    shutil.copytree(trained[0], folder)
    (folder / "model.safetensors").write_bytes(b"{")
    with pytest.raises(OverbenchError, match=r"cannot be loaded.*damaged; train it again"):
        Detector.load(folder)
    record = json.loads((folder / "detector.json").read_text())
    (folder / "detector.json").write_text(json.dumps(record | {"format": 2}))
    with pytest.raises(OverbenchError, match=r"detector\.json cannot be read: format.*another version"):
        Detector.load(folder)
    (folder / "detector.json").write_text("{")
    with pytest.raises(OverbenchError, match=r"detector\.json cannot be read: the file: Invalid JSON"):
        Detector.load(folder)


def test_a_detector_of_version_0_1_says_what_it_said_then() -> None:
    """Mean-pooled, its report holds ``continued``; its figures were written down by that version."""
    detector = Detector.load(MADE_BY_0_1 / "detector", "cpu")
    said = json.loads((MADE_BY_0_1 / "detector_says.json").read_text())
    prompts = [row["prompt"] for row in said]
    assert detector.log_odds(prompts) == pytest.approx([row["log_odds"] for row in said], abs=1e-5)
    assert detector.probabilities(prompts) == pytest.approx([row["probability"] for row in said], abs=1e-5)
    assert detector.refuses(prompts) == [row["refused"] for row in said]


@pytest.fixture(scope="module")
def loaded(trained: tuple[Path, DetectorReport]) -> Detector:
    return Detector.load(trained[0], "cpu")


def test_order_is_kept_and_company_does_not_matter(loaded: Detector, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    words = TRIGGERS + HARMLESS + FILLERS
    prompts = [" ".join(rng.choices(words, k=rng.randint(0, 60))) for _ in range(60)]
    together = loaded.probabilities(prompts)
    assert [loaded.probabilities([prompt])[0] for prompt in prompts] == pytest.approx(together, abs=1e-6)
    monkeypatch.setattr("generators.detector.detector_model.BATCH_TOKENS", 64)
    assert loaded.probabilities(prompts) == pytest.approx(together, abs=1e-6)
    assert len(set(together)) > 30 and all(0 <= value <= 1 for value in together)
    assert loaded.probabilities([]) == [] and loaded.refuses([]) == []


def test_long_prompts_are_truncated(loaded: Detector) -> None:
    head = "word1 " * 38  # with [CLS] and [SEP] the 40 positions that the encoder has
    plain, longer = loaded.log_odds([head, head + "steal " * 10])
    assert plain == longer
    assert loaded.log_odds(["steal " + head])[0] != pytest.approx(plain, abs=1e-3)


HOSTILE = [
    "",
    "\x00\x1b[31m",
    "\ud800 steal \udfff",
    "{{ 7 * 7 }}{% raw %}",
    "\u202esteal\u202c",
    "a" * 1_000_000,
    "[PAD] [CLS] [SEP]",
]


def test_hostile_prompts_are_only_text(loaded: Detector) -> None:
    assert len(loaded.probabilities(HOSTILE)) == len(HOSTILE)
    # A broken surrogate leaves the words around it where they were.
    assert loaded.log_odds(["\ud800 steal"]) == pytest.approx(loaded.log_odds(["? steal"]))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=())), max_size=4))
def test_any_text_gets_a_probability(loaded: Detector, prompts: list[str]) -> None:
    found = loaded.probabilities(prompts)
    assert len(found) == len(prompts) and all(0 <= value <= 1 for value in found)


def test_hostile_prompts_can_be_trained_on(tiny: Tiny, tmp_path: Path) -> None:
    hostile = [Example(prompt, i % 2 == 0, "train") for i, prompt in enumerate(HOSTILE)]
    report = train([*examples(), *hostile], tmp_path / "d", tiny(epochs=1), progress=False)
    assert report.counts["train"].prompts == 120 + len(HOSTILE)


def test_importing_is_cheap() -> None:
    code = (
        "import sys, generators.detector.detector; "
        "print([m for m in ('torch', 'transformers', 'sklearn', 'scipy', 'accelerate') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- pooling


def test_mean_pooling_starts_as_the_mean_of_all_tokens(encoder: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(encoder)
    model = AutoModelForSequenceClassification.from_pretrained(encoder).eval()
    tokens = tokenizer(["steal word1 word2 word3", "bake"], padding=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = model.bert(**tokens).last_hidden_state  # (2, tokens, 32)
        first = hidden[:, 0]
        add_mean_pooling(model)
        pooled = model.bert(**tokens).last_hidden_state[:, 0]
    real = tokens["attention_mask"][..., None]
    mean = (hidden * real).sum(dim=1) / real.sum(dim=1)  # padding left out
    assert model.config.num_hidden_layers == 3
    assert torch.nn.functional.cosine_similarity(pooled, mean).min() > 0.97
    assert torch.nn.functional.cosine_similarity(pooled, first).max() < 0.95


def test_a_mean_pooled_detector_is_an_ordinary_folder(tiny: Tiny, tmp_path: Path) -> None:
    quick = tiny(pooling="mean", epochs=8, learning_rate=2e-2)
    report = train(examples(), tmp_path / "d", quick, progress=False)
    assert report.test["all"].detector.auroc.value == pytest.approx(1, abs=0.05)
    detector = Detector.load(tmp_path / "d", "cpu")
    assert detector.refuses(["word1 steal word2", "word1 bake word2"]) == [True, False]


def test_training_leaves_the_mean_a_mean(encoder: Path, tiny: Tiny, tmp_path: Path) -> None:
    train(examples(), tmp_path / "d", tiny(pooling="mean", epochs=2), progress=False)
    fresh, _ = load_encoder(str(encoder), None, 64)
    add_mean_pooling(fresh)
    trained = Detector.load(tmp_path / "d", "cpu").model
    assert _same(fresh.bert.encoder.layer[-1], trained.bert.encoder.layer[-1])
    assert _same(fresh.bert.pooler, trained.bert.pooler)
    assert not _same(fresh.bert.encoder.layer[-2], trained.bert.encoder.layer[-2])


def _same(before: Any, after: Any) -> bool:
    import torch

    other = after.state_dict()
    return all(torch.equal(value, other[name]) for name, value in before.state_dict().items())


def test_batches_are_of_like_length_in_random_order() -> None:
    import torch

    torch.manual_seed(0)
    lengths = [5, 50] * 33
    orders = [list(LikeLengths(lengths, 8)) for _ in range(2)]
    assert orders[0] != orders[1]
    for order in orders:
        assert sorted(order) == list(range(66))
        batches = [[lengths[i] for i in order[at : at + 8]] for at in range(0, 66, 8)]
        assert sum(len(set(batch)) > 1 for batch in batches) <= 1
        long = [sum(batch) / len(batch) > 20 for batch in batches[:-1]]
        assert long != sorted(long) and long != sorted(long, reverse=True)


def test_mean_pooling_is_for_bert() -> None:
    other = SimpleNamespace(config=SimpleNamespace(model_type="deberta-v2"))
    with pytest.raises(OverbenchError, match=r"BERT encoder.*'deberta-v2'\. Set pooling: first"):
        add_mean_pooling(other)


# --- weights


def test_weights_balance_classes() -> None:
    rows = [Example("a", True, "train")] + [Example(str(i), False, "train") for i in range(3)]
    assert example_weights(rows, DetectorSettings()) == pytest.approx([2, 2 / 3, 2 / 3, 2 / 3])
    assert class_weight_ratio(rows, example_weights(rows, DetectorSettings())) == pytest.approx(3)
    assert example_weights(rows, DetectorSettings(balance="none")) == [1, 1, 1, 1]


labels = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=4, max_size=40)


@settings(deadline=None)
@given(labels, st.floats(0.1, 10), st.sampled_from(["class", "domain", "none"]))
def test_weights_add_up(rows: list[tuple[bool, bool]], weight: float, balance: Any) -> None:
    made = [Example(str(i), refused, "train", domain) for i, (refused, domain) in enumerate(rows)]
    found = example_weights(made, DetectorSettings(in_domain_weight=weight, balance=balance))
    assert np.mean(found) == pytest.approx(1)

    def total(**wanted: bool) -> float:
        keep = [all(getattr(e, k) is v for k, v in wanted.items()) for e in made]
        return sum(w for w, kept in zip(found, keep, strict=True) if kept)

    if balance != "none" and len({refused for refused, _ in rows}) == 2:
        if balance == "class":
            assert total(refused=True) == pytest.approx(total(refused=False))
        for domain in (True, False):
            both = {refused for refused, d in rows if d is domain}
            if balance == "domain" and len(both) == 2:
                assert total(refused=True, in_domain=domain) == pytest.approx(
                    total(refused=False, in_domain=domain)
                )
    if balance != "class" and {d for _, d in rows} == {True, False}:
        n = sum(d for _, d in rows)
        assert total(in_domain=True) / total(in_domain=False) == pytest.approx(weight * n / (len(rows) - n))


# --- figures


def arrays(rows: list[tuple[bool, float]]) -> tuple[Any, Any]:
    return np.array([r for r, _ in rows]), np.array([p for _, p in rows], dtype=float)


scored = st.lists(
    st.tuples(st.booleans(), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0])), min_size=2, max_size=30
)


@settings(deadline=None, max_examples=40)
@given(scored)
def test_figures_are_those_of_scikit_learn(rows: list[tuple[bool, float]]) -> None:
    from sklearn import metrics

    refused, values = arrays(rows)
    found = compare(refused, (values, 0.5), (values, 0.5), seed=0)
    flagged = values >= 0.5
    if len(set(refused)) == 2:
        assert found.detector.auroc.value == pytest.approx(metrics.roc_auc_score(refused, values))
    else:
        assert found.detector.auroc.value is None
    for estimate, function, defined in [
        (found.detector.precision, metrics.precision_score, flagged.any()),
        (found.detector.recall, metrics.recall_score, refused.any()),
        (found.detector.f1, metrics.f1_score, flagged.any() or refused.any()),
    ]:
        if not defined:
            assert estimate.value is None and str(estimate) == "undefined"
            continue
        assert estimate.value == pytest.approx(function(refused, flagged))
        assert estimate.low is not None and estimate.high is not None and estimate.low <= estimate.high
    assert found.detector.brier == pytest.approx(brier(refused, values))
    if found.auroc_gain.value is not None:
        assert found.auroc_gain.value == 0 and not found.beats_baseline


def test_intervals_cover_what_they_should() -> None:
    """Of an AUROC known to be 0.76 (normals one unit apart), about 95 % of the intervals hold it."""
    rng = np.random.default_rng(0)
    held = 0
    for seed in range(40):
        refused = np.arange(120) % 2 == 0
        values = sigmoid(rng.normal(size=120) + refused)
        found = compare(refused, (values, 0.5), (values, 0.5), seed).detector.auroc
        assert found.low is not None and found.high is not None
        held += found.low <= 0.7602 <= found.high
    assert 34 <= held <= 40


def test_the_gain_is_paired(monkeypatch: pytest.MonkeyPatch) -> None:
    """A little better on every draw is certain, however wide the two intervals are."""
    rng = np.random.default_rng(1)
    refused = np.arange(60) % 2 == 0
    noise = rng.normal(size=60)
    found = compare(refused, (noise + 0.6 * refused, 0.5), (noise + 0.2 * refused, 0.5), seed=0)
    assert found.beats_baseline and found.auroc_gain.low is not None and found.auroc_gain.low > 0
    assert found.detector.auroc.low is not None and found.baseline.auroc.high is not None
    assert found.detector.auroc.low < found.baseline.auroc.high
    monkeypatch.setattr("generators.detector.scores._CELLS", 60 * 7)  # blocks change nothing
    assert compare(refused, (noise + 0.6 * refused, 0.5), (noise + 0.2 * refused, 0.5), seed=0) == found


def test_calibration_error_by_hand() -> None:
    refused = np.array([True, False, True, True])
    values = np.array([0.2, 0.4, 0.6, 0.8])
    # two bins: (0.2, 0.4) say 0.3 and are 0.5; (0.6, 0.8) say 0.7 and are 1
    assert expected_calibration_error(refused, values, bins=2) == pytest.approx((0.2 + 0.3) / 2)
    assert brier(refused, values) == pytest.approx((0.64 + 0.16 + 0.16 + 0.04) / 4)


# --- calibration and threshold


def test_calibration_undoes_overconfidence_and_class_weights() -> None:
    rng = np.random.default_rng(0)
    true_log_odds = rng.normal(-1, 1.5, size=20_000)
    refused = rng.random(20_000) < sigmoid(true_log_odds)
    ratio = 3.0
    stated = 4 * (true_log_odds + np.log(ratio))  # four times too sure, and shifted by the weights
    found = calibrate(refused, stated, ratio)
    assert found.fitted
    assert found.temperature == pytest.approx(4, rel=0.06)
    assert found.bias == pytest.approx(-np.log(ratio), abs=0.08)
    calibrated = found.probabilities(stated)
    assert calibrated == pytest.approx(sigmoid(true_log_odds), abs=0.02)
    assert expected_calibration_error(refused, calibrated) < 0.015
    assert expected_calibration_error(refused, sigmoid(stated)) > 0.1


def test_calibration_of_a_perfect_detector_stays_finite_and_of_a_useless_one_in_order() -> None:
    refused = np.arange(40) % 2 == 0
    perfect = calibrate(refused, np.where(refused, 3.0, -3.0), 1.0)
    assert perfect.probabilities(np.array([3.0])) == pytest.approx([21 / 22], abs=1e-3)
    reversed_ = calibrate(refused, np.where(refused, -3.0, 3.0), 1.0)
    assert reversed_.temperature > 0


def test_too_small_a_validation_split_tunes_nothing() -> None:
    refused = np.array([True] * 9 + [False] * 50)
    found = calibrate(refused, np.zeros(59), 4.0)
    assert (found.temperature, found.bias, found.fitted) == (1.0, pytest.approx(-np.log(4)), False)
    threshold, note = choose_threshold(refused, np.linspace(0, 1, 59), "f1")
    assert threshold == 0.5
    assert "9 refused and 50 accepted" in note and "fewer than 10" in note


def ranking(order: str) -> tuple[Any, Any]:
    """``R`` and ``a`` from the most probable down, at 1, 1 - 1/n, ..."""
    return np.array([c == "R" for c in order]), 1 - np.arange(len(order)) / len(order)


def test_threshold_of_the_highest_f1() -> None:
    refused, values = ranking("R" * 10 + "aR" + "a" * 10)
    threshold, note = choose_threshold(refused, values, "f1")
    # Flagging the first 12 finds all 11 refused with one error: F1 = 22/23, against 20/21 for the first 10.
    assert (values >= threshold).sum() == 12 and note == ""
    assert threshold == pytest.approx((values[11] + values[12]) / 2)


def test_threshold_that_reaches_a_precision() -> None:
    refused, values = ranking("R" * 12 + "aaa" + "R" * 4 + "aaa" + "R" + "a" * 20)
    threshold, note = choose_threshold(refused, values, 0.8)
    assert (values >= threshold).sum() == 20 and note == ""  # 16 of 20; of 23 it would be 17
    threshold, _ = choose_threshold(refused, values, 0.95)
    assert (values >= threshold).sum() == 12


def test_a_precision_out_of_reach_is_said() -> None:
    refused, values = ranking("Ra" * 15 + "a" * 10)
    threshold, note = choose_threshold(refused, values, 0.9)
    # The first prompt alone has precision 1, but one is no evidence: at least 8 have to be flagged.
    assert (values >= threshold).sum() == 9
    assert "No threshold reaches a precision of 0.90" in note and "0.56 with 9 of 40" in note


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(-50, 50), min_size=40, max_size=60), st.floats(0.05, 20), st.sampled_from(["f1", 0.8])
)
def test_tuning_never_breaks_the_order(log_odds: list[float], ratio: float, rule: str | float) -> None:
    values = np.array(log_odds)
    refused = np.arange(len(values)) % 3 == 0
    found = calibrate(refused, values, ratio)
    calibrated = found.probabilities(np.sort(values))
    assert found.temperature > 0 and (np.diff(calibrated) >= 0).all()
    threshold, _ = choose_threshold(refused, found.probabilities(values), rule)
    assert 0 <= threshold <= 1 and (found.probabilities(values) >= threshold).any()


# --- beside the baseline


def test_the_baseline_learns_too() -> None:
    train, validation, test = checked_splits(examples()).values()
    assert auroc(labels_of(test), baseline_log_odds(train, [1.0] * 120, validation, test)[1]) > 0.95


def report_with(trained: DetectorReport, ours: float, theirs: float) -> DetectorReport:
    refused = np.arange(60) % 2 == 0
    rng = np.random.default_rng(0)
    good, bad = (sigmoid(strength * refused + rng.normal(size=60)) for strength in (ours, theirs))
    found = compare(refused, (good, 0.5), (bad, 0.5), seed=0)
    return trained.model_copy(update={"test": {"all": found}})


def test_a_detector_that_does_not_beat_the_baseline_is_loud(trained: tuple[Path, DetectorReport]) -> None:
    worse = report_with(trained[1], 0.5, 3)
    assert worse.lost_to_baseline() == ["all"]
    text = "\n".join(worse.lines())
    assert "*** THE DETECTOR DOES NOT BEAT THE TF-IDF BASELINE on all prompts of the test split" in text
    better = report_with(trained[1], 3, 0.5)
    assert not better.lost_to_baseline() and "***" not in "\n".join(better.lines())
    close = report_with(trained[1], 2.2, 2)
    if not close.lost_to_baseline():
        assert "is not certain" in "\n".join(close.lines())
    mixed = better.model_copy(update={"test": better.test | {"in_domain": worse.test["all"]}})
    assert mixed.lost_to_baseline() == ["in_domain"]
    assert "BASELINE on the generated prompts of the test split" in "\n".join(mixed.lines())


def test_the_lines_show_both_side_by_side(trained: tuple[Path, DetectorReport]) -> None:
    _, report = trained
    lines = list(report.lines())
    assert lines[0] == f"detector: tiny-bert, epoch {report.best_epoch} of 4 kept"
    assert lines[1] == "  train          120 prompts, 60 refused"
    found = report.test["all"]
    assert f"    AUROC       {found.detector.auroc!s:26}{found.baseline.auroc}" in lines
    assert any(line.startswith(f"  threshold {report.threshold:.3f}, temperature") for line in lines)


def test_truncated_prompts_and_notes_are_in_the_lines(trained: tuple[Path, DetectorReport]) -> None:
    told = trained[1].model_copy(update={"truncated": 1200, "notes": ("something",)})
    text = "\n".join(told.lines())
    assert "1,200 prompts are longer than the detector reads" in text and "note: something" in text


# --- the real encoder


@pytest.mark.slow
def test_minilm_beats_words_on_real_prompts(tmp_path: Path) -> None:
    """Which prompts sound like violence, by hand? Not a refusal, but a real question about real prompts."""
    folder = models.fetch(models.find("minilm-l6-v2"))
    rows = read_prompts(DATA / "first_set.jsonl")
    random.Random(0).shuffle(rows)
    splits: list[Split] = ["train", "train", "train", "validation", "test"]
    made = [
        Example(row["prompt"], row["category"] == "violence_and_harm", splits[i % 5])
        for i, row in enumerate(rows)
    ]
    chosen = DetectorSettings(model="minilm-l6-v2", pooling="mean", learning_rate=1e-4, device="cpu")
    report = train(made, tmp_path / "d", chosen, encoder=str(folder), progress=False)
    found = report.test["all"]
    print("\n".join(report.lines()))
    assert found.detector.auroc.value is not None and found.detector.auroc.value > 0.7
    assert not report.lost_to_baseline()
