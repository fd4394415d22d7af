"""What ``overbench aggregate`` can be asked for."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from overbench.release.release_inputs import Which


class AggregateSettings(BaseModel):
    """What makes a release out of its inputs. Kept in ``release.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str | None = Field(None, description="Of the release. Default: that of its folder.")
    version: str = Field("1.0", description="Of the release.")
    license: str | None = Field(
        None,
        pattern=r"^[a-z0-9]+([.-][a-z0-9]+)*$",
        description="Of the release, by the hub's id (cc-by-4.0, mit, other); in the card. None: not said.",
    )
    prompts: Which = Field(
        "accepted",
        description="Of a refresh run, every prompt that passed its gates (the fair base of a rate), or only "
        "the verified ones, which its target refuses (as in the paper).",
    )
    min_rejections: int = Field(
        5,
        ge=1,
        description="OVERBENCH-HARD: refused by so many different checkpoints at least (the paper: 5 "
        "models); with min_checkpoints, by so many targets.",
    )
    min_checkpoints: int | None = Field(
        None,
        ge=1,
        description="OVERBENCH-HARD: if fewer different checkpoints than min_rejections will do, how many. "
        "Several configurations of one checkpoint then count as several targets.",
    )
    hard_targets: tuple[str, ...] = Field(
        (),
        description="NAME[,NAME]: the targets whose refusals choose OVERBENCH-HARD, or all. Default: those "
        "without a system instruction, since following one that orders refusal is no over-refusal.",
    )
    refused_only: bool = Field(
        False,
        description="Leave out prompts that every target (with any reply) answered and none refused. An open "
        "cell keeps a prompt: a missing reply is no answer.",
    )
    near_duplicates: float = Field(
        0.8,
        gt=0,
        le=1,
        description="Jaccard similarity from which two prompts are near duplicates, as in the novelty gate; "
        "1 keeps all but those that differ in the frame's words alone.",
    )
    aliases: tuple[str, ...] = Field(
        (), description="'LONG NAME=short name' of a target, or '...=short@checkpoint'."
    )
    about: str | None = Field(None, description="Markdown for the card, trusted: how the prompts were made.")
    relabel: bool = Field(False, description="Label all replies anew, by today's rules.")


class EngineSettings(BaseModel):
    """How much of the machine to use; the release does not depend on it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory_limit: str = Field("2GB", description="Of the engine; more is spilled to disk.")
    threads: int | None = Field(
        None, ge=1, description="Of the engine, and processes to label anew. Default: all cores."
    )
