"""What is known of `vllm serve`: its methods of speculation, its flags, and since which version.

The one source, with `machines`. The launch files in `deploy/vllm` and the tables of their README are rendered from both
(`launch_files`), and a test compares every name with vLLM's source. "code" is that of vLLM 0.33.0 below `vllm/`, which
is also the release that the simulated engine follows (`engine.options.VLLM_VERSION`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from breakeven_bench.vllm.machines import Drafter, Fleet


@dataclass(frozen=True, slots=True)
class Key:
    """A member of `--speculative-config`: its value comes from the variable, or is fixed.

    A variable without a default here has the fleet's (`machines.settings`). `is_json` says that the variable holds
    JSON and not text.
    """

    name: str
    default: str | int | None = None
    variable: str | None = None
    why: str = ""
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class Method:
    """A way to speculate, or none: the script that starts it and what it says in `--speculative-config`.

    `since` is the first version of vLLM in which it was seen, and not every version was looked at; None for what was
    always there.
    """

    script: str
    title: str
    keys: tuple[Key, ...]
    since: str | None
    note: str
    source: str
    drafter: str | None = None

    @property
    def speculates(self) -> bool:
        """Whether the engine has drafts to verify."""
        return bool(self.keys)


DRAFT_TOKENS = 3
"""The better k for a pool that carries load; `launch_files` computes the figures that say so."""

DRAFT_TOKENS_PUBLISHED = 5
"""k of the published table (`breakeven_policies.prior`)."""

SUFFIX_TOKENS = 8
"""An upper bound: the trees decide how much they propose."""

_EAGLE3 = Key("method", "eagle3")
_TOKENS = Key("num_speculative_tokens", DRAFT_TOKENS, "SPEC_TOKENS")
_SAME_TOKENS = replace(
    _TOKENS, why="The same as for the EAGLE-3 head, so that a verification costs the same and the two compare."
)
_SAMPLING = Key(
    "draft_sample_method",
    "greedy",
    "DRAFT_SAMPLE_METHOD",
    'greedy is vLLM\'s default, and what makes the rule "temperature > 1.0 goes to the plain pool" right: acceptance '
    "falls with temperature. probabilistic keeps it nearly flat, for a cache of draft logits (see the fleet's memory); "
    "route by load then (--policy least_loaded), or measure first.",
)
_LOSSLESS = Key(
    "rejection_sample_method",
    "standard",
    None,
    'rejection_sample_method is named so that nobody turns it to "fly" unseen: that changes what the model answers.',
)
_HEAD = Key("model", variable="HEAD")

BASELINE = Method(
    script="baseline",
    title="the plain pool: no speculation",
    keys=(),
    since=None,
    note="It serves what a speculative engine refuses (min_p, logit_bias), and what the policy keeps away from drafts.",
    source="code sampling_params.py",
)

EAGLE3 = Method(
    script="speculative",
    title="EAGLE-3: a head of one layer on the target's hidden states",
    keys=(_EAGLE3, _HEAD, _TOKENS, _SAMPLING, _LOSSLESS),
    since="0.8.5",
    note="There is no EAGLE-3 head for Llama-3.1-70B from its authors; 3.3-70B has several. "
    "draft_tensor_parallel_size is left out: the head runs in the target's own group of GPUs whatever it says.",
    source="code model_executor/models/llama_eagle3.py, v1/worker/gpu/spec_decode/eagle",
    drafter="head",
)

DRAFT_MODEL = Method(
    script="draft-model",
    title="a small model of the same family drafts",
    keys=(
        Key("method", "draft_model"),
        Key("model", variable="DRAFT_MODEL"),
        _SAME_TOKENS,
        _SAMPLING,
        _LOSSLESS,
    ),
    since="0.15",
    note="The vocabularies must be equal in size, and the draft model is split over as many GPUs as the target "
    "(draft_tensor_parallel_size defaults to that, and model runner V1 refuses anything else). "
    "Its own key-value cache comes on top of the target's.",
    source="code config/speculative.py verify_equal_vocab_size_if_draft_model, v1/spec_decode/draft_model.py",
    drafter="draft_model",
)

NGRAM = Method(
    script="ngram",
    title="prompt lookup: what followed the same words before is the draft",
    keys=(
        Key("method", "ngram"),
        _SAME_TOKENS,
        Key("prompt_lookup_min", 2, "PROMPT_LOOKUP_MIN"),
        Key(
            "prompt_lookup_max",
            5,
            "PROMPT_LOOKUP_MAX",
            "The last 5 tokens are looked up, then 4, 3 and 2. vLLM's default is 5 alone, a choice its source calls "
            "arbitrary; neither was measured here.",
        ),
        _LOSSLESS,
    ),
    since="0.7.3 or earlier",
    note="Nothing to load. It pays where the answer repeats the prompt: editing, extraction, retrieval. A step without "
    "a match has no draft and is left out of vLLM's acceptance counters, so they flatter it.",
    source="code config/speculative.py, v1/worker/gpu/spec_decode/ngram",
)

SUFFIX = Method(
    script="suffix",
    title="suffix trees over earlier answers propose what followed there",
    keys=(
        Key("method", "suffix"),
        Key(
            "num_speculative_tokens",
            SUFFIX_TOKENS,
            "SPEC_TOKENS",
            "An upper bound: the trees decide how much they propose. vLLM's default of 24 would let 128 requests ask "
            "for 3200 tokens of verification per step, more than the whole budget; with 8 they leave 896 to prefill.",
        ),
        _LOSSLESS,
    ),
    since="0.13 or earlier",
    note="Needs the package arctic-inference==0.1.1 beside vLLM, which its container image need not have. It runs on "
    "model runner V1 and without asynchronous scheduling, so a difference to the other arms is not speculation alone.",
    source="code config/speculative.py _validate_suffix_decoding, config/vllm.py",
)

DYNAMIC = Method(
    script="dynamic",
    title="EAGLE-3 whose k follows the batch",
    keys=(
        _EAGLE3,
        _HEAD,
        replace(_TOKENS, why="The most that a step drafts; the fleet's SCHEDULE lowers it with the batch."),
        Key("num_speculative_tokens_per_batch_size", variable="SCHEDULE", is_json=True),
        _SAMPLING,
        _LOSSLESS,
    ),
    since="0.24",
    note="Per step and for the whole batch: vLLM has no per-request switch. Batch size counts every scheduled request, "
    "one in prefill too; a gap or the tail of the schedule keeps the k before it; slots in the cache are reserved for "
    "SPEC_TOKENS whatever k is. With data parallelism the schedule is dropped at start-up. vLLM issue 49548 (open) "
    "reports that throughput collapses where a threshold is crossed, on model runner V1 with piecewise graphs: measure "
    "before use.",
    source="code v1/spec_decode/dynamic/utils.py, v1/core/sched/scheduler.py, config/vllm.py",
    drafter="head",
)

METHODS = (BASELINE, EAGLE3, DRAFT_MODEL, NGRAM, SUFFIX, DYNAMIC)


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of `vllm serve`: its value comes from the variable, or is fixed; with neither it takes none.

    A variable without a default here has the fleet's (`machines.settings`).
    """

    name: str
    default: str | None = None
    variable: str | None = None
    why: str = ""


