"""Every setting of the gateway: one frozen value, with its defaults and its checks.
settings_help.json has the purpose of each.

The flags of `dsv4 serve`, the variables `DSV4_…` and the keys of the TOML file are all made from
the fields here, so a setting exists in all three places or in none.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from dsv4._inputs.input_files import os_error_reason
from dsv4.errors import Error, mismatch, short_repr

BackendName: TypeAlias = Literal["demo", "vllm", "sglang", "llamacpp", "completions", "chat"]
SystemPlace: TypeAlias = Literal["reminder", "in_place", "in_front"]
# Whether the content of a chat server begins with reasoning.
ReasoningInContent: TypeAlias = Literal["auto", "never", "always"]
MissingReasoning: TypeAlias = Literal["space", "empty", "refuse"]

# The type of a setting: a class, or a type made by `typing`.
TypeForm: TypeAlias = object

MIB = 1024 * 1024
STAND_IN = "deepseek-api"  # the API that the gateway can stand in for
LAST_PORT = 65_535


class SettingError(Error):
    """A setting that cannot be used: its name, the value found, and the values expected."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem


def _wrong(name: str, value: object, expected: str) -> SettingError:
    return SettingError(name, mismatch(value, expected))


# The purpose of each setting, in the groups of a command's help.
_HELP_GROUPS: Mapping[str, Mapping[str, str]] = json.loads(
    Path(__file__).with_name("settings_help.json").read_text("utf-8")
)
HELP = {name: help for group in _HELP_GROUPS.values() for name, help in group.items()}


