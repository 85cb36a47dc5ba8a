"""Sessions of agents -> token ids, loss masks and log-probabilities, for reinforcement learning."""

from dsv4.trajectories.recorded_calls import PromptBase, RecordedCall, TokenRun
from dsv4.trajectories.trajectory_builder import (
    BreakCause,
    BuiltSession,
    SessionNote,
    Trajectory,
    TrajectoryTurn,
    WeightsRun,
    build,
)

__all__ = [
    "BreakCause",
    "BuiltSession",
    "PromptBase",
    "RecordedCall",
    "SessionNote",
    "TokenRun",
    "Trajectory",
    "TrajectoryTurn",
    "WeightsRun",
    "build",
]
