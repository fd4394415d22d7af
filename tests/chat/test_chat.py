"""The chat client against an endpoint that fails: every request accounted for, nothing paid for twice."""

from __future__ import annotations

import _thread
import asyncio
import hashlib
import json
import logging
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fault_server import (
    CUT,
    DROP,
    STALL,
    Fault,
    FaultServer,
    body,
    completion,
    count_by_item,
    fault_server,
    item_number,
    status,
)
from pydantic import ValidationError

from overbench_tasks.chat.cache import Failure, JudgeCache
from overbench_tasks.chat.chat import NOT_ASKED, Chat, Outcome, Pace
from overbench_tasks.chat.client import Request
from overbench_tasks.chat.endpoint import EndpointSettings, derived_seed, estimated_tokens
from overbench_tasks.chat.reply_cache import ChatError, Reply

KEY = "sk-a-key-that-must-not-show"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def settings(server: FaultServer, **more: Any) -> EndpointSettings:
    return EndpointSettings(**({"base_url": server.url, "backoff_sec": 0.01, "timeout_sec": 5.0} | more))


def chat(server: FaultServer, folder: Path, **more: Any) -> Chat:
    return Chat(settings(server, **more), folder / "chat.sqlite3")


def requests(server: FaultServer, numbers: Iterator[int] | range | list[int]) -> list[Request]:
    return [settings(server).request([{"role": "user", "content": f"item {n}"}]) for n in numbers]


def say(text: str, _: int = 1) -> str:
    return f"reply {item_number(text)}"


def texts(outcomes: list[Outcome]) -> list[str]:
    return [o.text if isinstance(o, Reply) else f"! {o.detail}" for o in outcomes]


