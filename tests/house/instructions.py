"""Counts the instructions of one JSON request, of one stream, and of one relayed event in it, sockets left out.

    python -m tests.house.instructions            needs valgrind (apt-get install valgrind); four minutes
    python -m tests.house.instructions request-logged request-journalled request-traced       single cases
    python -m tests.house.instructions request-choosing     where clients may name a policy and this one does not
    python -m tests.house.instructions request-shadowed     with least_loaded as a shadow policy, its work included
    python -m tests.house.instructions request-of-four-workers
    python -m tests.house.instructions request-learned stream-learned event-learned     with the policy breakeven

Unlike seconds they are the same on a busy machine, so that a change of a percent can be seen. The messages are those of
a small chat request; both of its heads have come before, as on any kept-alive connection.
What is written down is counted with the thread that does it, but for the export of spans, which is the SDK's.
"""

import asyncio
import os
import random
import re
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from types import SimpleNamespace

from opentelemetry.sdk.trace import SpanProcessor

from breakeven import proxy as proxy_module
from breakeven import recorder as recorder_module
from breakeven.api_keys import ApiKeys
from breakeven.clock import utc_now
from breakeven.config import Settings
from breakeven.fleet import Fleet, ModelsListed, ProbeSucceeded, Scraped
from breakeven.in_flight import InFlight
from breakeven.metrics import Metrics
from breakeven.model_cards import ModelDirectory
from breakeven.proxy import Proxy
from breakeven.recorder import Recorder, Tracing
from breakeven.recorders import open_recorders
from breakeven.schooling import arrange_learning
from breakeven.shared_table import new_table, rows_of
from breakeven.upstream import Connection
from breakeven_policies.learning import Observed
from breakeven_policies.snapshot import EngineSignals

COUNTS = (100, 600)
"""Two lengths of a run: their difference leaves start-up out."""

VALGRIND = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")

BODY = b'{"model":"m","messages":[{"role":"user","content":"%b"}],"max_tokens":50,"temperature":0.7}' % (b"hello " * 80)
ANSWER = (
    b'{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant",'
    b'"content":"%b"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":37,"total_tokens":67,"completion_tokens":30}}' % (b"word " * 60)
)
EVENT = (
    b'data: {"id":"chatcmpl-a7e807ea2e6092af","object":"chat.completion.chunk","created":1796015447,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":" tok"},"logprobs":null,"finish_reason":null}]}\n\n'
)
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\nauthorization: Bearer x\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(BODY), BODY)
)
RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
LAST = (
    b'data: {"id":"chatcmpl-a7e807ea2e6092af","object":"chat.completion.chunk","created":1796015447,"model":"m",'
    b'"choices":[],"usage":{"prompt_tokens":37,"total_tokens":67,"completion_tokens":30}}\n\ndata: [DONE]\n\n'
)
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


class Nowhere:
    """A transport that takes everything: nothing is buffered, nothing is closing."""

    def write(self, data):
        return 0

    close = abort = lambda self: None
    is_closing = get_write_buffer_size = lambda self: 0


@contextmanager
def written_down(case, settings):
    """What the case has written of its requests: a recorder and, where it asks for it, tracing."""
    # Batches are full, as on a busy router, and all is written before the count ends.
    recorder_module.GATHER_S, recorder_module.CLOSE_S = 1.0, 120.0
    with ExitStack() as stack:
        tracing = None
        if case == "request-traced":
            from breakeven import otlp

            writer = otlp.SpanWriter(SpanProcessor())
            tracing = Tracing(otlp.sampler(), Recorder(writer.take, utc_now, "spans"))
            stack.callback(tracing.recorder.close, recorder_module.CLOSE_S)
        yield stack.enter_context(open_recorders(settings, utc_now)), tracing


