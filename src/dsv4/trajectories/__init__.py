"""Sessions of agents -> token ids, loss masks and log-probabilities, for reinforcement learning."""

from dsv4.trajectories.recorded_calls import PromptBase, RecordedCall, TokenRun
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
    "SessionNote",
    "TokenRun",
    "Trajectory",
    "TrajectoryTurn",
    "WeightsRun",
    "batch_of",
    "build",
    "export",
    "read_sessions",
    "rows_of",
]
