"""HTTPS of the gateway's own: a certificate that fits, read anew, and none that does not."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from dsv4.serve.settings import SettingError, Settings
from dsv4.serve.tls import check_certificate, use_certificate

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates")


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


def test_a_certificate_that_cannot_be_used_leaves_the_old_one(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "one")
    settings = Settings(tls_cert=cert, tls_key=key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    use_certificate(context, settings)
    other, _ = make_certificate(tmp_path, "other")
    shutil.copy(other, cert)
    with pytest.raises(SettingError):
        check_certificate(settings)