class TestAsk:
    def test_replies_come_in_the_order_of_the_requests_and_equal_ones_are_sent_once(
        self, tmp_path: Path
    ) -> None:
        numbers = [3, 1, 3, 2, 1, 0]
        with fault_server(say, latency_sec=0.01) as server:
            outcomes = chat(server, tmp_path).ask(requests(server, numbers))
            assert texts(outcomes) == [f"reply {n}" for n in numbers]
            assert count_by_item(server) == {0: 1, 1: 1, 2: 1, 3: 1}
            cached = [o.cached for o in outcomes if isinstance(o, Reply)]
            assert cached == [False, False, True, False, True, False]

            again = chat(server, tmp_path)
            assert again.cached(requests(server, range(9))) == 4
            outcomes = again.ask(requests(server, numbers))
            assert texts(outcomes) == [f"reply {n}" for n in numbers]
            assert all(isinstance(o, Reply) and o.cached for o in outcomes)
            assert len(server.asked) == 4

    def test_nothing_to_ask_asks_nothing(self, tmp_path: Path) -> None:
        with fault_server(say) as server:
            assert chat(server, tmp_path).ask([]) == []
            assert server.headers == []

    def test_what_the_reply_was_like_is_kept(self, tmp_path: Path) -> None:
        replies = {
            0: completion("cut", "length"),
            1: completion(None, "content_filter"),
            2: completion(None, refusal="I will not."),
            3: completion(None, "length"),
            4: completion("half a pair: \ud83d"),
        }
        expected = [
            ("cut", "length"),
            ("", "declined"),
            ("I will not.", "declined"),
            ("", "length"),
            ("half a pair: ?", "stop"),
        ]
        with fault_server(lambda text, _: body(replies[item_number(text)])) as server:
            for cached in (False, True):
                outcomes = chat(server, tmp_path).ask(requests(server, range(5)))
                assert outcomes == [Reply(t, finish, 100, 4, cached) for t, finish in expected]
            assert len(server.asked) == 5

    def test_outcomes_are_reported_in_order_in_the_callers_thread(self, tmp_path: Path) -> None:
        seen: list[tuple[int, str]] = []

        def note(index: int, outcome: Outcome) -> None:
            assert threading.current_thread() is threading.main_thread()
            seen.append((index, texts([outcome])[0]))

        def behave(text: str, nth: int) -> str | Fault:
            return status(500) if nth == 1 and item_number(text) % 3 == 0 else say(text)

        with fault_server(behave) as server:
            chat(server, tmp_path).ask(requests(server, [5, 9, 9]))
            chat(server, tmp_path).ask(requests(server, range(20)), on_outcome=note)
        assert seen == [(n, f"reply {n}") for n in range(20)]

    def test_an_error_of_the_caller_ends_the_asking_and_loses_nothing(self, tmp_path: Path) -> None:
        def fail(index: int, _: Outcome) -> None:
            if index == 10:
                raise OSError("no space left")

        with fault_server(say, latency_sec=0.01) as server:
            with pytest.raises(OSError, match="no space left"):
                chat(server, tmp_path, concurrency=2).ask(requests(server, range(150)), on_outcome=fail)
            asked = len(server.asked)
            assert asked < 150
            chat(server, tmp_path).ask(requests(server, range(150)))
            assert len(server.asked) <= 150 + 2

    def test_it_works_where_an_event_loop_runs(self, tmp_path: Path) -> None:
        async def notebook_cell() -> list[Outcome]:
            return chat(server, tmp_path).ask(requests(server, range(3)))

        with fault_server(say) as server:
            assert texts(asyncio.run(notebook_cell())) == ["reply 0", "reply 1", "reply 2"]

    @pytest.mark.parametrize("concurrency", [1, 5])
    def test_requests_in_flight_stay_within_the_setting(self, concurrency: int, tmp_path: Path) -> None:
        with fault_server(say, latency_sec=0.02) as server:
            chat(server, tmp_path, concurrency=concurrency).ask(requests(server, range(20)))
            assert server.max_in_flight == concurrency

    def test_should_stop_sends_no_more(self, tmp_path: Path) -> None:
        with fault_server(say) as server:
            outcomes = chat(server, tmp_path, concurrency=1).ask(
                requests(server, range(20)), should_stop=lambda: len(server.asked) >= 5
            )
            assert texts(outcomes) == [f"reply {n}" for n in range(5)] + [f"! {NOT_ASKED}"] * 15
            assert len(server.asked) == 5

    def test_the_key_goes_to_the_endpoint_and_a_placeholder_where_there_is_none(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with fault_server(say) as server:
            chat(server, tmp_path).ask(requests(server, [0]))
            monkeypatch.delenv("OPENAI_API_KEY")
            chat(server, tmp_path).ask(requests(server, [1]))
            monkeypatch.setenv("OTHER_KEY", "sk-other")
            chat(server, tmp_path, api_key_variable="OTHER_KEY").ask(requests(server, [2]))
            sent = [headers["Authorization"] for headers in server.headers]
        assert sent == [f"Bearer {KEY}", "Bearer none", "Bearer sk-other"]


PASSING = {
    "429": status(429),
    "429, seconds": status(429, "0.05"),
    "500": status(500),
    "503, HTML": status(503, body="<html>reply 1</html>"),
    "dropped": DROP,
    "dropped in the body": CUT,
    "truncated JSON": body(completion("reply 1")[:-20]),
    "no JSON": body("reply 1"),
    "no choices": body('{"choices": []}'),
    "nesting without end": body("[" * 100_000),
}
FOR_GOOD = (status(500), DROP, CUT, body('{"choices": ['), status(429, "0"))


class TestFaults:
    @pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
    def test_what_may_pass_is_asked_again(self, fault: Fault, tmp_path: Path) -> None:
        with fault_server(lambda text, nth: fault if nth == 1 else say(text)) as server:
            outcomes = chat(server, tmp_path).ask(requests(server, range(2)))
            assert texts(outcomes) == ["reply 0", "reply 1"]
            assert set(count_by_item(server).values()) == {2}

    def test_a_time_out_may_pass(self, tmp_path: Path) -> None:
        def behave(text: str, nth: int) -> str | Fault:
            return STALL if nth == 1 or item_number(text) else say(text)

        with fault_server(behave) as server:
            outcomes = chat(server, tmp_path, attempts=2, timeout_sec=0.5).ask(requests(server, [0, 1]))
        assert texts(outcomes) == ["reply 0", "! no answer within 0.5 s (2 attempts)"]

    def test_retry_after_is_honoured(self, tmp_path: Path) -> None:
        with fault_server(lambda text, nth: status(429, "0.4") if nth == 1 else say(text)) as server:
            chat(server, tmp_path).ask(requests(server, [0]))
            assert server.times[1] - server.times[0] >= 0.4

    def test_a_fifth_fails_for_good(self, tmp_path: Path) -> None:
        def behave(text: str, nth: int) -> str | Fault:
            number = item_number(text)
            if number % 5 == 1 or (nth == 1 and number % 5 == 2):
                return FOR_GOOD[number // 5 % len(FOR_GOOD)]
            return say(text)

        with fault_server(behave, latency_sec=0.002) as server:
            first = chat(server, tmp_path, concurrency=7, attempts=2)
            outcomes = first.ask(requests(server, range(100)))
            lost = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Failure)]
            assert lost == list(range(1, 100, 5))
            assert all(texts(outcomes)[n] == f"reply {n}" for n in range(100) if n not in lost)
            assert server.max_in_flight <= 7
            assert first.stopped_because is None

            server.asked.clear()
            server.behave = say
            outcomes = chat(server, tmp_path).ask(requests(server, range(100)))
            assert texts(outcomes) == [f"reply {n}" for n in range(100)]
            assert count_by_item(server) == dict.fromkeys(lost, 1)
        with sqlite3.connect(tmp_path / "chat.sqlite3") as connection:
            assert connection.execute("SELECT count(*) FROM answers").fetchone() == (100,)
            assert connection.execute("SELECT count(*) FROM failures").fetchone() == (20,)

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            (401, "HTTP 401: the key was not accepted; check OPENAI_API_KEY"),
            (403, "HTTP 403: the key in OPENAI_API_KEY may not use this model or endpoint"),
            (404, "HTTP 404: no such model or endpoint; check model (gpt-4o-mini) and base_url"),
        ],
    )
    def test_a_closed_door_ends_the_asking_and_keeps_what_arrived(
        self, code: int, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        def behave(text: str, _: int) -> str | Fault:
            return say(text) if len(server.asked) <= 5 else status(code, body=f'{{"message": "{KEY}"}}')

        caplog.set_level(logging.DEBUG)
        with fault_server(behave) as server:
            asked = chat(server, tmp_path, concurrency=2)
            outcomes = asked.ask(requests(server, range(50)))
            assert len(server.asked) <= 5 + 2
            assert asked.stopped_because == reason
            assert sum(isinstance(outcome, Reply) for outcome in outcomes) == 5
            assert texts(outcomes)[-1] == f"! {NOT_ASKED}: {asked.stopped_because}"
            assert len(outcomes) == 50
        kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert KEY.encode() not in kept and KEY not in caplog.text

    def test_an_outage_is_given_up_and_never_becomes_text(self, tmp_path: Path) -> None:
        with fault_server(lambda *_: status(502, body="reply 1")) as server:
            asked = chat(server, tmp_path, concurrency=8, attempts=1)
            outcomes = asked.ask(requests(server, range(200)))
            assert all(isinstance(outcome, Failure) for outcome in outcomes)
            assert len(server.asked) <= 32 + 8
            assert asked.stopped_because is not None and "32 requests in a row" in asked.stopped_because

    def test_a_bad_request_concerns_itself_alone(self, tmp_path: Path) -> None:
        def behave(text: str, _: int) -> str | Fault:
            return status(400, body=f"too long, {KEY}") if item_number(text) == 1 else say(text)

        with fault_server(behave) as server:
            outcomes = chat(server, tmp_path).ask(requests(server, range(3)))
        assert texts(outcomes) == ["reply 0", "! HTTP 400: too long, ***", "reply 2"]

    def test_a_redirect_is_not_followed(self, tmp_path: Path) -> None:
        with fault_server(lambda *_: status(307)) as server:
            (outcome,) = chat(server, tmp_path).ask(requests(server, [0]))
            assert isinstance(outcome, Failure) and "307" in outcome.detail
            assert len(server.asked) == 1

    def test_replies_that_cannot_be_kept_are_not_paid_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(JudgeCache, "add_answer", full)
        with fault_server(say) as server:
            with pytest.raises(ChatError, match=r"can't be kept in .*disk is full.*run again"):
                chat(server, tmp_path, concurrency=2).ask(requests(server, range(50)))
            assert len(server.asked) <= 4

    def test_ctrl_c_keeps_what_arrived(self, tmp_path: Path) -> None:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)

        def behave(text: str, _: int) -> str:
            if len(server.asked) == 20:
                _thread.interrupt_main()
            return say(text)

        try:
            with fault_server(behave, latency_sec=0.02) as server:
                with pytest.raises(KeyboardInterrupt):
                    chat(server, tmp_path, concurrency=2).ask(requests(server, range(100)))
                assert len(server.asked) < 100
                server.behave = say
                outcomes = chat(server, tmp_path).ask(requests(server, range(100)))
                assert texts(outcomes) == [f"reply {n}" for n in range(100)]
                assert len(server.asked) <= 100 + 2
        finally:
            signal.signal(signal.SIGINT, before)


