"""Sessions of a running gateway, which a trainer creates, rewards, closes and reads."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from dsv4.errors import Error


class GatewayRefused(Error):
    """The gateway refused a request, or cannot be reached; then `status` is 0."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Client:
    """The gateway at `url`; `key` is an admin key if it requires keys, `timeout` how many seconds
    an answer may take. Every method raises `GatewayRefused`."""

    def __init__(self, url: str, key: str | None = None, timeout: float = 60.0) -> None:
        self._url, self._timeout = url.rstrip("/"), timeout
        self._headers = {"authorization": f"Bearer {key}"} if key else {}

    def create(self, **options: Any) -> dict[str, Any]:
        """Creates a session with the `options` of `POST /sessions`. Returns its `id` and `urls`."""
        return dict(self._ask("POST", "", options))

    def reward(self, id: str, reward: float, **more: Any) -> None:
        """Sets the `reward` of the session `id`. `more` may have the `call` that it belongs to
        instead, and `metadata`."""
        self._ask("POST", f"/{quote(id)}/reward", {"reward": reward, **more})

    def close(self, id: str) -> None:
        """Ends the session `id`."""
        self._ask("POST", f"/{quote(id)}/close", {})

    def trajectories(self, id: str, **options: str) -> dict[str, Any]:
        """The trajectories of the session `id`, by the `options` of `build`, `shared` and
        `include`, as texts. Returns the answer of `GET /sessions/{id}/trajectories`."""
        return dict(self._ask("GET", f"/{quote(id)}/trajectories?{urlencode(options)}"))

    def sessions(self, after: int = 0, **wanted: str | int) -> Iterator[dict[str, Any]]:
        """All sessions, or those `wanted` by `group` and by `closed`, 1 or 0, in the order in which
        they were created, `after` a number."""
        following: int | None = after
        while following is not None:
            page = self._ask("GET", f"?{urlencode({**wanted, 'after': following})}")
            yield from page["data"]
            following = page["next"]

    def group(self, group: str) -> list[dict[str, Any]]:
        """The trajectories of all sessions of a `group` together."""
        return [self.trajectories(each["id"]) for each in self.sessions(group=group)]

    def wait_closed(self, id: str, seconds: float = 3600.0, pause: float = 0.5) -> bool:
        """Waits until the session `id` is closed, at most so many `seconds`, with a `pause` between
        two queries. Returns whether it is closed."""
        until, path = time.monotonic() + seconds, f"/{quote(id)}"
        while not self._ask("GET", path)["closed"]:
            if time.monotonic() > until:
                return False
            time.sleep(pause)
        return True

    def weights(self, version: str | float) -> None:
        """Tells the gateway that the engine has the weights of this `version` from now on."""
        self._ask("POST", "/admin/weights", {"version": version}, "")

    def _ask(self, method: str, path: str, body: Any = None, at: str = "/sessions") -> Any:
        url = f"{self._url}{at}{path}"
        data = None if body is None else json.dumps(body).encode()
        try:
            request = Request(url, data, self._headers, method=method)
            with urlopen(request, timeout=self._timeout) as answer:
                return json.load(answer)
        except HTTPError as error:
            text = error.read(4096).decode("utf-8", "replace")
            raise GatewayRefused(f"{method} {url}: {error.code}: {text}", error.code) from None
        except (OSError, ValueError) as error:
            raise GatewayRefused(f"{method} {url}: {error}") from None


class AsyncClient:
    """The methods of a `Client` with the same arguments, `client`, to be awaited."""

    def __init__(self, *client: Any, **options: Any) -> None:
        self._client = Client(*client, **options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        return lambda *args, **options: asyncio.to_thread(lambda: method(*args, **options))
