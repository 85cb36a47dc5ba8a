"""All that was asked for of a run, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dsv4._format.dialects import dialect_named
from dsv4._inputs.request_bodies import RequestOverrides
from dsv4.dataset.chunks import USUAL, Size
from dsv4.dataset.files import form_for, sizes, tokenizer_at
from dsv4.dataset.job import Job
from dsv4.dataset.packing import chunk_bytes
from dsv4.dataset.splitting import WHOLE, Share
from dsv4.errors import Error

# Inputs of fewer bytes are done before a second process has started.
SMALL = 500_000


@dataclass(frozen=True)
class Run:
    """The options, which are checked when it is encoded."""

    inputs: Sequence[str]
    output: str
    overrides: RequestOverrides
    policy: str | None
    expand: bool
    tokenizer: str | None
    column: str | None
    jobs: int | None
    engine: str
    on_error: str
    resume: bool
    overwrite: bool
    carry: tuple[str, ...] | None
    labels: bool
    drop_unlearnable: bool
    rejects: str | None
    form: str | None = None
    longest: int | None = None
    too_long: str = "fail"
    pack: int | None = None
    share: Share = WHOLE
    counts: bool = False

    @cached_property
    def job(self) -> Job:
        return Job(
            self.overrides,
            self.policy or "assistant",
            self.expand,
            self.tokenizer,
            self.form or form_for(self.output),
            self.carry,
            self.labels,
            self.drop_unlearnable,
            self.rejects is not None,
            "one-shot" if self.is_small else "auto",
            self.pack if self.longest is None else self.longest,
            self.too_long,
            self.pack,
            self.share,
            self.counts,
            self._has_images,
        )

    @property
    def _has_images(self) -> bool:
        """Whether prompts may have images: the dialect that is asked for says, or the tokenizer."""
        wanted = self.overrides.dialect
        try:
            dialect = dialect_named(wanted) if wanted else tokenizer_at(self.tokenizer).dialect
        except Error:  # the check of the options reports it
            return False
        return dialect.image_token is not None

    @property
    def chunks(self) -> Size:
        """How large chunks are: rows of several examples are packed within one."""
        return USUAL if self.pack is None else Size(1 << 16, chunk_bytes(self.pack))

    @cached_property
    def is_small(self) -> bool:
        """Whether starting processes, and an engine made for speed, would take longer than they
        save."""
        known = sizes(self.inputs)
        return self.engine == "local" and known is not None and sum(known) < SMALL
