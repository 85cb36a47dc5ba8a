"""Which addresses of the network are public, and which a host has.

A client that names an address must not reach what only this machine can: loopback, the network
around it, the metadata of a cloud. What a name stands for is asked once, and the connection goes
to what was checked: a second answer could be another one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address

# So many names are asked for at once: a name whose server is slow takes a thread, and the loop's
# own are needed for prompts.
_RESOLVERS = 8

# Networks of IPv6 addresses that hold an IPv4 address, and how many bits stand after it.
_HOLDING_IPV4 = (
    (IPv6Network("::/96"), 0),  # as it was of old
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped
    (IPv6Network("::ffff:0:0:0/96"), 0),  # translated
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)
# Global by their numbers, at least for older Pythons, and yet no servers of the public.
_NOT_PUBLIC = (
    IPv4Network("192.0.0.0/24"),  # for protocols, and for the metadata of one cloud
    IPv4Network("192.88.99.0/24"),  # relays of 6to4
    IPv4Network("168.63.129.16/32"),  # Azure's own, for virtual machines
    IPv6Network("2001::/32"),  # Teredo: its clients are behind other addresses
    IPv6Network("64:ff9b:1::/48"),  # NAT64 of a network of one's own
    IPv6Network("fec0::/10"),  # private, of old
)


def is_public(address: str) -> bool:
    """Whether an IP address is one that everybody on the internet may be asked for."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    for network, after in _HOLDING_IPV4:
        if ip in network:
            ip = IPv4Address(int(ip) >> after & 0xFFFFFFFF)
            break
    is_special = ip.is_multicast or ip.is_reserved
    return ip.is_global and not is_special and not any(ip in each for each in _NOT_PUBLIC)


class NameResolver:
    """Asks for the addresses of hosts, in threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_RESOLVERS, "dsv4-names")

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """Every address of a host, in the order in which to try them. Raises an `OSError`."""
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        infos = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        return list(dict.fromkeys(str(place[0]) for *_, place in infos))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
