"""What `dsv4.check` finds in images."""

from __future__ import annotations

from typing import Any

import dsv4
from builders import call, calling, image, result, text, user
from rows import each_row
from test_image_ids import PHOTO, SCREENSHOT, picture

BMP = (
    "data:image/bmp;base64,Qk02AAAAAAAAADYAAAAoAAAAAQAAAAEAAAABABgAAAAAAAQAAAATCwAAEwsAAAAAAAAAAAAA"
)
AVIF = "data:image/avif;base64,AAAAHGZ0eXBhdmlmAAAAAA=="


def kinds(block: Any, dialect: str = "v4.1") -> list[tuple[str, str]]:
    request = dsv4.Request([user([text("a"), block])], dialect=dialect)
    return [(finding.path, finding.kind) for finding in dsv4.check(request)]


@each_row(
    "block, kind",
    [
        (SCREENSHOT, None),
        (PHOTO, None),
        (image("https://example.com/a.png"), None),
        (image("http://93.184.215.14/a.png"), None),
        (image(SCREENSHOT["image_url"]["url"][:60]), "broken_image"),
        (image("data:image/png;base64,?"), "broken_image"),
        (image("data:image/png;base64,aGVsbG8="), "broken_image"),
        (image(BMP), "image_type"),
        (image(AVIF), "image_type"),
        *(
            (image(address), "image_address")
            for address in (
                *("cat.png", "/home/me/cat.png", "C:\\cat.png", "file:///cat.png", "ftp://a.b/c"),
                *("http://localhost/a.png", "http://127.0.0.1:8000/a.png", "https://10.1.2.3/a"),
                *("http://[::1]/a.png", "http://printer.local/a.png", "http://[bad/a", "https://"),
            )
        ),
        (picture(8000, 6000), "image_scaled_down"),
        (picture(4000, 3000), None),
    ],
)
def test_images(block: Any, kind: str | None) -> None:
    expected = [] if kind is None else [("messages[0].content", kind)]
    assert kinds(block) == expected


def test_images_in_results() -> None:
    conversation = [user("a"), calling(call(id="x")), result([image("cat.png")], "x")]
    found = dsv4.check(dsv4.Request(conversation, dialect="v4.1"))
    assert ("messages[2].content", "image_address") in [(f.path, f.kind) for f in found]


def test_a_dialect_without_images_names_those_that_have_them() -> None:
    (found,) = dsv4.check([user([image("https://a.b/c.png")])])
    assert (found.path, found.kind) == ("messages[0].content[0]", "not_encodable")
    with_images = [name for name, each in dsv4.DIALECTS.items() if each.image_token]
    needed = f"images need the dialect {' or '.join(with_images)}"
    assert found.message.endswith(needed)
    called = [user("a"), calling(call(id="x")), result([image("https://a.b/c.png")], "x")]
    lost = [f.message for f in dsv4.check(called) if f.kind == "unsupported_content"]
    problem = "the prompt only says that a block is unsupported: its content is lost"
    assert lost == [f"{problem} ({needed})"]
