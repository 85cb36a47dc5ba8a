"""dsv4 count"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from dsv4._cli import command_options as shared
from dsv4._cli.command_output import DONE, FINDINGS, Paint, json_text, output
from dsv4._cli.conversation_files import LocatedRequest, read_requests
from dsv4._cli.option_fields import option, switch
from dsv4._view.characters import terminal_safe, width_of
from dsv4._view.image_captions import ImageCount, image_counts

if TYPE_CHECKING:
    import dsv4
    from dsv4.tokens import Tokenizer


CELLS = 32
CELL_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(kw_only=True)
class CountOptions(shared.ConversationsOptions, shared.ShownPromptOptions):
    window: int | None = option(metavar="TOKENS")
    must_fit: bool = switch()
    json: bool = switch()


def run(args: CountOptions) -> int:
    tokenizer = shared.load_tokenizer(args.tokenizer, args.files)
    paint, totals = Paint(args.color), CountTotals()
    with output() as file:
        for request in read_requests(args):
            count = count_tokens(request, tokenizer, args.window, args.image_size)
            totals.add(count)
            text = _count_json(count) if args.json else "\n".join(_chart_lines(count, paint))
            file.write(f"{text}\n" if args.json else f"{text}\n\n")
        if totals.conversations > 1 and not args.json:
            file.write(f"{totals.summary()}\n")
    return FINDINGS if args.must_fit and totals.too_large else DONE


class CountTotals:
    """The tokens of all conversations."""

    def __init__(self) -> None:
        self.conversations = self.tokens = self.most = self.too_large = 0
        self._windows: set[int] = set()

    def add(self, count: PromptCount) -> None:
        self.conversations += 1
        self.tokens += count.tokens
        self.most = max(self.most, count.tokens)
        self.too_large += count.tokens > count.window
        self._windows.add(count.window)

    def summary(self) -> str:
        mean = self.tokens / self.conversations
        total = f"{self.conversations:,} conversations, {self.tokens:,} tokens"
        sizes = f"{mean:,.0f} on average, {self.most:,} at most"
        windows = " or ".join(f"{window:,}" for window in sorted(self._windows))
        over = f"{self.too_large:,} over {windows}" if self.too_large else f"all fit {windows}"
        return f"{total}: {sizes}, {over}"


@dataclass(frozen=True)
class MessageCount:
    """The tokens of a message. Without a message: BOS, effort, the header of an answer to come."""

    message: int | None
    role: str | None
    tokens: int
    fields: dict[str, int]


@dataclass(frozen=True)
class ToolCount:
    """The tokens of one tool's schema, and the message that holds it."""

    message: int | None
    name: str
    tokens: int


@dataclass(frozen=True)
class PromptCount:
    """The tokens of a prompt and of its parts. `release` is a dialect, with the weights that a
    server runs for it, if known."""

    place: str
    release: str
    tokens: int
    window: int
    messages: list[MessageCount]
    tools: list[ToolCount]
    images: list[ImageCount]

    @property
    def is_exact(self) -> bool:
        """Whether the size of every image is known."""
        return all(image.tokens is not None for image in self.images)


def count_tokens(
    request: LocatedRequest,
    tokenizer: Tokenizer,
    window: int | None = None,
    image_size: tuple[int, int] | None = None,
) -> PromptCount:
    prompt = request.encode()
    if image_size is not None:
        prompt = prompt.with_image_size(*image_size)
    with shared.tokenizer_errors_at(request.place):
        tokenizer = tokenizer.with_dialect(prompt.dialect)
        messages = _by_message(tokenizer.prompt_cost(prompt), request.roles)
        tools = list(_by_tool(prompt, tokenizer))
        images = list(image_counts(prompt, tokenizer))
    tokens = sum(m.tokens for m in messages)
    release = ", ".join(filter(None, (request.weights, prompt.dialect.name)))
    size = prompt.dialect.context if window is None else window
    return PromptCount(request.place, release, tokens, size, messages, tools, images)


