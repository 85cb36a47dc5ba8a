"""HTTPS: a certificate and its key, checked before they are used."""

from __future__ import annotations

import ssl

from dsv4.serve.access.api_keys import refuse_open_file
from dsv4.serve.settings import SettingError, Settings


def check_certificate(settings: Settings) -> None:
    """Raises a `SettingError` for a certificate that cannot be used: one that does not fit its
    key, or a key with a password, for which nobody could be asked."""
    if settings.tls_cert is None or settings.tls_key is None:
        return
    refuse_open_file("tls_key", settings.tls_key, settings)
    use_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), settings)


def use_certificate(context: ssl.SSLContext, settings: Settings) -> None:
    """Lets new connections use the certificate as it is now. Raises a `SettingError`."""
    assert settings.tls_cert is not None
    files = f"{settings.tls_cert}, {settings.tls_key}"
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password=lambda: "")
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).lower().replace("_", " ")
        expected = "expected a certificate and its own key, both as PEM and without a password"
        raise SettingError("tls_cert", f"{files}: {reason}, {expected}") from None
    except OSError as error:
        raise SettingError("tls_cert", f"{files}: {error.strerror or error}") from None