class TestPace:
    def test_without_a_limit_nobody_waits(self) -> None:
        pace = Pace(None)
        assert [pace.reserve(1000, now=5.0) for _ in range(3)] == [0.0, 0.0, 0.0]

    def test_costs_are_spread_over_the_minute(self) -> None:
        pace = Pace(120)  # half a second each
        assert [pace.reserve(1, now=10.0) for _ in range(4)] == [0.0, 0.5, 1.0, 1.5]
        assert pace.reserve(4, now=11.5) == 0.5  # free at 12, then taken until 14
        assert pace.reserve(1, now=13.0) == 1.0
        assert pace.reserve(1, now=60.0) == 0.0  # what was not used is not saved up
        assert pace.reserve(1, now=60.0) == 0.5

    def test_both_limits_reach_the_endpoint(self, tmp_path: Path) -> None:
        with fault_server(say) as server:
            started = time.monotonic()
            chat(server, tmp_path, requests_per_minute=600).ask(requests(server, range(4)))
            assert server.times[-1] - started >= 0.3  # three waits of 60 s / 600
            started = time.monotonic()
            per_request = 256 + estimated_tokens(requests(server, [4])[0].data.decode())
            chat(server, tmp_path, tokens_per_minute=600 * per_request).ask(requests(server, range(4, 8)))
            assert server.times[-1] - started >= 0.3

    def test_a_stop_wakes_those_who_wait_for_their_turn(self, tmp_path: Path) -> None:
        with fault_server(lambda *_: status(401)) as server:
            outcomes = chat(server, tmp_path, requests_per_minute=0.1).ask(requests(server, range(5)))
            assert len(server.asked) == 1
            assert [o.detail.startswith(NOT_ASKED) for o in outcomes if isinstance(o, Failure)] == (
                [False] + [True] * 4
            )


