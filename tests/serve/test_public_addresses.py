"""Which addresses the gateway may ask for what a client names."""

from __future__ import annotations

import asyncio

import pytest

from dsv4.serve.images.image_fetcher import NameResolver, is_public

PUBLIC = [
    "1.1.1.1",
    "93.184.215.14",
    "2606:4700:4700::1111",
    "2a00:1450:4001:831::200e",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
    "2002:101:101::1",
]

# By what each is.
NOT_PUBLIC = {
    "loopback": "127.0.0.1 127.8.9.10 ::1 ::ffff:127.0.0.1 ::127.0.0.1 2002:7f00:1::1",
    "private": "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 fc00::1 fd12:3456::1 fec0::1",
    "mapped": "::ffff:10.0.0.1 ::ffff:192.168.0.1 ::ffff:a9fe:a9fe ::ffff:0:10.0.0.1",
    "translated": "64:ff9b::a00:1 64:ff9b::7f00:1 64:ff9b:1::101:101 2002:a00:1:: 2002:c0a8:101::1",
    "link-local": "169.254.0.1 fe80::1 fe80::1%eth0",
    "metadata": "169.254.169.254 fd00:ec2::254 100.100.100.200 192.0.0.192 168.63.129.16",
    "shared": "100.64.0.1 198.18.0.1 192.0.2.1 203.0.113.5 2001:db8::1",
    "unspecified": "0.0.0.0 0.1.2.3 ::",
    "multicast, broadcast": "224.0.0.1 239.1.1.1 255.255.255.255 240.0.0.1 ff02::1 ff0e::1",
    "tunnels": "192.88.99.1 2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "no address": "localhost 127.1 0x7f000001 2130706433",
}


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("kind", NOT_PUBLIC)
def test_what_is_not(kind: str) -> None:
    assert [each for each in NOT_PUBLIC[kind].split() if is_public(each)] == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "localhost"])
def test_every_spelling_of_loopback_resolves_to_what_is_not_public(host: str) -> None:
    async def resolved() -> list[str]:
        names = NameResolver()
        try:
            return list(await names.addresses(host, 80))
        except OSError:  # a system that knows no such spelling
            return []
        finally:
            names.close()

    assert [each for each in asyncio.run(resolved()) if is_public(each)] == []
