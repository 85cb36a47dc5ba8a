"""HTTPS of the gateway's own: a certificate that fits, is reloaded, and none that does not."""

from __future__ import annotations

import shutil
import signal
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from served_process import ServedProcess, served

from dsv4.serve.settings import SettingError, Settings
from dsv4.serve.workers.uvicorn_runner import check_certificate

pytestmark = [
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
    pytest.mark.usefixtures("small_vocabulary_of_processes"),
]


def make_certificate(folder: Path, name: str) -> tuple[str, str]:
    """The paths of a new certificate and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", f"/CN={name}", "-out", str(cert)]
    command += ["-keyout", str(key), "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    key.chmod(0o600)
    return str(cert), str(key)


def test_a_certificate_must_fit_its_key(tmp_path: Path) -> None:
    (one, key), (other, _) = make_certificate(tmp_path, "one"), make_certificate(tmp_path, "other")
    check_certificate(Settings(tls_cert=one, tls_key=key))
    with pytest.raises(SettingError, match=r"tls_cert: .*key values mismatch, expected"):
        check_certificate(Settings(tls_cert=other, tls_key=key))
    with pytest.raises(SettingError, match=r"tls_cert: .*No such file"):
        check_certificate(Settings(tls_cert=str(tmp_path / "none"), tls_key=key))
    with pytest.raises(SettingError, match="tls_key: found none"):
        Settings(tls_cert=one)
    Path(key).chmod(0o644)
    with pytest.raises(SettingError, match=r"tls_key: .*every user can read"):
        check_certificate(Settings(tls_cert=one, tls_key=key))


def test_a_key_with_a_password_asks_nobody(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "one")
    locked = tmp_path / "locked.key"
    command = ["openssl", "ec", "-in", key, "-aes256", "-passout", "pass:secret"]
    command += ["-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(SettingError, match="without a password"):
        check_certificate(Settings(tls_cert=cert, tls_key=str(locked)))


def test_a_server_uses_a_new_certificate_when_it_is_told_to(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "one")
    other, other_key = make_certificate(tmp_path, "other")
    trusted = ssl.create_default_context()
    for known in (cert, other):
        trusted.load_verify_locations(known)

    def shown(server: ServedProcess) -> str:
        """The name in the certificate that a new connection is shown."""
        connection = server.connect()
        connection.connect()
        certificate: Any = connection.sock.getpeercert()
        connection.close()
        return str(dict(pair for (pair,) in certificate["subject"])["commonName"])

    with served("--tls-cert", cert, "--tls-key", key) as server:
        server.trusted = trusted
        assert server.asked("GET", "/health").status == 200
        assert shown(server) == "one"
        shutil.copy(other, cert)  # which does not fit the key
        server.heard("the certificate stays as it was: tls_cert: ", 1, server.signal("SIGHUP"))
        assert shown(server) == "one"
        shutil.copy(other_key, key)
        with server.opened(max_tokens=40) as response:  # whose connection has the old one
            server.heard("reloaded the certificate", 1, server.signal("SIGHUP"))
            assert shown(server) == "other"
            assert response.read().endswith(b"data: [DONE]\n\n")
        server.signal("SIGTERM")
        assert server.process.wait(30) in (0, -signal.SIGTERM)
