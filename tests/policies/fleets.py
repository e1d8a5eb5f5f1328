"""Fleets and requests for the tests of policies: small builders, and hypothesis strategies for any of either."""

from hypothesis import strategies as st

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


@st.composite
def fleets(draw: st.DrawFn) -> FleetSnapshot:
    """Any fleet: up to four pools of either kind, up to four backends each, in any health, under any load."""
    names = iter(f"b{number}" for number in range(16))
    pools = []
    for number in range(draw(st.integers(0, 4))):
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
            for _ in range(draw(st.integers(0, 4)))
        )
        pools.append(PoolView(f"p{number}", draw(st.sampled_from(PoolKind)), backends))
    return FleetSnapshot(draw(st.floats(0, 1000)), tuple(pools))


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
