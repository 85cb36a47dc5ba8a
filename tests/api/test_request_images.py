"""Images in requests of all protocols: read, checked, carried, and written in another protocol."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from request_bodies import body, call, prompt, result, user

import dsv4
from dsv4 import api
from rows import each_row

REQUESTS = Path(__file__).parent / "requests"
PLACEHOLDER = "<｜deepseek_image｜>"
ADDRESS = "https://example.com/a.png"


def png(width: int = 2, height: int = 3) -> bytes:
    """A picture that says it is of this size. Nobody looks at its pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def packed(data: bytes) -> str:
    return base64.b64encode(data).decode()


def data_url(data: bytes, label: str = "image/png") -> str:
    return f"data:{label};base64,{packed(data)}"


def block(protocol: str, url: str) -> dict[str, Any]:
    """An image as a protocol has it."""
    if protocol == "chat":
        return {"type": "image_url", "image_url": {"url": url, "detail": "high"}}
    if protocol == "responses":
        return {"type": "input_image", "image_url": url, "detail": "high"}
    if url.startswith("data:"):
        label, _, data = url.removeprefix("data:").partition(";base64,")
        return {"type": "image", "source": {"type": "base64", "media_type": label, "data": data}}
    return {"type": "image", "source": {"type": "url", "url": url}}


def text(protocol: str, words: str) -> dict[str, Any]:
    return {"type": "input_text" if protocol == "responses" else "text", "text": words}


def with_images(protocol: str, url: str) -> dict[str, Any]:
    """An image in the user's turn, and one in a tool's result."""
    asked = {"role": "user", "content": [text(protocol, "Look"), block(protocol, url)]}
    shown: Any = [text(protocol, "Seen"), block(protocol, url)]
    return body(protocol, asked, *call(protocol, "c", "shot", {}), *result(protocol, "c", shown))


PROTOCOLS = ("chat", "responses", "messages")


@each_row("protocol, url", [(p, u) for p in PROTOCOLS for u in (data_url(png()), ADDRESS)])
def test_an_image_is_an_image_in_every_protocol(protocol: Any, url: str) -> None:
    written = api.read(
        with_images(protocol, url), protocol=protocol, dialect="v4.1"
    ).request.encode()
    assert f"Look\n\n{PLACEHOLDER}" in str(written)
    assert f"<tool_result>Seen\n\n{PLACEHOLDER}</tool_result>" in str(written)
    assert written.images == [{"type": "image", "url": url}] * 2
    assert str(written).count(PLACEHOLDER) == 2


@each_row(
    "source, target, url",
    [(s, t, u) for s in PROTOCOLS for t in PROTOCOLS for u in (data_url(png()), ADDRESS)],
)
def test_there_and_back(source: Any, target: Any, url: str) -> None:
    given = with_images(source, url)
    converted = api.convert(given, source, target)
    read = [
        api.read(each, protocol=protocol, dialect="v4.1").request.encode()
        for each, protocol in ((given, source), (converted, target))
    ]
    assert read[0].text == read[1].text
    assert read[0].images == read[1].images


@each_row("protocol", [(p,) for p in PROTOCOLS])
def test_a_dialect_without_images_names_them(protocol: Any) -> None:
    written = prompt(protocol, with_images(protocol, "file:///etc/passwd"), dialect="v4")
    assert written.count("[Unsupported Image]") == 2


@each_row(
    "url, problem",
    [
        ("file:///etc/passwd", "expected an address with http, https or data"),
        ("/home/me/a.png", "expected an address with http, https or data"),
        ("ftp://example.com/a.png", "expected an address with http, https or data"),
        ("data:image/png;base64,%%%", "expected a picture in base64"),
        ("data:image/png,abc", "expected data:image/…;base64,…"),
        (data_url(b"<svg/>", "image/svg+xml"), "expected one of PNG"),
        (data_url(png()[:20]), "PNG"),
        (data_url(png(20_000, 20_000)), "found 20000 × 20000 pixels"),
        (data_url(png() + bytes(20 * 1024 * 1024)), "bytes, expected at most 20971520"),
    ],
)
def test_a_picture_that_no_engine_could_read(url: str, problem: str) -> None:
    protocols: tuple[Any, ...] = ("chat", "responses")
    for protocol in protocols:
        with pytest.raises(api.ApiError) as caught:
            api.read(with_images(protocol, url), protocol=protocol, dialect="v4.1")
        assert problem in caught.value.message
        assert caught.value.path in ("messages[0].content[1]", "input[0].content[1]")


