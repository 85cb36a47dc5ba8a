"""The Live view in a real browser: a conversation with the demo backend, and the inspector."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from serving import first_is_smoke
from test_playground_pasted import png

from completions import declared

openai = pytest.importorskip("openai", reason="the openai client is not installed")

PROTOCOLS = ("chat", "responses", "messages")
MARKUP = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
HOSTILE = f"{MARKUP}\u202eright to left\u202c \x1b[31m \u0000 <｜User｜>"


def api_of(playground: str) -> str:
    return playground.removesuffix("/playground/")


def with_picture(protocol: str) -> tuple[str, Any]:
    """A request with a screenshot: of the user, and in Messages in a tool's result."""
    shot = png(1920, 1080)
    url, said = f"data:image/png;base64,{shot}", {"type": "text", "text": "What is this?"}
    if protocol == "chat":
        content: list[Any] = [said, {"type": "image_url", "image_url": {"url": url}}]
        return "/v1/chat/completions", {"messages": [{"role": "user", "content": content}]}
    if protocol == "responses":
        content = [{"type": "input_image", "image_url": url}]
        return "/v1/responses", {"input": [{"role": "user", "content": content}]}
    source = {"type": "base64", "media_type": "image/png", "data": shot}
    used = {"type": "tool_use", "id": "toolu_1", "name": "shot", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1"}
    return "/v1/messages", {
        "max_tokens": 100,
        "messages": [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": [used]},
            {
                "role": "user",
                "content": [{**result, "content": [{"type": "image", "source": source}]}],
            },
        ],
    }


def say(tab: Any, words: str) -> None:
    tab.get_by_label("Your message").fill(words)
    tab.get_by_role("button", name="Send", exact=True).click()


def opened(open_page: Callable[..., Any], **options: Any) -> Any:
    tab = open_page("#live", **options)
    tab.wait_for_selector(".live .composer textarea")
    return tab


@pytest.fixture(autouse=True)
def fresh(request: pytest.FixtureRequest) -> None:
    """Nothing is left of what other tests asked."""
    if request.config.getoption("--static"):
        pytest.skip("a page without a server has no Live view")
    playground = request.getfixturevalue("playground")
    url = f"{playground}inspector/clear"
    headers = {"content-type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(url, b"{}", headers)).read()


class TestTalk:
    @pytest.mark.parametrize("protocol", first_is_smoke(PROTOCOLS))
    def test_a_round_trip_with_a_call(self, open_page: Callable[..., Any], protocol: str) -> None:
        tab = opened(open_page)
        tab.get_by_label("Protocol").select_option(protocol)
        tab.get_by_label("Offer tools").check()
        say(tab, "RUN: ls -l")
        tab.wait_for_selector(".spoken.assistant .called")
        assert "bash" in tab.locator(".spoken.assistant .called").inner_text()
        assert '"ls -l"' in tab.locator(".spoken.assistant .called").inner_text()
        assert "asked to use bash" in tab.locator(".spoken.assistant .thinking").inner_text()
        tab.get_by_label("Result of bash").fill("total 0")
        tab.get_by_role("button", name="Send results").click()
        tab.wait_for_function("() => document.querySelectorAll('.spoken.assistant').length === 2")
        tab.wait_for_selector(".spoken.assistant:last-child .content")
        assert tab.locator(".spoken.assistant .content").last.inner_text() == "DONE: total 0"
        facts = tab.locator(".spoken.assistant .figures").last.inner_text()
        assert re.search(r"first token after .* tokens in, [\d,]+ out", facts)

    def test_frames_can_be_looked_at(self, open_page: Callable[..., Any]) -> None:
        tab = opened(open_page)
        say(tab, "Hello")
        tab.wait_for_selector(".spoken.assistant:not(.coming)")
        tab.locator(".spoken.assistant > details summary").last.click()
        frame = tab.locator(".spoken.assistant .frame-list code").first.inner_text()
        assert "chat.completion.chunk" in json.loads(frame)["object"]

    def test_effort_none_does_not_think(self, open_page: Callable[..., Any]) -> None:
        tab = opened(open_page)
        tab.get_by_label("Effort").select_option("none")
        say(tab, "Hello")
        tab.wait_for_selector(".spoken.assistant:not(.coming) .content")
        assert tab.locator(".spoken .thinking").count() == 0
        assert "chat mode" in tab.locator(".spoken.assistant").inner_text()

    def test_an_answer_can_be_stopped(self, browser: Any) -> None:
        from serving import served

        with served(pace=20.0) as url:
            context = browser.new_context()
            tab = context.new_page()
            tab.goto(f"{url}/playground/#live")
            say(tab, "Hello")
            tab.wait_for_selector(".spoken.coming .content, .spoken.coming .thinking")
            tab.get_by_role("button", name="Stop").click()
            tab.wait_for_selector(".spoken.assistant:not(.coming)")
            assert "stopped here" in tab.locator(".spoken.assistant .figures").inner_text()
            assert tab.get_by_role("button", name="Send", exact=True).is_enabled()
            # Without --inspect the page says how to get it.
            assert "--inspect" in tab.locator(".inspect").inner_text()
            context.close()

    def test_a_link_brings_the_conversation_back(self, open_page: Callable[..., Any]) -> None:
        tab = opened(open_page)
        tab.get_by_label("Protocol").select_option("messages")
        say(tab, "Hello there")
        tab.wait_for_selector(".spoken.assistant:not(.coming) .content")
        tab.wait_for_function("() => location.hash.length > 60")
        tab.wait_for_timeout(400)
        answer = tab.locator(".spoken.assistant .content").inner_text()
        again = opened(lambda fragment, **o: open_page(tab.url.partition("/playground/")[2], **o))
        assert again.get_by_label("Protocol").input_value() == "messages"
        assert again.locator(".spoken.user").inner_text().endswith("Hello there")
        assert again.locator(".spoken.assistant .content").inner_text() == answer
        again.get_by_role("button", name="New conversation").click()
        assert again.locator(".spoken").count() == 0

    def test_hostile_words_are_only_words(self, open_page: Callable[..., Any]) -> None:
        tab = opened(open_page)
        tab.get_by_label("Offer tools").check()
        say(tab, f"CALL: bash {json.dumps({'command': HOSTILE})}")
        tab.wait_for_selector(".spoken.assistant:not(.coming) .called")
        assert "dsv4 playground" in tab.title()
        assert tab.locator("main img, main script").count() == 0
        assert "onerror" in tab.locator(".spoken.assistant .called").inner_text()
        assert "\u202e" not in tab.locator(".turns").inner_text()

    def test_tools_that_are_no_json_are_named(self, open_page: Callable[..., Any]) -> None:
        tab = opened(open_page)
        tab.get_by_label("Offer tools").check()
        tab.locator(".tools summary").click()
        tab.get_by_label("As a JSON list").fill("[{")
        say(tab, "Hello")
        tab.wait_for_selector(".conversation .problem:not([hidden])")
        assert "JSON" in tab.locator(".conversation .problem").inner_text()


class TestInspector:
    @pytest.mark.smoke
    def test_it_watches_a_real_client(self, open_page: Callable[..., Any], playground: str) -> None:
        tab = opened(open_page)
        tab.wait_for_selector(".inspector")
        assert tab.locator(".request").count() == 0
        with openai.OpenAI(base_url=f"{api_of(playground)}/v1", api_key="sk-secret") as client:
            tools = declared(bash={"command": "string"})
            client.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": "RUN: ls\nBREAK: no-wrapper"}],
                tools=tools,
            )
            tab.wait_for_selector(".request .status.done")
            for _ in client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "Hello"}], stream=True
            ):
                pass
        tab.wait_for_function("() => document.querySelectorAll('.request .done').length === 2")
        # The newest stands first.
        numbers = [int(n) for n in tab.locator(".request b").all_inner_texts()]
        assert numbers == [numbers[1] + 1, numbers[1]]
        tab.locator(".request").nth(1).click()
        tab.wait_for_selector(".details dl")
        details = tab.locator(".details")
        text = details.inner_text()
        for word in ("First token", "Total", "missing_wrapper", "In a prefix cache"):
            assert word in text
        assert details.locator(".repair-mark").inner_text() == "1"
        assert "sk-secret" not in tab.content()
        # The prompt is shown as the Prompt view shows it.
        details.locator("summary").nth(1).click()
        details.locator(".rows .row", has_text="RUN: ls").wait_for()

    def test_rows_name_their_client_and_are_found_by_it(
        self, open_page: Callable[..., Any], playground: str
    ) -> None:
        tab = opened(open_page)
        with openai.OpenAI(base_url=f"{api_of(playground)}/v1", api_key="x") as client:
            for n in range(20):
                message = [{"role": "user", "content": f"Question {n} \u202e"}]
                client.chat.completions.create(model="m", messages=message)  # type: ignore[arg-type]
        tab.get_by_label("Offer tools").check()
        say(tab, "RUN: ls\nBREAK: no-closers")
        tab.wait_for_function("() => document.querySelectorAll('.request .done').length === 21")
        mine, other = tab.locator(".request").first, tab.locator(".request").nth(1)
        assert "Browser" in mine.inner_text()
        assert "3 repairs" in mine.inner_text()
        assert "OpenAI/Python" in other.inner_text()
        assert other.locator(".said").inner_text() == "Question 19 ⟨202E⟩"
        assert re.search(r"\d:\d\d", other.locator("time").inner_text())
        # The list takes the height there is, and scrolls within it.
        frame = tab.locator(".inspect").bounding_box()
        rows = tab.locator(".inspector > .requests").bounding_box()
        assert rows["height"] > 0.75 * frame["height"]
        assert frame["y"] + frame["height"] <= 800
        # What is opened takes half of it, and the row stays whole in the other half.
        lowest = tab.locator(".request").nth(int((frame["height"] - 90) / 80))
        lowest.click()
        tab.wait_for_selector(".details dl")
        rows, row = tab.locator(".inspector > .requests").bounding_box(), lowest.bounding_box()
        assert rows["y"] <= row["y"]
        assert row["y"] + row["height"] <= rows["y"] + rows["height"] + 1
        shown = tab.locator(".request:visible")
        tab.get_by_label("Requests with this text").fill("question 19")
        assert shown.count() == 1
        assert tab.get_by_text("1 of 21 requests").is_visible()
        tab.get_by_label("Requests with this text").fill("")
        tab.get_by_label("With repairs only").check()
        assert "RUN: ls" in shown.locator(".said").inner_text()
        tab.get_by_label("API", exact=True).select_option("messages")
        assert shown.count() == 0

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_pictures_of_a_request_are_drawn_with_their_cost(
        self, open_page: Callable[..., Any], playground: str, protocol: str
    ) -> None:
        """Whatever the server made of them: the demo reads none."""
        tab = opened(open_page)
        path, body = with_picture(protocol)
        headers = {"content-type": "application/json"}
        data = json.dumps(body).encode()
        sent = urllib.request.Request(f"{api_of(playground)}{path}", data, headers)
        with urllib.request.urlopen(sent) as answer:
            assert answer.headers["x-dsv4-images"] == "replaced=1"
        tab.wait_for_selector(".request .status.done")
        tab.locator(".request").first.click()
        tab.wait_for_selector(".details dl")
        assert tab.locator(".details figure.image").count() == 0
        tab.get_by_text("Pictures, and what they cost in V4.1").click()
        figure = tab.locator(".details figure.image")
        figure.wait_for()
        assert "1920 × 1080" in figure.inner_text()
        assert "968 tokens" in figure.inner_text()
        shown = figure.locator("img").evaluate(
            "image => image.decode().then(() => [image.naturalWidth, image.clientWidth])"
        )
        assert shown[0] == 1920
        assert 0 < shown[1] < 640  # small

    def test_a_request_without_pictures_has_no_place_for_them(
        self, open_page: Callable[..., Any]
    ) -> None:
        tab = opened(open_page)
        say(tab, "Hello")
        tab.wait_for_selector(".request .done")
        tab.locator(".request").first.click()
        tab.wait_for_selector(".details dl")
        assert tab.get_by_text("Pictures, and what they cost").count() == 0

    def test_a_completion_opens_in_stream_and_a_request_in_prompt(
        self, open_page: Callable[..., Any]
    ) -> None:
        tab = opened(open_page)
        tab.get_by_label("Offer tools").check()
        say(tab, "RUN: ls\nBREAK: no-closers")
        tab.wait_for_selector(".request .done")
        tab.locator(".request").first.click()
        tab.get_by_role("button", name="Open in Prompt").click()
        assert tab.locator("section.prompt").is_visible()
        tab.get_by_role("tab", name="Live").click()
        tab.get_by_role("button", name="Open in Stream").click()
        tab.wait_for_selector(".stream .diagram", state="attached")  # it is folded away
        tab.wait_for_selector(".stream .count:not(:empty)")
        tab.get_by_role("button", name="To the end").click()
        tab.wait_for_selector(".stream .finish")
        assert "implied_close" in tab.locator(".stream .events").inner_text()

    def test_it_stops_when_the_view_is_left(self, open_page: Callable[..., Any]) -> None:
        tab = opened(open_page)
        asked: list[str] = []
        tab.on("request", lambda request: asked.append(request.url))
        tab.get_by_role("tab", name="Prompt").click()
        tab.wait_for_timeout(4500)
        asked.clear()
        tab.wait_for_timeout(1500)
        assert not [url for url in asked if "inspector" in url]

    def test_clear(self, open_page: Callable[..., Any]) -> None:
        tab = opened(open_page)
        say(tab, "Hello")
        tab.wait_for_selector(".request .done")
        tab.get_by_role("button", name="Clear").click()
        tab.wait_for_function("() => document.querySelectorAll('.request').length === 0")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing(
    open_page: Callable[..., Any], axe: str, scheme: str, width: int
) -> None:
    from accessibility import violations

    tab = opened(open_page, scheme=scheme, width=width)
    assert violations(tab, axe) == []
    tab.get_by_label("Offer tools").check()
    tab.locator(".tools summary").click()
    say(tab, "RUN: ls\nBREAK: no-closers")
    tab.wait_for_selector(".spoken .called")
    tab.locator(".spoken.assistant > details summary").last.click()
    tab.wait_for_selector(".request .done")
    tab.locator(".request").first.click()
    tab.wait_for_selector(".details .repairs")
    for summary in tab.locator(".details summary").all():
        summary.click()
    tab.wait_for_selector(".details .rows .row")
    assert violations(tab, axe) == []


@pytest.mark.parametrize("width", [1280, 700, 390, 320])
def test_nothing_is_wider_than_the_page(open_page: Callable[..., Any], width: int) -> None:
    tab = opened(open_page, width=width)
    tab.get_by_label("Offer tools").check()
    say(tab, "CALL: bash " + json.dumps({"command": "x" * 2_000}))
    tab.wait_for_selector(".spoken .called")
    tab.wait_for_selector(".request .done")
    tab.locator(".request").first.click()
    tab.wait_for_selector(".details dl")
    for selector in ("html", ".view.live"):
        size = tab.locator(selector).evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert size[0] <= size[1]
