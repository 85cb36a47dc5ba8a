"""The Prompt view in a real browser: every switch, and light both ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from accessibility import violations
from editing import (
    BOX,
    after_caret,
    editor,
    folded,
    has_keyboard,
    marked,
    put,
    set_caret,
    text_of,
)
from serving import answered, served, settle

import dsv4
from dsv4._format.tokens import USER
from dsv4._playground.page_examples import EXAMPLE_REQUESTS

Open = Callable[..., Any]
TITLES = list(EXAMPLE_REQUESTS)
# A choice that is as wide as its longest option has room for the one that is chosen.
IS_CUT = """select => {
  const free = select.cloneNode(true);
  Object.assign(free.style, { maxWidth: "none", position: "absolute" });
  free.selectedIndex = select.selectedIndex;
  for (const other of [...free.options]) if (!other.selected) other.remove();
  select.after(free);
  const wanted = free.getBoundingClientRect().width;
  free.remove();
  return wanted > select.getBoundingClientRect().width + 1;
}"""
# Key by key, with no pause that a busy machine could make longer.
BURST = """(view, text) => {
  for (const [at, insert] of [...text].entries()) view.dispatch({ changes: { from: at, insert } });
}"""
HOSTILE = [
    """<img src=x onerror="document.title='run'"><script>document.title='run'</script>""",
    "</textarea></pre><style>body{display:none}</style>{{7*7}}${7*7}",
    "\x00\x1b[31m\x07\x9b \u202eRTL \u2066 \u200f العربية עברית \ud800",
    f"{USER} &lt;b&gt; javascript:alert(1)",
]


def write(tab: Any, value: Any) -> None:
    """Puts a request in the editor, and waits for its prompt."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    with answered(tab, "prompt"):
        put(tab, text)
    settle(tab)


def unfold(tab: Any) -> None:
    """Opens the options, which are folded away where there is little room."""
    # From the last: one that is open is not among them any more.
    for summary in reversed(tab.locator("section.prompt .options:not([open]) > summary").all()):
        if summary.is_visible():
            summary.click()


def choose(tab: Any, label: str, value: str) -> None:
    unfold(tab)
    with answered(tab, "prompt"):
        tab.locator("section.prompt").get_by_label(label, exact=True).select_option(value)
    settle(tab)


def example(tab: Any, title: str) -> None:
    with answered(tab, "prompt"):
        tab.locator("section.prompt").get_by_label("Examples").select_option(label=title)
    settle(tab)


def turn_to(tab: Any, pane: str) -> None:
    """Shows a pane, where the page has no room for both."""
    side = tab.locator(".sides button", has_text=pane)
    if side.is_visible():
        side.click()


def prompt_text(tab: Any) -> str:
    rows = tab.locator("section.prompt .rows .row:not(.ghost) .text")
    return "".join(rows.evaluate_all("rows => rows.map(row => row.textContent)"))


def lit(tab: Any) -> str:
    parts = tab.locator("section.prompt .rows .lit")
    return "".join(parts.evaluate_all("parts => parts.map(part => part.textContent)"))


# What is shown.


@pytest.mark.parametrize("title", TITLES)
def test_each_example_is_shown(tab: Any, title: str) -> None:
    example(tab, title)
    assert USER in prompt_text(tab)
    assert tab.locator(".trouble").is_hidden()


def test_special_tokens_are_pills_and_spelled_ones_are_marked(tab: Any) -> None:
    example(tab, "Text that spells tokens")
    assert USER in tab.locator(".rows .pill").all_inner_texts()
    assert USER in tab.locator(".rows .flag").all_inner_texts()
    assert "3 places in the text spell a special token" in tab.locator(".facts").inner_text()


def test_tokens_stand_in_the_margin_and_as_a_bar(tab: Any) -> None:
    counts = tab.locator(".rows .count").all_inner_texts()
    total = sum(int(count.replace(",", "")) for count in counts)
    assert tab.locator(".summary .total").inner_text().startswith(f"{total} tokens")
    assert tab.locator(".bar-of-shares .share").count() == tab.locator(".legend li").count() > 3


def test_a_ghost_stands_where_reasoning_was_dropped(tab: Any) -> None:
    example(tab, "Old reasoning, a list of messages")
    ghost = tab.locator(".rows .row.ghost")
    assert "Rayleigh scattering" in ghost.inner_text()
    assert "dropped: reasoning before the last user turn is left out" in ghost.inner_text()
    choose(tab, "Old reasoning", "false")
    assert tab.locator(".rows .row.ghost").count() == 0
    assert "Rayleigh scattering" in prompt_text(tab)


