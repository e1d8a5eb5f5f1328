"""Dates out of certificates, as another reader of them reads them; what is no certificate is said to be none."""

from binascii import b2a_base64 as _base64
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st

from breakeven.certificate_dates import expiries_s
from tests.router.certificates import Authority

_DER = serialization.Encoding.DER

PEM = b"-----BEGIN CERTIFICATE-----\n%b\n-----END CERTIFICATE-----\n"


@pytest.fixture(scope="module")
def der(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    pair = Authority(tmp_path_factory.mktemp("authority"), "authority").pair(until=datetime(2040, 1, 1, tzinfo=UTC))
    return x509.load_pem_x509_certificate(pair.cert.read_bytes()).public_bytes(_DER)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


@pytest.mark.parametrize("year", [2026, 2049, 2050, 9999])  # two digits of a year up to 2049, four from then on
def test_the_end_of_each_certificate_is_read_in_their_order(authority: Authority, year: int) -> None:
    until = datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC)
    chain = authority.pair(until=until).cert.read_bytes() + authority.file.read_bytes()
    known = [each.not_valid_after_utc.timestamp() for each in x509.load_pem_x509_certificates(chain)]
    assert known[0] == until.timestamp()
    assert expiries_s(chain) == known


def test_two_digits_from_50_on_are_of_the_last_century(der: bytes) -> None:
    assert der.count(b"\x17\x0d4001") == 1
    (end_s,) = expiries_s(PEM % _base64(der.replace(b"\x17\x0d4001", b"\x17\x0d5001")))
    assert datetime.fromtimestamp(end_s, UTC).year == 1950


def test_a_certificate_of_the_first_version_has_no_version(der: bytes) -> None:
    """What stands between the length of the body and its serial number is left out; no signature is looked at."""
    version = b"\xa0\x03\x02\x01\x02"
    assert der[8:13] == version
    inner = int.from_bytes(der[6:8]) - len(version)
    first = der[:6] + inner.to_bytes(2) + der[13:] + bytes(len(version))
    assert expiries_s(PEM % _base64(first)) == expiries_s(PEM % _base64(der))


def test_what_is_beside_certificates_is_nothing(authority: Authority) -> None:
    assert expiries_s(b"") == []
    assert expiries_s(authority.pair().key.read_bytes()) == []


@pytest.mark.parametrize("text", [b"####", b"QUJD", b"MAA=", b"MAMwAQA=", b"MIL/////"])
def test_what_is_no_certificate_is_told(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        expiries_s(PEM % text)


def test_something_else_where_a_date_has_to_be_is_told(der: bytes) -> None:
    with pytest.raises(ValueError, match="no date"):
        expiries_s(PEM % _base64(der.replace(b"\x17\x0d4001", b"\x16\x0d4001")))


@given(
    changes=st.dictionaries(st.integers(0, 250), st.integers(0, 255), max_size=4),
    length=st.sampled_from([10_000, 100, 30, 3, 1]),
)
def test_a_broken_certificate_gives_dates_or_a_value_error(der: bytes, changes: dict[int, int], length: int) -> None:
    broken = bytearray(der)
    for place, value in changes.items():
        broken[place] = value
    try:
        expiries_s(PEM % _base64(bytes(broken[:length])))
    except ValueError:
        return
