"""Fleets and requests for the tests of policies: small builders, and hypothesis strategies for any of either."""

from hypothesis import strategies as st

from breakeven_policies.learned import Learned
from breakeven_policies.learning import Learning, Observed, PoolFacts
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import BackendView, EngineSignals, FleetSnapshot, Health, PoolKind, PoolView


def request(temperature: float = 0.7, **changes: object) -> RequestView:
    """A chat request like any other, with what the test is about changed."""
    fields = {
        "model": "m", "endpoint": "chat.completions", "stream": True, "temperature": temperature,
        "temperature_defaulted": False, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "has_logit_bias": False,
        "prompt_bytes": 100, "max_output_tokens": None, "sequences": 1, "ticket": 0.5,
    } | changes  # fmt: skip
    return RequestView(**fields)


def backend(name: str, in_flight: int = 0, health: Health = Health.READY, **changes: object) -> BackendView:
    """A backend that serves the model "m"."""
    return BackendView(name, health, in_flight, **({"models": frozenset({"m"})} | changes))


def plain(*backends: BackendView, name: str = "baseline") -> PoolView:
    """A pool without speculation."""
    return PoolView(name, PoolKind.PLAIN, backends)


def speculative(*backends: BackendView, name: str = "speculative") -> PoolView:
    """An EAGLE-3 pool."""
    return PoolView(name, PoolKind.SPECULATIVE, backends, "eagle3", 5)


def fleet(*pools: PoolView) -> FleetSnapshot:
    """Those pools, now."""
    return FleetSnapshot(100.0, pools)


def pair() -> FleetSnapshot:
    """One plain and one speculative engine, both idle."""
    return fleet(plain(backend("base-0")), speculative(backend("spec-0")))


signals = st.builds(
    EngineSignals,
    running=st.none() | st.floats(0, 500),
    waiting=st.none() | st.floats(0, 500),
    kv_usage=st.none() | st.floats(0, 1),
)


def learned_of(steps_ms: dict[str, float], now_s: float = 100.0, seen: int = 40) -> Learned:
    """What streams in these pools teach, at batches from 1 to 32; a step of 8 there takes so many milliseconds.

    Names that begin with "s" are those of speculative pools, which make 3.5 tokens per step where nothing is random
    and fewer the hotter it gets.
    """
    facts = {
        pool: PoolFacts(PoolKind.SPECULATIVE if pool[0] == "s" else PoolKind.PLAIN, 5 if pool[0] == "s" else 0)
        for pool in steps_ms
    }
    learning = Learning(facts)
    for number in range(seen):
        batch = 1 << number % 6
        for pool, step_ms in steps_ms.items():
            slope = 0.08 if pool[0] == "s" else 0.01
            step_s = step_ms / 1000 * (1 + slope * (batch - 8))
            for band in range(5):
                tokens_per_step = 3.5 - band * 0.5 if pool[0] == "s" else 1.0
                learning.observe(
                    Observed(
                        pool, f"t{band}/short/free", now_s - seen + number, batch=batch, events=101,
                        completion_tokens=1 + round(100 * tokens_per_step), decode_s=100 * step_s, ttft_s=0.1,
                        prompt_tokens=25, prompt_bytes=100,
                    )
                )  # fmt: skip
    return learning.view()


LEARNED = learned_of({f"p{number}": 20.0 + number for number in range(8)})
"""Of all pools that `fleets` makes, as plain ones: where one is speculative, its acceptance is unknown."""

LEARNED_OF_BOTH = Learned(100.0, {**LEARNED.pools, **{
    f"p{number}": learned_of({"s": 24.0 + number}).pools["s"] for number in range(0, 8, 2)
}}, length=200.0)  # fmt: skip
"""Every second one as a speculative one: that a plain pool should be known so is none of the policy's business."""


@st.composite
def fleets(draw: st.DrawFn, pools_max: int = 4, backends_max: int = 4) -> FleetSnapshot:
    """Any fleet: pools of either kind, in any health, under any load, of which something was learned or nothing."""
    names = iter(f"b{number}" for number in range(pools_max * backends_max))
    pools = []
    for number in range(draw(st.integers(0, pools_max))):
        backends = tuple(
            BackendView(
                next(names),
                draw(st.sampled_from(Health)),
                draw(st.integers(0, 50)),
                draw(st.none() | signals),
                draw(st.none() | st.floats(0, 100)),
                draw(st.integers(0, 50)),
                draw(st.none() | st.frozensets(st.sampled_from(["m", "m-lora", "other"]))),
                draw(st.sampled_from([0, 0, 1, 25, 2000])),
            )
            for _ in range(draw(st.integers(0, backends_max)))
        )
        pools.append(PoolView(f"p{number}", draw(st.sampled_from(PoolKind)), backends))
    learned = draw(st.sampled_from([None, LEARNED, LEARNED_OF_BOTH, LEARNED_OF_BOTH]))
    return FleetSnapshot(draw(st.floats(0, 1000)), tuple(pools), learned, draw(st.sampled_from([0.0, 1.0, 4.0])))


@st.composite
def requests(draw: st.DrawFn) -> RequestView:
    """Any request."""
    return request(
        draw(st.floats(-2, 3)),
        model=draw(st.sampled_from(["m", "m-lora", "nobody's", None])),
        temperature_defaulted=draw(st.booleans()),
        min_p=draw(st.sampled_from([0.0, 1e-5, 0.05])),
        has_logit_bias=draw(st.booleans()),
        sampled=draw(st.booleans()),
        ticket=draw(st.floats(0, 1, exclude_max=True)),
    )
