"""Who sees requests besides their clients: traces, the file of records, the inspector."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from dsv4.serve.observe.inspector import OnBegin, inspector_for
from dsv4.serve.observe.records import Recorder
from dsv4.serve.observe.tracing import tracing_for
from dsv4.serve.settings import Settings


class Observers:
    """Those that the settings ask for."""

    def __init__(self, settings: Settings) -> None:
        self.tracing = tracing_for(settings)
        self.recorder = Recorder(settings.record) if settings.record else None
        self.inspector = inspector_for(settings)

    def inspected(
        self, owner: str, protocol: str, data: bytes, session: str | None, client: str
    ) -> AbstractContextManager[OnBegin | None]:
        """Shows a request to the inspector, where there is one: from its arrival to its end."""
        if self.inspector is None:
            return nullcontext()
        return self.inspector.watched(owner, protocol, data, session, client)

    def close(self) -> None:
        if self.recorder is not None:
            self.recorder.close()
