"""The keys of a gateway, and what has been used with each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dsv4.api import ApiError
from dsv4.serve.access.api_keys import Key, Keyring, WrongKeys, read_keys, refuse_open_file
from dsv4.serve.access.key_usage import KeyMeter, MachineUsage, ProcessUsage, UsageTable
from dsv4.serve.asgi import Scope, headers_of
from dsv4.serve.settings import SettingError, Settings


class AccessControl:
    """The keys of a gateway, and what has been used with each."""

    def __init__(
        self,
        settings: Settings,
        folder: Path | None,
        on_change: Callable[[bool], None] = lambda is_up: None,
    ) -> None:
        """`folder` is the folder of workers that count together. `on_change` is called with whether
        the Redis that counts for all machines is there, each time that it was asked. Raises a
        `SettingError`."""
        if not (settings.is_loopback or settings.api_key_file or settings.no_auth):
            problem = (
                f"found none while listening on {settings.host}: expected a file of keys, "
                "or --no-auth to let everybody in"
            )
            raise SettingError("api_key_file", problem)
        for name in ("api_key_file", "seal_key_file", "upstream_key_file", "tls_key"):
            if path := getattr(settings, name):
                refuse_open_file(name, path, settings)
        self._settings = settings
        self.keys = read_keys(settings.api_key_file) if settings.api_key_file else Keyring()
        self.meter: KeyMeter = KeyMeter(_usage_table(settings, folder, on_change))
        self.wrong_keys: WrongKeys = WrongKeys()

    async def authenticated(self, scope: Scope) -> Key:
        """Whose request it is. Raises an `ApiError`; a wrong key takes longer each time."""
        names = [name for name, _ in scope["headers"]]
        if names.count(b"authorization") > 1 or names.count(b"x-api-key") > 1:
            # A proxy before this may have looked at the other one.
            raise ApiError("found the same header of a key twice, expected it once", status=400)
        key = self.keys.owner(headers_of(scope))
        if key is None:
            await self.wrong_keys.slow_down((scope.get("client") or ("",))[0])
            raise ApiError("The API key is missing or not known here.", status=401)
        if key.has_expired:
            raise ApiError("The API key has expired.", status=401)
        return key

    def check_admin(self, key: Key) -> None:
        """Raises an `ApiError` where there are keys, and this is not one of an administrator."""
        if self.keys.asks and not key.admin:
            problem = "found a key without `admin` before its name in the file of keys"
            raise ApiError(f"{problem}, expected an `admin` key", status=403)

    def check_administrator(self, key: Key) -> None:
        """The same, where without keys only this machine may change the gateway."""
        self.check_admin(key)
        if not (self.keys.asks or self._settings.is_loopback):
            problem = "found a server without keys that listens beyond loopback"
            raise ApiError(f"{problem}, expected an `admin` key", status=403)

    def reload(self) -> bool:
        """Reads the file of keys again. False where there is none. Raises a `SettingError`, and
        keeps the old ones, where it cannot be used."""
        path = self._settings.api_key_file
        if path:
            refuse_open_file("api_key_file", path, self._settings)
            self.keys = read_keys(path)
        return bool(path)


def _usage_table(
    settings: Settings, folder: Path | None, on_change: Callable[[bool], None]
) -> UsageTable:
    """Where it is counted what keys use: as far as can be."""
    if url := settings.limits_redis:
        from dsv4.serve.access.redis_usage import RedisUsage

        table = RedisUsage(url, on_change)
        on_change(True)  # until it turns out to be away
        return table
    return ProcessUsage() if folder is None else MachineUsage(folder)
