"""Native tool calls in a provider's response."""

from __future__ import annotations

import json
from typing import Any

import pytest

from overbench_tasks.chat.provider_shapes import tool_calls_of
from overbench_tasks.providers.model_reply import read_response


def openai(*functions: Any, content: str | None = None) -> dict[str, Any]:
    calls = [{"id": "1", "type": "function", "function": function} for function in functions]
    message = {"content": content, "tool_calls": calls}
    return {"choices": [{"message": message, "finish_reason": "tool_calls"}]}


def test_two_calls_stand_behind_the_text_on_a_line_each() -> None:
    response = openai({"name": "a", "arguments": '{"x": 1}'}, {"name": "b", "arguments": ""}, content="Done.")
    reply = read_response(200, json.dumps(response).encode())
    assert reply == 'Done.\n{"tool": "a", "arguments": {"x": 1}}\n{"tool": "b", "arguments": {}}'


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ({"name": "a", "arguments": "{broken"}, {"tool": "a", "arguments": "{broken"}),
        ({"name": "a", "arguments": None}, {"tool": "a", "arguments": {}}),
        ({"arguments": "[1]"}, {"tool": None, "arguments": [1]}),
    ],
)
def test_what_is_wrong_in_a_call_is_kept(function: dict[str, Any], call: dict[str, Any]) -> None:
    assert tool_calls_of(openai(function)) == [call]


@pytest.mark.parametrize(
    "response", [None, [], {}, {"choices": [{"message": {"tool_calls": "x"}}]}, {"content": "x"}]
)
def test_a_response_without_calls_has_none(response: Any) -> None:
    assert tool_calls_of(response) == []
