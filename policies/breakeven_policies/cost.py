"""The cost of putting one request on one backend, in request-seconds: its own latency plus the delay of the others.

Source: the project's design, section 1 (of which this is the whole):

    B     = min(n, M - 1)                          n sequences there, M of them run at once
    tau_c = s(B+1) / AL_c(k(B+1))                  s: seconds of an engine step; AL_c: tokens per step of this class
    h     = B * (1 - T(B) / T(B+1)), at least 0    T: the pool's mean time per token, never falling in B
    Q     = backlog * t_pf + max(0, n + 1 - M) * L_mean * T(M) / M     the wait for prefill and for a slot
    C     = Q + P * t_pf * (1 + B) + L * tau_c * (1 + h)

At a fixed number of drafts the acceptance of the neighbours cancels in h: the delay is per step, and the steps are
those that the newcomer shares. It enters through T where drafts become fewer in a larger batch. Without Q a full pool
looks cheap, without the prefill long prompts go to the wrong place.
"""

from enum import StrEnum

from msgspec import Struct

from breakeven_policies.learned import BATCH_MAX, PoolProfile


class Objective(StrEnum):
    """What is to be made small."""

    LATENCY = "latency"
    """The sum of all latencies: own and harm alike."""
    GOODPUT = "goodput"
    """Requests that miss the targets of time to first token or time per token."""
    THROUGHPUT = "throughput"
    """Tokens that the others lose."""


class Job(Struct, frozen=True):
    """What a request will take, as far as it is known before: tokens of prompt and of answer."""

    prompt_tokens: float
    output_tokens: float
    output_tokens_mean: float
    """Of all requests: what frees a slot."""


class Terms(Struct, frozen=True):
    """One backend's cost, term by term, in request-seconds; `batch` is B, `step_s` s(B+1), `token_s` tau_c."""

    batch: int
    step_s: float
    token_s: float
    acceptance_length: float
    queue_s: float
    prefill_s: float
    prefill_harm_s: float
    decode_s: float
    decode_harm_s: float

    @property
    def own_s(self) -> float:
        """What the request itself takes."""
        return self.queue_s + self.prefill_s + self.decode_s

    @property
    def harm_s(self) -> float:
        """What it takes from the others together."""
        return self.prefill_harm_s + self.decode_harm_s

    @property
    def total_s(self) -> float:
        """C."""
        return self.queue_s + self.prefill_s + self.prefill_harm_s + self.decode_s + self.decode_harm_s


def terms(
    profile: PoolProfile,
    acceptance_length: float,
    job: Job,
    sequences_there: float,
    backlog_tokens: float,
    sequences: int = 1,
) -> Terms:
    """The cost of a request whose class makes `acceptance_length` tokens per step, beside `sequences_there` others.

    `backlog_tokens`: tokens of prompts that wait there for their prefill. A request of several `sequences` joins with
    all of them.
    """
    slots = BATCH_MAX if profile.slots is None else min(profile.slots, BATCH_MAX)
    batch = int(min(sequences_there + 0.5, slots - sequences)) if slots > sequences else 0
    with_it = batch + sequences if slots > sequences else slots
    step_s = profile.step_s[with_it]
    length = 1.0 + (acceptance_length - 1.0) * profile.draft_share[with_it]
    token_s = step_s / length
    over = sequences_there + sequences - slots
    queue_s = backlog_tokens * profile.prefill_s
    if over > 0.0:
        queue_s += over * job.output_tokens_mean * profile.token_s[slots] / slots
    prefill_s = job.prompt_tokens * profile.prefill_s
    decode_s = job.output_tokens * token_s
    harm = profile.harm[batch] if sequences == 1 else _harm_of(profile, batch, with_it)
    return Terms(batch, step_s, token_s, length, queue_s, prefill_s, prefill_s * batch, decode_s, decode_s * harm)


def _harm_of(profile: PoolProfile, batch: int, with_it: int) -> float:
    """`h` for more than one sequence: the same quotient over as many steps of the batch."""
    return max(0.0, batch * (1.0 - profile.token_s[batch] / profile.token_s[with_it]))