@pytest.mark.smoke
def test_every_switch_changes_the_prompt(tab: Any) -> None:
    seen = {prompt_text(tab)}
    for label, value in (
        ("Dialect", "v4.1"),
        ("Effort", "low"),
        ("Dialect", "v4"),
        ("Effort", "max"),
        ("Effort", ""),
        ("Thinking", "false"),
        ("Tool choice", "none"),
        ("Tool choice", "get_forecast"),
    ):
        choose(tab, label, value)
        if label != "Dialect" or value != "v4":
            seen.add(prompt_text(tab))
    assert len(seen) == 7  # without an effort it is the first again


def test_read_as_another_protocol(tab: Any) -> None:
    example(tab, "The same agent, Anthropic Messages")
    assert "Anthropic" in tab.get_by_label("Read as").locator("option").first.inner_text()
    choose(tab, "Read as", "responses")
    assert tab.locator(".trouble").is_visible()


def test_borders_and_ids_of_tokens(tab: Any) -> None:
    text = prompt_text(tab)
    choose(tab, "Tokens", "borders")
    assert tab.locator(".rows .even").count() > 20
    assert tab.locator(".rows [data-ids]").count() == 0
    choose(tab, "Tokens", "ids")
    assert tab.locator(".rows .pill [data-ids]").first.get_attribute("data-ids") == "0"
    assert prompt_text(tab) == text


def test_ids_of_white_space_stand_on_its_line(tab: Any) -> None:
    write(tab, [{"role": "user", "content": "One\n\n\n        Two x = 1 \n\nEnd"}])
    choose(tab, "Tokens", "ids")
    found = tab.locator(".rows .row", has_text="One").locator("[data-ids]")
    carried = found.evaluate_all(
        """found => found.map((one) => [
          one.parentElement.className.split(" ")[0],
          one.textContent,
          Math.round(one.getBoundingClientRect().top),
        ])"""
    )
    kinds, texts, tops = zip(*carried, strict=True)
    assert texts[:4] == ("One", "", " " * 7, "Two")
    assert kinds[1:3] == ("newline", "spaces")
    # Of the line breaks after "One" on the line of "One", of the spaces on that of "Two".
    assert abs(tops[1] - tops[0]) < 8 < abs(tops[2] - tops[1])
    assert abs(tops[3] - tops[2]) < 8
    signed = tab.locator(".rows .blank")
    assert "\u2423" in signed.first.evaluate("one => getComputedStyle(one, '::before').content")


def test_another_manner_keeps_the_place(tab: Any) -> None:
    turns = [("user", "A question"), ("assistant", "An answer")] * 60
    write(tab, [{"role": role, "content": f"{text} {n}"} for n, (role, text) in enumerate(turns)])
    read = tab.locator(".rows .row", has_text="An answer 71")
    read.evaluate("row => row.scrollIntoView({ block: 'start' })")
    at = read.bounding_box()["y"]
    for label, value in (
        *(("Tokens", "borders"), ("Tokens", "ids"), ("Show", "dialect:v3.2")),
        *(("Beside", "dialect:v4"), ("Tokens", "off")),
    ):
        choose(tab, label, value)
        tab.wait_for_timeout(200)
        now = tab.locator(".rows .row", has_text="An answer 71").first.bounding_box()["y"]
        assert abs(now - at) < 30, (label, value)


def test_two_dialects_side_by_side(tab: Any) -> None:
    choose(tab, "Beside", "dialect:v4.1")
    assert tab.locator(".titles b").all_inner_texts() == ["dsv4, v4", "dsv4, v4.1"]
    assert "Reasoning Effort" in tab.locator(".rows .differs").first.inner_text() or (
        tab.locator(".rows .differs").count() > 1
    )
    choose(tab, "Beside", "dialect:v4")
    assert "Both prompts are the same." in tab.locator(".facts").inner_text()
    assert tab.locator(".rows .differs").count() == 0


def test_two_servers_side_by_side_with_reasons(tab: Any) -> None:
    choose(tab, "Show", "profile:vllm-0.32")
    choose(tab, "Beside", "profile:sglang-0.5.23")
    assert "vLLM 0.32 lets the model think" in tab.locator(".facts").inner_text()
    assert tab.locator(".rows .differs").count() > 1


