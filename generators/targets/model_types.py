"""Which of lm-eval's model types ask a server, and which of these take no seed."""

from __future__ import annotations

from typing import Final

UNSEEDED_API_TYPES: Final = ("gguf", "ggml", "textsynth", "watsonx_llm")
API_TYPES: Final = (
    "openai-completions",
    "openai-chat-completions",
    "local-completions",
    "local-chat-completions",
    "anthropic-completions",
    "anthropic-chat",
    "anthropic-chat-completions",
    "sglang-generate",
    "overbench-openai",
    "overbench-local-chat",
    "overbench-anthropic",
    "azure-openai-chat-completions",
    "litellm",
    "litellm-chat",
    "litellm-chat-completions",
    *UNSEEDED_API_TYPES,
)
"""Our own among them; all other types load the model themselves."""