class TestSettings:
    def test_a_request_is_named_by_its_url_and_body(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1/")
        request = EndpointSettings(max_tokens=9).request([{"role": "user", "content": "Hi"}], seed=3)
        sent = json.loads(request.data)
        assert sent == {
            "model": "gpt-4o-mini",
            "messages": [{"role": "user", "content": "Hi"}],
            "max_tokens": 9,
            "seed": 3,
        }
        plain = b"http://localhost:1/v1/chat/completions\n" + request.data
        assert request.key == hashlib.sha256(plain).hexdigest()
        for other in ({"base_url": "http://localhost:2/v1"}, {"model": "m"}, {"extra_body": {"top_k": 5}}):
            changed = EndpointSettings(max_tokens=9, **other)  # type: ignore[arg-type]
            assert changed.request([{"role": "user", "content": "Hi"}], seed=3).key != request.key

    def test_extra_body_adds_and_removes(self) -> None:
        made = EndpointSettings(extra_body={"max_tokens": None, "max_completion_tokens": 7})
        sent = json.loads(made.request([], temperature=0.0).data)
        assert sent == {
            "model": "gpt-4o-mini",
            "messages": [],
            "temperature": 0.0,
            "max_completion_tokens": 7,
        }

    def test_a_derived_seed_is_stable_and_in_range(self) -> None:
        assert derived_seed(0, "job-1") == derived_seed(0, "job-1") == 175969291
        seeds = {derived_seed(n, job) for n in range(3) for job in ("a", "b", "\ud800")}
        assert len(seeds) == 9 and all(0 <= seed < 2**31 for seed in seeds)
        assert derived_seed(1, "1") != derived_seed(11, "")

    @pytest.mark.parametrize(
        "url",
        [f"https://user:{KEY}@host/v1", f"https://host/v1?api_key={KEY}", f"https://host/v1#{KEY}", KEY],
    )
    def test_a_url_with_a_key_in_it_is_rejected_and_not_repeated(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(ValidationError, match=r"expected a URL (without user|such as)") as caught:
            EndpointSettings(base_url=url)
        assert KEY not in str(caught.value)
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        with pytest.raises(ChatError, match=r"OPENAI_BASE_URL can't be used: expected a URL") as raised:
            EndpointSettings().url()
        assert KEY not in str(raised.value)

    def test_the_key_is_no_setting(self) -> None:
        with pytest.raises(ValidationError, match="api_key") as caught:
            EndpointSettings(api_key=KEY)  # type: ignore[call-arg]
        assert KEY not in str(caught.value)
        with pytest.raises(ValidationError, match="api_key_variable") as caught:
            EndpointSettings(api_key_variable=KEY)
        assert KEY not in str(caught.value)

    def test_a_remote_endpoint_needs_a_key_that_can_be_sent(self) -> None:
        remote = EndpointSettings()
        assert EndpointSettings(base_url="http://localhost:8000/v1").key({}) is None
        with pytest.raises(
            ChatError, match=r"gpt-4o-mini at https://api\.openai\.com/v1 needs a key\. Set OPENAI_API"
        ):
            remote.key({})
        with pytest.raises(ChatError, match="OPENAI_API_KEY holds a space"):
            remote.key({"OPENAI_API_KEY": "sk-a\nb"})
        found = remote.key({"OPENAI_API_KEY": f" {KEY}\n"})
        assert found is not None and found.get_secret_value() == KEY and KEY not in repr(found)

    def test_an_estimate_of_tokens(self) -> None:
        assert estimated_tokens("") == 5
        assert estimated_tokens("a" * 401) == 106


class TestCheck:
    def test_a_sound_endpoint_is_asked_for_nothing_that_costs(self, tmp_path: Path) -> None:
        with fault_server(say) as server:
            chat(server, tmp_path).check()
            assert server.asked == []
            assert server.headers[0]["Authorization"] == f"Bearer {KEY}"

    def test_a_model_that_is_not_listed(self, tmp_path: Path) -> None:
        with fault_server(say) as server:
            server.models = ["gpt-4o", "gpt-4o-mini-2024-07-18", "whisper-1"]
            with pytest.raises(
                ChatError,
                match=r"has no model 'gpt-4o-mini'. It lists gpt-4o, gpt-4o-mini-2024-07-18 and others",
            ):
                chat(server, tmp_path).check()

    def test_ollamas_tag_is_understood(self, tmp_path: Path) -> None:
        with fault_server(say) as server:
            server.models = ["llama3:latest"]
            chat(server, tmp_path, model="llama3").check()

    @pytest.mark.parametrize(
        "listing",
        [
            status(404),
            status(500),
            body("[1]"),
            body("no JSON"),
            body('{"data": null}'),
            body('{"data": [1]}'),
        ],
    )
    def test_an_endpoint_that_lists_nothing_is_warned_of(
        self, listing: Fault, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with fault_server(say) as server:
            server.models = listing
            chat(server, tmp_path).check()
        assert "does not list its models" in caplog.text

    def test_a_wrong_key(self, tmp_path: Path) -> None:
        with fault_server(say) as server:
            server.models = status(401, body=KEY)
            with pytest.raises(ChatError, match="the key was not accepted; check OPENAI_API_KEY") as caught:
                chat(server, tmp_path).check()
            assert KEY not in str(caught.value)

    def test_nobody_there(self, tmp_path: Path) -> None:
        with fault_server(say) as server:
            pass
        with pytest.raises(
            ChatError, match=r"No model server answers at http://127.*Start it, or correct base_url"
        ):
            chat(server, tmp_path).check()

    def test_a_cache_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "chat.sqlite3").write_text("this is no database, and long enough to tell " * 20)
        with fault_server(say) as server:
            with pytest.raises(
                ChatError, match=r"Replies can't be kept in .*chat\.sqlite3: file is not a database"
            ):
                chat(server, tmp_path).check()
            with pytest.raises(ChatError, match="Replies can't be kept"):
                chat(server, tmp_path).ask(requests(server, [0]))
            assert Counter(server.asked) == {}
