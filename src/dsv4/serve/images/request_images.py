"""The images of a request before its prompt is made: those that are only addresses are handled by
the setting `image_urls`.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from dsv4._images.image_source import is_data_url
from dsv4.api import ApiError, ApiRequest
from dsv4.api.errors import wrong
from dsv4.api.request_content import MAX_IMAGE_BYTES, ImageBlock, checked_image
from dsv4.api.request_fields import JsonObject
from dsv4.errors import ImageError
from dsv4.serve.backend import ImageSupport
from dsv4.serve.images.image_fetcher import ImageFetcher
from dsv4.serve.settings import Settings

# The most pictures of one request that are fetched at the same time.
_AT_ONCE = 8
_REFUSED = "found the address of an image, expected its bytes as data:image/…;base64,…"


class RequestImages:
    """Applies the setting to the addresses of images in requests."""

    def __init__(self, settings: Settings, fetcher: ImageFetcher | None = None) -> None:
        self._rule = settings.image_urls
        self._most_bytes = settings.max_body
        self._fetcher = fetcher or ImageFetcher()

    async def settled(self, call: ApiRequest, support: ImageSupport) -> ApiRequest:
        """The request with images that an engine with this `support` can be sent. Raises an
        `ApiError` for an address that may not be fetched, or from which no valid image is
        fetched."""
        remote = [block for block in _images(call) if not is_data_url(block["image_url"]["url"])]
        if not remote:
            return call
        if self._rule == "fetch":
            return await self._fetched(call, remote)
        if self._rule == "pass" and support.by_address:
            return call
        why = "the setting `image_urls` is `refuse` here"
        if self._rule == "pass":
            why = "this backend takes no addresses, and the setting `image_urls` is not `fetch`"
        raise ApiError(f"{_REFUSED}: {why}", path=remote[0]["path"])

    async def _fetched(self, call: ApiRequest, remote: Sequence[ImageBlock]) -> ApiRequest:
        blocks = {block["image_url"]["url"]: block for block in remote}
        pictures = _FetchedPictures(self._fetcher, self._most_bytes)
        tasks = [asyncio.create_task(pictures.fetch(block)) for block in blocks.values()]
        try:
            pictures_by_url = dict(zip(blocks, await asyncio.gather(*tasks), strict=True))
        finally:
            for task in tasks:  # a failed one leaves the others running
                task.cancel()

        def fetched(block: ImageBlock) -> ImageBlock:
            picture = pictures_by_url.get(block["image_url"]["url"])
            return block if picture is None else {**block, "image_url": picture["image_url"]}

        messages = [_changed(message, fetched) for message in call.request.messages]
        return replace(call, request=replace(call.request, messages=messages))

    def close(self) -> None:
        self._fetcher.close()


class _FetchedPictures:
    """The pictures of one request, which together may be as large as the largest body of a
    request."""

    def __init__(self, fetcher: ImageFetcher, most: int) -> None:
        self._fetcher = fetcher
        self._most = most
        self._size = 0
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def fetch(self, block: ImageBlock) -> ImageBlock:
        async with self._places:
            try:
                data = await self._fetcher.fetched(block["image_url"]["url"], MAX_IMAGE_BYTES)
            except ImageError as error:
                raise ApiError(f"an image: {error}", path=block["path"]) from None
            self._size += len(data)
            if self._size > self._most:
                problem = f"found images of more than {self._most} bytes in all"
                raise ApiError(problem, path=block["path"])
            return await asyncio.to_thread(_with_bytes, block, data)


def _with_bytes(block: ImageBlock, data: bytes) -> ImageBlock:
    url = f"data:;base64,{base64.b64encode(data).decode()}"
    return checked_image({**block, "image_url": {**block["image_url"], "url": url}})


def _images(call: ApiRequest) -> list[ImageBlock]:
    messages = (message for message in call.request.messages if isinstance(message, Mapping))
    contents: Iterable[Any] = (message.get("content") for message in messages)
    blocks: Iterable[Any] = chain.from_iterable(c for c in contents if isinstance(c, list))
    return [block for block in blocks if block.get("type") == "image_url"]


def _changed(message: Any, change: Callable[[ImageBlock], ImageBlock]) -> Any:
    """A message with changed images. Only a client's messages have images: a turn that stands as it
    was sampled has none."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(content, list):
        return message
    blocks = [change(block) if block.get("type") == "image_url" else block for block in content]
    return {**message, "content": blocks}


def refuse_files(body: JsonObject) -> None:
    """Refuses a request for a chat server that names images on that server's disk: parts are passed
    on unchanged, but clients may not read files there."""
    for n, message in enumerate(body.get("messages") or ()):
        content = message.get("content") if isinstance(message, dict) else None
        for m, part in enumerate(content if isinstance(content, list) else ()):
            url = _address(part)
            if url is not None and not url.lower().startswith(("http://", "https://", "data:")):
                path = f"messages[{n}].content[{m}]"
                raise wrong(url, "an address with http, https or data", path)


def _address(part: object) -> str | None:
    """The address of an image part; None where it has none."""
    source = part.get("image_url") if isinstance(part, dict) else None
    url = source.get("url") if isinstance(source, dict) else source
    return url if isinstance(url, str) else None
