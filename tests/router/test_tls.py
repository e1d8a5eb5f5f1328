"""`breakeven.tls`: mistakes are named by setting and file, and a certificate is exchanged while the sockets stay."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from breakeven.config import EngineTrust, Settings
from breakeven.config_sources import ConfigError, build_settings
from breakeven.tls import ServerTls, client_context, engine_context
from tests.router.certificates import Authority

pytestmark = pytest.mark.usefixtures("clean_environment")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


def settings(**values: Any) -> Settings:
    return build_settings(Settings, {"baseline": "http://127.0.0.1:1", **values})


def mistake(**values: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        client_context(settings(**values))
    (line,) = caught.value.lines
    return line


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLObject:
    """A whole handshake in memory; the client's side."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(up, down, server_side=True)
    theirs = client.wrap_bio(down, up, server_hostname="127.0.0.1", session=session)
    for _ in range(6):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    ours.do_handshake()
    ours.write(b"x")
    assert theirs.read(1) == b"x"  # and with it tickets of TLS 1.3, where there are any
    return theirs


def trusting(authority: Authority) -> ssl.SSLContext:
    return engine_context(EngineTrust(ca=authority.file))


def test_a_file_that_is_missing_is_named(authority: Authority, tmp_path: Path) -> None:
    pair, missing = authority.pair(), tmp_path / "missing"
    assert mistake(tls_cert=missing, tls_key=pair.key) == (
        f"tls_cert: {missing}: cannot read it: No such file or directory"
    )
    assert mistake(tls_cert=pair.cert, tls_key=missing).startswith(f"tls_key: {missing}: cannot read it")
    given = {"tls_cert": pair.cert, "tls_key": pair.key}
    assert mistake(**given, tls_client_ca=missing).startswith(f"tls_client_ca: {missing}: cannot read it")


def test_a_key_of_another_certificate_is_named(authority: Authority) -> None:
    one, other = authority.pair(), authority.pair()
    assert mistake(tls_cert=one.cert, tls_key=other.key) == f"tls_key: {other.key}: is not the key of tls_cert"


def test_a_file_of_something_else_is_named(authority: Authority, tmp_path: Path) -> None:
    pair, other = authority.pair(), tmp_path / "other"
    other.write_text("no certificate")
    assert "no certificate in" in mistake(tls_cert=other, tls_key=pair.key)
    given = {"tls_cert": pair.cert, "tls_key": pair.key}
    assert mistake(**given, tls_client_ca=other) == f"tls_client_ca: {other}: no certificates in PEM form in it"


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"tls_cert": "/a"}, "tls_cert and tls_key go together"),
        ({"tls_key": "/a"}, "tls_cert and tls_key go together"),
        ({"tls_client_ca": "/a"}, "tls_client_ca: needs tls_cert and tls_key"),
    ],
)
def test_half_of_a_pair_is_a_mistake(values: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(**values)
    assert caught.value.lines[0].startswith(line)


def test_without_a_certificate_the_router_speaks_plain_http() -> None:
    assert client_context(settings()) is None


def test_handshakes_take_the_certificate_that_was_taken_last(authority: Authority) -> None:
    first, second = authority.pair(), authority.pair()
    contexts = [client_context(settings(tls_cert=pair.cert, tls_key=pair.key)) for pair in (first, second)]
    assert contexts[0] is not None
    assert contexts[1] is not None
    served = ServerTls(contexts[0])

    def serial() -> object:
        shown = shake_hands(served.context, trusting(authority)).getpeercert()
        assert shown is not None
        return shown["serialNumber"]

    before = serial()
    served.take(contexts[1])
    assert serial() != before
    served.take(contexts[0])
    assert serial() == before


def test_clients_need_a_certificate_of_the_authority_of_the_moment(authority: Authority, tmp_path: Path) -> None:
    own, others = authority.pair(), Authority(tmp_path, "others")

    def mutual(ca: Path) -> ssl.SSLContext:
        context = client_context(settings(tls_cert=own.cert, tls_key=own.key, tls_client_ca=ca))
        assert context is not None
        return context

    def showing(pair: Any) -> ssl.SSLContext:
        return engine_context(EngineTrust(authority.file, pair.cert, pair.key))

    served = ServerTls(mutual(authority.file))
    shake_hands(served.context, showing(authority.pair()))
    for context in (trusting(authority), showing(others.pair())):
        with pytest.raises(ssl.SSLError):
            shake_hands(served.context, context)
    served.take(mutual(others.file))
    shake_hands(served.context, showing(others.pair()))
    with pytest.raises(ssl.SSLError):
        shake_hands(served.context, showing(authority.pair()))


def test_who_was_let_in_by_an_authority_comes_in_no_more_when_that_is_exchanged(
    authority: Authority, tmp_path: Path
) -> None:
    own, pair = authority.pair(), authority.pair()
    given = {"tls_cert": own.cert, "tls_key": own.key}
    contexts = [
        client_context(settings(**given, tls_client_ca=ca))
        for ca in (authority.file, Authority(tmp_path, "other").file)
    ]
    assert contexts[0] is not None
    assert contexts[1] is not None
    served = ServerTls(contexts[0])
    client = engine_context(EngineTrust(authority.file, pair.cert, pair.key))
    session = shake_hands(served.context, client).session
    served.take(contexts[1])
    with pytest.raises(ssl.SSLError):
        shake_hands(served.context, client, session)


def test_an_engine_of_an_unknown_authority_is_trusted_only_where_that_is_wanted(
    authority: Authority, tmp_path: Path
) -> None:
    pair = authority.pair()
    server = client_context(settings(tls_cert=pair.cert, tls_key=pair.key))
    assert server is not None
    shake_hands(server, engine_context(EngineTrust(verify=False)))
    for trust in (EngineTrust(), EngineTrust(ca=Authority(tmp_path, "others").file)):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(server, engine_context(trust))
    named = authority.pair("elsewhere.test")
    elsewhere = client_context(settings(tls_cert=named.cert, tls_key=named.key))
    assert elsewhere is not None
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(elsewhere, trusting(authority))
