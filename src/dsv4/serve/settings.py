"""Every setting of the gateway: one frozen value, with its defaults, its help and its checks.

The flags of `dsv4 serve`, the variables `DSV4_…` and the keys of the TOML file are all made from
the fields here, so a setting exists in all three places or in none.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from dsv4._inputs.input_files import os_error_reason
from dsv4.errors import Error, short_repr

BackendName: TypeAlias = Literal["demo", "vllm", "sglang", "llamacpp", "completions", "chat"]
CallsMode: TypeAlias = Literal["whole", "streamed"]
SystemPlace: TypeAlias = Literal["reminder", "in_place", "in_front"]
ImageRule: TypeAlias = Literal["replace", "refuse"]
# Who fetches an image of which a request has only the address.
ImageUrls: TypeAlias = Literal["refuse", "pass", "fetch"]
# Every name that requests use: what each comes to is the dialect's.
EffortName: TypeAlias = Literal["minimal", "low", "medium", "high", "xhigh", "max", "ultra"]
ReasoningField: TypeAlias = Literal["reasoning_content", "reasoning", "both"]
# Whether the content of a chat server begins with reasoning.
ReasoningInContent: TypeAlias = Literal["auto", "never", "always"]
MissingReasoning: TypeAlias = Literal["space", "empty", "refuse"]
ForcedCalls: TypeAlias = Literal["thinking-off", "auto", "refuse"]
LogprobsSetting: TypeAlias = Literal["auto", "raw", "processed"]
UpstreamReasoning: TypeAlias = Literal["probe", "grammar", "server"]

# The type of a setting: a class, or what `typing` makes of classes.
TypeForm: TypeAlias = object

MIB = 1024 * 1024
LAST_PORT = 65_535


class SettingError(Error):
    """A setting that cannot be used: it is named, with what was found and what would be right."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


