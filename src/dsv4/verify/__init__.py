"""What a server really does with a request, found out from outside by counting tokens."""

from dsv4.verify.choice import Matrix, matrix, next_probe
from dsv4.verify.explain import Explanation, Mismatch, explain
from dsv4.verify.explain import ServerVerdict as Verdict
from dsv4.verify.hypotheses import Forecaster, Hypothesis, hypotheses
from dsv4.verify.observations import Observation
from dsv4.verify.probes import PROBES, Probe, probes

__all__ = [
    "PROBES",
    "Explanation",
    "Forecaster",
    "Hypothesis",
    "Matrix",
    "Mismatch",
    "Observation",
    "Probe",
    "Verdict",
    "explain",
    "hypotheses",
    "matrix",
    "next_probe",
    "probes",
]
