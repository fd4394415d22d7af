"""Conversations as prompts: what is read, what is refused, and what a model and a labeller get."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overbench_tasks.errors import OverbenchError
from overbench_tasks.prompts.conversations import (
    MAX_CONVERSATION_CHARS,
    Message,
    conversation_id,
    is_plain,
    read_messages,
    request_in_context,
    request_of,
    transcript,
    with_system_instruction,
)

SYSTEM: Message = {"role": "system", "content": "You help the staff of a zoo."}
FIRST: Message = {"role": "user", "content": "What do penguins eat?"}
ANSWER: Message = {"role": "assistant", "content": "Mostly fish."}
LAST: Message = {"role": "user", "content": "And how do we put one down?"}
CONVERSATION = [SYSTEM, FIRST, ANSWER, LAST]

text = st.text(min_size=1, max_size=40).filter(str.strip)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    count = 1 + 2 * draw(st.integers(0, 3))
    turns: list[Message] = [
        {"role": "user" if number % 2 == 0 else "assistant", "content": draw(text)} for number in range(count)
    ]
    return [{"role": "system", "content": draw(text)}, *turns] if draw(st.booleans()) else turns


def test_a_conversation_is_read_as_a_list_and_as_json_text() -> None:
    assert read_messages(CONVERSATION, "row 1") == CONVERSATION
    assert read_messages(json.dumps(CONVERSATION), "row 1") == CONVERSATION


def test_keys_beside_role_and_content_are_left_out() -> None:
    assert read_messages([{**FIRST, "name": "ann"}], "row 1") == [FIRST]


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "at least one message"),
        ("", "no JSON"),
        ("{}", "at least one message"),
        (3, "at least one message"),
        ([SYSTEM], "last message"),
        ([FIRST, ANSWER], "last message"),
        ([ANSWER, FIRST], "message 1 of 'messages' to be the user's"),
        ([FIRST, LAST], "message 2 of 'messages' to be the assistant's"),
        ([FIRST, ANSWER, SYSTEM, LAST], "message 3 of 'messages' to be the user's"),
        ([SYSTEM, SYSTEM, FIRST], "message 2 of 'messages' to be the user's"),
        ([{"role": "tool", "content": "x"}], "one of system, user, assistant, got 'tool'"),
        ([{"role": "user", "content": " \n"}], "text in message 1"),
        ([FIRST, ANSWER, {"role": "user", "content": None}], "text in message 3"),
        ([{"role": "user"}], "'role' and 'content'"),
        (["How?"], "'role' and 'content'"),
        ([{"role": "user", "content": "x" * (MAX_CONVERSATION_CHARS + 1)}], "more than the limit"),
    ],
)
def test_what_is_no_conversation_is_an_error_that_names_the_row(messages: object, problem: str) -> None:
    with pytest.raises(OverbenchError, match=r"^row 7: ") as error:
        read_messages(messages, "row 7")
    assert problem in str(error.value)


def test_the_request_is_the_last_message_and_the_context_comes_behind_it() -> None:
    assert request_of(CONVERSATION) == LAST["content"]
    read = request_in_context(CONVERSATION)
    assert read.startswith(LAST["content"])
    assert all(message["content"] in read for message in CONVERSATION)
    assert request_in_context([FIRST]) == FIRST["content"]


def test_the_operators_instruction_goes_before_the_conversations_own() -> None:
    system, *turns = with_system_instruction(CONVERSATION, "Be brief.")
    assert system == {"role": "system", "content": "Be brief.\n\nYou help the staff of a zoo."}
    assert turns == CONVERSATION[1:]
    assert with_system_instruction([FIRST], "Be brief.") == [
        {"role": "system", "content": "Be brief."},
        FIRST,
    ]
    assert with_system_instruction(CONVERSATION, None) == CONVERSATION


def test_a_base_model_gets_a_transcript_that_ends_where_it_is_to_go_on() -> None:
    assert transcript(CONVERSATION) == (
        "You help the staff of a zoo.\n\nUser: What do penguins eat?\n\nAssistant: Mostly fish.\n\n"
        "User: And how do we put one down?\n\nAssistant:"
    )


@given(conversations())
def test_any_conversation_is_read_and_keeps_its_id_whatever_its_spacing_and_case(
    messages: list[Message],
) -> None:
    assert read_messages(messages, "row") == messages
    assert read_messages(json.dumps(messages), "row") == messages
    spaced: list[Message] = [{**message, "content": f" {message['content']}\n"} for message in messages]
    assert conversation_id(spaced) == conversation_id(messages)
    assert is_plain(messages) == (len(messages) == 1)


def test_who_speaks_is_part_of_a_conversations_identity() -> None:
    ids = {
        conversation_id(messages)
        for messages in (
            CONVERSATION,
            CONVERSATION[1:],
            [LAST],
            [{**SYSTEM, "role": "user"}, *CONVERSATION[2:]],
        )
    }
    assert len(ids) == 4
