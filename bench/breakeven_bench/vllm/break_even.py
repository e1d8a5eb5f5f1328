"""When speculation stops paying on the real fleet, by the model of the step time and the published acceptance.

    expected tokens of a step  E(a, k) = (1 - a^(k+1)) / (1 - a)
    speed-up                   S = E(a, k) x plain step / speculative step

with a the probability that a draft token is accepted after all before it were (Leviathan et al., arXiv 2211.17192,
equation 1). Modelled on both sides: `hardware` says how well the step time is known, `prior` how little the acceptance.
The figures order choices of k; they are no promise of a speed.
"""

from itertools import groupby

from breakeven_bench.engine.hardware import NO_DRAFTER, Hardware, eagle_drafter, step_s
from breakeven_bench.vllm.facts import DRAFT_TOKENS, SEQUENCES_MAX

CONTEXT_TOKENS = 1000
"""Mean context of a running request: a prompt and half an answer of a chat. Longer contexts favour speculation a
little, as long as acceptance holds there."""

BATCH_LIMIT = 256
"""The last batch that is looked at: vLLM's default `--max-num-seqs` on an A100. The launch files ask for less."""


def expected_tokens(acceptance: float, drafts: int) -> float:
    """Tokens that a verification of `drafts` draft tokens yields, one of them the target's own."""
    return sum(acceptance**position for position in range(drafts + 1))


def speed_up(hardware: Hardware, drafts: int, batch: int, acceptance: float) -> float:
    """Tokens per second with an EAGLE-3 head over those without, both at `batch` running requests."""
    context = batch * CONTEXT_TOKENS
    if drafts == 0:
        return 1.0
    plain = step_s(hardware, NO_DRAFTER, batch, context, 0, batch)
    speculative = step_s(hardware, eagle_drafter(hardware), batch * (drafts + 1), context, drafts, batch)
    return expected_tokens(acceptance, drafts) * plain / speculative


def break_even_batch(hardware: Hardware, drafts: int, acceptance: float) -> int | None:
    """The largest batch at which speculation still gains; None where it gains up to `BATCH_LIMIT`, 0 where never."""
    for batch in range(1, BATCH_LIMIT + 1):
        if speed_up(hardware, drafts, batch, acceptance) < 1:
            return batch - 1
    return None


def best_schedule(hardware: Hardware, acceptance: float) -> list[tuple[int, int, int]]:
    """`num_speculative_tokens_per_batch_size`: (first batch, last batch, k), k the best of 0 to `DRAFT_TOKENS`."""

    def best(batch: int) -> int:
        return max(range(DRAFT_TOKENS + 1), key=lambda drafts: speed_up(hardware, drafts, batch, acceptance))

    schedule = []
    for drafts, batches in groupby(range(1, SEQUENCES_MAX + 1), key=best):
        run = list(batches)
        schedule.append((run[0], run[-1], drafts))
    return schedule
