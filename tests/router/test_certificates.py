"""Which certificates a configuration names, and when they serve no more."""

from datetime import UTC, datetime
from pathlib import Path

from breakeven.certificate_dates import Certificate, expiries_s
from breakeven.certificates import certificates_of
from breakeven.config import Settings
from tests.router.certificates import Authority

SOON, LATER = (datetime(year, 1, 1, tzinfo=UTC) for year in (2027, 2030))


def pool(name: str, **tls: Path) -> dict[str, object]:
    files = {key: str(path) for key, path in tls.items()}
    return {"name": name, "kind": "plain", "backends": [f"https://{name}:1"], "tls": files}


def test_what_cannot_be_read_is_left_to_who_has_to_use_it(tmp_path: Path) -> None:
    missing, garbage, empty = (tmp_path / name for name in ("missing", "garbage", "empty"))
    garbage.write_bytes(b"-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n")
    empty.write_bytes(b"")
    pools = [pool(path.name, ca=path) for path in (missing, garbage, empty)]
    assert certificates_of(Settings(pools=pools)) == []


def test_a_chain_ends_with_its_first_certificate_and_authorities_with_the_last(tmp_path: Path) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    ours = old.pair(until=SOON)
    chain = tmp_path / "chain.pem"
    chain.write_bytes(old.pair(until=LATER).cert.read_bytes() + ours.cert.read_bytes())
    both = tmp_path / "both.pem"
    both.write_bytes(old.pair(until=SOON).cert.read_bytes() + new.file.read_bytes())
    (authority_s,) = expiries_s(new.file.read_bytes())
    found = certificates_of(
        Settings(
            tls_cert=ours.cert,
            tls_key=ours.key,
            tls_client_ca=both,
            pools=[pool("p", ca=both, cert=chain, key=ours.key), pool("q")],
        )
    )
    assert found == [
        Certificate(None, "tls_cert", SOON.timestamp()),
        Certificate(None, "tls_client_ca", authority_s),
        Certificate("p", "tls.ca", authority_s),
        Certificate("p", "tls.cert", SOON.timestamp()),
    ]
