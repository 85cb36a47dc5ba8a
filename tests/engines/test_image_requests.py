"""The gateway's requests with images, held against the engines' own classes.

A gateway stands in front of a stand-in, and what that got is given to SGLang's image processor and
to the request class of vLLM, each in its own environment.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from gateway import gateway, run
from standins import SglangServer, StandIn, VllmServer
from vllm_process import HERE, ROOT, environment, sglang_python

from dsv4.serve.backends.vllm import read_generated
from dsv4.tokens import Tokenizer

Image = pytest.importorskip("PIL.Image")

# Width, height and EXIF orientation, with the tokens of each in V4.1.
PICTURES = [
    *((1, 1, 1, 184), (1920, 1080, 1, 968), (1920, 1080, 6, 986), (353, 6, 1, 204)),
    *((4032, 3024, 1, 1001), (640, 480, 1, None), (3000, 50, 1, None), (37, 900, 8, None)),
]
FORMATS = ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"]


def picture(width: int, height: int, orientation: int, kind: str) -> str:
    made, data = Image.new("RGB", (width, height), "teal"), BytesIO()
    exif = made.getexif()
    exif[0x0112] = orientation
    turned = {"exif": exif} if orientation > 1 else {}
    made.save(data, kind, **turned)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(data.getvalue()).decode()}"


def requests_of(server: StandIn, backend: str, urls: list[list[str]], **more: Any) -> list[Any]:
    """What an engine gets for requests with these images."""

    async def scenario() -> list[str]:
        given = {"settings_backend": backend, "dialect": "v4.1"}
        async with server.running() as url, gateway(upstream=url, **given) as g:
            for each in urls:
                parts = [{"type": "image_url", "image_url": {"url": u}} for u in each]
                content = [{"type": "text", "text": "What is it?"}, *parts]
                body = {"messages": [{"role": "user", "content": content}], **more}
                assert (await g.post("/v1/chat/completions", body))[0] == 200
        return server.requests

    found: list[Any] = run(scenario(), 300)
    return found


def lines_of(python: Path, script: str, bodies: list[Any], **variables: str) -> list[Any]:
    done = subprocess.run(
        [python, HERE / script],
        input="".join(f"{json.dumps(body)}\n" for body in bodies),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line[:1] in '[{"0123456789']


def sglang(tokenizer: Tokenizer) -> StandIn:
    server = SglangServer(tokenizer, "Hm.</think>A cat.")
    server.sees = True
    return server


def test_sglang_counts_every_picture_as_we_do(tokenizer: Tokenizer) -> None:
    python = sglang_python()
    cases = [(*sides, kind) for *sides, _ in PICTURES for kind in ("PNG", "JPEG")]
    cases += [(200, 100, 1, kind) for kind in FORMATS]
    urls = [[picture(*case)] for case in cases] + [[picture(64, 64, 1, kind) for kind in FORMATS]]
    bodies = requests_of(sglang(tokenizer), "sglang", urls)
    counted = lines_of(python, "sglang_images.py", bodies)
    ours = [tokens_of_prompt(body, url, tokenizer) for body, url in zip(bodies, urls, strict=True)]
    assert counted == ours
    known = [n for *_, n in PICTURES for _ in range(2)]
    alone = [len(body["input_ids"]) - 1 for body in bodies]
    assert [c - a for c, a, n in zip(counted, alone, known, strict=False) if n is not None] == [
        n for n in known if n is not None
    ]
    print(f"SGLang: {len(bodies)} requests with {sum(map(len, urls))} pictures, all counted alike")


def tokens_of_prompt(body: Any, urls: list[str], tokenizer: Tokenizer) -> int:
    import dsv4

    sizes = [dsv4.image_size(base64.b64decode(url.partition(",")[2])) for url in urls]
    return len(body["input_ids"]) + sum(dsv4.image_grid(*size).tokens - 1 for size in sizes)


def test_sglang_refuses_what_the_gateway_never_sends(tokenizer: Tokenizer) -> None:
    python = sglang_python()
    [body] = requests_of(sglang(tokenizer), "sglang", [[picture(64, 64, 1, "PNG")]])
    more = {**body, "input_ids": [*body["input_ids"], 129264]}
    assert "must match" in lines_of(python, "sglang_images.py", [more])[0]


@pytest.mark.parametrize("release", ["", "VLLM_FILES"])
def test_vllm_reads_what_the_gateway_sends(release: str, tokenizer: Tokenizer) -> None:
    """Also with the Python files of another release, where VLLM_FILES names a folder of them."""
    python = environment() / "bin" / "python"
    folder = os.environ.get(release, "") if release else ""
    if release and not folder:
        pytest.skip("VLLM_FILES names no folder with the files of another release of vLLM")
    path = os.pathsep.join(filter(None, [folder, str(ROOT / "src")]))
    fields = {"seed": 7, "min_p": 0.1, "cache_salt": "s", "vllm_xargs": {"a": 1}, "session_id": "x"}
    url = picture(64, 64, 1, "PNG")
    server = VllmServer(tokenizer, "Hm.</think>A cat.")
    [body] = requests_of(server, "vllm", [[url]], **fields, max_tokens=99)
    read, events = lines_of(python, "vllm_generate.py", [body], PYTHONPATH=path)
    assert read["parts"] == [{"type": "image_url", "url": url}]
    assert read["ids"].count(129264) == 1
    assert (read["stream"], read["salt"]) == (True, "s")
    sampling = {"max_tokens": 99, "skip_special_tokens": False, "seed": 7}
    assert read["sampling"] == {**sampling, "min_p": 0.1, "extra_args": {"a": 1}}
    chunks = [read_generated(json.loads(event)) for event in events]
    assert [list(chunk.ids or ()) for chunk in chunks] == [[20], [1], []]
    assert [chunk.finish for chunk in chunks] == [None, "stop", None]
    assert chunks[-1].counts is not None
    assert (chunks[-1].counts.prompt, chunks[-1].counts.completion) == (9, 2)
