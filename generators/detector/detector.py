"""The detector D_M: from a prompt alone, will this target refuse it? (Pu et al. 2025, step 1)

    report = train(examples, folder, DetectorSettings())
    Detector.load(folder).probabilities(prompts)

Training picks the epoch, the calibration and the threshold on validation, and looks at the test part
once, at the end.
"""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from generators.detector.baseline import baseline_log_odds
from generators.detector.detector_model import RECORD, Detector, DetectorRecord
from generators.detector.detector_report import DetectorReport, PartCounts, model_card
from generators.detector.detector_settings import (
    ID2LABEL,
    PARTS,
    DetectorError,
    DetectorSettings,
    Example,
    Part,
    checked_parts,
)
from generators.detector.encoder import (
    device_of,
    load_encoder,
    load_tokenizer,
    quiet_and_unseeded,
    tokenizable,
)
from generators.detector.pooling import add_mean_pooling
from generators.detector.scores import (
    Bools,
    Comparison,
    Floats,
    brier,
    compare,
    expected_calibration_error,
)
from generators.detector.training import History, class_weight_ratio, example_weights, fine_tune
from generators.detector.tuning import (
    ENOUGH,
    UNCALIBRATED,
    Calibration,
    calibrate,
    choose_threshold,
    too_few,
)

__all__ = [
    "ID2LABEL",
    "Detector",
    "DetectorError",
    "DetectorReport",
    "DetectorSettings",
    "Example",
    "Part",
    "check_encoder",
    "tokenizable",
    "train",
]

_VERSIONED = ("overbench", "torch", "transformers", "scikit-learn")


def check_encoder(settings: DetectorSettings, encoder: str | None = None) -> None:
    """What can be known before any prompt is labelled: encoder there, tokenizer fast, device there.

    Args:
        settings: what is to be trained.
        encoder: see :func:`train`.

    Raises:
        DetectorError: one of them is not.
    """
    device_of(settings.device)
    with quiet_and_unseeded():
        load_tokenizer(encoder or settings.model, settings.revision)


def train(
    examples: Iterable[Example],
    folder: Path,
    settings: DetectorSettings,
    *,
    encoder: str | None = None,
    progress: bool = True,
) -> DetectorReport:
    """Train a detector into ``folder``.

    Class imbalance: each example is weighted in the loss (``balance``, ``in_domain_weight``), and
    calibration takes back what that does to probabilities. The same examples in any order, settings
    and machine give the same weights on a CPU; the process's random states stay as they were.

    Everything is written to a sibling folder, ``.NAME.training``, which takes the place of
    ``folder`` at the end. A training that is killed leaves only that sibling, which the next one
    removes; one that fails or is interrupted from the keyboard leaves nothing.

    Args:
        examples: labelled prompts with their part. Keep the test part the same over the rounds.
        folder: is made, or replaced where it holds a detector.
        encoder: the folder that ``settings.model`` names, where it is neither a folder nor a hub id.
        progress: a bar on stderr.

    Returns:
        what is also in the folder, in ``detector.json`` and, for people, in the model card.

    Raises:
        DetectorError: examples that cannot train a detector (``checked_parts``), an encoder that
            cannot be used (``load_encoder``), a training that diverges or outgrows the GPU
            (``fine_tune``); ``folder`` holds something else.
        OSError: the disk is full, or the folder cannot be written.
    """
    parts = checked_parts(examples)
    _check_folder(folder)
    device = device_of(settings.device)
    with quiet_and_unseeded():
        from safetensors import SafetensorError
        from transformers import set_seed

        set_seed(settings.seed)  # the new layer's weights
        model, tokenizer = load_encoder(encoder or settings.model, settings.revision, settings.max_length)
        if settings.pooling == "mean":
            add_mean_pooling(model)
        work = folder.with_name(f".{folder.name}.training")
        shutil.rmtree(work, ignore_errors=True)  # of a training that was killed
        work.mkdir(parents=True)
        try:
            scratch = work / "scratch"
            history = fine_tune(
                model, tokenizer, parts["train"], parts["validation"], settings, scratch, progress=progress
            )
            shutil.rmtree(scratch, ignore_errors=True)
            detector, report = _evaluated(model.to(device), tokenizer, parts, settings, history)
            _save(detector, report, settings, work)
            _replace(folder, work)
        except SafetensorError as error:
            raise OSError(f"The detector's weights cannot be written to {folder.parent}: {error}") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return report


