"""`breakeven-bench load`: what it writes, what it says, and when it fails."""

import asyncio
import threading
from contextlib import contextmanager
from dataclasses import replace

import aiohttp
import pytest

from breakeven_bench.__main__ import main
from breakeven_bench.load_command import first_details, lines, time_warning
from breakeven_bench.record import ErrorClass
from breakeven_bench.record_file import load_records
from breakeven_bench.stats import Estimate
from tests.bench.runs import record, summary
from tests.bench.streaming_server import DONE, chunk, respond, serving


async def answer_at_once(server, request, body):
    return await respond(request, chunk("a", 2), chunk("b", 3, "stop"), DONE)


@contextmanager
def server_of(script, models=None, metrics=None):
    """A server in a thread of its own: the command runs an event loop itself."""
    ready, stop, found = threading.Event(), asyncio.Event(), []

    async def serve():
        async with serving(script, models, metrics) as server:
            found.extend([server, asyncio.get_running_loop()])
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    ready.wait(10.0)
    try:
        yield found[0]
    finally:
        found[1].call_soon_threadsafe(stop.set)
        thread.join(10.0)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--out", "f"], "--url"),
        (["--url", "http://x"], "--out"),
        (["--url", "127.0.0.1:8000", "--out", "f"], "try http://127.0.0.1:8000"),
        (["--url", "http://x", "--out", "f", "--rate", "0"], "positive"),
        (["--url", "http://x", "--out", "f", "--rate", "1", "--concurrency", "2"], "not allowed with"),
        (["--url", "http://x", "--out", "f", "--arrivals", "sometimes"], "sometimes"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused_in_one_line(arguments, expected, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["load", *arguments])
    assert caught.value.code == 2
    assert expected in capsys.readouterr().err


def test_a_server_that_does_not_answer_is_a_clear_error_and_nothing_is_written(tmp_path, capsys):
    out = tmp_path / "run.jsonl"
    assert main(["load", "--url", "http://127.0.0.1:9", "--out", str(out)]) == 1
    assert "breakeven-bench load: failed: " in capsys.readouterr().err
    assert not out.exists()


def test_a_folder_that_does_not_exist_is_not_made(tmp_path, capsys):
    out = tmp_path / "deep" / "run.jsonl"
    assert main(["load", "--url", "http://127.0.0.1:9", "--out", str(out)]) == 2
    assert f"--out: the directory {out.parent} does not exist" in capsys.readouterr().err
    assert not out.parent.exists()


def test_a_folder_is_no_file(tmp_path, capsys):
    assert main(["load", "--url", "http://127.0.0.1:9", "--out", str(tmp_path)]) == 2
    assert "is a directory" in capsys.readouterr().err


def test_records_of_an_earlier_run_are_kept_unless_force_says_otherwise(tmp_path, capsys):
    out = tmp_path / "run.jsonl"
    out.write_text("precious")
    assert main(["load", "--url", "http://127.0.0.1:9", "--out", str(out)]) == 2
    assert "exists; --force overwrites it" in capsys.readouterr().err
    assert main(["load", "--url", "http://127.0.0.1:9", "--out", str(out), "--force"]) == 1
    assert out.read_text() == "precious"  # the run failed before there was anything to write


@pytest.mark.slow
def test_force_overwrites_once_there_is_something_to_write(tmp_path):
    out = tmp_path / "run.jsonl"
    out.write_text("old")
    with server_of(answer_at_once) as server:
        assert main(["load", "--url", server.url, "--requests", "1", "--out", str(out), "--force"]) == 0
    assert len(load_records(out)) == 1


def test_the_first_words_of_each_class_of_error_are_told_in_one_line_each():
    sent = [
        record(0, error=ErrorClass.HTTP_5XX, error_detail="503: no\nroom"),
        record(1, error=ErrorClass.HTTP_5XX, error_detail="503: still none"),
        record(2, error=ErrorClass.CONNECT, error_detail="refused"),
        record(3, error=ErrorClass.UNFINISHED),
        record(4),
    ]
    assert first_details(sent) == ["first connect: refused", "first http_5xx: 503: no room"]


@pytest.mark.parametrize(("engines", "ours"), [(None, 1.0), (10.0, 10.0)])
def test_equal_or_unknown_time_scales_are_no_warning(engines, ours):
    assert time_warning(engines, ours) is None


@pytest.mark.slow
def test_a_simulated_engine_with_another_time_scale_is_warned_about(tmp_path, capsys):
    with server_of(answer_at_once, metrics=lambda _: "breakeven_sim_time_scale 10.0\n") as server:
        assert main(["load", "--url", server.url, "--requests", "1", "--out", str(tmp_path / "f")]) == 0
    assert "warning: the engine runs at --time-scale 10 and the load at 1" in capsys.readouterr().err


@pytest.mark.slow
def test_a_model_that_is_not_served_is_refused_with_those_that_are(tmp_path, capsys):
    with server_of(answer_at_once) as server:
        arguments = ["--url", server.url, "--model", "mine", "--out", str(tmp_path / "f")]
        assert main(["load", *arguments]) == 1
        assert server.bodies == []
    assert "does not serve 'mine'; there are: model-a, model-b" in capsys.readouterr().err


@pytest.mark.slow
def test_a_server_without_a_model_is_a_clear_error(tmp_path, capsys):
    with server_of(answer_at_once, {"data": []}) as server:
        assert main(["load", "--url", server.url, "--out", str(tmp_path / "f")]) == 1
    assert "lists no model" in capsys.readouterr().err


@pytest.mark.slow
def test_failed_requests_are_kept_and_make_the_status_say_so(tmp_path, capsys):
    async def refuse(server, request, body):
        return aiohttp.web.Response(status=503, text="no room")

    out = tmp_path / "run.jsonl"
    with server_of(refuse) as server:
        status = main(["load", "--url", server.url, "--requests", "3", "--rate", "500", "--out", str(out)])
    assert status == 1
    said = capsys.readouterr().err
    assert "3 of 3 requests: 3 x http_5xx" in said
    assert said.count("first http_5xx: 503: no room") == 1
    assert [record.error_detail for record in load_records(out)] == ["503: no room"] * 3


@pytest.mark.slow
def test_an_open_loop_is_recorded_and_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    out = tmp_path / "run.jsonl"
    with server_of(answer_at_once) as server:
        arguments = ["--url", server.url + "/v1/", "--rate", "100", "--seconds", "0.1", "--temperature", "0.3"]
        assert main(["load", *arguments, "--out", str(out)]) == 0
        assert {headers["authorization"] for headers in server.headers} == {"Bearer secret-key"}
        assert {(body["model"], body["temperature"]) for body in server.bodies} == {("model-a", 0.3)}
    assert [record.index for record in load_records(out)] == list(range(10))
    said = capsys.readouterr().out
    assert "10 requests to model-a" in said
    assert "answered: 10 of 10" in said
    assert "secret-key" not in said


@pytest.mark.slow
def test_a_closed_loop_keeps_to_its_concurrency_and_its_model(tmp_path):
    async def briefly(server, request, body):
        await asyncio.sleep(0.005)
        return await answer_at_once(server, request, body)

    with server_of(briefly) as server:
        arguments = ["--url", server.url, "--concurrency", "2", "--requests", "6", "--model", "model-b"]
        assert main(["load", *arguments, "--out", str(tmp_path / "run.jsonl")]) == 0
        assert server.open_most == 2
        assert {body["model"] for body in server.bodies} == {"model-b"}
        assert len(server.bodies) == 6


def test_the_figures_are_told_with_their_units():
    told = lines(replace(summary(mean_s=2.0), latency_p95_s=Estimate(3.0, 2.0, None, 60)))
    for expected in (
        "answered: 60 of 60",
        "latency, p95: 3.000 s",
        "time per output token: 12.50 ms",
        "to baseline: 8%",
    ):
        assert expected in told


def test_a_figure_that_is_not_known_is_left_out():
    assert not any(line.startswith("latency, p95") for line in lines(summary()))