def test_long_texts_are_folded_until_they_are_wanted(tab: Any) -> None:
    write(tab, [{"role": "user", "content": "a line\n" * 500}])
    assert len(prompt_text(tab)) < 2_000
    fold = tab.locator(".rows .fold")
    assert fold.get_attribute("aria-expanded") == "false"
    fold.click()
    assert prompt_text(tab).count("a line") == 500


# Light both ways.


def test_pointing_at_the_prompt_lights_the_json(tab: Any) -> None:
    tab.locator(".rows .text .reasoning").first.hover()
    assert json.loads(marked(tab, "lit")) == "The weather decides. I need the forecast."
    tab.locator(".rows .text .user").first.hover()
    assert json.loads(marked(tab, "lit")).startswith("Is it a good afternoon")
    tab.locator(".rows .pill", has_text="User").first.hover()
    assert marked(tab, "lit") == '"user"'


def test_the_caret_in_the_json_lights_the_prompt(tab: Any) -> None:
    set_caret(tab, text_of(tab).index("The weather decides"))
    tab.keyboard.press("ArrowRight")
    assert lit(tab) == "The weather decides. I need the forecast."
    assert json.loads(marked(tab, "lit")) == lit(tab)


def test_the_pointer_over_the_json_lights_the_prompt(tab: Any) -> None:
    box = tab.locator(".editor .cm-line", has_text="Let me look at the weather.").bounding_box()
    tab.mouse.move(box["x"] + 120, box["y"] + box["height"] / 2)
    assert lit(tab) == "Let me look at the weather."
    tab.mouse.move(5, 5)
    assert lit(tab) == ""


def test_a_click_goes_to_the_source(tab: Any) -> None:
    tab.locator(".rows .calls", has_text="get_forecast").first.click()
    assert after_caret(tab).startswith('"get_forecast"')


def test_the_keyboard_goes_through_the_rows(tab: Any) -> None:
    tab.locator(".rows .row[tabindex='0']").focus()
    for _ in range(4):
        tab.keyboard.press("ArrowDown")
    assert json.loads(marked(tab, "lit")).startswith("Is it a good afternoon")
    tab.keyboard.press("Enter")
    assert has_keyboard(tab)


def test_the_editor_lets_the_keyboard_out(tab: Any) -> None:
    set_caret(tab, 0)
    before = text_of(tab)
    tab.keyboard.press("Tab")
    assert not has_keyboard(tab)
    tab.keyboard.press("Shift+Tab")
    assert has_keyboard(tab)
    assert text_of(tab) == before


# Errors.


@pytest.mark.parametrize(
    ("source", "words", "wrong"),
    [
        ('{\n  "messages": [}', "Line 2, column 16", "}"),
        ('[\n {"role": "usr", "content": ""}]', "Line 2, column 11: [0].role", '"usr"'),
    ],
)
def test_errors_stand_at_their_line(tab: Any, source: str, words: str, wrong: str) -> None:
    write(tab, source)
    assert words in tab.locator(".trouble").inner_text()
    assert marked(tab, "wrong") == wrong
    tab.locator(".trouble .place").click()
    assert after_caret(tab).startswith(wrong)
    write(tab, "[]" if "usr" in source else '[{"role": "user", "content": "Hi"}]')


def test_an_error_at_the_end_of_a_line_is_marked_before_it(tab: Any) -> None:
    write(tab, '[\n "broken\n"]')
    assert "Line 2, column 9" in tab.locator(".trouble").inner_text()
    assert marked(tab, "wrong") == "n"
    write(tab, "[\n 1,")
    assert marked(tab, "wrong") == ","


def test_json_has_colours(tab: Any) -> None:
    write(tab, '{"messages": [\n{"role": "user", "content": "Hi"}\n],\n"n": 1, "m": null}')
    colour = "all => all.map(one => [one.textContent, getComputedStyle(one).color])"
    found = dict(tab.locator(".editor .cm-line span").evaluate_all(colour))
    assert len({found[text] for text in ('"role"', '"user"', "1", "null")}) == 4
    assert found['"role"'] == found['"messages"']


def test_only_lines_that_are_seen_are_drawn(tab: Any) -> None:
    write(tab, json.dumps([0] * 20_000, indent=1) + " ")
    assert tab.locator(".editor .cm-line").count() < 200