def _evaluated(
    model: Any,
    tokenizer: Any,
    parts: dict[Part, list[Example]],
    settings: DetectorSettings,
    history: History,
) -> tuple[Detector, DetectorReport]:
    """Calibrate and choose the threshold on validation, then look at the test part."""
    weights = example_weights(parts["train"], settings)
    ratio = class_weight_ratio(parts["train"], weights)
    raw = Detector(model, tokenizer, UNCALIBRATED, 0.5)
    validation, test = ([example.prompt for example in parts[part]] for part in ("validation", "test"))
    validation_log_odds, test_log_odds = np.array(raw.log_odds(validation)), np.array(raw.log_odds(test))
    tuned_on, rows = _tuning_rows(parts["validation"], settings)
    calibration, threshold, note = _tuned(parts["validation"], rows, validation_log_odds, ratio, settings)

    words = baseline_log_odds(parts["train"], weights, parts["validation"], parts["test"])
    words_calibration, words_threshold, _ = _tuned(parts["validation"], rows, words[0], ratio, settings)
    refused, plain = _refused(parts["test"]), UNCALIBRATED.probabilities(test_log_odds)
    report = DetectorReport(
        encoder=settings.encoder_name,
        counts={part: _counts(parts[part]) for part in PARTS},
        validation_auroc=history.validation_auroc,
        best_epoch=history.best_epoch,
        truncated=_truncated(tokenizer, parts),
        calibration=calibration,
        threshold=threshold,
        tuned_on=tuned_on,
        brier_uncalibrated=brier(refused, plain),
        ece_uncalibrated=expected_calibration_error(refused, plain),
        test=_compared(
            parts["test"],
            (calibration.probabilities(test_log_odds), threshold),
            (words_calibration.probabilities(words[1]), words_threshold),
            settings.seed,
        ),
        notes=(note,) if note else (),
    )
    return Detector(model, tokenizer, calibration, threshold), report


def _tuning_rows(validation: Sequence[Example], settings: DetectorSettings) -> tuple[str, Bools]:
    """The validation prompts to tune on; generated ones only if there are enough of both labels."""
    in_domain: Bools = np.array([example.in_domain for example in validation])
    if not settings.calibrate and settings.threshold == "half":
        return "none", np.ones(len(validation), dtype=bool)
    if settings.tune_on == "all" or too_few(_refused(validation)[in_domain], ENOUGH):
        return "all", np.ones(len(validation), dtype=bool)
    return "in_domain", in_domain


def _tuned(
    validation: Sequence[Example], rows: Bools, log_odds: Floats, ratio: float, settings: DetectorSettings
) -> tuple[Calibration, float, str]:
    refused, values = _refused(validation)[rows], log_odds[rows]
    calibration = calibrate(refused, values, ratio) if settings.calibrate else UNCALIBRATED
    return calibration, *choose_threshold(refused, calibration.probabilities(values), settings.threshold)


def _compared(
    test: Sequence[Example], detector: tuple[Floats, float], baseline: tuple[Floats, float], seed: int
) -> dict[str, Comparison]:
    in_domain: Bools = np.array([example.in_domain for example in test])
    sets = {"all": np.ones(len(test), dtype=bool)}
    if in_domain.any() and not in_domain.all():
        sets |= {"seeds": ~in_domain, "in_domain": in_domain}
    return {
        name: compare(
            _refused(test)[rows], (detector[0][rows], detector[1]), (baseline[0][rows], baseline[1]), seed
        )
        for name, rows in sets.items()
    }


def _refused(examples: Sequence[Example]) -> Bools:
    return np.array([example.refused for example in examples], dtype=bool)


def _counts(examples: Sequence[Example]) -> PartCounts:
    return PartCounts(
        prompts=len(examples),
        refused=sum(example.refused for example in examples),
        in_domain=sum(example.in_domain for example in examples),
        in_domain_refused=sum(example.in_domain and example.refused for example in examples),
    )


def _truncated(tokenizer: Any, parts: dict[Part, list[Example]]) -> int:
    texts = [tokenizable(example.prompt) for part in PARTS for example in parts[part]]
    return sum(len(ids) > tokenizer.model_max_length for ids in tokenizer(texts)["input_ids"])


def _check_folder(folder: Path) -> None:
    if folder.exists() and not (folder / RECORD).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise DetectorError(
            f"Expected {folder} to be a new folder or a detector's, found something else there. It is left "
            "alone: name another folder, or move it away."
        )


def _save(detector: Detector, report: DetectorReport, settings: DetectorSettings, folder: Path) -> None:
    detector.model.config._name_or_path = settings.encoder_name  # never a path of this machine
    detector.model.save_pretrained(folder)
    detector.tokenizer.save_pretrained(folder)
    (folder / "README.md").write_text(model_card(report, settings), encoding="utf-8")
    record = DetectorRecord(
        threshold=detector.threshold,
        calibration=detector.calibration,
        settings=settings,
        versions={name: importlib.metadata.version(name) for name in _VERSIONED},
        report=report,
    )
    (folder / RECORD).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _replace(folder: Path, work: Path) -> None:
    """Put ``work`` in the place of ``folder``. Killed between the two renames, neither is there."""
    old = folder.with_name(f".{folder.name}.replaced")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    work.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
