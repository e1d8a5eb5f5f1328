"""`breakeven-bench engine`: what its flags mean, which combinations make no sense, and what its help teaches."""

import pytest

from breakeven_bench import engine_command
from breakeven_bench.__main__ import main
from breakeven_bench.engine.faults import FaultKind
from breakeven_bench.engine.hardware import PROFILES
from breakeven_bench.engine.options import EngineOptions
from breakeven_bench.engine.request_metrics import SpeculationDetail
from breakeven_bench.engine.speculation import DraftSampling, Method, Speculation
from breakeven_policies.request import SamplingDefaults


@pytest.fixture
def served(monkeypatch):
    """What `serve` is called with; it says that it is ready on port 4711 and returns 0."""
    calls = []

    def serve(options, host, port, announce):
        calls.append((options, host, port))
        announce(4711)
        return 0

    monkeypatch.setattr(engine_command, "serve", serve)
    return calls


def options_of(served, *flags):
    assert main(["engine", *flags]) == 0
    return served[-1][0]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--k", "3"], "--k: a plain engine drafts nothing; add --method"),
        (["--dynamic-k", "[[1,2,3]]"], "--dynamic-k: a plain engine drafts nothing"),
        (["--draft-sample-method", "greedy"], "--draft-sample-method: a plain engine drafts nothing"),
        (["--per-request-spec-decode-metrics", "summary"], "requires speculative decoding to be enabled"),
        (["--method", "eagle3", "--k", "0"], "--k must be between 1 and 16, got 0"),
        (["--method", "eagle3", "--k", "17"], "--k must be between 1 and 16, got 17"),
        (["--method", "eagle3", "--dynamic-k", "[[2,3,1]]"], "--dynamic-k: the first batch-size range must start at 1"),
        (["--time-scale", "0"], "--time-scale must be above 0"),
        (["--max-num-seqs", "0"], "--max-num-seqs must be at least 1"),
        (["--kv-cache-tokens", "100"], "--kv-cache-tokens must be at least"),
        (["--model", ""], "--model must name something"),
    ],
)
def test_a_combination_that_makes_no_sense_is_told_in_one_line_with_status_2(served, capsys, flags, message):
    assert main(["engine", *flags]) == 2
    output = capsys.readouterr()
    assert output.err.startswith("breakeven-bench engine: error: ")
    assert message in output.err
    assert output.err.count("\n") == 1
    assert served == []


@pytest.mark.parametrize(
    "flags",
    [
        ["--method", "medusa"],
        ["--profile", "tpu"],
        ["--port", "many"],
        ["--port", "99999"],
        ["--port", "-1"],
        ["--draft-sample-method", "wild"],
    ],
)
def test_a_value_that_is_unknown_is_refused_in_one_line(served, capsys, flags):
    with pytest.raises(SystemExit) as caught:
        main(["engine", *flags])
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_without_flags_it_is_the_default_engine_on_loopback(served):
    assert options_of(served) == EngineOptions()
    assert served[-1][1:] == ("127.0.0.1", 8000)


def test_it_says_where_it_is_ready_and_what_it_is(served, capsys):
    main(["engine", "--port", "0", "--method", "eagle3", "--k", "3", "--time-scale", "2.5"])
    assert capsys.readouterr().out == (
        "engine ready on http://127.0.0.1:4711 (llama-70b, a100-tp2-int8, eagle3 k=3, greedy drafting, time x2.5)\n"
    )


def test_dynamic_speculation_and_no_speculation_are_told_apart(served, capsys):
    main(["engine", "--method", "ngram", "--dynamic-k", "[[1,8,5]]"])
    main(["engine"])
    dynamic, plain = capsys.readouterr().out.splitlines()
    assert "ngram k=5 dynamic" in dynamic
    assert "no speculation" in plain


EVERY_FLAG = """
--model llama --model fast --profile h100-tp4-bf16 --max-num-seqs 32 --max-num-batched-tokens 4096
--max-model-len 16384 --kv-cache-tokens 100000 --time-scale 5 --seed 7 --enable-per-request-metrics
--method draft_model --k 4 --draft-sample-method probabilistic --per-request-spec-decode-metrics detailed
--default-temperature 0.6 --default-top-p 0.9 --default-top-k 40 --default-min-p 0.05
"""


def test_every_flag_reaches_the_engine(served):
    flags = EVERY_FLAG.split()
    assert options_of(served, *flags, "--dynamic-k", "[[1,16,5],[17,32,0]]") == EngineOptions(
        models=("llama", "fast"),
        hardware=PROFILES["h100-tp4-bf16"],
        speculation=Speculation(Method.DRAFT_MODEL, 4, DraftSampling.PROBABILISTIC, by_batch=(0, *[4] * 16, *[0] * 16)),
        sequences_max=32,
        tokens_per_step_max=4096,
        kv_cache_tokens=100_000,
        max_model_len=16384,
        defaults=SamplingDefaults(0.6, 0.9, 40, 0.05),
        request_timing=True,
        speculation_detail=SpeculationDetail.DETAILED,
        time_scale=5.0,
        seed=7,
    )


def test_a_method_alone_drafts_as_many_tokens_as_the_published_run(served):
    assert options_of(served, "--method", "eagle3").speculation == Speculation(Method.EAGLE3, 5)


def test_help_teaches_with_examples_profiles_and_every_fault(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["engine", "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert "breakeven-bench engine --port 8102 --method eagle3 --k 5" in shown
    for word in (*PROFILES, *(kind.value for kind in FaultKind), "/sim/faults", "x-breakeven-workload"):
        assert word in shown