def test_find_in_the_request(tab: Any, axe: str) -> None:
    turns = [{"role": "user", "content": f"Needle {n}"} for n in range(40)]
    write(tab, turns)
    set_caret(tab, 0)
    tab.keyboard.press("Control+f")
    tab.keyboard.type("needle")
    tab.keyboard.press("Enter")
    selected = "v => v.state.sliceDoc(v.state.selection.main.from, v.state.selection.main.to + 4)"
    assert editor(tab).evaluate(selected) == 'Needle 0"\n'
    tab.keyboard.press("Shift+Enter")
    assert editor(tab).evaluate(selected) == 'Needle 39"'
    assert editor(tab).evaluate("view => view.scrollDOM.scrollTop") > 500
    assert violations(tab, axe) == []
    tab.keyboard.press("Escape")
    assert tab.locator(".cm-search").count() == 0
    assert has_keyboard(tab)
    tab.get_by_role("button", name="Find", exact=True).click()
    assert tab.locator(".cm-search [name=search]").input_value() == "Needle"


# Folding.


CONVERSATION = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]


def test_the_items_of_a_request_fold_at_once(tab: Any, axe: str) -> None:
    write(tab, CONVERSATION)
    tab.get_by_role("button", name="Fold", exact=True).click()
    assert [words.count("content") for words in folded(tab)] == [1, 1]
    assert "Hello." in folded(tab)[1]
    assert json.loads(text_of(tab)) == CONVERSATION
    assert violations(tab, axe) == []
    tab.get_by_role("button", name="Unfold", exact=True).click()
    assert folded(tab) == []


def test_a_fold_opens_by_mouse_and_by_keyboard(tab: Any) -> None:
    write(tab, CONVERSATION)
    set_caret(tab, text_of(tab).index('{\n    "role": "assistant"'))
    tab.keyboard.press("Control+Shift+BracketLeft")
    assert len(folded(tab)) == 1
    tab.keyboard.press("Control+Shift+BracketRight")
    assert folded(tab) == []
    tab.locator(".cm-foldGutter span", has_text="▾").nth(1).click()
    assert "Hi" in folded(tab)[0]
    tab.locator(".cm-foldPlaceholder").click()
    assert folded(tab) == []


def test_what_is_typed_beside_a_fold_keeps_it(tab: Any) -> None:
    write(tab, CONVERSATION)
    tab.locator(".cm-foldGutter span", has_text="▾").nth(1).click()
    set_caret(tab, text_of(tab).index("Hello."))
    with answered(tab, "prompt"):
        tab.keyboard.type("Oh. ")
    tab.locator(".rows .text", has_text="Oh. Hello.").wait_for()
    assert "Hi" in folded(tab)[0]
    tab.keyboard.press("Control+a")
    tab.keyboard.press("Control+x")
    copied = json.loads(tab.evaluate("navigator.clipboard.readText()"))
    assert [turn["content"] for turn in copied] == ["Hi", "Oh. Hello."]
    assert text_of(tab) == ""


def test_what_is_pointed_at_or_found_opens_its_fold(tab: Any) -> None:
    write(tab, CONVERSATION)
    tab.get_by_role("button", name="Fold", exact=True).click()
    tab.locator(".rows .text .assistant").first.hover()
    assert marked(tab, "lit") == '"Hello."'
    assert len(folded(tab)) == 1
    tab.get_by_label(BOX).press("Control+f")
    tab.keyboard.type("hi")
    tab.keyboard.press("Enter")
    assert folded(tab) == []


def test_an_error_in_a_fold_opens_it(tab: Any) -> None:
    turns = [{"role": "user", "content": "Hi"}, {"role": "developer", "content": "Ho"}]
    write(tab, {"messages": turns, "max_tokens": 9})
    tab.get_by_role("button", name="Fold", exact=True).click()
    choose(tab, "Read as", "messages")
    assert "messages[1].role" in tab.locator(".trouble").inner_text()
    assert len(folded(tab)) == 1
    assert marked(tab, "wrong") == '"developer"'
    tab.locator(".cm-foldGutter span", has_text="▾").last.click()
    assert "developer" in tab.locator(".cm-foldPlaceholder.hides-wrong").inner_text()


# The form.


