"""Certificates for tests, made when they are needed."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    cert: Path
    key: Path


class Authority:
    """One that signs; `file` is what those trust who trust it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._authority = trustme.CA(organization_name=name)
        self._made = 0
        self.file = folder / f"{name}.pem"
        self._authority.cert_pem.write_to_path(str(self.file))

    def pair(self, *names: str, expired: bool = False, until: datetime | None = None) -> Pair:
        """A certificate for these names, 127.0.0.1 if there are none."""
        self._made += 1
        until = datetime.now(UTC) - timedelta(days=1) if expired else until
        issued = self._authority.issue_cert(*(names or ("127.0.0.1", "localhost")), not_after=until)
        made = Pair(self._folder / f"{self._name}-{self._made}.crt", self._folder / f"{self._name}-{self._made}.key")
        issued.private_key_pem.write_to_path(str(made.key))
        for place, blob in enumerate(issued.cert_chain_pems):
            blob.write_to_path(str(made.cert), append=place > 0)
        return made
