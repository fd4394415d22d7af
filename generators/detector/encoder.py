"""The encoder a detector starts from: found, checked, loaded without noise, pooled.

torch and transformers are imported when something is loaded, never before.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from generators.detector.detector_settings import ID2LABEL, Device
from overbench_tasks.errors import OverbenchError
from overbench_tasks.labellers.classifier import positions
from overbench_tasks.prompts import MAX_PROMPT_CHARS
from overbench_tasks.text import encodable

if TYPE_CHECKING:
    import torch

MEAN_WEIGHT: Final = 50.0
"""What the mean of all tokens weighs against the first token's own residual before they are normalised."""
POOLER_WEIGHT: Final = 0.3
"""Small enough that the pooler's tanh is nearly a straight line for normalised values."""


def tokenizable(prompt: str) -> str:
    """The prompt as every tokenizer takes it: character positions stay, the far end goes.

    Halves of surrogate pairs, which no tokenizer encodes, become ``?``, one for one. What is beyond
    :data:`~overbench_tasks.prompts.MAX_PROMPT_CHARS` would be truncated anyway, only slowly.
    """
    return encodable(prompt[:MAX_PROMPT_CHARS])


def load_encoder(source: str, revision: str | None, max_length: int) -> tuple[Any, Any]:
    """Model with a two-label head, and its tokenizer, which truncates at ``model_max_length``.

    Args:
        source: hub id or folder.
        max_length: tokens; lowered to what the encoder can read.

    Raises:
        OverbenchError: not found, not loadable, or without a fast tokenizer.
    """
    tokenizer = load_tokenizer(source, revision)
    from transformers import AutoConfig, AutoModelForSequenceClassification

    labels = {"id2label": ID2LABEL, "label2id": {label: i for i, label in ID2LABEL.items()}}
    with loading(source):
        config = AutoConfig.from_pretrained(source, revision=revision, num_labels=len(ID2LABEL), **labels)
        config.problem_type = "single_label_classification"
        model = AutoModelForSequenceClassification.from_pretrained(
            source, revision=revision, config=config, ignore_mismatched_sizes=True
        )
    tokenizer.model_max_length = min(max_length, positions(model.config, tokenizer))
    return model.float(), tokenizer  # DeBERTa v3 is stored in half precision, which would not train


def add_mean_pooling(model: Any) -> None:
    """Append a layer to a BERT or MPNet classifier, in place, whose first token is the mean of all.

    transformers' classifiers of these kinds read the first token alone, which in sentence encoders such as
    MiniLM, trained through the mean, knows little of the sentence; a few hundred prompts do not teach it.

    **Why a layer and no pooling module.** A model class of our own, or sentence-transformers, would read more
    easily here. But then ``AutoModelForSequenceClassification.from_pretrained`` could not read a saved
    detector, which today needs no code of ours, and detectors that are saved already would still need this
    layer: there would be two ways to pool. MPNet's mean is weighted (below), so a plain one would give other
    numbers, too.

    Attention with queries of zero looks at all tokens alike, padding aside; values and outputs are
    identities, times :data:`MEAN_WEIGHT`; the feed-forward part adds nothing; the dense layer behind it is
    an identity, times :data:`POOLER_WEIGHT`. Neither is trained, so that the mean stays one.

    MPNet adds to the attention of every layer what a token's distance is worth, so its mean is weighted:
    of all-mpnet-base-v2's twelve heads nine look at all tokens nearly alike (of 20 tokens the entropy of
    their weights is 94 to 98 % of the most there can be), three prefer near ones.

    Raises:
        OverbenchError: the model is neither.
    """
    if model.config.model_type not in ("bert", "mpnet"):
        raise OverbenchError(
            f"Expected a BERT or MPNet encoder for mean pooling, such as minilm-l6-v2, got a model of type "
            f"{model.config.model_type!r}. Set pooling: first."
        )
    import torch

    layers = model.base_model.encoder.layer
    layer = copy.deepcopy(layers[-1])
    scales, norms, pooler = _pooling_parts(model, layer)
    with torch.no_grad():
        for linear, scale in scales.items():
            linear.weight.copy_(scale * torch.eye(*linear.weight.shape))
            linear.bias.zero_()
    for norm in norms:
        norm.reset_parameters()
    layers.append(layer)
    model.config.num_hidden_layers += 1
    for fixed in (layer, pooler):
        fixed.requires_grad_(False)
        for module in fixed.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0


def _pooling_parts(model: Any, layer: Any) -> tuple[dict[Any, float], tuple[Any, Any], Any]:
    """Of a layer that is added: linear parts with their scales, both norms, and the dense layer behind."""
    attention = layer.attention
    if model.config.model_type == "bert":
        query, value, out = attention.self.query, attention.self.value, attention.output.dense
        norm, pooler, dense = attention.output.LayerNorm, model.bert.pooler, model.bert.pooler.dense
    else:
        query, value, out = attention.attn.q, attention.attn.v, attention.attn.o
        norm, pooler, dense = attention.LayerNorm, model.classifier.dense, model.classifier.dense
    scales = {query: 0.0, value: 1.0, out: MEAN_WEIGHT, layer.output.dense: 0.0, dense: POOLER_WEIGHT}
    return scales, (norm, layer.output.LayerNorm), pooler


def load_tokenizer(source: str, revision: str | None = None) -> Any:
    """The fast tokenizer of a model: attribution needs the character span of each token."""
    from transformers import AutoTokenizer

    with loading(source):
        tokenizer = AutoTokenizer.from_pretrained(source, revision=revision)
    if not tokenizer.is_fast:
        raise OverbenchError(
            f"Expected an encoder with a fast tokenizer, which knows the characters of each token, got "
            f"{type(tokenizer).__name__} from {source!r}. Attribution cannot work without it. Use another "
            "encoder (microsoft/deberta-v3-base, or minilm-l6-v2 of `overbench models`), or convert this "
            "tokenizer."
        )
    return tokenizer


def device_of(wanted: Device) -> torch.device:
    """``auto`` is the best there is: CUDA, MPS, CPU.

    Raises:
        OverbenchError: the wanted one is not there.
    """
    import torch

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return torch.device(next(name for name, is_there in there.items() if is_there))
    if not there[wanted]:
        raise OverbenchError(
            f"The detector's device is {wanted}, and torch finds none here. Use auto or cpu."
        )
    return torch.device(wanted)


@contextmanager
def quiet_and_unseeded() -> Iterator[None]:
    """transformers says nothing but errors, and every random state is afterwards as it was before.

    Trainer seeds Python, NumPy and torch; that must not reach the rest of the process.
    """
    import torch
    import transformers

    logging: Any = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    python, numpy = random.getstate(), np.random.get_state()
    cuda = range(torch.cuda.device_count()) if torch.cuda.is_available() else []
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with torch.random.fork_rng(cuda):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def loading(source: str) -> Iterator[None]:
    """Whatever transformers raises, while it loads from a hub id or folder, as an OverbenchError."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, RuntimeError, ImportError, KeyError, SafetensorError) as error:
        there = Path(source).is_dir()
        place = f"the folder {source}" if there else f"{source!r} (hub id; no such folder here)"
        raise OverbenchError(
            f"Cannot load the detector's encoder from {place}: {' '.join(str(error).split())} Expected the "
            "hub id or the folder of a transformers encoder with its tokenizer. Where the hub is out of "
            "reach, name a folder, or use a small encoder: overbench models minilm-l6-v2, then minilm-l6-v2 "
            "as the detector's model. Some tokenizers (DeBERTa v3) need more packages: pip install "
            "sentencepiece protobuf"
        ) from error
