"""A tiny chat model with weights made by hand, on disk as from the hub."""

from __future__ import annotations

from pathlib import Path

FOLLOWING = {
    "kill": "I",
    "I": "cannot",
    "cannot": "help",
    "help": "you",
    "you": "with",
    "with": "that",
    "that": "[EOS]",
    "Sure": ",",
    ",": "ask",
    "ask": "them",
    "them": "first",
    "first": "[EOS]",
}
"""The word that the model writes behind each of these; behind all others, ``Sure``."""
SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "eos_token": "[EOS]", "bos_token": "[BOS]"}


def build_chat_model(folder: Path) -> Path:
    """A GPT-2 that sees one word: a prompt that ends with "kill" is refused, every other one answered."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    words = [*SPECIAL.values(), *FOLLOWING]
    places = {word: index for index, word in enumerate(words)}
    config = GPT2Config(
        vocab_size=len(words),
        n_positions=512,
        n_embd=len(words),
        n_layer=1,
        n_head=1,
        tie_word_embeddings=False,
        bos_token_id=places["[BOS]"],
        eos_token_id=places["[EOS]"],
    )
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".ln_" not in name:
                parameter.zero_()  # attention and the layer's own network add nothing
        model.transformer.wte.weight.copy_(torch.eye(len(words)))
        for word, index in places.items():
            model.lm_head.weight[places[FOLLOWING.get(word, "Sure")], index] = 1.0
    model.save_pretrained(folder)
    tokens = Tokenizer(models.WordLevel(places, "[UNK]"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, **SPECIAL)
    tokenizer.chat_template = "{% for one in messages %}{{ one.content }} {% endfor %}"
    tokenizer.save_pretrained(folder)
    return folder
