"""A conversation that grows: the same ids as all of it at once, for the price of what is new."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsv4
from builders import *
from dsv4 import Request
from dsv4.tokens import Session, Tokenizer, prefix_difference
from dsv4.tokens.prefix_difference import DROPPED, INSTEAD, KEPT, ORDER, TOOLS, VANISHED
from strategies import dialects, messages, options

Ids = Any  # text -> list[int]

_CALL = {"id": "1", "function": {"name": "f", "arguments": "{}"}}
# What may follow a developer's turn: messages that have a place there, and such that have none.
AMONG_DEVELOPERS = (
    *(developer("d"), developer(""), developer("d", tools=[{"name": "f"}]), developer(5)),
    *(user("u"), user("u", task="query"), user([{"type": "text", "text": "u"}]), user(5)),
    *(assistant("a"), assistant("", tool_calls=[_CALL]), assistant("a", wo_eos=True)),
    *(assistant("a", tool_calls=5), assistant(reasoning_content="r"), result("t", of="1")),
    *(system("s"), system("s", tools=[{"name": "f"}]), reminder("r"), {"role": "other"}),
    *(user("u", tools=[{"name": "f"}]), user("\ud800"), developer("\ud800")),
)


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


def has_place_later(before: list[Any], message: Any, chosen: Any) -> bool:
    """Whether a conversation that ends with this message has a prompt once a user turn follows: an
    answer in V3.2, and in V4.1 one with a developer turn, which then vanishes."""
    dialect, role = str(chosen.get("dialect")), message.get("role")
    has_developer = any(each.get("role") == "developer" for each in (*before, message))
    later = has_developer and dialect.startswith("v4.1")
    if (dialect, role) != ("v3.2", "assistant") and not later:
        return False
    try:
        dsv4.encode([*before, message, user("")], **chosen)
    except dsv4.EncodeError:
        return False
    return True


class Growing:
    """A session that is held against the encoder, which gets all messages every time."""

    def __init__(self, tokenizer: Tokenizer, chosen: Any) -> None:
        self.session = Session(tokenizer, **chosen)
        self.tokenizer, self.chosen = tokenizer, chosen
        self.kept: list[Any] = []
        self.asked: list[Any] = []
        self.ids: list[int] = []

    def add(self, message: Any) -> None:
        """What the encoder refuses the session refuses, with the same words, and stays as it is."""
        try:
            dsv4.encode([*self.kept, message], **self.chosen)
        except dsv4.EncodeError as error:
            if not has_place_later(self.kept, message, self.chosen):
                with pytest.raises(dsv4.EncodeError, match=f"^{re.escape(str(error))}$"):
                    self.session.append(message)
                assert self.session.messages == self.kept
                return
        self.session.append(message)
        self.kept.append(message)

    def ask(self) -> None:
        if self.kept == self.asked:
            return
        try:
            now = whole_ids(self.tokenizer, self.kept, self.chosen)
        except dsv4.EncodeError as error:
            with pytest.raises(dsv4.EncodeError, match=f"^{re.escape(str(error))}$"):
                self.session.prompt_ids()
            return
        assert self.session.prompt_ids() == now
        self.check_rewritten(now)
        self.asked, self.ids = list(self.kept), now

    def check_rewritten(self, now: list[int]) -> None:
        found = self.session.rewritten
        if now[: len(self.ids)] == self.ids:
            assert found is None
            return
        assert found is not None
        assert now[: found.token] == self.ids[: found.token]
        assert now[found.token : found.token + 1] != self.ids[found.token : found.token + 1]
        case = Case(self.asked, self.kept, self.chosen, found.message)
        assert TRUTHS[found.cause](case), (found, case)


class Case(NamedTuple):
    """Two conversations of which the second is longer, and the message where their prompts part."""

    before: list[Any]
    now: list[Any]
    chosen: Any
    message: int | None

    @property
    def dialect(self) -> dsv4.Dialect:
        return dsv4.DIALECTS[str(self.chosen.get("dialect", "v4"))]

    def tooled(self, conversation: list[Any]) -> bool:
        """Whether a turn brings tools."""
        keeping = ("system", "developer", "assistant", "latest_reminder")
        return bool(self.chosen.get("tools")) or any(
            message.get("tools") and message["role"] in keeping for message in conversation
        )

    def drops(self, conversation: list[Any]) -> bool:
        if self.dialect.layout == "v3.2":  # never shows old reasoning
            return bool(self.chosen.get("thinking", True))
        both = all(self.chosen.get(name, True) for name in ("thinking", "drop_thinking"))
        return both and not self.tooled(conversation)

    @property
    def asking_roles(self) -> tuple[str, ...]:
        # Where results are part of user turns, and ask as these do.
        in_turns = self.dialect.layout == "v4" and self.dialect.results_ask
        return ("user", "tool", "developer") if in_turns else ("user", "developer")

    def asks_after(self, conversation: list[Any]) -> bool:
        after = len(self.before) - 1 if self.message is None else self.message
        return any(
            message["role"] in self.asking_roles
            or (message["role"] == "system" and self.dialect.systems_ask == "later")
            for message in conversation[after + 1 :]
        )

    def role(self) -> Any:
        assert self.message is not None
        return self.now[self.message]["role"]

    def text(self, conversation: list[Any]) -> str:
        return str(dsv4.encode(conversation, **self.chosen))

    def came_instead(self) -> bool:
        came = [m for m in self.now[len(self.before) :] if m["role"] != "developer"] or [{}]
        asked = dsv4.encode(self.before, **self.chosen).ending.kind in ("think", "answer", "task")
        developers = any(m["role"] == "developer" for m in self.now[len(self.before) :])
        return asked and (developers or came[0].get("role") not in ("assistant", "latest_reminder"))

    def takes_late(self, option: str) -> bool:
        """Whether a system message comes late, to which an option of the request goes."""
        systems = [n for n, message in enumerate(self.now) if message["role"] == "system"]
        return bool(self.chosen.get(option)) and bool(systems) and systems[0] >= len(self.before)


# What must be so where a cause is given, found out without any prompt's pieces.
TRUTHS: dict[str, Callable[[Case], bool]] = {
    prefix_difference.MERGED: lambda c: c.text(c.now).startswith(c.text(c.before)),
    prefix_difference.ENDS: lambda c: c.text(c.before).startswith(c.text(c.now)),
    prefix_difference.DROPPED: lambda c: (
        (c.message is None or c.role() == "assistant")
        and c.drops(c.now)
        and c.asks_after(c.now)
        and not (c.message is not None and c.asks_after(c.before))
    ),
    prefix_difference.KEPT: lambda c: (
        c.tooled(c.now) and c.drops(c.before) and (c.message is None or c.role() == "assistant")
    ),
    prefix_difference.TOOLS: lambda c: c.takes_late("tools"),
    prefix_difference.FORMAT: lambda c: c.takes_late("response_format"),
    prefix_difference.INSTEAD: Case.came_instead,
    prefix_difference.VANISHED: lambda c: (
        c.drops(c.now)
        and any(
            message["role"] == "developer" and Case(*c[:3], n).asks_after(c.now)
            for n, message in enumerate(c.before)
            if not Case(*c[:3], n).asks_after(c.before)
        )
    ),
    prefix_difference.RETURNED: lambda c: (
        c.drops(c.before)
        and c.tooled(c.now)
        and any(message["role"] == "developer" for message in c.before)
    ),
    prefix_difference.ORDER: lambda c: c.role() == "tool",
}


class TestEquality:
    @given(data=st.data())
    def test_at_random(self, data: st.DataObject, v4_1_file: str) -> None:
        tokenizer = Tokenizer.load(v4_1_file)
        chosen = data.draw(dialects.flatmap(options))
        if data.draw(st.booleans()):
            chosen["tools"] = [function("f")]
        growing = Growing(tokenizer, chosen)
        for message in data.draw(st.lists(messages, min_size=1, max_size=12)):
            growing.add(message)
            if data.draw(st.booleans()):
                growing.ask()
        growing.ask()

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
        for message, written in rounds:
            if message["role"] != "assistant":
                session.append(message)
            asked = session.prompt_ids()
            specials = st.sampled_from([128822, 128825, 1])
            sampled = [*tokenizer.encode_text(written), *data.draw(st.lists(specials, max_size=2))]
            session.append_sampled(sampled)
            assert session.prompt_ids() == asked + sampled
            assert session.rewritten is None
        pickle.loads(pickle.dumps(session))


class TestSamples:
    """Rows of training data: what was sampled, each in the context that the model met."""

    def test_an_agent_is_one_row(self, tokenizer: Tokenizer) -> None:
        session = Session(tokenizer, tools=[function("f")])
        session.append(user())
        asked = session.prompt_ids()
        whole = dsv4.encode([user(), calling(call("f"))], tools=[function("f")])
        made = tokenizer.encode(whole)[len(asked) :]
        session.append_sampled(made, [-0.5] * len(made))
        session.append(result("1", session.messages[-1]["tool_calls"][0]["id"]))
        again = session.prompt_ids()
        answer = [*otherwise(tokenizer, "Hm"), 128822, *otherwise(tokenizer, "One"), 1]
        session.append_sampled(answer)
        results = len(again) - len(asked) - len(made)
        (row,) = session.samples()
        assert row.ids == again + answer == session.prompt_ids()
        assert row.mask == [
            *([0] * len(asked) + [1] * len(made)),
            *([0] * results + [1] * len(answer)),
        ]
        assert row.logprobs == [
            *([None] * len(asked) + [-0.5] * len(made)),
            *([None] * results + [None] * len(answer)),
        ]

    def test_a_chat_has_a_row_for_each_turn(self, tokenizer: Tokenizer) -> None:
        """Old reasoning is dropped, so that no prompt holds two turns as they were sampled."""
        session, contexts, turns = Session(tokenizer), [], []
        for n in range(3):
            session.append(user(f"{n}"))
            contexts.append(session.prompt_ids())
            turns.append([*otherwise(tokenizer, "Hm"), 128822, *otherwise(tokenizer, f"{n}"), 1])
            session.append_sampled(turns[-1], [float(n)] * len(turns[-1]))
        rows = session.samples()
        assert len(rows) == 3
        for n, (row, context, turn) in enumerate(zip(rows, contexts, turns, strict=True)):
            assert row.ids == context + turn
            assert row.mask == [0] * len(context) + [1] * len(turn)
            assert row.logprobs == [None] * len(context) + [float(n)] * len(turn)

    def test_what_others_wrote_is_not_trained_on(
        self, tokenizer: Tokenizer, reference: Ids
    ) -> None:
        session = grown(
            tokenizer,
            [user(), assistant("He"), user(), assistant("He", wo_eos=True)],
            thinking=False,
        )
        assert session.samples() == []
        session.append_sampled(reference("llo"))
        session.append_sampled(reference(f"!{EOS}"))
        (row,) = session.samples()
        assert row.ids == session.prompt_ids()
        sampled = len(reference("llo")) + len(reference(f"!{EOS}"))
        assert row.mask == [0] * (len(row.ids) - sampled) + [1] * sampled

    def test_as_many_log_probabilities_as_ids(self, tokenizer: Tokenizer) -> None:
        session = grown(tokenizer, [user()])
        with pytest.raises(dsv4.OptionError, match="logprobs: found 1 for 2 ids, expected one for"):
            session.append_sampled([128822, 1], [-1.0])
        assert (session.messages, session.samples()) == ([user()], [])


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
        with pytest.raises(dsv4.EncodeError, match=r"^messages\[4\]\.content: found"):
            session.append(user({"a": 1}))

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


class TestRefusing:
    """What cannot be encoded is refused, and the session is as it was."""

    @pytest.mark.parametrize(
        ("message", "problem"),
        [
            (user(5), "messages[2].content: found 5"),
            (assistant("a", tool_calls=[{"function": {}}]), "messages[2].tool_calls[0]"),
            ({"role": "nobody", "content": ""}, "messages[2].role: found 'nobody'"),
            ({"content": "a"}, "messages[2].role: found None"),
            (user(task="nothing"), "messages[2].task: found 'nothing'"),
            (user("half \ud83d"), "messages[2].content: found 'half"),
            (developer(""), "messages[2].content: found nothing"),
            (4, "messages[2]: found 4"),
        ],
    )
    def test_a_message(self, message: Any, problem: str, tokenizer: Tokenizer) -> None:
        session = grown(tokenizer, [user("a"), assistant("b")])
        ids = session.prompt_ids()
        with pytest.raises(dsv4.EncodeError, match=f"^{re.escape(problem)}"):
            session.append(message)
        assert session.prompt_ids() == ids
        assert len(session.messages) == 2
        session.append(user("c"))
        whole = tokenizer.encode(dsv4.encode([user("a"), assistant("b"), user("c")]))
        assert session.prompt_ids() == whole

    def test_half_a_character_in_a_dialect_that_settles_nothing(self, tokenizer: Tokenizer) -> None:
        session = grown(tokenizer, [user("a")], dialect="v3.2")
        with pytest.raises(dsv4.EncodeError, match=r"^messages\[1\]\.content: found 'half"):
            session.append(user("half \ud83d"))
        assert session.messages == [user("a")]

    def test_what_has_a_place_only_before_a_user_turn(
        self, tokenizer: Tokenizer, reference: Ids
    ) -> None:
        session = grown(tokenizer, [user("a")], dialect="v3.2")
        session.append_sampled(reference(f"</think>b{EOS}"))
        with pytest.raises(dsv4.EncodeError, match=r"^messages\[1\].* neither reasoning nor calls"):
            session.prompt_ids()
        session.append(user("c"))
        messages = [user("a"), assistant("b"), user("c")]
        assert session.prompt_ids() == tokenizer.encode(dsv4.encode(messages, dialect="v3.2"))

    def test_a_developer_turn_that_vanishes(self, v4_1_file: str) -> None:
        tokenizer = Tokenizer.load(v4_1_file)
        session = Session(tokenizer, Request([user("a"), developer("b")], dialect="v4.1"))
        with pytest.raises(dsv4.EncodeError, match=r"^messages\[1\]\.role: found 'developer'"):
            session.prompt_ids()
        session.append(user("c"))
        messages = [user("a"), developer("b"), user("c")]
        assert session.prompt_ids() == tokenizer.encode(dsv4.encode(messages, dialect="v4.1"))
        session = Session(tokenizer, dialect="v4.1", drop_thinking=False)
        session.append(user("a"))
        with pytest.raises(dsv4.EncodeError, match=r"^messages\[1\]\.role: found 'developer'"):
            session.append(developer("b"))

    def test_a_message_with_tools_keeps_a_developer_turn_that_was_gone(
        self, v4_1_file: str
    ) -> None:
        session = Session(Tokenizer.load(v4_1_file), dialect="v4.1")
        for message in (user("a"), developer("b"), user("c"), assistant("d")):
            session.append(message)
        with pytest.raises(dsv4.EncodeError, match=r"^messages\[1\]\.role: found 'developer'"):
            session.append({"role": "system", "content": "e", "tools": [{"name": "g"}]})

    @given(
        first=st.sampled_from(([], [user("a")], [system("a"), user("b")])),
        rest=st.lists(st.sampled_from(AMONG_DEVELOPERS), max_size=7),
        thinking=st.booleans(),
    )
    def test_developer_turns_are_checked_as_in_the_whole_conversation(
        self, v4_1_file: str, first: list[Any], rest: list[Any], thinking: bool
    ) -> None:
        chosen: Any = {"dialect": "v4.1", "thinking": thinking}
        tokenizer = Tokenizer.load(v4_1_file)
        session = Session(tokenizer, Request(first, **chosen))
        for message in (developer("c"), *rest):
            if not any(m["role"] == "developer" for m in (*session.messages, message)):
                return
            try:
                whole = dsv4.encode([*session.messages, message, user("")], **chosen)
                tokenizer.check_text(whole)
            except dsv4.EncodeError as error:
                with pytest.raises(dsv4.EncodeError, match=f"^{re.escape(str(error))}$"):
                    session.append(message)
            else:
                session.append(message)

    def test_a_developer_turn_does_not_make_later_messages_dearer(
        self, v4_1_file: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = Session(Tokenizer.load(v4_1_file), dialect="v4.1")
        for message in (user("a"), developer("b"), user("c")):
            session.append(message)
        encoded: list[int] = []
        encode = Request.encode

        def counted(request: Request) -> dsv4.Prompt:
            encoded.append(len(list(request.messages)))
            return encode(request)

        monkeypatch.setattr(Request, "encode", counted)
        for n in range(40):
            session.append(user(f"{n}") if n % 2 else assistant(f"{n}"))
        assert encoded == [2] * 40

    def test_what_was_sampled_after_an_open_turn(self, v4_1_file: str) -> None:
        tokenizer = Tokenizer.load(v4_1_file)
        session = grown(tokenizer, [user("a")], thinking=False)
        session.append_sampled(tokenizer.encode_text("b"))
        before = session.messages, session.prompt_ids()
        with pytest.raises(
            dsv4.EncodeError, match=r"^messages\[1\]\.content: found <｜deepseek_image"
        ):
            session.append_sampled(tokenizer.encode_text("<｜deepseek_image｜>"))
        assert (session.messages, session.prompt_ids()) == before
        assert session.append_sampled(tokenizer.encode_text("c")).content == "bc"

    def test_tools_that_are_given_twice(self, tokenizer: Tokenizer) -> None:
        """The same tool again joins the others; another one of its name is refused."""
        session = Session(tokenizer, tools=[function()])
        other = {**function(), "description": "another"}
        with pytest.raises(dsv4.EncodeError, match=r"messages\[0\]\.tools"):
            session.append(system(tools=[other]))
        session.append(system(tools=[function()]))
        assert session.prompt_ids() == tokenizer.encode(dsv4.encode([system()], tools=[function()]))

    @pytest.mark.parametrize(
        ("options", "error", "problem"),
        [
            ({"thinkin": True}, TypeError, "thinkin"),
            ({"thinking": 1}, dsv4.OptionError, "thinking: found 1"),
            ({"effort": "some"}, dsv4.OptionError, "effort: found 'some'"),
            ({"tools": 4}, dsv4.OptionError, "tools: found 4"),
            ({"dialect": "v9"}, dsv4.OptionError, "dialect: found 'v9'"),
            ({"context": [user()]}, dsv4.OptionError, "context: found it"),
        ],
    )
    def test_options(self, options: Any, error: Any, problem: str, tokenizer: Tokenizer) -> None:
        with pytest.raises(error, match=re.escape(problem)):
            Session(tokenizer, **options)


class TestRequests:
    def test_a_request_in_place_of_options(self, tokenizer: Tokenizer) -> None:
        request = dsv4.Request([system(), user("a")], tools=[function()], thinking=False)
        session = Session(tokenizer, request)
        assert session.messages == [system(), user("a")]
        assert session.prompt_ids() == tokenizer.encode(request.encode())

    def test_the_dialect_is_the_tokenizers(self, v4_1_file: str) -> None:
        tokenizer = Tokenizer.load(v4_1_file)
        session = Session(tokenizer)
        session.append(user("a"))
        assert session.prompt_ids() == tokenizer.encode(dsv4.encode([user("a")], dialect="v4.1"))

    def test_what_was_sampled_elsewhere(self, tokenizer: Tokenizer) -> None:
        ids = tokenizer.encode_text("Hel") + tokenizer.encode_text("lo")
        sampled = dsv4.Sampled(assistant("Hello"), ids=[*ids, 1])
        session = Session(tokenizer, thinking=False)
        for message in (user("a"), sampled, user("b")):
            session.append(message)
        whole = dsv4.encode([user("a"), sampled, user("b")], thinking=False)
        assert session.prompt_ids() == tokenizer.encode(whole)


class TestImages:
    @pytest.mark.parametrize("dialect", ["v4-vision", "v4.1"])
    def test_records_in_the_order_of_the_prompt(self, dialect: str, v4_1_file: str) -> None:
        tokenizer = Tokenizer.load(v4_1_file)
        conversation = [
            user([text("a"), image("1.png")]),
            calling(call(id="a"), call(id="b")),
            result([image("3.png")], "b"),
            result([image("2.png")], "a"),
            assistant(),
            user([image("4.png"), image("5.png")]),
            assistant(),
            user("b"),
        ]
        session = Session(tokenizer, dialect=dialect)
        for n, message in enumerate(conversation, 1):
            session.append(message)
            whole = dsv4.encode(conversation[:n], dialect=dialect)
            assert session.images == whole.images
            assert session.prompt_ids() == tokenizer.encode(whole)
        assert [record["url"] for record in session.images] == [f"{n}.png" for n in range(1, 6)]