async def run(case, count):
    with TemporaryDirectory() as folder:
        logs = {}
        if case in {"request-logged", "request-written-down"}:
            logs["access_log"] = f"{folder}/access.log"
        if case in {"request-journalled", "request-written-down"}:
            logs["journal"] = folder
        if case == "request-choosing":
            logs |= {"policy_header": "x-breakeven-policy", "policy_choices": "least_loaded"}
        if case == "request-shadowed":
            logs["shadow"] = "least_loaded"
            proxy_module._soon = lambda work: work()  # no loop turns here
        if case.endswith("-learned"):
            logs["policy"] = "breakeven"
        settings = Settings(speculative=["http://127.0.0.1:1"], baseline=["http://127.0.0.1:2"], **logs)
        with written_down(case, settings) as (recorder, tracing):
            serve(case, count, settings, recorder, tracing)


def teach(learning):
    """So much that requests are decided by cost, and go to the speculative pool as under the static rule."""
    now_s = time.monotonic()
    for number in range(400):
        pool, tokens = ("speculative", 251) if number % 2 else ("baseline", 101)
        batch = 1.0 + number % 32
        learning.observe(
            Observed(pool, "t2/short/free", now_s, batch=batch, events=101, completion_tokens=tokens, decode_s=2.0)
        )
    learning.observe(Observed(pool, "t2/short/free", now_s + 1.0))
    assert all(profile.known for profile in learning.view().pools.values())


def counting(case, specs):
    """Where the process counts, and what is in flight: alone, or as one of four workers."""
    if case != "request-of-four-workers":
        return None, None
    own, *others = rows_of(new_table(5), 5)
    for other in others:
        Fleet(specs, in_flight=InFlight(other))
    return own, InFlight(own, others)


def serve(case, count, settings, recorder, tracing):
    ledger, in_flight = counting(case, settings.pool_specs())
    fleet = Fleet(settings.pool_specs(), in_flight=in_flight)
    for backend in ("speculative-0", "baseline-0"):
        fleet.apply(ProbeSucceeded(backend))
        fleet.apply(ModelsListed(backend, frozenset({"m"})))
        fleet.apply(Scraped(backend, EngineSignals(running=3.0, waiting=0.0, generation_tokens=9.0), time.monotonic()))
    arrange_learning(fleet, settings, settings.build_policy(), {})
    if fleet.learning is not None:
        teach(fleet.learning)
    proxy = Proxy(
        settings=settings,
        fleet=fleet,
        policy=SimpleNamespace(current=settings.build_policy()),
        directory=ModelDirectory(["speculative-0", "baseline-0"], {}),
        metrics=Metrics(settings.pool_specs(), ledger),
        recorder=recorder,
        tracing=tracing,
        clock=time.monotonic,
        chance=random.Random(1),  # noqa: S311
        is_well=None,
        keys=ApiKeys({"one": "x"}) if case == "request-with-key" else None,
    )
    pool = proxy._edge.engines["speculative-0"].connections

    def connected():
        client, engine = proxy._connection(), Connection(pool)
        client.connection_made(Nowhere())
        engine.connection_made(Nowhere())
        pool.keep(engine)
        return client, engine

    client, engine = connected()
    event, last = chunk(EVENT), chunk(LAST) + b"0\r\n\r\n"
    if case.startswith("request"):
        for _ in range(count):
            client.data_received(REQUEST)
            engine.data_received(RESPONSE)
    elif case.startswith("stream"):  # with connections of its own, and four events
        for _ in range(count):
            client.data_received(REQUEST)
            engine.data_received(STREAM)
            for _ in range(4):
                engine.data_received(event)
            engine.data_received(last)
            client.connection_lost(None)
            engine.connection_lost(None)
            client, engine = connected()
    else:
        client.data_received(REQUEST)
        engine.data_received(STREAM)
        for _ in range(count):
            engine.data_received(event)


def instructions(case, count):
    ran = subprocess.run(
        [*VALGRIND, sys.executable, "-m", __spec__.name, case, str(count)],
        env=os.environ | {"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(re.search(r"Collected : (\d+)", ran.stderr).group(1))


def main(arguments):
    if len(arguments) == 2 and arguments[1].isdigit():
        asyncio.run(run(arguments[0], int(arguments[1])))
        return
    for case in arguments or ("request", "request-with-key", "request-written-down", "stream", "event"):
        first, second = (instructions(case, count) for count in COUNTS)
        print(f"{case}: {(second - first) / (COUNTS[1] - COUNTS[0]):,.0f} instructions")


if __name__ == "__main__":
    main(sys.argv[1:])
