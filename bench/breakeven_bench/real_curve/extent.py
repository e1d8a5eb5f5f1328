"""How much is measured: the whole curve, meant for twenty minutes of two idle cores, or a look, meant for three."""

from dataclasses import dataclass
from hashlib import sha256

from breakeven_bench.planned import PlannedRequest
from breakeven_bench.workloads.held_out import held_out

TEMPERATURES = (0.0, 0.3, 0.5, 0.7, 1.0, 1.2, 1.5)
"""Those of the published table (`breakeven_policies.prior`)."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Prompts, tokens and rounds of each part.

    Acceptance: `acceptance_prompts` answers of at most `acceptance_tokens` for every temperature, `acceptance_streams`
    at a time. Greedy: answers compared, `greedy_streams` of each pool at a time. Timing: in every round, each engine
    answers `timing_requests` prompts on each path, at each pair of temperature and concurrency; those numbers belong to
    `concurrencies` in order. No round begins that would not end within `limit_s` of the start of the command.
    """

    temperatures: tuple[float, ...]
    acceptance_prompts: int
    acceptance_tokens: int
    acceptance_streams: int
    greedy_prompts: int
    greedy_tokens: int
    greedy_streams: int
    timing_temperatures: tuple[float, ...]
    concurrencies: tuple[int, ...]
    timing_requests: tuple[int, ...]
    timing_tokens: int
    rounds: int
    limit_s: float


FULL = Extent(
    temperatures=TEMPERATURES,
    acceptance_prompts=32,
    acceptance_tokens=48,
    acceptance_streams=16,
    greedy_prompts=50,
    greedy_tokens=32,
    greedy_streams=8,
    timing_temperatures=(0.0, 1.0),
    concurrencies=(1, 4, 16),
    timing_requests=(1, 4, 16),
    timing_tokens=20,
    rounds=5,
    limit_s=18.5 * 60.0,
)
"""About 1,000 verifications for a point of the curve: a standard error of 0.03 tokens. Short answers, so that there is
time for several rounds: between rounds the machine's noise is larger than within one. The stopping takes a while."""

QUICK = Extent(
    temperatures=(0.0, 1.0),
    acceptance_prompts=10,
    acceptance_tokens=32,
    acceptance_streams=8,
    greedy_prompts=5,
    greedy_tokens=24,
    greedy_streams=5,
    timing_temperatures=(0.0,),
    concurrencies=(1, 4),
    timing_requests=(1, 4),
    timing_tokens=24,
    rounds=3,
    limit_s=170.0,
)
"""Shows that everything runs; too little to conclude from."""


def plan(count: int, tokens: int, temperature: float, seed: int, first: int = 0) -> tuple[PlannedRequest, ...]:
    """Requests for `count` held-out prompts from number `first` on, the same for the same arguments; the list wraps."""
    texts = list(held_out())
    made = []
    for index in range(count):
        prompt_id, kind, text = texts[(first + index) % len(texts)]
        made.append(
            PlannedRequest(
                index=index,
                prompt_id=prompt_id,
                category=kind,
                prompt=text,
                temperature=temperature,
                max_tokens=tokens,
                output_tokens=tokens,
                # One of its own for every prompt and repetition, and the same for every engine.
                seed=seed + first + index,
            )
        )
    return tuple(made)


def prompts_sha256() -> str:
    """Over the ids and texts of the held-out prompts in their order."""
    lines = (f"{prompt_id}\n{text}\n" for prompt_id, _, text in held_out())
    return sha256("".join(lines).encode()).hexdigest()
