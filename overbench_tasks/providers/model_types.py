"""lm-eval's model types that ask a server, ours among them. To add one: its entry here.

A new type of ours is also a class in :mod:`overbench_tasks.providers.backends`. lm-eval's registry of model
types, ``overbench doctor``, the warnings of a run, seeds and costs of campaigns and refreshes read this.
Nothing of weight is imported here: it is read when lm-eval lists its model types, in every run.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class OurType(NamedTuple):
    """A type of ours, which keeps what a provider says of a reply it withheld.

    Attributes:
        name: for ``--model``.
        place: the class, which lm-eval imports when it is asked for.
        instead_of: lm-eval's class that takes the same arguments and drops what the provider says.
    """

    name: str
    place: str
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
"""lm-eval's class -> the type of ours to take instead, the first that fits; ``TemplateAPI`` is the parent of
all of its API classes."""

UNSEEDED_API_TYPES: Final = ("gguf", "ggml", "textsynth", "watsonx_llm")
"""Those that take no argument ``seed``."""
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
