"""Who takes part, and how each is started."""

import pytest

from breakeven_bench.overhead.loads import CLIENT_KEY, DOCUMENTS
from breakeven_bench.overhead.peers import Place, custom_peer, known_peers
from breakeven_bench.overhead.result import DIRECT, OURS


@pytest.fixture
def place(tmp_path):
    return Place(engine=1111, second_engine=2222, own=3333, folder=tmp_path)


def command(peers, name, place):
    (peer,) = [peer for peer in peers if peer.name == name]
    return peer.command(place)


def test_only_what_is_installed_takes_part():
    assert [peer.name for peer in known_peers(None, None)] == [DIRECT, "bare relay", OURS]
    assert [peer.name for peer in known_peers("/h", "/v")][3:] == ["haproxy", "vllm-router"]


def test_ours_is_started_as_a_user_would_with_logs_and_a_key(place):
    line = " ".join(command(known_peers(None, None), OURS, place).argv)
    assert "-m breakeven serve --host 127.0.0.1 --port 0" in line
    assert "--speculative http://127.0.0.1:1111 --baseline http://127.0.0.1:2222" in line
    assert f"--access-log {place.folder}/access.jsonl --journal {place.folder}/journal.jsonl" in line
    assert f"--api-keys load={CLIENT_KEY}" in line
    assert b"authorization: Bearer " + CLIENT_KEY.encode() in DOCUMENTS.request()


def test_the_others_listen_where_they_are_told_in_front_of_the_first_engine(place):
    peers = known_peers("/bin/haproxy", "/bin/vllm-router")
    assert command(peers, "haproxy", place).argv == ["/bin/haproxy", "-db", "-f", str(place.folder / "haproxy.cfg")]
    config = (place.folder / "haproxy.cfg").read_text()
    assert "bind 127.0.0.1:3333" in config
    assert "server first 127.0.0.1:1111" in config
    line = " ".join(command(peers, "vllm-router", place).argv)
    assert line.startswith("/bin/vllm-router --worker-urls http://127.0.0.1:1111 ")
    assert line.endswith("--port 3333")


def test_a_proxy_of_ones_own_is_given_the_ports(place):
    peer = custom_peer("mine=proxy --listen {port} --to 'http://127.0.0.1:{engine}'")
    assert (peer.name, peer.says_where) == ("mine", False)
    assert peer.command(place).argv == ["proxy", "--listen", "3333", "--to", "http://127.0.0.1:1111"]
    assert known_peers(None, None, [peer])[-1] is peer


@pytest.mark.parametrize("name", ["", "..", "a/b", "direct", "breakeven", "bare relay", "haproxy", "vllm-router"])
def test_a_name_that_is_taken_or_none_is_refused(name):
    with pytest.raises(ValueError, match="a name of letters"):
        custom_peer(f"{name}=x {{port}} {{engine}}")


@pytest.mark.parametrize("text", ["", "mine", "mine=x {port}", "mine=x {engine}"])
def test_a_proxy_that_cannot_be_told_its_ports_is_refused(text):
    with pytest.raises(ValueError, match="NAME=COMMAND"):
        custom_peer(text)