def _setting(
    default: object, help: str, least: float | None = None, most: float | None = None
) -> Any:
    return dataclasses.field(default=default, metadata={"help": help, "least": least, "most": most})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the server runs. Each field is a flag, a variable and a key of the TOML file."""

    host: str = _setting("127.0.0.1", "address to listen on")
    port: int = _setting(8000, "port to listen on; 0 chooses a free one", 0, LAST_PORT)
    workers: int = _setting(1, "number of worker processes", 1)
    config: str | None = _setting(None, "TOML file to read settings from")

    backend: BackendName = _setting("demo", "what generates the text")
    upstream: tuple[str, ...] = _setting(
        (), "base URL of the backend, for example http://gpu:8000; several are several engines"
    )
    probe_interval: float = _setting(
        5.0, "seconds between questions whether each of several engines is there", 0.05
    )
    upstream_key_file: str | None = _setting(None, "file with the API key for the backend")
    upstream_ca: str | None = _setting(
        None, "file of certificates (PEM) to trust for the backend, besides the system's"
    )
    upstream_proxy: str | None = _setting(
        None,
        "proxy to the backend, as http://HOST:PORT, or none; default: as HTTPS_PROXY, HTTP_PROXY, "
        "ALL_PROXY and NO_PROXY say, and none to this machine",
    )
    upstream_model: str | None = _setting(
        None, "model name to send to the backend; default: the first one it lists"
    )
    upstream_reasoning: UpstreamReasoning = _setting(
        "probe",
        "what a vLLM applies grammars to: `grammar`, also to reasoning; `server`, only to what "
        "follows it, as with --reasoning-parser; `probe` finds out",
    )
    dialect: str | None = _setting(
        None, "release of the format; default: detected from the model's name"
    )
    model: str | None = _setting(None, "model name to report to clients; default: the backend's")
    strict_models: bool = _setting(False, "refuse requests for any other model name")
    context: int | None = _setting(None, "context length in tokens; default: the backend's", 1)
    tokenizer: str | None = _setting(None, "path of a tokenizer.json; default: the V4 vocabulary")
    pace: float = _setting(200.0, "tokens per second of the demo backend; 0 means no delay", 0)

    api_key_file: str | None = _setting(
        None, "file of API keys, one `key`, `name:key` or `admin name:key` per line"
    )
    limits: str | None = _setting(
        None,
        "redis://HOST to count in what keys use, for all machines; default: the Redis of `replay`, "
        "else each machine counts for itself",
    )
    open_key_files: bool = _setting(
        False, "accept files of keys that every user of this machine can read"
    )
    tls_cert: str | None = _setting(None, "certificate for HTTPS, with its chain, as PEM")
    tls_key: str | None = _setting(None, "private key of the certificate, as PEM")
    no_auth: bool = _setting(False, "allow other machines to connect without API keys")
    allowed_hosts: tuple[str, ...] = _setting(
        (), "host names to accept, besides loopback and `host`, where no keys are asked for"
    )
    cors_origins: tuple[str, ...] = _setting((), "web origins that may call the server")

    thinking: bool = _setting(True, "enable thinking unless a request says otherwise")
    effort: EffortName = _setting("high", "reasoning effort unless a request says otherwise")
    systems: SystemPlace = _setting(
        "reminder",
        "where to put system messages after the first turn, in dialects without a system token",
    )
    images: ImageRule = _setting("replace", "what to do with images that the model cannot read")
    image_urls: ImageUrls = _setting(
        "refuse",
        "what to do with images that are only an address: refuse them; pass them to the engine, "
        "which fetches them; or fetch them from public addresses",
    )
    reasoning_field: ReasoningField = _setting(
        "reasoning_content", "field for the reasoning in Chat Completions responses"
    )
    calls: CallsMode = _setting(
        "whole", "send a tool call when it is complete, or as it is generated"
    )
    debug: bool = _setting(False, "answer `x-dsv4-debug: 1` with the prompt and the raw completion")

    adapt_for: str | None = _setting(
        None,
        "adapt requests to the chat server upstream: deepseek-api, vllm, sglang, a file saved by "
        "`dsv4 verify`, or none; default: deepseek-api where the upstream says so",
    )
    skip_adaptations: tuple[str, ...] = _setting((), "ids of adaptations that are not made")
    missing_reasoning: MissingReasoning = _setting(
        "space", "what a turn gets whose reasoning a server asks for, and nobody has"
    )
    forced_calls: ForcedCalls = _setting(
        "thinking-off", "what to do about a forced call where a server refuses it while thinking"
    )
    reasoning_in_content: ReasoningInContent = _setting(
        "auto",
        "whether the content of a chat server begins with reasoning, up to the end of thinking; "
        "`auto` finds out from its answers",
    )
    strip_markup: bool = _setting(
        False, "remove calls from answers to requests that declare no tools"
    )

    replay: str = _setting(
        "memory",
        "where to keep turns for exact replay: off, memory, sealed, sqlite:PATH or redis://HOST",
    )
    replay_entries: int = _setting(20_000, "most turns to keep for replay", 1)
    replay_bytes: int = _setting(256 * MIB, "most bytes of turns to keep for replay", 1)
    seal_key_file: str | None = _setting(None, "file with the key for sealed replay")

    record: str | None = _setting(None, "file to record every exchange in, as JSON lines")
    trajectories: str | None = _setting(
        None, "where to record sessions for training: a file, or redis://HOST"
    )
    trajectory_writes: Literal["disk", "system", "nothing"] = _setting(
        "disk", "what the end of an answer waits for: its record is on disk, or written, or nothing"
    )
    trajectory_days: float = _setting(30.0, "days to keep a session after its last call", 0)
    trajectory_bytes: int = _setting(
        16 * 1024 * MIB, "most bytes of sessions to keep; closed ones go first", 1
    )
    trajectory_idle: float = _setting(
        24 * 3600.0, "seconds without a call after which a session is closed", 0.01
    )
    routed_experts: bool = _setting(
        False, "let sessions record which experts were chosen, where the backend tells them"
    )
    logprobs_mode: LogprobsSetting = _setting(
        "auto", "which log-probabilities the backend was started to give"
    )
    playground: bool = _setting(False, "also serve the playground")
    playground_url: str = _setting(
        "", "address of a published playground, for links that others can open"
    )
    profile: tuple[str, ...] = _setting(
        (), "server to show prompts of in the playground: a file of `dsv4 verify --save`"
    )
    inspect: bool = _setting(
        False, "keep recent requests in memory, and show them in the playground"
    )
    metrics_port: int | None = _setting(None, "separate port for /metrics", 0, LAST_PORT)
    metrics_host: str = _setting("127.0.0.1", "address of the port for /metrics")
    otel: bool = _setting(
        False, "send OpenTelemetry spans where the variables `OTEL_…` say (extra `otel`)"
    )
    log_format: Literal["text", "json"] = _setting("text", "form of the lines that are logged")
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "least severe messages to log"
    )

    max_body: int = _setting(48 * MIB, "largest request body in bytes", 1)
    max_depth: int = _setting(256, "deepest nesting of JSON in a request", 1)
    max_messages: int = _setting(20_000, "most messages in a request", 1)
    max_tools: int = _setting(1_000, "most tools in a request", 1)
    max_header: int = _setting(64 * 1024, "largest request header in bytes", 1024)
    streams: int = _setting(512, "most requests served at once", 1)
    queue: int = _setting(512, "most requests waiting to be served", 0)
    body_timeout: float = _setting(30.0, "seconds that a client may take to send its request", 0.01)
    connect_timeout: float = _setting(10.0, "seconds to wait for a connection to the backend", 0.01)
    first_byte_timeout: float = _setting(600.0, "seconds to wait for the first token", 0.01)
    idle_timeout: float = _setting(120.0, "seconds to wait for the next token", 0.01)
    total_timeout: float = _setting(3600.0, "seconds that a whole generation may take", 0.01)
    send_timeout: float = _setting(
        60.0, "seconds that a client may leave its response unread", 0.01
    )
    drain_timeout: float = _setting(
        60.0, "seconds that running streams get to finish after SIGTERM", 0
    )
    worker_timeout: float = _setting(
        60.0, "seconds that a worker may give no answer before another takes its place", 1
    )
    max_n: int = _setting(16, "most completions of one request (`n`); each counts as a stream", 1)
    passed_routes: tuple[str, ...] = _setting(
        (),
        "routes of the chat server to pass on besides the usual ones, such as `POST /v1/score` or "
        "`GET /v1/files/*`; keys of administrators reach all",
    )
    retries: int = _setting(
        2, "retries of a request of which nothing has been sent to the client", 0
    )
    keep_alive: float = _setting(5.0, "seconds of silence before a keep-alive event is sent", 0.05)

    def __post_init__(self) -> None:
        if isinstance(self.upstream, str):  # one is often given alone
            object.__setattr__(self, "upstream", (self.upstream,))
        for field in dataclasses.fields(self):
            _check(field, getattr(self, field.name))
        if self.backend != "demo" and not self.upstream:
            raise SettingError(
                "upstream", f"found none, expected the URL of the {self.backend} server"
            )
        for url in self.upstream:
            if not _is_url(url):
                expected = "expected http://… or https://…"
                raise SettingError("upstream", f"found {short_repr(url)}, {expected}")
            if self.upstream.count(url) > 1:
                raise SettingError(
                    "upstream", f"found {short_repr(url)} twice, expected every address once"
                )
        if (self.tls_cert is None) != (self.tls_key is None):
            missing = "tls_cert" if self.tls_cert is None else "tls_key"
            raise SettingError(missing, "found none, expected a certificate and its key")
        if not self.replay_store:
            expected = "off, memory, sealed, sqlite:PATH or redis://HOST"
            raise SettingError("replay", f"found {short_repr(self.replay)}, expected {expected}")
        if self.limits is not None and not self.limits.startswith(_REDIS_SCHEMES):
            found = f"found {short_repr(without_password(self.limits))}"
            raise SettingError("limits", f"{found}, expected redis://HOST")
        if self.replay == "sealed" and not self.seal_key_file:
            raise SettingError("seal_key_file", "found none, expected the file of the sealing key")

    @property
    def first_upstream(self) -> str:
        """The URL of the backend: of the first engine, where there are several."""
        return self.upstream[0] if self.upstream else ""

    @property
    def replay_store(self) -> str:
        """The kind of replay: off, memory, sealed, sqlite or redis; empty if it is none of them."""
        kind = self.replay.partition(":")[0]
        plain = self.replay in ("off", "memory", "sealed")
        return (
            kind if plain or (kind in ("sqlite", "redis", "rediss") and kind != self.replay) else ""
        )

    @property
    def limits_redis(self) -> str | None:
        """The Redis that counts what keys use; None where each machine does."""
        is_shared = self.replay_store in ("redis", "rediss")
        return self.limits or (self.replay if is_shared else None)

    @property
    def is_loopback(self) -> bool:
        """Whether it listens where only this machine can reach it."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