def test_a_form_writes_the_json(tab: Any) -> None:
    write(tab, [{"role": "user", "content": "Hi", "seed": 1.0}])
    tab.get_by_role("button", name="Form").click()
    with answered(tab, "prompt"):
        tab.get_by_label("content of message 0").fill("Hello <b>")
    settle(tab)
    assert "Hello <b>" in prompt_text(tab)
    tab.get_by_role("button", name="Add assistant").click()
    tab.get_by_label("reasoning of message 1").fill("Hm.")
    tab.get_by_role("button", name="Add user").click()
    tab.get_by_label("content of message 2").fill("Go on")
    tab.get_by_role("button", name="Move message 2 up").click()
    tab.get_by_role("button", name="JSON").click()
    text = text_of(tab)
    assert json.loads(text) == [
        {"role": "user", "content": "Hello <b>", "seed": 1.0},
        {"role": "user", "content": "Go on"},
        {"role": "assistant", "content": "", "reasoning_content": "Hm."},
    ]
    assert '"seed": 1.0' in text  # as it was written
    tab.get_by_role("button", name="Form").click()
    tab.get_by_role("button", name="Delete message 2").click()
    tab.get_by_label("Role of message 1").select_option("developer")
    settle(tab)
    tab.get_by_role("button", name="JSON").click()
    roles = [m["role"] for m in json.loads(text_of(tab))]
    assert roles == ["user", "developer"]


def test_the_form_and_the_prompt_light_each_other(tab: Any) -> None:
    tab.get_by_role("button", name="Form").click()
    tab.locator(".rows .text .reasoning").first.hover()
    assert tab.locator(".card.lit").get_attribute("aria-label") == "Message 2"
    tab.get_by_label("content of message 1").focus()
    assert lit(tab) == "Is it a good afternoon for a walk in Bergen?"


def test_what_the_form_wrote_wrong_is_marked_in_the_json(tab: Any) -> None:
    write(tab, [{"role": "user", "content": "Hi"}])
    tab.get_by_role("button", name="Form").click()
    with answered(tab, "prompt"):
        tab.get_by_role("button", name="Delete message 0").click()
    tab.locator(".trouble .place").wait_for()
    tab.get_by_role("button", name="JSON").click()
    assert marked(tab, "wrong") == "[]"


def test_the_form_says_what_it_cannot_edit(tab: Any) -> None:
    write(tab, '{"x": ')
    tab.get_by_role("button", name="Form").click()
    assert "is no JSON: edit it as JSON" in tab.locator(".form").inner_text()
    tab.get_by_role("button", name="JSON").click()
    write(tab, "[]")


# Hostile conversations.


@pytest.mark.parametrize("content", HOSTILE)
@pytest.mark.parametrize("mode", ["JSON", "Form"])
def test_hostile_text_changes_nothing_but_itself(tab: Any, content: str, mode: str) -> None:
    def kinds(within: str = "body :not(.verdict-of-all *)") -> set[str]:
        return set(
            tab.evaluate(f"[...document.querySelectorAll({within!r})].map(e => e.localName)")
        )

    write(tab, '[{"role": "user", "content": "plain"}, {"role": "assistant", "content": "x"}]')
    tab.get_by_role("button", name=mode).click()
    before = kinds()
    tab.get_by_role("button", name="JSON").click()
    answer = {"role": "assistant", "content": "x"}
    write(tab, json.dumps([{"role": "user", "content": content}, answer]))
    tab.get_by_role("button", name=mode).click()
    assert kinds() == before
    # What is said of a text that is wrong quotes it, in elements of the page's own.
    assert kinds(".verdict-of-all *") <= {
        *("dl", "div", "dt", "dd"),
        *("p", "a", "button", "code", "mark"),
    }
    assert "dsv4 playground" in tab.title()
    assert tab.locator("main").is_visible()
    shown = prompt_text(tab)
    assert "\x00" not in shown
    assert "\u202e" not in shown
    if "onerror" in content:
        assert "<img src=x onerror=\"document.title='run'\">" in shown


def test_a_megabyte_is_shown_by_its_beginning(tab: Any) -> None:
    write(tab, [{"role": "user", "content": "All work and no play. " * 50_000}])
    assert tab.evaluate("document.querySelectorAll('*').length") < 1_000
    tab.locator(".rows .fold").click()
    assert len(prompt_text(tab)) > 1_000_000


# Work, counted.