def _by_message(
    cost: dict[tuple[int | None, str], int], roles: Sequence[str]
) -> list[MessageCount]:
    fields: dict[int | None, Counter[str]] = {}
    for (message, field), tokens in cost.items():
        fields.setdefault(message, Counter())[field] += tokens
    return [
        MessageCount(n, _role(roles, n), sum(fields[n].values()), dict(fields[n]))
        for n in sorted(fields, key=lambda n: (n is None, n))
    ]


def _role(roles: Sequence[str], index: int | None) -> str | None:
    return None if index is None else str(roles[index])


def _by_tool(prompt: dsv4.Prompt, tokenizer: Tokenizer) -> Iterator[ToolCount]:
    """The tokens of each tool's line. A token belongs to the line with its last byte, a newline to
    the line that it ends."""
    ends = list(accumulate(len(tokenizer.bytes_of(id)) for id in tokenizer.encode(prompt)))
    at = 0
    for piece in prompt.pieces:
        start, at = at, at + len(piece.text.encode())
        if piece.field != "tools" or piece.origin != "caller":
            continue
        for line in piece.text.split("\n"):
            end = min(start + len(line.encode()) + 1, at)
            tokens = bisect_right(ends, end) - bisect_right(ends, start)
            yield ToolCount(piece.message, str(json.loads(line)["name"]), tokens)
            start = end


# The output.


def _count_json(count: PromptCount) -> str:
    share = round(count.tokens / count.window, 6)
    images = [image.to_dict() for image in count.images]
    facts = {"share": share, "exact": count.is_exact}
    return json_text({**asdict(count), "images": images, **facts})


def _chart_lines(count: PromptCount, paint: Paint) -> Iterator[str]:
    share = count.tokens / count.window
    yield paint(terminal_safe(count.place), "dim")
    least = "" if count.is_exact else "at least "
    total = paint(f"{least}{count.tokens:,} tokens", "bold")
    yield f"{total}, {share:.1%} of {count.window:,} ({count.release})"
    style = "red" if share > 1 else "green"
    yield f"[{paint(_bar(min(share, 1), CELLS).ljust(CELLS), style)}]"
    if share > 1:
        yield paint(f"{count.tokens - count.window:,} tokens too many", "red")
    yield ""
    yield from _chart([(_label(m), m.tokens, _fields(m)) for m in count.messages], paint)
    if count.tools:
        yield ""
        yield "tools"
        yield from _chart(
            [(terminal_safe(tool.name), tool.tokens, "") for tool in count.tools], paint
        )
    if count.images:
        yield ""
        yield "images"
        for image in count.images:
            yield f"{_place(image.message)}  {terminal_safe(image.caption)}"
    if not count.is_exact:
        yield "--image-size gives images a size that are not in the file"


def _label(count: MessageCount) -> str:
    return "no message" if count.message is None else f"{_place(count.message)} {count.role}"


def _place(message: int | None) -> str:
    return "" if message is None else f"{message:3}"


def _fields(count: MessageCount) -> str:
    return ", ".join(f"{field} {tokens:,}" for field, tokens in count.fields.items())


def _chart(rows: Sequence[tuple[str, int, str]], paint: Paint) -> Iterator[str]:
    """Labels, numbers and bars. The longest bar is that of the largest number."""
    most = max(tokens for _, tokens, _ in rows) or 1
    width = max(width_of(label) for label, _, _ in rows)
    digits = len(f"{most:,}")
    for label, tokens, note in rows:
        padding = " " * (width - width_of(label))
        bar = _bar(tokens / most, CELLS)
        room = " " * (CELLS - len(bar)) if note else ""
        line = f"{label}{padding}  {tokens:{digits},}  {paint(bar, 'cyan')}{room}"
        yield f"{line}  {paint(note, 'dim')}".rstrip()


def _bar(share: float, cells: int) -> str:
    eighths = round(share * cells * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (CELL_EIGHTHS[rest] if rest else "")
