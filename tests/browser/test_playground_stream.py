"""The Stream view in a real browser: what it shows at every point is what the parser does there."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from serving import answered

import dsv4
from dsv4._playground.completion_trace import trace_completion
from dsv4._playground.page_examples import COMPLETION_TOOLS, EXAMPLE_COMPLETIONS
from dsv4._playground.page_request import PlaygroundContext

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "playground")]

MARKUP = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
HOSTILE = f"{MARKUP}\u202eright to left\u202c \x1b[31m \u0000\x9b <b>bold</b> \U0001f327\n\n<think>"
LINE = 'Words that a model writes, "quoted" and < not, in lines of a usual length.\n'
# However long the text is.
MOST_NODES = 2_500


@pytest.fixture
def opened(open_page: Callable[..., Any]) -> Callable[..., Any]:
    """Opens the view, and waits until it shows something."""

    def opened(fragment: str = "#stream", **options: Any) -> Any:
        tab = open_page(fragment, **options)
        tab.wait_for_selector(".stream .count:not(:empty)")
        if fragment == "#stream":
            go(tab, 0)
        return tab

    return opened


def settle(tab: Any) -> None:
    """Waits until what was asked for is drawn: two frames, and no trace on its way."""
    tab.wait_for_function("() => !document.querySelector('.stream.busy')")
    tab.evaluate("() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")


def type_text(tab: Any, text: str) -> None:
    """Puts a text in place of the completion."""
    if tab.locator("textarea.source").is_hidden():
        tab.get_by_role("button", name="Edit").click()
    with answered(tab, "trace"):
        # Typing as Playwright types takes a while for each line.
        tab.locator("textarea.source").evaluate(
            "(area, text) => { area.value = text; area.dispatchEvent(new Event('input')); }", text
        )
    settle(tab)
    tab.get_by_role("button", name="Done").click()
    settle(tab)


def choose(tab: Any, label: str, value: str) -> None:
    """Chooses an option that makes another trace."""
    with answered(tab, "trace"):
        tab.get_by_label(label, exact=True).select_option(value)
    settle(tab)


def go(tab: Any, step: int) -> None:
    tab.locator(".track input").evaluate(
        "(slider, step) => { slider.value = step; slider.dispatchEvent(new Event('input')); }", step
    )
    settle(tab)


def step_of(tab: Any) -> int:
    return int(tab.locator(".track input").input_value())


def steps_of(tab: Any) -> int:
    return int(tab.locator(".track input").get_attribute("max"))


def shown_state(tab: Any) -> str:
    (name,) = tab.locator(".diagram .current text").all_text_contents()
    return str(name)


def parser_for(example: Any, **options: Any) -> dsv4.StreamParser:
    ids = (f"call_{n}" for n in count())
    return dsv4.StreamParser(
        thinking=example.thinking, tools=COMPLETION_TOOLS, new_id=ids.__next__, **options
    )


def strictly_read(example: Any) -> int | None:
    """Where the strict grammar refuses an example; None if it accepts it."""
    try:
        dsv4.parse(example.text, thinking=example.thinking, tools=COMPLETION_TOOLS, strict=True)
    except dsv4.ParseError as error:
        return error.position
    return None


class TestEveryExample:
    @pytest.fixture(scope="class")
    @staticmethod
    def page(browser: Any, playground: str) -> Any:
        """One page for all: what an example leaves behind must not be seen in the next."""
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        tab = context.new_page()
        tab.goto(f"{playground}#stream")
        tab.wait_for_selector(".stream .count:not(:empty)")
        yield tab
        context.close()

    @pytest.mark.parametrize(
        "n", range(len(EXAMPLE_COMPLETIONS)), ids=[e.name for e in EXAMPLE_COMPLETIONS]
    )
    def test_is_read_to_its_end(self, page: Any, n: int) -> None:
        example = EXAMPLE_COMPLETIONS[n]
        current = page.get_by_label("Example").input_value()
        if current != str(n):
            choose(page, "Example", str(n))
        read = dsv4.parse(example.text, thinking=example.thinking, tools=COMPLETION_TOOLS)
        assert (step_of(page) > 0) == bool(read.diagnostics), "it opens at the first repair"
        assert steps_of(page) == len(example.text) + 1
        parser = parser_for(example)
        for part in (3, 2, 1):
            at = len(example.text) // part
            fed = "" if part == 3 else example.text[: len(example.text) // (part + 1)]
            parser.feed(example.text[len(fed) : at])
            go(page, at)
            assert shown_state(page) == parser.state.name
            held = page.locator(".held-text").text_content().replace("↵\n", "\n")
            assert held == parser.held
        page.get_by_role("button", name="To the end").click()
        settle(page)
        message = page.locator(".stream .message")
        assert message.locator(".finish code").inner_text() == read.finish
        for kind, text in (("reasoning", read.reasoning), ("content", read.content)):
            found = message.locator(f"pre.{kind}")
            assert (found.text_content() if found.count() else "") == text
        calls = [*read.tool_calls, *read.incomplete]
        assert len(message.locator("pre.call").all()) == len(calls)
        for call, pre in zip(read.tool_calls, message.locator("pre.call").all(), strict=False):
            assert json.loads(pre.text_content()) == json.loads(call.arguments)
        # Every repair is marked in the text, and told with its sentence.
        marks = page.locator(".completion .text .repair-mark").all_text_contents()
        assert sorted(marks, key=int) == [str(i + 1) for i in range(len(read.diagnostics))]
        events = page.locator(".stream .events").inner_text()
        for diagnostic in read.diagnostics:
            assert f"{diagnostic.kind}. {diagnostic.sentence}" in events
        if example.rule:
            assert f"rule {example.rule}." in page.locator(".completion .words").inner_text()
        strict = page.locator(".stream .strict").inner_text()
        assert ("Accepted" if strictly_read(example) is None else "Refused") in strict
        assert f"character {strictly_read(example)}" in strict or "Accepted" in strict


class TestMoving:
    @pytest.mark.smoke
    def test_by_steps_changes_and_repairs(self, opened: Callable[..., Any]) -> None:
        tab = opened()
        choose(tab, "Example", "3")
        go(tab, 0)
        press = lambda name: (tab.get_by_role("button", name=name).click(), settle(tab))  # noqa: E731
        press("One step on")
        press("One step on")
        press("One step back")
        assert step_of(tab) == 1
        press("Next change")
        assert tab.locator(".held-text").text_content() == "<"
        press("Previous change")
        assert step_of(tab) == 0
        press("Next repair")
        assert tab.locator(".completion .text .repair-mark").count() == 1
        assert tab.locator(".events li.new .pill.repair").count() == 1
        press("To the end")
        press("Previous repair")
        assert 1 < step_of(tab) < steps_of(tab)
        press("To the start")
        assert step_of(tab) == 0

    def test_by_keys(self, opened: Callable[..., Any]) -> None:
        tab = opened()
        tab.locator(".completion .text").focus()
        for key, step in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0)):
            tab.keyboard.press(key)
            settle(tab)
            assert step_of(tab) == step
        tab.keyboard.press("End")
        settle(tab)
        assert step_of(tab) == steps_of(tab)
        tab.keyboard.press("p")
        settle(tab)
        assert step_of(tab) < steps_of(tab)
        # The slider has its own.
        tab.locator(".track input").focus()
        tab.keyboard.press("Home")
        tab.keyboard.press("ArrowRight")
        settle(tab)
        assert step_of(tab) == 1
        spoken = tab.locator(".track input").get_attribute("aria-valuetext")
        assert spoken.startswith("Step 1 of ")
        assert "PROSE" in spoken

    def test_play_and_pause(self, opened: Callable[..., Any]) -> None:
        tab = opened()
        # Slowly: a busy machine must not be at the end before it is stopped.
        tab.get_by_label("Speed").select_option("15")
        tab.get_by_role("button", name="Play").click()
        tab.wait_for_function("() => document.querySelector('.track input').value > 3")
        tab.get_by_role("button", name="Pause").click()
        settle(tab)
        at = step_of(tab)
        tab.wait_for_timeout(200)
        assert step_of(tab) == at < steps_of(tab)
        # With the space bar on to the end, where it stops by itself.
        tab.get_by_label("Speed").select_option("4000")
        tab.locator(".completion .text").focus()
        tab.keyboard.press(" ")
        tab.wait_for_selector(".stream .finish")
        assert tab.get_by_role("button", name="Play").is_visible()
        assert step_of(tab) == steps_of(tab)

    def test_the_strip_and_the_count_say_where(self, opened: Callable[..., Any]) -> None:
        tab = opened()
        assert tab.locator(".map span").count() >= 2
        go(tab, 10)
        assert tab.locator(".stream .count").inner_text().startswith("Step 10 of ")


def test_a_malformed_completion_is_judged_in_words_before_any_diagram(
    opened: Callable[..., Any],
) -> None:
    tab = opened()
    assert tab.locator(".diagram").is_hidden()
    type_text(tab, 'Hm.</think>Look.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="a">')
    verdict = tab.locator(".stream .verdict-of-all.bad")
    verdict.locator(".fix").wait_for()
    assert "breaks off" in verdict.inner_text() or "cut" in verdict.inner_text()


class TestStates:
    """Their names say little: each is explained to whoever points at it, or comes by keyboard."""

    def test_are_explained_on_hover(self, opened: Callable[..., Any]) -> None:
        tab = opened()
        tab.get_by_text("Diagram of all states").click()
        tip = tab.locator(".stream .tip")
        assert tip.is_hidden()
        tab.locator(".diagram .state[data-state=FENCED]").hover()
        assert tip.inner_text().startswith("FENCED ")
        tab.locator(".stream h2").first.hover()
        assert tip.is_hidden()

    def test_are_explained_on_focus(self, opened: Callable[..., Any], axe: str) -> None:
        from accessibility import violations

        tab = opened()
        tab.get_by_text("Diagram of all states").click()
        (now,) = tab.locator(".diagram .state[tabindex='0']").all()
        now.focus()
        tip = tab.locator(".stream .tip")
        assert tip.inner_text().startswith(f"{shown_state(tab)} ")
        tab.keyboard.press("ArrowRight")
        tab.keyboard.press("ArrowDown")
        focused = tab.locator(":focus")
        assert focused.get_attribute("aria-label") == "BROKEN"
        assert tab.locator(f"#{focused.get_attribute('aria-describedby')}").inner_text() == (
            tip.inner_text()
        )
        assert tip.inner_text().startswith("BROKEN ")
        assert step_of(tab) == 0, "the point stays where it is"
        assert violations(tab, axe) == []
        tab.keyboard.press("Escape")
        assert tip.is_hidden()

    def test_the_slider_shows_that_it_has_the_keyboard(self, opened: Callable[..., Any]) -> None:
        tab = opened()
        tab.keyboard.press("Tab")
        tab.locator(".track input").focus()
        ring = "e => [getComputedStyle(e).outlineStyle, getComputedStyle(e).outlineWidth]"
        assert tab.locator(".track input").evaluate(ring) == ["solid", "2px"]
        # Nothing else stands where the ring is.
        room = """e => {
          const { outlineOffset, outlineWidth } = getComputedStyle(e);
          const { top, bottom } = e.getBoundingClientRect();
          const edge = parseFloat(outlineOffset) + parseFloat(outlineWidth);
          const above = document.querySelector(".map").getBoundingClientRect().bottom;
          const below = document.querySelector(".controls").getBoundingClientRect().top;
          return [top - edge - above, below - bottom - edge];
        }"""
        assert min(tab.locator(".track input").evaluate(room)) >= 0


class TestCuts:
    def test_by_token(self, opened: Callable[..., Any]) -> None:
        tab = opened()
        before = steps_of(tab)
        choose(tab, "Cut", "token")
        assert steps_of(tab) < before / 3
        tab.get_by_role("button", name="To the end").click()
        settle(tab)
        assert tab.locator(".finish code").inner_text() == "tool_calls"

    def test_random_cuts_are_those_of_the_seed(self, opened: Callable[..., Any]) -> None:
        tab = opened()
        assert tab.get_by_label("Seed").is_hidden()
        choose(tab, "Cut", "random")
        first = steps_of(tab)
        with answered(tab, "trace"):
            tab.get_by_label("Seed").fill("77")
            tab.get_by_label("Seed").press("Tab")
        settle(tab)
        body = {"thinking": True, "tools": COMPLETION_TOOLS, "cut": "random"}
        text = EXAMPLE_COMPLETIONS[0].text
        assert (
            first
            == trace_completion({**body, "text": text, "seed": 1}, PlaygroundContext())["steps"]
        )
        assert (
            steps_of(tab)
            == trace_completion({**body, "text": text, "seed": 77}, PlaygroundContext())["steps"]
        )

    def test_the_place_stays_where_it_was(self, opened: Callable[..., Any]) -> None:
        tab = opened()
        go(tab, 200)
        choose(tab, "Cut", "token")
        done = tab.locator(".stream .count").inner_text().split("· ")[1]
        assert 200 <= int(done.split(" ")[0]) < 220


class TestOptions:
    def test_a_text_without_an_end_takes_the_reason_for_it(
        self, opened: Callable[..., Any]
    ) -> None:
        tab = opened()
        type_text(tab, "Hm.</think>Hello")
        tab.get_by_role("button", name="To the end").click()
        tab.get_by_text("Options: tools, dialect").click()
        for reason in ("length", "stop"):
            choose(tab, "Why it ended", reason)
            assert tab.locator(".finish code").inner_text() == reason

    def test_each_makes_another_reading(self, opened: Callable[..., Any]) -> None:
        tab = opened()
        tab.get_by_text("Options: tools, dialect").click()
        end = lambda: (tab.get_by_role("button", name="To the end").click(), settle(tab))  # noqa: E731
        end()
        calls = tab.locator(".message pre.call")
        assert calls.count() == 2
        with answered(tab, "trace"):
            tab.get_by_label("Begins in reasoning").uncheck()
        settle(tab)
        assert tab.locator(".message pre.reasoning").count() == 0
        choose(tab, "Tool choice", "none")
        assert calls.count() == 0
        choose(tab, "Tool choice", "auto")
        choose(tab, "Calls", "whole")
        assert calls.count() == 2
        choose(tab, "Dialect", "v3.2")
        assert "other_release" in tab.locator(".events").inner_text()
        with answered(tab, "trace"):
            tab.get_by_label("Stop strings").fill("umbrella")
        settle(tab)
        assert "StopHit" in tab.locator(".events").inner_text()
        with answered(tab, "trace"):
            tab.get_by_label("Tools, as").fill("[]")
        settle(tab)
        assert calls.count() == 0

    def test_what_is_wrong_is_said(self, opened: Callable[..., Any]) -> None:
        tab = opened()
        tab.get_by_text("Options: tools, dialect").click()
        tab.get_by_label("Tools, as").fill('[{"name": 5}]')
        tab.wait_for_selector(".points > .problem:not([hidden])")
        assert "tools" in tab.locator(".points > .problem").inner_text()
        tab.get_by_label("Tools, as").fill("[")
        tab.wait_for_function(
            "() => document.querySelector('.points > .problem').textContent.includes('not JSON')"
        )
        tab.get_by_label("Tools, as").fill("[]")
        tab.wait_for_selector(".points > .problem", state="hidden")

    def test_whole_calls_send_nothing_before_they_are_complete(
        self, opened: Callable[..., Any]
    ) -> None:
        tab = opened()
        tab.get_by_text("Options: tools, dialect").click()
        at = EXAMPLE_COMPLETIONS[0].text.index("Paris") + 3
        go(tab, at)
        assert "tool_use" in tab.locator(".protocol.messages").inner_text()
        choose(tab, "Calls", "whole")
        assert "tool_use" not in tab.locator(".protocol.messages").inner_text()


def test_frames_are_those_that_the_writers_send(opened: Callable[..., Any]) -> None:
    tab = opened()
    tab.get_by_role("button", name="To the end").click()
    settle(tab)
    told = trace_completion(
        {"text": EXAMPLE_COMPLETIONS[0].text, "tools": COMPLETION_TOOLS, "cut": "character"},
        PlaygroundContext(),
    )
    last = {name: told["frames"][name]["finish"][-1] for name in told["frames"]}
    shown = tab.locator(".protocol.chat li code").last.inner_text()
    assert json.loads(shown) == last["chat"]["choices"]
    for name in ("responses", "messages"):
        assert tab.locator(f".protocol.{name} li b").last.inner_text() == last[name]["type"]
    go(tab, 20)
    piece = EXAMPLE_COMPLETIONS[0].text[19]
    assert f'"reasoning_content":"{piece}"' in tab.locator(".protocol.chat li").last.inner_text()
    assert f'"delta":"{piece}"' in tab.locator(".protocol.responses li").last.inner_text()
    assert f'"thinking":"{piece}"' in tab.locator(".protocol.messages li").last.inner_text()


def test_a_link_restores_all_of_it(opened: Callable[..., Any]) -> None:
    tab = opened()
    type_text(tab, "My own \U0001f327 words.</think>Yes.")
    choose(tab, "Cut", "random")
    go(tab, 3)
    tab.wait_for_timeout(500)
    again = opened("#" + tab.url.partition("#")[2])
    assert again.get_by_label("Cut").input_value() == "random"
    assert again.get_by_label("Example").input_value() == ""
    assert step_of(again) == 3
    assert again.locator(".completion .text").text_content() == (
        tab.locator(".completion .text").text_content()
    )


def test_a_link_from_anywhere_does_no_harm(open_page: Callable[..., Any]) -> None:
    nonsense = {
        **{"text": 5, "thinking": "x", "tools": {}, "dialect": [], "stop": 1, "calls": 2},
        **{"reason": "x", "cut": "words", "seed": "x", "step": "x"},
    }
    tab = open_page("#stream")
    tab.wait_for_selector(".stream .count:not(:empty)")
    made = tab.evaluate(
        """async (slice) => {
          const { Store } = await import("./state.js");
          return new Store({ view: "stream", slices: { stream: slice } }).toFragment();
        }""",
        nonsense,
    )
    again = open_page(made)
    again.wait_for_selector(".stream .count:not(:empty)")
    assert step_of(again) == 0


def test_an_answer_that_is_read_as_reasoning_is_noticed(opened: Callable[..., Any]) -> None:
    tab = opened()
    call = (
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>'
    )
    advice = "looks like an answer's text"
    for text, is_noticed in [(f"Hm.</think>So.\n\n{call}", False), (f"So.\n\n{call}", True)]:
        type_text(tab, text)
        go(tab, steps_of(tab))
        assert (advice in tab.locator(".readings .message").inner_text()) == is_noticed


class TestHostileText:
    @pytest.mark.smoke
    def test_is_only_text(self, opened: Callable[..., Any]) -> None:
        tab = opened()
        type_text(tab, HOSTILE)
        for step in (0, len(MARKUP), steps_of(tab)):
            go(tab, step)
        assert "dsv4 playground" in tab.title()
        assert tab.locator("main img, main script, main b:not(.frames b)").count() == 0
        pane = tab.locator(".completion .text")
        assert MARKUP in pane.text_content()
        for acting in ("\u202e", "\x1b", "\x9b", "\0"):
            assert acting not in tab.locator(".stream .points").inner_text()
        assert "⟨202E⟩" in pane.text_content()

    def test_a_megabyte(self, opened: Callable[..., Any]) -> None:
        tab = opened()
        choose(tab, "Cut", "random")
        text = (LINE + MARKUP) * (1_000_000 // len(LINE + MARKUP))
        type_text(tab, text)
        tab.get_by_role("button", name="To the end").click()
        settle(tab)
        assert nodes(tab) < MOST_NODES
        assert "dsv4 playground" in tab.title()
        assert f"{len(text):,} of {len(text):,} char" in tab.locator(".stream .count").inner_text()


def nodes(tab: Any) -> int:
    return int(tab.evaluate("() => document.querySelectorAll('.stream *').length"))


class TestWork:
    """A long completion is scrubbed smoothly: what a move costs does not grow with the text."""

    @pytest.mark.parametrize("kind", ["prose", "string", "held"])
    def test_moves_ask_nobody_and_draw_a_window(
        self, opened: Callable[..., Any], kind: str
    ) -> None:
        tags = EXAMPLE_COMPLETIONS[2].text
        path, text = tags.partition("area.py"), LINE * 1_350
        long = {
            "prose": text,
            "string": path[0] + text,
            "held": tags.partition('string="true">')[0] + 'string="false">' + '["a", ' * 16_000,
        }[kind]
        assert len(long) > 90_000
        tab = opened()
        type_text(tab, long)
        asked: list[str] = []
        tab.on("request", lambda request: asked.append(request.url))
        most = tab.evaluate(
            """async () => {
              const slider = document.querySelector(".track input");
              const panes = document.querySelector(".stream .points");
              let made = 0, most = 0, moves = 0, characters = 0;
              const watch = new MutationObserver((found) => {
                for (const { addedNodes } of found)
                  for (const node of addedNodes) {
                    made += 1 + (node.querySelectorAll?.("*").length ?? 0);
                    characters += node.textContent.length;
                  }
              });
              watch.observe(panes, { childList: true, subtree: true });
              const worst = { nodes: 0, characters: 0 };
              for (let n = 0; n <= 60; n++) {
                made = characters = 0;
                slider.value = Math.round((slider.max * n) / 60);
                slider.dispatchEvent(new Event("input"));
                await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
                await new Promise((r) => setTimeout(r));
                worst.nodes = Math.max(worst.nodes, made);
                worst.characters = Math.max(worst.characters, characters);
                most = Math.max(most, document.querySelectorAll(".stream *").length);
              }
              return { ...worst, most };
            }"""
        )
        assert not [url for url in asked if "/api/" in url]
        assert most["most"] < MOST_NODES
        assert most["nodes"] < 800
        assert most["characters"] < 60_000

    def test_the_point_stays_in_view(self, opened: Callable[..., Any]) -> None:
        tab = opened()
        type_text(tab, LINE * 300)
        for step in (0, 5_000, 12_345, steps_of(tab), 100):
            go(tab, step)
            inside = tab.evaluate(
                """() => {
                  const pane = document.querySelector(".completion .text").getBoundingClientRect();
                  const point = document.querySelector(".cursor").getBoundingClientRect();
                  return point.top >= pane.top - 1 && point.bottom <= pane.bottom + 1;
                }"""
            )
            assert inside, step

    def test_many_moves_in_one_frame_are_drawn_once(self, opened: Callable[..., Any]) -> None:
        tab = opened()
        drawn = tab.evaluate(
            """async () => {
              let drawn = 0;
              const pane = document.querySelector(".completion .text");
              new MutationObserver(() => drawn++).observe(pane, { childList: true });
              const slider = document.querySelector(".track input");
              for (let n = 1; n <= 100; n++) {
                slider.value = n;
                slider.dispatchEvent(new Event("input"));
              }
              await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
              return drawn;
            }"""
        )
        assert drawn == 1


@pytest.mark.parametrize("width", [1280, 700, 390, 320])
def test_nothing_is_wider_than_the_page(opened: Callable[..., Any], width: int) -> None:
    tab = opened(width=width)
    type_text(tab, "x" * 3_000 + LINE)
    tab.get_by_role("button", name="To the end").click()
    settle(tab)
    for selector in ("html", ".view.stream"):
        size = tab.locator(selector).evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert size[0] <= size[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing(opened: Callable[..., Any], axe: str, scheme: str, width: int) -> None:
    from accessibility import violations

    tab = opened(width=width, scheme=scheme)
    choose(tab, "Example", "3")
    for step in (0, 190, steps_of(tab)):
        go(tab, step)
        assert violations(tab, axe) == []
    tab.get_by_text("Options: tools, dialect").click()
    tab.get_by_role("button", name="Edit").click()
    choose(tab, "Cut", "random")
    assert violations(tab, axe) == []