def conversation(messages: int, tools: int) -> dict[str, Any]:
    turns = [
        {"role": role, "content": f"{role} {n} " + "says something of some length. " * 12}
        for n in range(messages // 2)
        for role in ("user", "assistant")
    ]
    declared = [
        {"type": "function", "function": {"name": f"tool_{n}", "description": "It works. " * 30}}
        for n in range(tools)
    ]
    return {"messages": [*turns, {"role": "user", "content": "Go on"}], "tools": declared}


def test_a_burst_of_typing_asks_once_or_twice(tab: Any) -> None:
    calls: list[str] = []
    tab.on("request", lambda request: calls.append(request.url))
    put(tab, "")
    tab.wait_for_timeout(400)
    calls.clear()
    editor(tab).evaluate(BURST, '[{"role": "user", "content": "typed quickly"}]')
    tab.wait_for_function("() => document.querySelector('.rows').textContent.includes('quickly')")
    settle(tab)
    assert "typed quickly" in prompt_text(tab)
    assert len([url for url in calls if url.endswith("/api/prompt")]) <= 2


def test_after_a_change_only_what_changed_is_built_again(tab: Any) -> None:
    body = conversation(200, 20)
    write(tab, body)
    tab.wait_for_function("() => document.querySelectorAll('.rows .row').length > 600")
    assert tab.evaluate("document.querySelectorAll('.rows *').length") < 8_000
    tab.evaluate(
        """() => {
          window.added = { rows: 0 };
          const count = (name) => (list) =>
            list.forEach((one) => (window.added[name] += one.addedNodes.length));
          const watch = (selector, name) => new MutationObserver(count(name)).observe(
            document.querySelector(selector), { childList: true });
          watch(".rows", "rows");
        }"""
    )
    body["messages"][100]["content"] = "Something else."
    write(tab, body)
    assert tab.evaluate("window.added") == {"rows": 1}


def test_an_answer_may_come_while_another_is_being_built(tab: Any) -> None:
    """Rows are built in slices: a newer answer ends an older one, and nothing is left of it."""
    for n in range(4):
        body = conversation(200, 20)
        body["messages"][n * 30]["content"] = f"Change {n}"
        with answered(tab, "prompt"):
            put(tab, json.dumps(body))
    settle(tab)
    shown = prompt_text(tab)
    assert "Change 3" in shown
    assert "Change 2" not in shown
    names = tab.locator(".rows .opens .label b:not(:empty)").all_text_contents()
    assert [int(name.split()[0]) for name in names] == list(range(201))


def test_a_server_that_is_gone_is_named(browser: Any) -> None:
    with served() as url:
        tab = browser.new_page()
        tab.goto(f"{url}/playground/")
        tab.wait_for_selector(".rows .row")
    put(tab, "[]")
    tab.wait_for_selector(".trouble:not([hidden])")
    assert "The server does not answer" in tab.locator(".trouble").inner_text()
    tab.close()


# People.


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing(open_page: Open, axe: str, scheme: str, width: int) -> None:
    tab = open_page(width=width, scheme=scheme)
    tab.wait_for_selector(".rows .row")
    for title in ("Text that spells tokens", "Old reasoning, a list of messages"):
        turn_to(tab, "Request")
        example(tab, title)
        assert violations(tab, axe) == []
    turn_to(tab, "Prompt")
    tab.locator(".rows .text .user").first.hover()
    assert violations(tab, axe) == []
    choose(tab, "Tokens", "ids")
    assert violations(tab, axe) == []
    choose(tab, "Beside", "dialect:v4.1")
    assert violations(tab, axe) == []
    turn_to(tab, "Request")
    tab.get_by_role("button", name="Form").click()
    assert violations(tab, axe) == []
    tab.get_by_role("button", name="JSON").click()
    write(tab, "[")
    assert violations(tab, axe) == []


@pytest.mark.parametrize("width", [390, 320])
def test_nothing_sticks_out_on_a_phone(open_page: Open, width: int) -> None:
    tab = open_page(width=width)
    tab.wait_for_selector(".rows .row")
    for label, value in (("Beside", ""), ("Beside", "profile:vllm-0.32"), ("Tokens", "ids")):
        if value:
            choose(tab, label, value)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    turn_to(tab, "Request")
    turns = [[{"role": "user", "content": f"Line {n} of a file " * 9}] for n in range(2)]
    write(tab, "\n".join(map(json.dumps, turns)))
    sides = tab.get_by_role("group", name="Pane")
    sides.get_by_role("button", name="Turns").click()
    tab.get_by_role("region", name="Turns").locator(".turn").nth(1).wait_for()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_a_phone_names_the_pane_beside_the_text_by_what_it_shows(open_page: Open, axe: str) -> None:
    tab = open_page(width=390)
    settle(tab)
    sides = tab.get_by_role("group", name="Pane").get_by_role("button")
    answer = {"choices": [{"message": {"role": "assistant", "content": "Hi"}}]}
    turns = "\n".join(json.dumps([{"role": "user", "content": each}]) for each in "ab")
    for text, name in ((answer, "Answer"), (turns, "Turns"), ("Hello", "Prompt")):
        turn_to(tab, "Request")
        write(tab, text)
        sides.get_by_text(name, exact=True).click()
        assert tab.get_by_role("region", name=name, exact=True).is_visible()
        assert sides.all_inner_texts() == ["Request", name]
        assert violations(tab, axe) == []


class TestAFirstVisit:
    def test_it_says_what_to_do_until_something_was_done(self, open_page: Open) -> None:
        tab = open_page()
        settle(tab)
        assert tab.get_by_text("or pick an example").is_visible()
        write(tab, [{"role": "user", "content": "Hi"}])
        assert not tab.get_by_text("or pick an example").is_visible()
        put(tab, "")
        tab.get_by_text("or pick an example").wait_for()

    def test_the_theme_can_be_switched_and_stays(self, open_page: Open) -> None:
        tab = open_page(scheme="light")
        paper = "() => getComputedStyle(document.body).backgroundColor"
        before = tab.evaluate(paper)
        tab.get_by_role("button", name="Theme").click()
        assert tab.evaluate(paper) == before
        tab.get_by_role("button", name="Theme").click()
        dark = tab.evaluate(paper)
        assert dark != before
        tab.reload()
        tab.wait_for_selector("[role=tab]")
        assert tab.evaluate(paper) == dark

    def test_a_phone_shows_one_side_at_a_time(self, open_page: Open) -> None:
        tab = open_page(width=390, height=780)
        settle(tab)
        prompt = tab.locator("[aria-label=Prompt].result")
        assert prompt.is_visible()
        # Rows have their labels at the left, whether they open a message or go on with it.
        left = tab.locator(".rows .text").first.bounding_box()["x"]
        for words in ("bos", "0 system", "tools"):
            label = (
                tab.locator(".rows .label").get_by_text(words, exact=True).locator("visible=true")
            )
            assert label.first.bounding_box()["x"] == left
        tab.get_by_role("button", name="Request", exact=True).click()
        assert tab.locator(".pane.source").is_visible()
        assert not prompt.is_visible()

    def test_no_choice_is_cut(self, open_page: Open) -> None:
        """What is detected is named in full, whatever it is."""
        tab = open_page()
        settle(tab)
        for title in TITLES:
            example(tab, title)
            chosen = tab.locator("section.prompt").get_by_label("Read as")
            assert chosen.evaluate(IS_CUT) is False, chosen.input_value()


class TestPlaces:
    def test_a_place_has_a_line_and_a_path(self, open_page: Open) -> None:
        tab = open_page()
        write(tab, [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}])
        tab.locator(".rows .text").get_by_text("Ho", exact=True).hover()
        assert tab.inner_text(".whereabouts") == "line 8 · [1].content"


class TestPastedTexts:
    def test_a_prompt_is_decoded(self, open_page: Open) -> None:
        tab = open_page()
        settle(tab)
        prompt = dsv4.encode([{"role": "user", "content": "From a log"}])
        put(tab, str(prompt))
        tab.locator(".rows .text", has_text="From a log").wait_for()
        assert text_of(tab) == str(prompt)

    def test_a_line_of_a_file_is_chosen(self, open_page: Open) -> None:
        tab = open_page()
        settle(tab)
        system = {"role": "system", "content": "Every line has the same long instructions. " * 4}
        turns = [[system, {"role": "user", "content": word}] for word in ("One", "Two")]
        text = "\n".join(map(json.dumps, turns))
        put(tab, text)
        tab.get_by_role("region", name="Turns").locator(".turn").nth(1).wait_for()
        assert marked(tab, "wrong") == ""
        with answered(tab, "prompt"):
            tab.get_by_role("button", name="Open turn 2").click()
        tab.locator(".result .rows .text", has_text="Two").wait_for()
