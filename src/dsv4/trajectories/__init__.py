"""Sessions of agents -> token ids, loss masks and log-probabilities, for reinforcement learning."""

from dsv4.trajectories.recorded_calls import PromptBase, RecordedCall, TokenRun, WeightsSpan
from dsv4.trajectories.routed_experts import RoutedExperts
from dsv4.trajectories.trainer_client import AsyncClient, Client, GatewayRefused
from dsv4.trajectories.trainer_rows import batch_of, rows_of
from dsv4.trajectories.trajectory_builder import (
    BreakCause,
    BuiltSession,
    SessionNote,
    Trajectory,
    TrajectoryTurn,
    WeightsRun,
    build,
)
from dsv4.trajectories.trajectory_export import Exported, ExportError, export, read_sessions

__all__ = [
    "AsyncClient",
    "BreakCause",
    "BuiltSession",
    "Client",
    "ExportError",
    "Exported",
    "GatewayRefused",
    "PromptBase",
    "RecordedCall",
    "RoutedExperts",
    "SessionNote",
    "TokenRun",
    "Trajectory",
    "TrajectoryTurn",
    "WeightsRun",
    "WeightsSpan",
    "batch_of",
    "build",
    "export",
    "read_sessions",
    "rows_of",
]