@each_row("protocol", PROTOCOLS)
def test_base64_goes_on_as_every_engine_takes_it(protocol: Any) -> None:
    data = packed(png())
    spaced = f"data:image/png;base64, {data[:20]}\n{data[20:]}\r\n"
    for url in (spaced, data_url(png(), "IMAGE/PNG")):
        written = api.read(with_images(protocol, url), protocol=protocol, dialect="v4.1")
        assert written.request.encode().images == [{"type": "image", "url": data_url(png())}] * 2


def test_the_label_of_a_picture_says_nothing() -> None:
    for label in ("text/plain", "a;b,c", "image/jpeg", None):
        source = {"type": "base64", "media_type": label, "data": packed(png())}
        asked = {"role": "user", "content": [{"type": "image", "source": source}]}
        [image] = api.messages.read(body("messages", asked), dialect="v4.1").request.encode().images
        assert image["url"] == data_url(png())


def test_blocks_of_other_protocols_beside_calls_of_chat() -> None:
    """As in conversations in dsv4's own form, which a file may have with a server's fields."""
    source = {"type": "base64", "media_type": "image/png", "data": packed(png())}
    seen = [{"type": "image", "source": source}, block("responses", data_url(png()))]
    asked = {"role": "user", "content": seen}
    sent = body("chat", asked, *call("chat", "c", "shot", {}), *result("chat", "c", "Seen"))
    read = api.read({**sent, "model": "DeepSeek-V4.1-Flash"})
    assert (read.protocol, len(read.request.encode().images)) == ("chat", 2)


@each_row(
    "protocol, image",
    [
        ("responses", {"type": "input_image", "file_id": "file-1"}),
        ("messages", {"type": "image", "source": {"type": "file", "file_id": "file-1"}}),
    ],
)
def test_the_id_of_a_file_is_refused(protocol: Any, image: dict[str, Any]) -> None:
    asked = body(protocol, user([image]))  # type: ignore[arg-type]
    with pytest.raises(api.ApiError, match="no files are kept"):
        api.read(asked, protocol=protocol, dialect="v4.1")
    assert "[Unsupported Image]" in prompt(protocol, asked, dialect="v4")
    assert "[Unsupported Image]" in prompt("chat", api.convert(asked, protocol, "chat"))


@each_row(
    "protocol, image",
    [
        ("chat", {"type": "image_url"}),
        ("chat", {"type": "image_url", "image_url": {"url": ""}}),
        ("responses", {"type": "input_image"}),
        ("messages", {"type": "image"}),
        ("messages", {"type": "image", "source": {"type": "base64", "data": ""}}),
    ],
)
def test_an_image_without_a_picture(protocol: Any, image: dict[str, Any]) -> None:
    asked = body(protocol, user([image]))  # type: ignore[arg-type]
    with pytest.raises(api.ApiError, match="found no picture"):
        api.read(asked, protocol=protocol, dialect="v4.1")


def test_the_type_of_a_picture_is_that_of_its_bytes() -> None:
    asked = with_images("chat", data_url(png(), "image/jpeg"))
    images = api.read(asked, protocol="chat", dialect="v4.1").request.encode().images
    assert images == [{"type": "image", "url": data_url(png())}] * 2


def test_more_images_than_a_request_may_have() -> None:
    image = block("chat", ADDRESS)
    for count in (100, 101):
        asked = body("chat", {"role": "user", "content": [image] * count})
        if count == 100:
            assert len(api.chat.read(asked, dialect="v4.1").request.encode().images) == 100
            continue
        with pytest.raises(api.ApiError, match="more than 100 images"):
            api.chat.read(asked, dialect="v4.1")


def test_the_detail_is_kept() -> None:
    call_ = api.chat.read(with_images("chat", ADDRESS), dialect="v4.1")
    (image,) = [b for b in call_.request.messages[0]["content"] if b["type"] != "text"]  # type: ignore[index]
    assert image["image_url"] == {"url": ADDRESS, "detail": "high"}


def test_a_screenshot_of_a_computer() -> None:
    shown = {"type": "computer_screenshot", "image_url": data_url(png())}
    item = {"type": "computer_call_output", "call_id": "c", "output": shown}
    written = api.responses.read(body("responses", user("Hi"), item), dialect="v4.1")
    assert f"<tool_result>{PLACEHOLDER}</tool_result>" in str(written.request.encode())


@each_row(
    "name, around",
    [
        ("cc-04-image-in-tool-result", f"<tool_result>{PLACEHOLDER}</tool_result><｜Assistant｜>"),
        ("cx-03-image-argument", f'img.png">\n\n{PLACEHOLDER}\n\n</image>\n\nSCENARIO'),
        ("oc-03-image", f"User text 1.\n\n{PLACEHOLDER}<｜Assistant｜>"),
    ],
)
def test_what_real_clients_send(name: str, around: str) -> None:
    asked = json.loads((REQUESTS / f"{name}.json").read_text("utf-8"))["body"]
    written = api.read(asked, dialect="v4.1").request.encode()
    assert around in str(written)
    (grid,) = written.image_grids
    assert grid is not None
    assert grid.tokens == 184


