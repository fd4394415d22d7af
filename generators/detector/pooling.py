"""Mean pooling for BERT encoders, as weights of one more layer, so that the model stays an ordinary one.

transformers' BERT classifiers read the first token alone. Sentence encoders such as MiniLM are trained
through the mean of all tokens instead; their first token knows little of the sentence, and a few hundred
prompts do not teach it.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from generators.detector.detector_settings import DetectorError

MEAN_WEIGHT: Final = 50.0
"""What the mean of all tokens weighs against the first token's own residual before they are normalised."""
POOLER_WEIGHT: Final = 0.3
"""Small enough that the pooler's tanh is nearly a straight line for normalised values."""


def add_mean_pooling(model: Any) -> None:
    """Append a layer to ``BertForSequenceClassification``, in place, whose first token is the mean of all.

    Attention with queries of zero looks at all tokens alike, padding aside; values and outputs are
    identities, times :data:`MEAN_WEIGHT`; the feed-forward part adds nothing; the pooler is an
    identity, times :data:`POOLER_WEIGHT`. Neither is trained, so that the mean stays one.

    Raises:
        DetectorError: the model is no BERT.
    """
    if model.config.model_type != "bert":
        raise DetectorError(
            f"Expected a BERT encoder for mean pooling, such as minilm-l6-v2, got a model of type "
            f"{model.config.model_type!r}. Set pooling: first."
        )
    import torch

    layers = model.bert.encoder.layer
    layer = copy.deepcopy(layers[-1])
    attention, after = layer.attention.self, layer.attention.output
    identity = torch.eye(model.config.hidden_size)
    with torch.no_grad():
        attention.query.weight.zero_()
        attention.query.bias.zero_()
        attention.value.weight.copy_(identity)
        attention.value.bias.zero_()
        after.dense.weight.copy_(MEAN_WEIGHT * identity)
        after.dense.bias.zero_()
        layer.output.dense.weight.zero_()
        layer.output.dense.bias.zero_()
        for norm in (after.LayerNorm, layer.output.LayerNorm):
            norm.weight.fill_(1.0)
            norm.bias.zero_()
        model.bert.pooler.dense.weight.copy_(POOLER_WEIGHT * identity)
        model.bert.pooler.dense.bias.zero_()
    layers.append(layer)
    model.config.num_hidden_layers += 1
    for part in (layer, model.bert.pooler):
        part.requires_grad_(False)
        for module in part.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