_REDIS_SCHEMES = ("redis://", "rediss://")


def without_password(url: str) -> str:
    """A URL as it may be shown: without what stands before the host's name."""
    return re.sub("//[^/]*@", "//", url, count=1)


# What a hover in an editor shows: each setting with its help.
Settings.__doc__ = f"{Settings.__doc__}\n\n" + "\n".join(
    f"- `{field.name}`: {field.metadata['help']}" for field in dataclasses.fields(Settings)
)


def _is_url(text: str) -> bool:
    """Whether a text is the URL of an HTTP server."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # its port is no number, or its address no address
        return False


def _check(field: dataclasses.Field[Any], value: object) -> None:
    """Refuses a value of the wrong type, or outside of what makes sense."""
    kind = SETTING_TYPES[field.name]
    if not _fits(value, kind):
        raise SettingError(
            field.name, f"found {short_repr(value)}, expected {_type_in_words(kind)}"
        )
    least, most = field.metadata["least"], field.metadata["most"]
    if not isinstance(value, (int, float)):
        return
    if least is not None and not value >= least:  # nor is NaN
        raise SettingError(field.name, f"found {value}, expected at least {least}")
    if most is not None and value > most:
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
    from_environ = dict(_from_environ(environ))
    path = flags.get("config") or from_environ.get("config") or config
    from_file = _from_toml(path) if path else {}
    values = {**(defaults or {}), **from_file, **from_environ, **flags}
    return Settings(**{**values, "config": path})


def _from_environ(environ: Mapping[str, str]) -> Iterable[tuple[str, Any]]:
    for name, kind in SETTING_TYPES.items():
        text = environ.get(f"DSV4_{name.upper()}")
        if text is not None:
            yield name, read_value(text, kind, f"DSV4_{name.upper()}")


def read_value(text: str, kind: TypeForm, name: str) -> Any:
    """A setting's value from text, as a flag or a variable gives it."""
    if get_origin(kind) is tuple:
        return tuple(part for part in (p.strip() for p in text.split(",")) if part)
    members = get_args(kind) if get_origin(kind) is not Literal else (str,)
    members = members or (kind,)
    if bool in members:
        if text.lower() not in _BOOLEANS:
            raise SettingError(name, f"found {short_repr(text)}, expected true or false")
        return _BOOLEANS[text.lower()]
    for number in (int, float):
        if number in members:
            try:
                return number(text)
            except ValueError:
                raise SettingError(name, f"found {short_repr(text)}, expected a number") from None
    return text


