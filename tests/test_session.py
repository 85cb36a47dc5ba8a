"""A conversation that grows: the same ids as all of it at once, for the price of what is new."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
from builders import (
    EOS,
    assistant,
    call,
    calling,
    developer,
    function,
    reminder,
    result,
    system,
    user,
)
from dsv4.tokens import Session, Tokenizer
from dsv4.tokens.prefix import DROPPED, INSTEAD, KEPT, ORDER, TOOLS, VANISHED
from strategies import dialects, messages, options

Ids = Any  # text -> list[int]


def grown(tokenizer: Tokenizer, conversation: list[Any], **chosen: Any) -> Session:
    """A session that was asked for its ids after every message, and gave the right ones."""
    session = Session(tokenizer, **chosen)
    for n, message in enumerate(conversation, 1):
        session.append(message)
        whole = tokenizer.encode(dsv4.encode(conversation[:n], **chosen))
        assert session.prompt_ids() == whole
    return session


def whole_ids(tokenizer: Tokenizer, conversation: list[Any], chosen: Any) -> list[int]:
    return tokenizer.encode(dsv4.encode(conversation, **chosen))


def ids_or_problem(encode: Callable[[], list[int]]) -> list[int] | str:
    try:
        return encode()
    except dsv4.EncodeError as error:
        return str(error)


class TestEquality:
    @given(data=st.data())
    def test_at_random(self, data: st.DataObject, v4_1_file: str) -> None:
        tokenizer = Tokenizer.load(v4_1_file)
        chosen = data.draw(dialects.flatmap(options))
        if data.draw(st.booleans()):
            chosen["tools"] = [function("f")]
        conversation = data.draw(st.lists(messages, min_size=1, max_size=12))
        session, before = Session(tokenizer, **chosen), []
        for n, message in enumerate(conversation, 1):
            session.append(message)
            if n < len(conversation) and data.draw(st.booleans()):
                continue
            whole = ids_or_problem(partial(whole_ids, tokenizer, conversation[:n], chosen))
            assert ids_or_problem(session.prompt_ids) == whole
            if isinstance(whole, str):
                return
            self.check_rewritten(session, before, whole)
            before = whole

    def check_rewritten(self, session: Session, before: list[int], now: list[int]) -> None:
        if now[: len(before)] == before:
            assert session.rewritten is None
        else:
            assert session.rewritten is not None
            token = session.rewritten.token
            assert now[:token] == before[:token]
            assert now[token : token + 1] != before[token : token + 1]

    @given(conversation=st.lists(messages, min_size=1, max_size=6), chosen=options("v4"))
    def test_with_the_real_vocabulary(
        self, conversation: list[Any], chosen: Any, tokenizer: Tokenizer
    ) -> None:
        grown(tokenizer, conversation, **chosen)

    @pytest.mark.parametrize(
        "conversation",
        [
            # results, out of order, whose calls are not in the message before
            [
                *(user(), calling(call(id="a"), call(id="b")), assistant()),
                *(result("2", "b"), result("1", "a"), calling(call(id="c")), result("3", "c")),
            ],
            # a developer turn vanishes and leaves its neighbours to each other
            [user(), developer(), assistant("", reasoning_content="r"), user(), assistant()],
            [system("a"), developer("d"), system("b"), user(), assistant(), user()],
            # a task, its output, and a turn that does not join
            [user(task="query"), user("more"), assistant("q"), user(), assistant()],
            # tools that come late
            [user(), assistant(reasoning_content="r"), user(), system(tools=[function()]), user()],
        ],
    )
    @pytest.mark.parametrize("thinking", [True, False])
    def test_hard_ones(self, conversation: list[Any], thinking: bool, tokenizer: Tokenizer) -> None:
        grown(tokenizer, conversation, thinking=thinking)

    def test_a_system_message_that_comes_late_takes_the_tools(self, tokenizer: Tokenizer) -> None:
        turns = [user(), assistant(), user(), system(), user(), assistant(), user()]
        grown(tokenizer, turns, tools=[function()])
        grown(tokenizer, turns, response_format={"type": "json_object"})

    def test_tools_from_an_iterator(self, tokenizer: Tokenizer) -> None:
        session = Session(tokenizer, tools=iter([function()]))
        for message in (user(), assistant(), system()):
            session.append(message)
            session.prompt_ids()
        whole = dsv4.encode(session.messages, tools=[function()])
        assert session.prompt_ids() == tokenizer.encode(whole)

    def test_what_parsing_gave(self, tokenizer: Tokenizer) -> None:
        session = Session(tokenizer)
        session.append(user())
        session.append(dsv4.parse(f"r</think>Hello{EOS}"))
        assert session.prompt_ids() == tokenizer.encode(
            dsv4.encode([user(), assistant(reasoning_content="r")])
        )

    def test_nothing_yet(self, tokenizer: Tokenizer) -> None:
        assert Session(tokenizer).prompt_ids() == []

    def test_ids_may_be_changed(self, tokenizer: Tokenizer) -> None:
        session = grown(tokenizer, [user(), assistant(), user()])
        ids = session.prompt_ids()
        session.prompt_ids().clear()
        assert session.prompt_ids() == ids


class TestCost:
    def encoded_messages(
        self, tokenizer: Tokenizer, turns: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> list[int]:
        """How many messages were encoded at each turn."""
        counts: list[int] = []

        encode = dsv4.Request.encode

        def counting(request: dsv4.Request) -> dsv4.Prompt:
            counts.append(len(list(request.messages)))
            return encode(request)

        monkeypatch.setattr(dsv4.Request, "encode", counting)
        session = Session(tokenizer)
        for message in turns:
            session.append(message)
            session.prompt_ids()
        return counts

    @pytest.mark.parametrize(
        "round",
        [
            [user(), assistant(reasoning_content="r")],
            [calling(call(id="a")), result(of="a")],
            [reminder(), user(), assistant(), assistant()],
            [user(task="query"), assistant()],
        ],
    )
    def test_does_not_grow(
        self, round: list[Any], tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        counts = self.encoded_messages(tokenizer, [user(), *round * 30], monkeypatch)
        assert max(counts) <= 2 * len(round) + 1

    def test_asking_twice_costs_once(
        self, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = grown(tokenizer, [user()])
        monkeypatch.setattr(dsv4.Request, "encode", None)
        session.prompt_ids()


class TestRewritten:
    @pytest.mark.parametrize(
        ("before", "message", "chosen", "at", "changed", "cause"),
        [
            ([user(), assistant(reasoning_content="r")], user("b"), {}, "<think>", 1, DROPPED),
            ([user(), user("b")], user("c"), {}, "<｜Assistant｜>", 2, INSTEAD),
            ([user(task="query")], user("c"), {}, "<｜query｜>", 0, INSTEAD),
            ([user(), developer(), assistant()], user("b"), {}, "<｜User｜>", 1, VANISHED),
            (
                [user(), assistant(reasoning_content="r"), user("b")],
                system(tools=[function()]),
                {},
                "</think>",
                1,
                KEPT,
            ),
            (
                [user(), calling(call(id="a"), call(id="b")), result("2", "b")],
                result("1", "a"),
                {"tools": [function()]},
                "2",
                2,
                ORDER,
            ),
            ([user(), assistant()], system(), {"tools": [function()]}, "\n\n", 0, TOOLS),
        ],
    )
    def test_where_and_why(
        self,
        before: list[Any],
        message: Any,
        chosen: Any,
        at: str,
        changed: int,
        cause: str,
        tokenizer: Tokenizer,
    ) -> None:
        session = grown(tokenizer, before, **chosen)
        ids = session.prompt_ids()
        session.append(message)
        session.prompt_ids()
        assert session.rewritten is not None
        assert session.rewritten.cause == cause
        assert tokenizer.decode(ids[session.rewritten.token :]).startswith(at)
        assert session.rewritten.message == changed

    @pytest.mark.parametrize("message", [assistant(), reminder()])
    def test_what_goes_on(self, message: Any, tokenizer: Tokenizer) -> None:
        assert grown(tokenizer, [system(), user(), message]).rewritten is None

    def test_is_of_the_last_call_alone(self, tokenizer: Tokenizer) -> None:
        session = grown(tokenizer, [user(), user("b")])
        assert session.rewritten is not None
        session.append(assistant())
        session.prompt_ids()
        assert session.rewritten is None

    def test_compares_with_what_was_given_last(self, tokenizer: Tokenizer) -> None:
        session = grown(tokenizer, [user(), assistant(reasoning_content="r")])
        session.append(user("b"))
        session.append(assistant("c"))
        session.prompt_ids()
        assert session.rewritten is not None
        assert session.rewritten[:2] == (4, 1)


def otherwise(tokenizer: Tokenizer, text: str) -> list[int]:
    """Ids of a text that are not the ones it is encoded to: letter by letter."""
    return [id for letter in text for id in tokenizer.encode_text(letter)]


class TestSampled:
    def test_kept_as_sampled(self, tokenizer: Tokenizer) -> None:
        session = grown(tokenizer, [user()])
        asked = session.prompt_ids()
        sampled = [*otherwise(tokenizer, "Hmm"), 128822, *otherwise(tokenizer, "Hello"), 1]
        message = session.append_sampled(sampled)
        assert (message.reasoning, message.content) == ("Hmm", "Hello")
        assert session.messages[1] == assistant(reasoning_content="Hmm")
        assert session.prompt_ids() == asked + sampled
        assert session.rewritten is None

    def test_reasoning_is_dropped_and_the_answer_kept(self, tokenizer: Tokenizer) -> None:
        session = grown(tokenizer, [user()])
        answer = [*otherwise(tokenizer, "Hello"), 1]
        session.append_sampled([*otherwise(tokenizer, "Hmm"), 128822, *answer])
        session.append(user("b"))
        ids = session.prompt_ids()
        canonical = dsv4.encode([user(), assistant(), user("b")])
        assert tokenizer.decode(ids) == str(canonical)
        assert ids != tokenizer.encode(canonical)
        assert ids[5 : 5 + len(answer)] == answer
        assert session.rewritten == (4, 1, "header", DROPPED)

    def test_all_is_kept_where_nothing_is_dropped(self, tokenizer: Tokenizer) -> None:
        session = Session(tokenizer, drop_thinking=False)
        expected: list[int] = []
        for n in range(4):
            session.append(user(f"{n}"))
            expected = session.prompt_ids()
            sampled = [*otherwise(tokenizer, "Hmm"), 128822, *otherwise(tokenizer, f"No {n}"), 1]
            session.append_sampled(sampled)
            expected += sampled
            assert session.prompt_ids() == expected
            assert session.rewritten is None

    def test_calls(self, tokenizer: Tokenizer, reference: Ids) -> None:
        session = Session(tokenizer, tools=[function("f")])
        session.append(user())
        prompt = dsv4.encode([user(), calling(call("f"), call("f"))], tools=[function("f")])
        asked = session.prompt_ids()
        message = session.append_sampled(tokenizer.encode(prompt)[len(asked) :])
        assert [made.name for made in message.tool_calls] == ["f", "f"]
        first, second = (made["id"] for made in session.messages[1]["tool_calls"])
        session.append(result("2", second))
        session.append(result("1", first))
        whole = dsv4.encode(session.messages, tools=[function("f")])
        assert session.prompt_ids() == tokenizer.encode(whole)
        assert "<tool_result>1</tool_result>\n\n<tool_result>2" in str(whole)

    def test_tools_of_a_message_are_known(self, tokenizer: Tokenizer, reference: Ids) -> None:
        for declared in ([function("f")], [function("g")]):
            session = grown(tokenizer, [system(tools=declared), user()], thinking=False)
            sampled = reference('<｜DSML｜invoke name="f">\n</｜DSML｜invoke>')
            made = session.append_sampled(sampled).tool_calls
            assert [c.name for c in made] == (["f"] if declared == [function("f")] else [])

    def test_in_chat_mode_the_end_of_thinking_is_no_border(
        self, tokenizer: Tokenizer, reference: Ids
    ) -> None:
        session = grown(tokenizer, [user()], thinking=False)
        asked, sampled = session.prompt_ids(), reference(f"a</think>b{EOS}")
        session.append_sampled(sampled)
        session.append(user())
        assert session.prompt_ids()[: len(asked) + len(sampled)] == asked + sampled

    def test_a_task_is_carried_out_without_thinking(
        self, tokenizer: Tokenizer, reference: Ids
    ) -> None:
        session = grown(tokenizer, [user(task="action")])
        message = session.append_sampled(reference(f"Search{EOS}"))
        assert (message.content, message.reasoning) == ("Search", "")
        assert session.prompt_ids() == tokenizer.encode(dsv4.encode(session.messages))

    def test_behind_text_of_others(self, tokenizer: Tokenizer, reference: Ids) -> None:
        session = grown(tokenizer, [system("Be brief.")], thinking=False)
        sampled = reference(f"\n\nYes{EOS}")
        asked = session.prompt_ids()
        session.append_sampled(sampled)
        assert session.prompt_ids() == asked + sampled

    @given(
        data=st.data(),
        rounds=st.lists(st.tuples(messages, st.text(max_size=5)), max_size=6),
        chosen=options("v4"),
    )
    def test_goes_on_with_the_prompt(
        self, data: st.DataObject, rounds: Any, chosen: Any, tokenizer: Tokenizer
    ) -> None:
        session = Session(tokenizer, **chosen)
        session.append(user())
        for message, text in rounds:
            if message["role"] != "assistant":
                session.append(message)
            asked = session.prompt_ids()
            specials = st.sampled_from([128822, 128825, 1])
            sampled = [*tokenizer.encode_text(text), *data.draw(st.lists(specials, max_size=2))]
            session.append_sampled(sampled)
            assert session.prompt_ids() == asked + sampled
            assert session.rewritten is None
        pickle.loads(pickle.dumps(session))


class TestOpenTurns:
    def test_without_eos_the_turn_is_left_open(self, tokenizer: Tokenizer, reference: Ids) -> None:
        session = grown(tokenizer, [user()], thinking=False)
        asked = session.prompt_ids()
        session.append_sampled(reference("Hel"))
        assert session.messages[1] == assistant("Hel", wo_eos=True)
        assert session.prompt_ids() == asked + reference("Hel")

    def test_what_is_sampled_next_goes_on(self, tokenizer: Tokenizer, reference: Ids) -> None:
        session = grown(tokenizer, [user()])
        asked = session.prompt_ids()
        assert session.append_sampled(reference("Hm")).finish == "length"
        message = session.append_sampled(reference(f"m.</think>Hello{EOS}"))
        assert (message.reasoning, message.content) == ("Hmm.", "Hello")
        assert session.messages == [user(), assistant(reasoning_content="Hmm.")]
        assert session.prompt_ids() == asked + reference("Hm") + reference(f"m.</think>Hello{EOS}")

    @pytest.mark.parametrize("thinking", [True, False])
    def test_a_prefix_of_the_caller_is_continued(
        self, thinking: bool, tokenizer: Tokenizer, reference: Ids
    ) -> None:
        turns = [user(), assistant("Hel", wo_eos=True)]
        session = grown(tokenizer, turns, thinking=thinking)
        asked = session.prompt_ids()
        assert session.append_sampled(reference(f"lo{EOS}")).content == "Hello"
        assert session.messages == [user(), assistant("Hello")]
        assert session.prompt_ids() == asked + reference(f"lo{EOS}")

    def test_reasoning_that_was_cut_is_dropped(self, tokenizer: Tokenizer, reference: Ids) -> None:
        session = grown(tokenizer, [user()])
        session.append_sampled(reference("secret"))
        session.append(user("b"))
        assert "secret" not in tokenizer.decode(session.prompt_ids())
        assert session.prompt_ids() == tokenizer.encode(dsv4.encode(session.messages))

    def test_a_wrong_id_changes_nothing(self, tokenizer: Tokenizer, reference: Ids) -> None:
        session = grown(tokenizer, [user()])
        session.append_sampled(reference("Hm"))
        before = session.messages, session.prompt_ids()
        with pytest.raises(dsv4.OptionError, match="ids: found -4"):
            session.append_sampled([-4])
        assert (session.messages, session.prompt_ids()) == before


class TestWrongInput:
    def test_no_message(self, tokenizer: Tokenizer) -> None:
        with pytest.raises(dsv4.EncodeError, match=r"messages\[0\]: found 4"):
            Session(tokenizer).append(4)

    def test_errors_count_from_the_first_message(self, tokenizer: Tokenizer) -> None:
        session = grown(tokenizer, [user(), assistant(), user(), assistant()])
        session.append(user({"a": 1}))
        with pytest.raises(dsv4.EncodeError, match=r"^messages\[4\]\.content: found"):
            session.prompt_ids()

    def test_context(self, tokenizer: Tokenizer) -> None:
        with pytest.raises(dsv4.OptionError, match=r"context: .* expected earlier messages"):
            Session(tokenizer, context=[user()])

    def test_a_dialect(self, tokenizer: Tokenizer) -> None:
        with pytest.raises(dsv4.OptionError, match="dialect"):
            Session(tokenizer, dialect="v5")


def test_pickling(tokenizer: Tokenizer, reference: Ids) -> None:
    session = grown(tokenizer, [system(), user(), assistant(), user()], tools=[function()])
    session.append_sampled(reference(f"r</think>b{EOS}"))
    other = pickle.loads(pickle.dumps(session))
    for one in (session, other):
        one.append(user("c"))
    assert other.prompt_ids() == session.prompt_ids()
    assert other.rewritten == session.rewritten
    assert other.messages == session.messages
