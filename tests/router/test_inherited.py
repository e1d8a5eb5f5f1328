"""`breakeven.inherited`: descriptors that were handed over become sockets, or one line that says which is unfit."""

import os
import socket
from contextlib import ExitStack, contextmanager

import pytest

from breakeven import listen_fds
from breakeven.inherited import NOTHING, Inherited, UnfitSocketError, address_of, take_inherited


@contextmanager
def handed_over(monkeypatch, *descriptors, names=None):
    """These descriptors one behind the other, with the variables that tell this process of them."""
    first = 200  # far above whatever a test has open; a process that is started finds them at 3
    monkeypatch.setattr(listen_fds, "FIRST", first)
    for index, descriptor in enumerate(descriptors):
        os.dup2(descriptor, first + index)
    environment = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(descriptors))}
    if names is not None:
        environment["LISTEN_FDNAMES"] = names
    try:
        yield environment
    finally:
        os.closerange(first, first + len(descriptors))


@pytest.fixture
def opened():
    with ExitStack() as stack:
        yield stack.enter_context


def listening(opened, host="127.0.0.1"):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return opened(socket.create_server((host, 0), family=family))


def unfit(opened, kind):
    if kind == "file":
        return opened(open(os.devnull, "rb"))  # noqa: PTH123  # closed with the test
    if kind == "not listening":
        tcp = opened(socket.socket())
        tcp.bind(("127.0.0.1", 0))
        return tcp
    if kind == "datagrams":
        return opened(socket.socket(type=socket.SOCK_DGRAM))
    here, there = socket.socketpair()
    opened(there)
    return opened(here)


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("file", "LISTEN_FDS: descriptor 201 (b) is not a socket"),
        ("not listening", "LISTEN_FDS: descriptor 201 (b) is not a listening TCP socket"),
        ("datagrams", "LISTEN_FDS: descriptor 201 (b) is not a listening TCP socket"),
        ("unix pair", "LISTEN_FDS: descriptor 201 (b) is not a listening TCP socket"),
    ],
)
def test_what_nobody_can_be_accepted_at_is_named_and_left_open(monkeypatch, opened, kind, complaint):
    fit, other = listening(opened), unfit(opened, kind)
    with handed_over(monkeypatch, fit.fileno(), other.fileno(), names="a:b") as environment:
        with pytest.raises(UnfitSocketError) as caught:
            take_inherited(environment, os.getpid())
        os.fstat(201)
    assert str(caught.value) == complaint


def test_a_descriptor_that_is_not_open_is_no_socket(monkeypatch, opened):
    fit = listening(opened)
    with handed_over(monkeypatch, fit.fileno()) as environment:
        environment["LISTEN_FDS"] = "2"
        with pytest.raises(UnfitSocketError, match=r"descriptor 201 \(unknown\) is not a socket"):
            take_inherited(environment, os.getpid())


def test_variables_that_contradict_each_other_are_one_line(monkeypatch):
    with handed_over(monkeypatch, names="a:b") as environment, pytest.raises(UnfitSocketError, match="names 2"):
        take_inherited(environment, os.getpid())


def test_sockets_for_another_process_are_left_alone():
    environment = {"LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDS": "1"}
    assert take_inherited(environment, os.getpid()) == NOTHING


def test_they_are_sorted_by_name_and_for_no_process_that_this_one_starts(monkeypatch, opened):
    first, admin, second = (listening(opened) for _ in range(3))
    descriptors = [each.fileno() for each in (first, admin, second)]
    with handed_over(monkeypatch, *descriptors, names="breakeven.socket:admin:api") as environment:
        environment["LISTEN_OTHER"] = "stays"
        inherited = take_inherited(environment, os.getpid())
        assert [address_of(each) for each in inherited.api] == [address_of(first), address_of(second)]
        assert [address_of(each) for each in inherited.admin] == [address_of(admin)]
        assert not any(os.get_inheritable(200 + index) for index in range(3))
        assert not any(each.getblocking() for each in (*inherited.api, *inherited.admin))
        assert not inherited.succeeds
        assert environment == {"LISTEN_OTHER": "stays"}
        for each in (*inherited.api, *inherited.admin):
            each.detach()


@pytest.mark.skipif(not socket.has_ipv6, reason="Python was built without IPv6")
def test_an_address_of_ipv6_is_one_too(opened):
    host, port = address_of(listening(opened, "::1"))
    assert host == "::1"
    assert port > 0


def test_a_successor_says_once_that_it_is_ready(monkeypatch):
    reading, writing = os.pipe()
    with handed_over(monkeypatch, writing) as environment, open(reading, "rb") as reader:  # noqa: PTH123  # a pipe
        inherited = take_inherited(environment | {"LISTEN_FDS": "0", "READY_FD": "200"}, os.getpid())
        os.close(writing)
        assert inherited.succeeds
        assert not os.get_inheritable(200)
        inherited.tell_ready()
        assert os.read(reading, 100) == b"READY=1\n"
        os.close(200)
        assert reader.read() == b""  # its end is the predecessor's to notice
        os.dup2(0, 200)  # for the end of the block
    NOTHING.tell_ready()


def test_a_predecessor_that_is_gone_is_an_error():
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        Inherited(ready=writing).tell_ready()
    os.close(writing)
