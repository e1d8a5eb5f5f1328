"""The certificates that a configuration names, and when they expire; read when it is, at the start and at a reload."""

from collections.abc import Iterator
from pathlib import Path

from breakeven.certificate_dates import Certificate, expiries_s
from breakeven.config import Settings


def certificates_of(settings: Settings) -> list[Certificate]:
    """All whose dates can be read: whoever has to use the others says what is wrong with them."""
    found = []
    for pool, setting, path in _files(settings):
        try:
            ends_s = expiries_s(path.read_bytes())
        except (OSError, ValueError):
            continue
        if ends_s:
            first_or_last = min if setting.endswith("cert") else max
            found.append(Certificate(pool, setting, first_or_last(ends_s)))
    return found


def _files(settings: Settings) -> Iterator[tuple[str | None, str, Path]]:
    named: list[tuple[str | None, str, Path | None]] = [
        (None, "tls_cert", settings.tls_cert),
        (None, "tls_client_ca", settings.tls_client_ca),
    ]
    for pool in settings.pools:
        named += [(pool.name, "tls.ca", pool.tls.ca), (pool.name, "tls.cert", pool.tls.cert)]
    return ((pool, setting, path) for pool, setting, path in named if path is not None)
