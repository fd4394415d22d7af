"""A tiny classifier with weights made by hand, on disk as from the hub."""

from __future__ import annotations

from pathlib import Path

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "sorry", "sure", "kill", "user", "assistant"]


def build_detector(folder: Path, labels: list[str]) -> Path:
    """A BERT without layers: "sorry" as the first word gives logits (0, 4), any other (4, 0)."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=4,
        num_hidden_layers=0,
        num_attention_heads=1,
        intermediate_size=4,
        max_position_embeddings=16,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )
    model = BertForSequenceClassification(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        embeddings = model.bert.embeddings
        embeddings.word_embeddings.weight[:, 1] = 1.0
        embeddings.word_embeddings.weight[WORDS.index("sorry")] = torch.tensor([1.0, 0, 0, 0])
        embeddings.LayerNorm.weight.fill_(1.0)
        model.bert.pooler.dense.weight.copy_(torch.eye(4) * 10)  # tanh saturates: about 1 or -1
        model.classifier.weight[0, 1] = model.classifier.weight[1, 0] = 4.0
    words = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {f"{word[1:-1].lower()}_token": word for word in WORDS[:4]}
    PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    model.save_pretrained(folder)
    return folder
