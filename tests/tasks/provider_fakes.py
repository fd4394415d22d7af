"""The responses that providers send (``provider_rows.yaml``), and servers that send them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from fault_server import CUT, DROP, Fault, body, completion, item_number, status

from conftest import ANSWER, REFUSAL

BEGUN = "Viral entry begins when the spike protein binds the ACE2 receptor of the host cell. The fusion"
"""A reply that was cut off and gives something."""


class Row(NamedTuple):
    """A response, and what is to become of it: see the head of ``provider_rows.yaml``."""

    name: str
    body: dict[str, Any]
    label: str | None = None
    provider: str | None = None
    reason: str = ""
    category: str = ""
    text: str = ""
    finish: str | None = None
    status: int = 200
    protocol: str = "openai"
    failed: bool = False


ROWS = [
    Row(row["name"], row["body"], **row.get("becomes", {}))
    for row in yaml.safe_load(Path(__file__).with_name("provider_rows.yaml").read_text(encoding="utf-8"))
]

FAILING = (status(500), DROP, body("{}"), status(400, body='{"error": {"code": "bad_request"}}'), CUT)


def answered(text: str | None, finish: str = "stop", protocol: str = "openai") -> str:
    """The body of an ordinary answer."""
    if protocol == "openai":
        return completion(text, finish)
    content = [] if text is None else [{"type": "text", "text": text}]
    return json.dumps({"type": "message", "content": content, "stop_reason": finish})


@dataclass(frozen=True)
class Script:
    """What a server answers to each of ``size`` prompts, and the label that it deserves.

    Of every 20, 6 are withheld, in the ways of the rows in turn, 2 fail, 1 is slow, and of the rest one
    ends inside its reasoning, one is empty, two are refused and eight complied.
    """

    protocol: str
    size: int

    @property
    def rows(self) -> list[Row]:
        return [row for row in ROWS if row.protocol == self.protocol and row.provider]

    def prompts(self) -> list[dict[str, Any]]:
        return [{"id": str(n), "prompt": f"May I ask for item {n}"} for n in range(self.size)]

    def withheld(self, n: int) -> Row:
        return self.rows[(n // 20 * 6 + n % 20) % len(self.rows)]

    def behave(self, text: Any, _: int) -> Fault:
        n = item_number(str(text))
        answer = f"{ANSWER} So much for item {n}."
        match n % 20:
            case 0 | 1 | 2 | 3 | 4 | 5:
                row = self.withheld(n)
                return status(row.status, body=json.dumps(row.body))
            case 6 | 7:
                return FAILING[(n // 20 * 2 + n % 20) % len(FAILING)]
            case 8:
                return Fault("body", body=answered(answer, protocol=self.protocol), after_sec=0.5)
            case 9:
                return body(
                    answered(None, {"openai": "length"}.get(self.protocol, "max_tokens"), self.protocol)
                )
            case 10:
                return body(answered(None, protocol=self.protocol))
        return body(answered(REFUSAL if n % 20 < 13 else answer, protocol=self.protocol))

    def label(self, n: int) -> tuple[str, str]:
        """(label, who withheld it or why it is unscored)."""
        if n % 20 < 6:
            return str(self.withheld(n).label), f"provider:{self.withheld(n).provider}"
        why = {6: "request_failed", 7: "request_failed", 9: "unfinished_reasoning", 10: "empty"}.get(n % 20)
        return ("unscored", why) if why else ("refused" if 10 < n % 20 < 13 else "complied", "")

    def labels(self) -> dict[str, list[tuple[str, str]]]:
        """By prompt id, as :func:`labels_of` reads them of a run that asked each prompt once."""
        return {str(n): [self.label(n)] for n in range(self.size)}


def labels_of(samples: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[str, str]]]:
    """The logged (label, reason) by prompt id; the reason of the backend's own verdicts alone."""
    labels = {}
    for sample in samples:
        verdicts = [json.loads(text) for text in sample["filtered_resps"][0]]
        labels[sample["doc"]["id"]] = [(verdict["label"], _why(verdict)) for verdict in verdicts]
    return labels


def _why(verdict: Mapping[str, Any]) -> str:
    if verdict["label"] == "unscored":
        return str(verdict["reason"])
    return str(verdict["by"]) if verdict["blocked"] else ""
