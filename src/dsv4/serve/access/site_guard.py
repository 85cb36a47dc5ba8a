"""A guard against other sites' pages, for a gateway that asks for no keys."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from dsv4.api import ApiError
from dsv4.serve.asgi import Scope, headers_of
from dsv4.serve.settings import Settings

LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Listening on these means listening on every address of the machine.
_EVERYWHERE = ("0.0.0.0", "::")
# The values that browsers send for requests that their user made, or the server's own page.
_OWN_SITES = (None, "none", "same-origin")


class SiteGuard:
    """Refuses requests of other sites' pages, where no keys are asked for.

    A browser lets every page send requests to this machine. A simple one (a form's, or text) is
    sent without a preflight request, so it would generate; and a page whose own name is made to
    resolve to this machine (DNS rebinding) could read the answers as well. So requests are
    answered only under the server's own names, and never for a foreign page. Programs are not
    browsers: they send neither `Origin` nor `Sec-Fetch-Site`.
    """

    def __init__(self, settings: Settings, origins: tuple[str, ...] = ()) -> None:
        """`origins` are those of other pages that may send requests; with "*" all may."""
        self._names = {*LOOPBACK, settings.host.lower(), *map(str.lower, settings.allowed_hosts)}
        self._is_everywhere = settings.host in _EVERYWHERE
        self._origins = origins

    def check(self, scope: Scope) -> None:
        """Raises an `ApiError` for a request that may come from another site's page."""
        headers = headers_of(scope)
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise ApiError("found several hosts, expected one", status=400)
        host = headers.get("host", "")
        if not self._is_own(_name(host), scope):
            expected = "localhost, the address it listens on, or one of `allowed_hosts`"
            raise ApiError(f"found the host {host!r}, expected {expected}", status=421)
        origin = headers.get("origin")
        if origin is None:
            self._check_site(scope, headers)
        elif not self._may_ask(origin, host):
            expected = "the page's own, or one of `cors_origins`"
            raise ApiError(f"found the origin {origin!r}, expected {expected}", status=403)

    def _is_own(self, name: str, scope: Scope) -> bool:
        if name in self._names:
            return True
        # Only pages of this machine are reached through an address that leads here.
        address = _address((scope.get("server") or ("",))[0])
        return self._is_everywhere and address is not None and _address(name) == address

    def _may_ask(self, origin: str, host: str) -> bool:
        if "*" in self._origins or origin in self._origins:
            return True
        try:
            return urlsplit(origin).netloc.lower() == host.lower()
        except ValueError:
            return False

    def _check_site(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Browsers leave the origin out of some requests, but newer ones name the kind of site."""
        site = headers.get("sec-fetch-site")
        follows_link = (
            headers.get("sec-fetch-dest") == "document"
            and headers.get("sec-fetch-mode") == "navigate"
            and scope["method"] in ("GET", "HEAD")
        )
        if site not in _OWN_SITES and not follows_link:
            problem = f"found a request of another site's page ({site})"
            raise ApiError(f"{problem}, expected one of the page's own", status=403)


def _name(host: str) -> str:
    """A host without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower().removesuffix(".")
    except ValueError:
        return ""


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