_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True}
_BOOLEANS |= {"false": False, "0": False, "no": False, "off": False, "": False}


def upstreams_in(path: str) -> tuple[str, ...] | None:
    """The engines that a TOML file names; None where it names none. Raises a `SettingError`."""
    given = _from_toml(path).get("upstream")
    return (given,) if isinstance(given, str) else given


def _from_toml(path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, "rb") as file:
            read = tomllib.load(file)
    except OSError as error:
        raise SettingError("config", f"{path}: {os_error_reason(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError("config", f"{path}: not TOML: {error}") from None
    values = {}
    for key, value in read.items():
        name = key.replace("-", "_")
        if name not in SETTING_TYPES or name == "config":
            raise SettingError(
                "config", f"{path}: found the key {short_repr(key)}, expected a setting"
            )
        values[name] = tuple(value) if isinstance(value, list) else value
    return values


def to_toml(settings: Settings) -> str:
    """The settings as a TOML file that gives them back. Nothing that is None is written."""
    lines = []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.name != "config":
            text = "" if value is None else f"{field.name} = {_toml_value(value)}"
            lines += [f"# {field.metadata['help']}", text or f"# {field.name} ="]
    return "\n".join(lines) + "\n"


def to_environ(settings: Settings) -> dict[str, str]:
    """The settings as variables, for processes that are started with them."""
    given = {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings)}
    return {
        f"DSV4_{name.upper()}": ",".join(value) if isinstance(value, tuple) else str(value)
        for name, value in given.items()
        if value is not None and name != "config"
    }


