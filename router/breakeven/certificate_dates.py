"""When certificates expire, read out of their files: pure.

The standard library tells that of a connection's peer and of authorities only. What is read here is as much of a
certificate (RFC 5280, section 4.1, in DER) as lies before its dates.
"""

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from datetime import UTC, datetime

from msgspec import Struct

_CERTIFICATE = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.+?)-----END ", re.DOTALL)
"""OpenSSL takes all three labels."""

_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18

_BEFORE_DATES = 3
"""Serial number, signature algorithm and issuer."""

_FIRST_YEAR = 50
"""Of two digits: 50 is 1950, 49 is 2049 (RFC 5280, section 4.1.2.5.1)."""


class Certificate(Struct, frozen=True):
    """A file of certificates. `pool` None: the router's own; `setting` is its key there."""

    pool: str | None
    setting: str
    expires_s: float
    """Unix time at which it serves no more: of a chain when its first certificate expires, of authorities, among which
    are old ones while they are exchanged, when the last does.
    """


def expiries_s(pem: bytes) -> list[float]:
    """Unix time of the end of each certificate in a PEM file, in their order. ValueError: one of them is none."""
    found = []
    for text in _CERTIFICATE.findall(pem):
        try:
            found.append(_not_after(a2b_base64(text)).timestamp())
        except (Base64Error, IndexError, UnicodeDecodeError, OverflowError) as error:
            message = f"no certificate: {error}"
            raise ValueError(message) from None
    return found


def _not_after(der: bytes) -> datetime:
    certificate = _inside(der, 0, _SEQUENCE)
    at = _inside(der, certificate, _SEQUENCE)
    if der[at] == _VERSION:
        at = _behind(der, at)
    for _ in range(_BEFORE_DATES):
        at = _behind(der, at)
    at = _behind(der, _inside(der, at, _SEQUENCE))  # behind the first of the two dates
    tag, start, end = _item(der, at)
    text = der[start:end].decode("ascii")
    if tag == _UTC_TIME:
        text = f"{19 if int(text[:2]) >= _FIRST_YEAR else 20}{text}"
    elif tag != _GENERALIZED_TIME:
        message = "no date where one has to be"
        raise ValueError(message)
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _item(der: bytes, at: int) -> tuple[int, int, int]:
    """Tag, start and end of the value at this place."""
    length, start = der[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, start = int.from_bytes(der[start : start + size]), start + size
    if start + length > len(der):
        message = "cut short"
        raise ValueError(message)
    return der[at], start, start + length


def _inside(der: bytes, at: int, tag: int) -> int:
    """Where the first part of a value of this kind begins."""
    found, start, _ = _item(der, at)
    if found != tag:
        message = f"tag {found} where {tag} has to be"
        raise ValueError(message)
    return start


def _behind(der: bytes, at: int) -> int:
    return _item(der, at)[2]
