"""lm-eval's model types that ask a server, ours among them. To add a type, add its entry here.

A new type of ours is also a class in :mod:`overbench_tasks.providers.backends`. lm-eval's registry of model
types, ``overbench doctor``, the warnings of a run, and the seeds and costs of campaigns and refreshes read
this list. Every run imports this module, so it imports nothing slow.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class OurType(NamedTuple):
    """A type of ours. It keeps what a provider says of a reply that it withheld.

    Attributes:
        name: for ``--model``.
        target: the class as ``module:name``, which lm-eval imports when a run names the type.
        instead_of: lm-eval's class that takes the same arguments and drops what the provider says.
    """

    name: str
    target: str
    instead_of: str


OUR_TYPES: Final = (
    OurType(
        "overbench-openai",
        "overbench_tasks.providers.backends:OverbenchOpenAI",
        instead_of="OpenAIChatCompletion",
    ),
    OurType(
        "overbench-local-chat",
        "overbench_tasks.providers.backends:OverbenchLocalChat",
        instead_of="LocalChatCompletion",
    ),
    OurType(
        "overbench-anthropic",
        "overbench_tasks.providers.backends:OverbenchAnthropic",
        instead_of="AnthropicChat",
    ),
)
KEEPS_BLOCKS: Final = {
    **{kind.instead_of: kind.name for kind in OUR_TYPES},
    "TemplateAPI": "overbench-local-chat",
}
"""lm-eval's class -> the type of ours to use instead; the first class that fits counts."""

UNSEEDED_API_TYPES: Final = ("gguf", "ggml", "textsynth", "watsonx_llm")
"""Model types that take no argument ``seed``."""
API_TYPES: Final = (
    *(kind.name for kind in OUR_TYPES),
    "openai-completions",
    "openai-chat-completions",
    "local-completions",
    "local-chat-completions",
    "anthropic-completions",
    "anthropic-chat",
    "anthropic-chat-completions",
    "sglang-generate",
    "azure-openai-chat-completions",
    "litellm",
    "litellm-chat",
    "litellm-chat-completions",
    *UNSEEDED_API_TYPES,
)
"""All other types load the model themselves."""
