"""What the server counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """Counters of one app. Each app has a registry of its own, so two can stand in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made = self.registry
        self.requests = Counter(
            "dsv4_requests",
            "Requests, by protocol and status",
            ["protocol", "status"],
            registry=made,
        )
        self.running = Gauge("dsv4_streams_running", "Generations running now", registry=made)
        self.waiting = Gauge("dsv4_streams_waiting", "Requests waiting for a stream", registry=made)
        self.first_token = Histogram(
            "dsv4_first_token_seconds", "Time to the first token", buckets=_SECONDS, registry=made
        )
        self.duration = Histogram(
            "dsv4_request_seconds", "Time of a whole generation", buckets=_SECONDS, registry=made
        )
        self.tokens = Counter(
            "dsv4_tokens",
            "Tokens, by kind: prompt, cached, completion, reasoning",
            ["kind"],
            registry=made,
        )
        self.repairs = Counter(
            "dsv4_repairs",
            "Departures from the grammar that were read, by kind",
            ["kind"],
            registry=made,
        )
        self.calls = Counter(
            "dsv4_tool_calls",
            "Tool calls, by how they ended: complete, cut, unreadable",
            ["end"],
            registry=made,
        )
        self.replayed = Counter(
            "dsv4_replayed_turns",
            "Turns of the model that came back, by outcome",
            ["outcome"],
            registry=made,
        )
        self.backend_errors = Counter(
            "dsv4_backend_errors", "Failures of the backend, by status", ["status"], registry=made
        )
        self.gone = Counter(
            "dsv4_clients_gone", "Clients that went away before the end", registry=made
        )

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)