def _toml_value(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    # JSON's texts, numbers and booleans are TOML's too.
    return json.dumps(value, ensure_ascii=False)


# Flags of a command.


_ABSENT = argparse.SUPPRESS
_METAVARS = {
    **dict.fromkeys(("upstream_key_file", "api_key_file", "seal_key_file"), "FILE"),
    **dict.fromkeys(("config", "record", "trajectories", "tls_cert", "tls_key"), "FILE"),
    **dict.fromkeys(("model", "upstream_model", "dialect"), "NAME"),
    "upstream": "URL",
    "adapt_for": "SERVER",
    "profile": "FILE",
    "tokenizer": "PATH",
    **dict.fromkeys(("host", "metrics_host"), "ADDRESS"),
    "replay": "STORE",
}


# Settings whose flag is not their name.
_FLAGS = {"adapt_for": "--for"}


def flag_of(name: str) -> str:
    """The flag of a setting."""
    return _FLAGS.get(name) or f"--{name.replace('_', '-')}"


# The flags in groups, as help shows them: what nearly everybody sets, and the others by the first
# setting of each group.
_MOST_USED = (
    *("backend", "upstream", "upstream_key_file", "model"),
    *("host", "port", "api_key_file", "workers", "config"),
)
_GROUPS = {
    "probe_interval": "the backend",
    "open_key_files": "who may connect",
    "thinking": "requests and answers",
    "adapt_for": "adapting to a chat server",
    "replay": "what is stored",
    "playground": "looking inside",
    "max_body": "limits",
    "body_timeout": "time-outs and retries",
}


def add_flags(
    parser: argparse.ArgumentParser,
    fixed: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
    shown: Collection[str] = (),
) -> None:
    """A flag for every setting. What is not given is not in the namespace.

    `fixed` are the settings that a command decides itself: they have no flags. `defaults` are
    values that it gives in place of the fields' own. `shown` are those that its help lists: all
    where there are none.
    """
    defaults = defaults or {}
    most_used = parser.add_argument_group("most used")
    group = most_used
    for field in dataclasses.fields(Settings):
        if field.name in _GROUPS:
            group = parser.add_argument_group(_GROUPS[field.name])
        if field.name in fixed:
            continue
        flags = most_used if field.name in (shown or _MOST_USED) else group
        kind = SETTING_TYPES[field.name]
        option = flag_of(field.name)
        help = field.metadata["help"] + _default_help(defaults.get(field.name, field.default))
        if shown and field.name not in shown:
            help = argparse.SUPPRESS
        described: dict[str, Any] = {"help": help, "default": _ABSENT, "dest": field.name}
        if kind is bool and field.name.startswith("no_"):
            # Its own negation: argparse would take `--no-auth` for the opposite of `--auth`.
            flags.add_argument(option, action="store_true", **described)
        elif kind is bool:
            flags.add_argument(
                option,
                action=argparse.BooleanOptionalAction,
                default=_ABSENT,
                help=help,
                dest=field.name,
            )
        elif get_origin(kind) is Literal:
            flags.add_argument(option, choices=get_args(kind), **described)
        else:
            metavar = _METAVARS.get(field.name) or _metavar(kind)
            action = "append" if get_origin(kind) is tuple else "store"
            flags.add_argument(option, action=action, metavar=metavar, **described)


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
    given = {name: v for name, v in vars(args).items() if name in SETTING_TYPES}
    return {name: _flag_value(name, value) for name, value in given.items()}


def _flag_value(name: str, value: Any) -> Any:
    kind, flag = SETTING_TYPES[name], flag_of(name)
    if isinstance(value, list):
        return tuple(item for part in value for item in read_value(part, kind, flag))
    if isinstance(value, str) and get_origin(kind) is not Literal:
        return read_value(value, kind, flag)
    return value
