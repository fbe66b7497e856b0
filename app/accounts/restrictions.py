"""What a key can be restricted to: operations of one area, and networks (D178)."""

import ipaddress
import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, Self, get_args

from app.errors import OperatorError
from app.settings.values import words

Area = Literal["domains", "vehicles"]
"""The operations on domains, or the look-ups of vehicles."""
AREAS: Final[tuple[Area, ...]] = get_args(Area)
NETWORKS_MAX = 20
NETWORK_CHARACTERS_MAX = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255/128")
NO_ADDRESS = (
    "a request on the service's Unix socket without X-Real-IP has no known address: it is refused"
)
"""What is said of each new key that is restricted to networks."""


class Restrictions(NamedTuple):
    """The restrictions of a key. The members are those of answers, commands and records."""

    only: str | None
    """None for all operations."""
    networks: list[str]
    """Empty for all addresses, also those that are not known."""

    @classmethod
    def of(cls, only: str, networks: str) -> Self:
        """Return the restrictions that the columns of a key hold."""
        return cls(only or None, list(words(networks)))

    def columns(self) -> dict[str, str]:
        """Return the columns of a key.

        Raises OperatorError if a text is no network, or if there are too many networks.
        """
        networks = {}
        for number, text in enumerate(self.networks, 1):
            try:
                networks[network(text)] = number
            except ValueError as error:
                raise OperatorError(f"network {number} {error}") from None
        if len(networks) > NETWORKS_MAX:
            raise OperatorError(f"a key has at most {NETWORKS_MAX} networks, not {len(networks):,}")
        return {"only": self.only or "", "networks": ",".join(networks)}

    def in_words(self, *, shows_all: bool = False) -> str:
        """Return a few words, such as `only vehicles, from 2 networks`; empty for none.

        Args:
            shows_all: name all networks, and not only one that is alone.
        """
        parts = [f"only {self.only}"] if self.only else []
        if self.networks:
            is_counted = len(self.networks) > 1 and not shows_all
            named = f"{len(self.networks)} networks" if is_counted else ", ".join(self.networks)
            parts.append(f"from {named}")
        return ", ".join(parts)


UNRESTRICTED: Final = Restrictions(None, [])
_NO_HASH = "restricted".ljust(64, "-")
"""No secret has it as its hash. It fills the column: Postgres would fill it with spaces."""


def hash_columns(secret_hash: str, columns: Mapping[str, object]) -> dict[str, str]:
    """Return the columns that hold the hash of a new key's secret.

    SEC: programs that do not know restrictions read only the first one, and refuse the key.

    Args:
        columns: the other columns of the key.
    """
    if columns["only"] or columns["networks"]:
        return {"secret_hash": _NO_HASH, "restricted_hash": secret_hash}
    return {"secret_hash": secret_hash}


_LENGTH = re.compile("0|[1-9][0-9]{0,2}")
_RULE = "must be an address or network such as 203.0.113.0/24 or 2001:db8::/32"
_MAPPED_LENGTH = 96


def network(text: str) -> str:
    """Return the one form of a network; an address alone is a network of one.

    IPv4 addresses mapped into IPv6 become IPv4, as those of clients do (D10). Raises ValueError
    with what the text must be.
    """
    _, slash, length = text.partition("/")
    if "%" in text:
        raise ValueError(f"{_RULE}, without a zone")
    if slash and not _LENGTH.fullmatch(length):
        raise ValueError(_RULE)
    try:
        found = ipaddress.ip_interface(text)
    except ValueError:
        raise ValueError(_RULE) from None
    mapped = getattr(found.ip, "ipv4_mapped", None)
    if mapped is not None and found.network.prefixlen >= _MAPPED_LENGTH:
        found = ipaddress.ip_interface((mapped, found.network.prefixlen - _MAPPED_LENGTH))
    if found.ip != found.network.network_address:
        raise ValueError(
            f"has bits after its prefix; write {found.network} for the network, "
            f"or {found.ip} for the address"
        )
    return str(found.network)