def bounded(default: object, least: float, most: float = math.inf) -> Any:
    """A setting that is a number within bounds."""
    return dataclasses.field(default=default, metadata={"bounds": (least, most)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the server runs. Each field is a flag, a variable and a key of the TOML file."""

    host: str = "127.0.0.1"
    port: int = bounded(8000, 0, LAST_PORT)
    workers: int = bounded(1, 1)
    config: str | None = None

    backend: BackendName = "demo"
    upstream: tuple[str, ...] = ()
    probe_interval: float = bounded(5.0, 0.05)
    upstream_key_file: str | None = None
    upstream_ca: str | None = None
    upstream_proxy: str | None = None
    upstream_model: str | None = None
    upstream_reasoning: Literal["probe", "grammar", "server"] = "probe"
    dialect: str | None = None
    model: str | None = None
    strict_models: bool = False
    context: int | None = bounded(None, 1)
    tokenizer: str | None = None
    pace: float = bounded(200.0, 0)

    api_key_file: str | None = None
    limits: str | None = None
    open_key_files: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None
    no_auth: bool = False
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()

    thinking: bool = True
    # Every name that requests use: the dialect decides on the effect of each.
    effort: Literal["minimal", "low", "medium", "high", "xhigh", "max", "ultra"] = "high"
    systems: SystemPlace = "reminder"
    images: Literal["replace", "refuse"] = "replace"
    # The fetcher of an image of which a request has only the address.
    image_urls: Literal["refuse", "pass", "fetch"] = "refuse"
    reasoning_field: Literal["reasoning_content", "reasoning", "both"] = "reasoning_content"
    calls: Literal["whole", "streamed"] = "whole"
    fit_arguments: Literal["on", "off"] = "on"
    debug: bool = False

    stand_in: str | None = None
    adapt_for: str | None = None
    skip_adaptations: tuple[str, ...] = ()
    missing_reasoning: MissingReasoning = "space"
    forced_calls: Literal["thinking-off", "auto", "refuse"] = "thinking-off"
    reasoning_in_content: ReasoningInContent = "auto"
    strip_markup: bool = False

    replay: str = "memory"
    replay_bytes: int = bounded(256 * MIB, 1)
    seal_key_file: str | None = None

    record: str | None = None
    trajectories: str | None = None
    trajectory_writes: Literal["disk", "system", "nothing"] = "disk"
    trajectory_days: float = bounded(30.0, 0)
    trajectory_bytes: int = bounded(16 * 1024 * MIB, 1)
    trajectory_idle: float = bounded(24 * 3600.0, 0.01)
    routed_experts: bool = False
    logprobs_mode: Literal["auto", "raw", "processed"] = "auto"
    playground: bool = False
    profile: tuple[str, ...] = ()
    inspect: bool = False
    metrics_port: int | None = bounded(None, 0, LAST_PORT)
    metrics_host: str = "127.0.0.1"
    otel: bool = False
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    max_body: int = bounded(48 * MIB, 1)
    max_header: int = bounded(64 * 1024, 1024)
    streams: int = bounded(512, 1)
    queue: int = bounded(512, 0)
    body_timeout: float = bounded(30.0, 0.01)
    connect_timeout: float = bounded(10.0, 0.01)
    first_byte_timeout: float = bounded(600.0, 0.01)
    idle_timeout: float = bounded(120.0, 0.01)
    total_timeout: float = bounded(3600.0, 0.01)
    drain_timeout: float = bounded(60.0, 0)
    worker_timeout: float = bounded(60.0, 1)
    max_n: int = bounded(16, 1)
    passed_routes: tuple[str, ...] = ()
    retries: int = bounded(2, 0)
    retry_empty: int = bounded(0, 0)
    keep_alive: float = bounded(5.0, 0.05)

    def __post_init__(self) -> None:
        if isinstance(self.upstream, str):  # a single one is often given without a list
            object.__setattr__(self, "upstream", (self.upstream,))
        for field in dataclasses.fields(self):
            _check(field, getattr(self, field.name))
        self._check_upstreams()
        if self.stand_in not in (None, STAND_IN):
            raise _wrong("as", self.stand_in, STAND_IN)
        if self.stand_in is not None:  # the API knows of a turn only what is sent
            object.__setattr__(self, "replay", "off")
        if (self.tls_cert is None) != (self.tls_key is None):
            missing = "tls_cert" if self.tls_cert is None else "tls_key"
            raise SettingError(missing, "found none, expected a certificate and its key")
        self._check_stores()

    def _check_upstreams(self) -> None:
        if self.backend != "demo" and not self.upstream:
            problem = f"found none, expected the URL of the {self.backend} server"
            raise SettingError("upstream", problem)
        for url in self.upstream:
            if not is_url(url, "http", "https"):
                raise _wrong("upstream", url, "http://… or https://…")
            if self.upstream.count(url) > 1:
                problem = f"found {short_repr(url)} twice, expected every address once"
                raise SettingError("upstream", problem)

    def _check_stores(self) -> None:
        if not self.replay_store:
            expected = "off, memory, sealed, sqlite:PATH or redis://HOST"
            raise _wrong("replay", self.replay, expected)
        if self.limits is not None and not self.limits.startswith(_REDIS_SCHEMES):
            raise _wrong("limits", without_password(self.limits), "redis://HOST")
        if self.replay == "sealed" and not self.seal_key_file:
            raise SettingError("seal_key_file", "found none, expected the file of the sealing key")

    @property
    def first_upstream(self) -> str:
        """The URL of the backend: of the first engine, where there are several."""
        return self.upstream[0] if self.upstream else ""

    @property
    def replay_store(self) -> str:
        """The kind of replay: off, memory, sealed, sqlite or redis; empty if it is another text."""
        kind, colon, _ = self.replay.partition(":")
        kinds = ("sqlite", "redis", "rediss") if colon else ("off", "memory", "sealed")
        return kind if kind in kinds else ""

    @property
    def limits_redis(self) -> str | None:
        """The Redis that counts the usage of keys; None where each machine counts its own."""
        is_shared = self.replay_store in ("redis", "rediss")
        return self.limits or (self.replay if is_shared else None)

    @property
    def is_loopback(self) -> bool:
        """Whether it listens only where this machine can reach it."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


_REDIS_SCHEMES = ("redis://", "rediss://")


def without_password(url: str) -> str:
    """A URL as it may be shown: without user and password."""
    return re.sub("//[^/]*@", "//", url, count=1)


# The text that an editor shows on hover: each setting with its help.
Settings.__doc__ = f"{Settings.__doc__}\n\n" + "\n".join(
    f"- `{field.name}`: {HELP[field.name]}" for field in dataclasses.fields(Settings)
)


def is_url(text: str, *schemes: str) -> bool:
    """Whether a text is the URL of a server, with one of the schemes."""
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number, or the address not valid
        return False


def _check(field: dataclasses.Field[Any], value: object) -> None:
    """Refuses a value of the wrong type or out of bounds."""
    kind = SETTING_TYPES[field.name]
    if not _fits(value, kind):
        raise _wrong(field.name, value, _type_in_words(kind))
    least, most = field.metadata.get("bounds", (None, None))
    if least is None or not isinstance(value, (int, float)):
        return
    if not value >= least:  # refuses NaN too
        raise SettingError(field.name, f"found {value}, expected at least {least}")
    if value > most:
        raise SettingError(field.name, f"found {value}, expected at most {most}")


def _fits(value: object, kind: TypeForm) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    members: tuple[Any, ...] = get_args(kind) or (kind,)
    if isinstance(value, bool) and bool not in members:
        return False
    return isinstance(value, (*members, int) if float in members else members)


def _type_in_words(kind: TypeForm) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(get_args(kind))
    if get_origin(kind) is tuple:
        return "a list of texts"
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    return names[next(m for m in (*get_args(kind), kind) if m in names)]


SETTING_TYPES: dict[str, TypeForm] = get_type_hints(Settings)


def load(
    flags: Mapping[str, Any],
    environ: Mapping[str, str] | None = None,
    config: str | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings from flags, then variables `DSV4_…`, then the TOML file, then the defaults.

    `flags` are values by field name, as far as they were given. `config` is the TOML file where no
    flag or variable names one, `defaults` are values in place of the fields' own. Raises a
    `SettingError` that names the place.
    """
    environ = os.environ if environ is None else environ
    from_environ = {
        name: read_value(environ[variable], kind, variable)
        for name, kind in SETTING_TYPES.items()
        if (variable := f"DSV4_{name.upper()}") in environ
    }
    path = flags.get("config") or from_environ.get("config") or config
    from_file = _from_toml(path) if path else {}
    values = {**(defaults or {}), **from_file, **from_environ, **flags}
    return Settings(**{**values, "config": path})


def read_value(text: str, kind: TypeForm, name: str) -> Any:
    """A setting's value from text, as a flag or a variable gives it."""
    if get_origin(kind) is tuple:
        return tuple(part for part in (p.strip() for p in text.split(",")) if part)
    members = get_args(kind) if get_origin(kind) is not Literal else (str,)
    members = members or (kind,)
    if bool in members:
        if text.lower() not in _BOOLEANS:
            raise _wrong(name, text, "true or false")
        return _BOOLEANS[text.lower()]
    for number in (int, float):
        if number in members:
            try:
                return number(text)
            except ValueError:
                raise _wrong(name, text, "a number") from None
    return text


_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True}
_BOOLEANS |= {"false": False, "0": False, "no": False, "off": False, "": False}


def upstreams_in(path: str) -> tuple[str, ...] | None:
    """The engines that a TOML file names; None where it names none. Raises a `SettingError`."""
    value = _from_toml(path).get("upstream")
    return (value,) if isinstance(value, str) else value


def _from_toml(path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise SettingError("config", f"{path}: {os_error_reason(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError("config", f"{path}: not TOML: {error}") from None
    values = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in SETTING_TYPES or name == "config":
            problem = f"{path}: found the key {short_repr(key)}, expected a setting"
            raise SettingError("config", problem)
        values[name] = tuple(value) if isinstance(value, list) else value
    return values


def to_toml(settings: Settings) -> str:
    """The settings as a TOML file from which they can be loaded. None values are left out."""
    lines = []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.name != "config":
            text = "" if value is None else f"{field.name} = {_toml_value(value)}"
            lines += [f"# {HELP[field.name]}", text or f"# {field.name} ="]
    return "\n".join(lines) + "\n"


def _toml_value(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    # JSON's texts, numbers and booleans are valid TOML.
    return json.dumps(value, ensure_ascii=False)


# Flags of a command.


_ABSENT = argparse.SUPPRESS
_METAVARS = json.loads(Path(__file__).with_name("settings_metavars.json").read_text("utf-8"))


# Settings whose flag differs from their name.
_FLAGS = {"adapt_for": "--for", "stand_in": "--as"}


def flag_of(name: str) -> str:
    """The flag of a setting."""
    return _FLAGS.get(name) or f"--{name.replace('_', '-')}"


_MOST_USED = "most used"


def add_flags(
    parser: argparse.ArgumentParser,
    fixed: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
    most_used: Collection[str] = (),
) -> None:
    """A flag for every setting. A flag that is not given is not in the namespace.

    `fixed` are the settings that a command decides itself: they have no flags. `defaults` are its
    values in place of the fields' own. `most_used` are the settings that its help lists; if empty,
    it lists all.
    """
    defaults = defaults or {}
    groups = {title: parser.add_argument_group(title) for title in _HELP_GROUPS}
    titles = {name: title for title, names in _HELP_GROUPS.items() for name in names}
    for field in dataclasses.fields(Settings):
        if field.name in fixed:
            continue
        kind, title = SETTING_TYPES[field.name], titles[field.name]
        help = HELP[field.name] + _default_help(defaults.get(field.name, field.default))
        if most_used:
            title, help = (_MOST_USED, help) if field.name in most_used else (title, _ABSENT)
        groups[title].add_argument(
            flag_of(field.name),
            dest=field.name,
            default=_ABSENT,
            help=help,
            **_flag_details(field.name, kind),
        )


def _flag_details(name: str, kind: TypeForm) -> dict[str, Any]:
    """The arguments for argparse beside the flag's name."""
    if kind is bool:
        # `--no-auth` is its own negation: argparse would take it for the opposite of `--auth`.
        is_negation = name.startswith("no_")
        return {"action": "store_true" if is_negation else argparse.BooleanOptionalAction}
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind)}
    action = "append" if get_origin(kind) is tuple else "store"
    return {"action": action, "metavar": _METAVARS.get(name) or _metavar(kind)}


def _default_help(value: object) -> str:
    if value in (None, (), False):
        return ""
    return f" (default: {str(value).lower() if value is True else value})"


def _metavar(kind: TypeForm) -> str:
    members = get_args(kind) or (kind,)
    if get_origin(kind) is tuple:
        return "A,B"
    return "N" if int in members or float in members else "TEXT"


def flags_of(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that were given as flags. A list may be given in parts."""
    flags = vars(args).items()
    return {name: _flag_value(name, value) for name, value in flags if name in SETTING_TYPES}


def _flag_value(name: str, value: Any) -> Any:
    kind, flag = SETTING_TYPES[name], flag_of(name)
    if isinstance(value, list):
        return tuple(item for part in value for item in read_value(part, kind, flag))
    if isinstance(value, str) and get_origin(kind) is not Literal:
        return read_value(value, kind, flag)
    return value