SEQUENCES_MAX = 128
TOKEN_BUDGET = 2048
MODEL_LEN_MAX = 32768
MEMORY_SHARE = 0.90

SHARED_FLAGS = (
    Flag("--host", "0.0.0.0", "HOST"),  # noqa: S104  # the router may be on another machine
    Flag(
        "--served-model-name",
        variable="SERVED_MODEL_NAME",
        why="One name for both, whatever the repositories are called: the router sends the client's `model` on.",
    ),
    Flag("--tensor-parallel-size", variable="TENSOR_PARALLEL_SIZE"),
    Flag(
        "--gpu-memory-utilization",
        f"{MEMORY_SHARE:.2f}",
        "GPU_MEMORY_UTILIZATION",
        "vLLM's default is 0.92 (config/cache.py). Two hundredths of an A100 are 1.7 GB, left to what its profile does "
        "not see.",
    ),
    Flag(
        "--max-model-len",
        str(MODEL_LEN_MAX),
        "MAX_MODEL_LEN",
        "The models take 131072 tokens; one such request would hold more than half the cache of the smallest fleet.",
    ),
    Flag(
        "--max-num-seqs",
        str(SEQUENCES_MAX),
        "MAX_NUM_SEQS",
        "Bounds the position on the break-even curve. vLLM's default of 256 is beyond any gain at k=3 and T=0.7.",
    ),
    Flag(
        "--max-num-batched-tokens",
        str(TOKEN_BUDGET),
        "MAX_NUM_BATCHED_TOKENS",
        "Prefill and verification share this budget per step; unequal budgets would measure starved prefill instead of "
        "speculation. 2048 is vLLM's own default for the A100 (engine/arg_utils.py get_batch_defaults, PR 17885): a "
        "step full of prefill holds every stream. A speculative engine warns below 8192 (config/vllm.py); of 2048, 128 "
        "requests at k=3 take 512 and leave 1536 for prefill.",
    ),
    Flag(
        "--enable-per-request-metrics", why="Timings per request in the answer, for the router's records and the suite."
    ),
    Flag(
        "--disable-access-log-for-endpoints",
        "/health,/metrics",
        why="The router asks for both many times a minute.",
    ),
    Flag(
        "--shutdown-timeout",
        "60",
        "SHUTDOWN_TIMEOUT_S",
        "Streams under way may end after SIGTERM; the default of 0 cuts them.",
    ),
)

SPECULATIVE_FLAGS = (Flag("--per-request-spec-decode-metrics", "summary"),)
"""Of the speculative pool only: on a plain engine this flag is an error at start-up (code config/vllm.py)."""

PORTS: Mapping[bool, int] = {False: 8000, True: 8001}
"""By whether the engine speculates. They differ on two nodes as well, so that an address says which pool it is."""


@dataclass(frozen=True, slots=True)
class Gone:
    """What older guides name and vLLM 0.33.0 does not take."""

    name: str
    fate: str
    instead: str


GONE = (
    Gone("--speculative-model", "removed in 0.8.3", "--speculative-config '{\"model\": ...}'"),
    Gone("--num-speculative-tokens", "removed in 0.8.3", "--speculative-config '{\"num_speculative_tokens\": ...}'"),
    Gone("--speculative-draft-tensor-parallel-size", "removed in 0.8.3", "the key draft_tensor_parallel_size"),
    Gone("--speculative-disable-by-batch-size", "removed in 0.8.3", "the key num_speculative_tokens_per_batch_size"),
    Gone("--spec-decoding-acceptance-method", "removed in 0.8.3", "the key rejection_sample_method"),
    Gone("--speculative-method", "in no version looked at", "the key method, or --spec-method"),
    Gone("medusa", "removed in 0.33.0", "eagle3"),
    Gone("mlp_speculator", "removed in 0.33.0", "eagle3"),
)
"""From the wheels of 0.7.3, 0.8.1 to 0.8.5, 0.9.0, 0.32.0 and 0.33.0. EAGLE-3 came with 0.8.5."""


def drafter_of(fleet: Fleet, method: Method) -> Drafter | None:
    """What the method loads beside the target; None where nothing."""
    return {"head": fleet.head, "draft_model": fleet.draft_model, None: None}[method.drafter]
