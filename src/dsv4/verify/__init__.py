"""Finds out from outside what a server really does with a request, by counting tokens."""

from dsv4.verify.choice import Matrix, matrix, next_probe
from dsv4.verify.explain import explain
from dsv4.verify.hypotheses import Forecaster, Hypothesis, hypotheses
from dsv4.verify.observations import Observation
from dsv4.verify.probes import PROBES, Probe, probes
from dsv4.verify.recorded import explain_recorded, recorded
from dsv4.verify.report import VerifyReport as Report
from dsv4.verify.runner import run
from dsv4.verify.server_client import HttpServer, Reply, ServerClient, ServerProblem
from dsv4.verify.server_findings import ServerFinding
from dsv4.verify.verdicts import Explanation, Mismatch
from dsv4.verify.verdicts import ServerVerdict as Verdict

__all__ = [
    "PROBES",
    "Explanation",
    "Forecaster",
    "HttpServer",
    "Hypothesis",
    "Matrix",
    "Mismatch",
    "Observation",
    "Probe",
    "Reply",
    "Report",
    "ServerClient",
    "ServerFinding",
    "ServerProblem",
    "Verdict",
    "explain",
    "explain_recorded",
    "hypotheses",
    "matrix",
    "next_probe",
    "probes",
    "recorded",
    "run",
]
