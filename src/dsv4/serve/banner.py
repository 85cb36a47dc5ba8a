"""The text that the gateway prints when it starts: where it listens, what protects it, how to use
it, and settings for known clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from urllib.parse import urlsplit

from dsv4.profiles.official_api import CLIENT_SETUP, LISTED_NAMES
from dsv4.serve.served_model import ServedModel
from dsv4.serve.settings import Settings, without_password


@dataclass(frozen=True, slots=True)
class ServerSummary:
    """The facts that are known when the server is up."""

    url: str
    model: ServedModel
    keys: int = 0
    ids: bool = True
    images: str = ""
    adapted_to: str = "nothing"
    notes: tuple[str, ...] = ()


def summary_of_settings(settings: Settings) -> ServerSummary:
    """The summary that the settings give without a running server."""
    model = ServedModel(settings, None, makes_prompts=True)
    return ServerSummary(f"http://{settings.host}:{settings.port}", model)


def banner_text(settings: Settings, summary: ServerSummary) -> str:
    """The lines that are printed at the start."""
    facts = _healing_lines if settings.backend == "chat" else _serving_lines
    lines = [*facts(settings, summary), *_access_lines(settings, summary)]
    if settings.trajectories:
        experts = ", with routed experts" if settings.routed_experts else ""
        place = without_password(settings.trajectories)
        lines.append(f"  sessions    {summary.url}/sessions/ID, kept in {place}{experts}")
    if settings.playground or settings.inspect:
        lines.append(f"  playground  {summary.url}/playground/")
    lines += [f"  note        {note}" for note in summary.notes]
    clients = [f"  {line}" for line in short_clients(summary).splitlines()]
    lines += ["", *clients, "", f"  More clients: {_more(settings, summary)}"]
    return "\n".join(lines)


def playground_banner_text(settings: Settings, summary: ServerSummary) -> str:
    """The lines that `dsv4 playground` prints at the start: the address of its page first."""
    live = ", ".join(settings.upstream) or f"the {settings.backend} model"
    model = summary.model
    access, _ = _access_lines(settings, summary)
    lines = [
        f"dsv4 playground  {client_url(summary.url)}/playground/",
        "  Paste a request or a prompt there, drop a file, or pick an example.",
        "",
        f"  live view   {live} ({model.name}, {model.dialect})",
        access,
        f"  API         {summary.url}, as that of dsv4 serve",
    ]
    lines += [f"  note        {note}" for note in summary.notes]
    return "\n".join([*lines, "", "  Ctrl+C stops it."])


def _serving_lines(settings: Settings, summary: ServerSummary) -> list[str]:
    places = f" at {', '.join(settings.upstream)}" if settings.upstream else ""
    prompts = "sent as token ids"
    if settings.backend == "completions":
        prompts = "sent as text"
    elif not summary.ids:
        prompts = "sent as text (install the extra `tokens` for ids)"
    images = [f"  images      {summary.images}"] if summary.images else []
    model = summary.model
    return [
        f"dsv4 serve    {summary.url}",
        f"  backend     {settings.backend}{places}",
        f"  model       {model.name}, {model.dialect}, context {model.context:,} tokens",
        f"  effort      {model.facts.effort} by default, writes {model.facts.effort_text}",
        f"  prompts     {prompts}",
        *images,
        f"  replay      {without_password(settings.replay)}",
    ]


def _healing_lines(settings: Settings, summary: ServerSummary) -> list[str]:
    """The lines for a gateway in front of a chat server, which makes its prompts itself."""
    place = without_password(settings.replay)
    more = ", calls where no tools are declared" if settings.strip_markup else ""
    return [
        f"dsv4 heal     {summary.url}",
        f"  upstream    {', '.join(settings.upstream)}",
        f"  model       {summary.model.name}, {summary.model.dialect}",
        f"  heals       leaked calls, leaked reasoning, broken calls{more}",
        f"  adapted to  {summary.adapted_to}",
        f"  turns       {_TURN_PLACES.get(settings.replay, f'kept in {place}')}",
    ]


_TURN_PLACES = {
    "off": "not kept, so reasoning that clients leave out is lost",
    "sealed": "kept by clients of Responses and Messages, in memory for Chat Completions",
}


def _access_lines(settings: Settings, summary: ServerSummary) -> list[str]:
    guard = "no keys"
    if summary.keys:
        usage = f"what they use is counted {_reach(settings)}"
        guard = f"{summary.keys} key{'s'[: summary.keys > 1]}; {usage}"
    place = "loopback only" if settings.is_loopback else "open to the network"
    return [
        f"  access      {place}, {guard}",
        (
            f"  limits      {settings.streams} streams, {settings.queue} waiting, "
            f"bodies of {settings.max_body // 2**20} MiB, {settings.total_timeout:g} s a request"
        ),
    ]


def _reach(settings: Settings) -> str:
    """The scope of the counts for the limits of keys: a process, a machine, or all machines."""
    if settings.limits_redis:
        return f"for all machines, in {without_password(settings.limits_redis)}"
    return "by all workers of this machine" if settings.workers > 1 else "by this process alone"


def _more(settings: Settings, summary: ServerSummary) -> str:
    """The command that prints the settings of more clients for this server."""
    port = urlsplit(summary.url).port
    if settings.backend != "chat":
        return "dsv4 serve --clients" + ("" if port == Settings().port else f" --port {port}")
    upstream = without_password(settings.upstream[0])
    return f"dsv4 heal --upstream {upstream} --port {port} --clients"


def client_url(url: str) -> str:
    """The address for a client on this machine: a client cannot connect to "all addresses"."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def short_clients(summary: ServerSummary) -> str:
    """Settings for the three best known clients, one line each."""
    url, model = client_url(summary.url), _claude_settings(summary)["ANTHROPIC_MODEL"]
    key = " -H 'x-api-key: KEY'" if summary.keys else ""
    return "\n".join(
        [
            f"Claude Code  ANTHROPIC_BASE_URL={url} ANTHROPIC_AUTH_TOKEN=KEY \\",
            f"               ANTHROPIC_MODEL={model} claude",
            f"OpenAI SDK   OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=KEY",
            f"Try it       curl {url}/v1/chat/completions{key} \\",
            """               -d '{"messages": [{"role": "user", "content": "Hi"}]}'""",
        ]
    )


def all_clients(summary: ServerSummary) -> str:
    """Ready-made settings for the clients that were tested."""
    text = Path(__file__).with_name("client_settings.txt").read_text("utf-8")
    url, model = client_url(summary.url), summary.model
    claude = "\n".join(
        f"export {name}={value}" for name, value in _claude_settings(summary).items()
    )
    return Template(text).substitute(
        url=url, model=model.name, context=model.context, claude=claude
    )


def _claude_settings(summary: ServerSummary) -> Mapping[str, str]:
    """The variables of Claude Code that name the model. For the official API they are those of
    DeepSeek's own page."""
    if summary.model.is_official and summary.model.name == LISTED_NAMES[0]:
        return CLIENT_SETUP
    kinds = ("MODEL", "DEFAULT_OPUS_MODEL", "DEFAULT_SONNET_MODEL", "DEFAULT_HAIKU_MODEL")
    names = [*(f"ANTHROPIC_{kind}" for kind in kinds), "CLAUDE_CODE_SUBAGENT_MODEL"]
    return dict.fromkeys(names, summary.model.name)