# Images where no image can stand.


def image_of(protocol: str) -> dict[str, Any]:
    return block(protocol, data_url(png()))


def misplaced(protocol: str) -> dict[str, Any]:
    """An image in a system message, and two in an assistant's, beside one of the user."""
    texts = {"responses": "output_text"}
    answer = {"type": texts.get(protocol, "text"), "text": "Said"}
    fields: dict[str, Any] = {}
    if protocol == "messages":
        fields["system"] = [text(protocol, "Rules"), image_of(protocol)]
        before: list[Any] = []
    else:
        before = [{"role": "system", "content": [text(protocol, "Rules"), image_of(protocol)]}]
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [answer, image_of(protocol), image_of(protocol)]},
        {"role": "user", "content": [text(protocol, "Look"), image_of(protocol)]},
    ]
    return body(protocol, *before, *turns, **fields)


PLACES = {
    "chat": "messages[0].content[1]",
    "responses": "input[0].content[1]",
    "messages": "system[1]",
}


@each_row("protocol", [(p,) for p in PROTOCOLS])
def test_images_of_the_system_and_the_assistant_are_counted_as_replaced(protocol: Any) -> None:
    read = api.read(misplaced(protocol), protocol=protocol, dialect="v4.1")
    assert (read.images, read.replaced_images) == (1, 3)
    written = str(read.request.encode())
    assert "Rules\n\n[Unsupported Image]" in written
    assert "Said\n\n[Unsupported Image]\n\n[Unsupported Image]" in written
    read = api.read(misplaced(protocol), protocol=protocol, dialect="v4")
    assert (read.images, read.replaced_images) == (0, 4)


@each_row("protocol", [(p,) for p in PROTOCOLS])
def test_or_they_are_refused(protocol: Any) -> None:
    settings = api.Settings(unsupported_images="refuse")
    with pytest.raises(
        api.ApiError, match=r"images of this role \(system\) are not read"
    ) as caught:
        api.read(misplaced(protocol), protocol=protocol, dialect="v4.1", settings=settings)
    assert caught.value.path == PLACES[protocol]


@each_row("protocol", [(p,) for p in PROTOCOLS])
def test_other_protocols_are_told_their_names(protocol: Any) -> None:
    given: Any = misplaced(protocol)
    whole = str(api.read(given, protocol=protocol, dialect="v4.1").request.encode())
    for target in PROTOCOLS:
        converted = api.convert(given, protocol, target)
        read = api.read(converted, protocol=target, dialect="v4.1")
        assert str(read.request.encode()) == whole
        assert (read.images, read.replaced_images) == (1, 0)


def test_check_says_so() -> None:
    found = dsv4.check({**misplaced("chat"), "model": "DeepSeek-V4.1", "max_tokens": 9})
    lost = [each.path for each in found if each.kind == "unsupported_content"]
    assert lost == ["messages[0].content", "messages[2].content"]


@each_row("kind", [("document",), ("search_result",)])
def test_images_in_documents_are_images(kind: str) -> None:
    inside = [{"type": "text", "text": "Page 1"}, image_of("messages")]
    shown: dict[str, Any] = {"type": kind, "title": "Report", "content": inside}
    if kind == "document":
        shown = {"type": kind, "title": "Report", "source": {"type": "content", "content": inside}}
    asked = body("messages", {"role": "user", "content": [shown, text("messages", "So?")]})
    read = api.messages.read(asked, dialect="v4.1")
    assert (read.images, read.replaced_images) == (1, 0)
    assert f"Report\n\nPage 1\n\n{PLACEHOLDER}\n\nSo?" in str(read.request.encode())
    assert api.messages.read(asked, dialect="v4").replaced_images == 1


def test_an_image_without_a_picture_counts_as_replaced_where_none_is_checked() -> None:
    asked = body("chat", {"role": "user", "content": [{"type": "image_url"}, image_of("chat")]})
    read = api.chat.read(asked, dialect="v4.1", settings=api.Settings(read_images="unchecked"))
    assert (read.images, read.replaced_images) == (1, 1)


@each_row("source, target", [("chat", "responses"), ("responses", "chat")])
def test_the_detail_goes_to_protocols_that_have_it(source: Any, target: Any) -> None:
    converted = api.convert(with_images(source, ADDRESS), source, target)
    (shown,) = [
        part
        for part in converted["messages" if target == "chat" else "input"][0]["content"]
        if part["type"] in ("image_url", "input_image")
    ]
    assert (shown if target == "responses" else shown["image_url"])["detail"] == "high"
