# ruff: noqa: INP001  # a folder to be on PYTHONPATH, not a package
"""A general plugin of vLLM: sampled speculation on a CPU reads its own temperatures (vLLM issue #55005).

Without Triton's CPU back end vLLM spreads each request's temperature, top_k and top_p over its draft tokens with
`vllm.utils.cpu_triton_utils._expand_kernel_impl`. In 0.32.0 and 0.33.0 that function hands its kernel an int64 copy of
the output and drops it, so that the rejection sampler divides by uninitialised memory: drafts are accepted at random,
texts are not drawn from the model, and top_k ends the engine. At temperature 0 nothing is wrong.

And where a step has no drafts, `vllm.v1.sample.ops.topk_topp_sampler.apply_top_k_only` is asked about no logits at all
and takes the largest of no numbers, which ends the engine for a request with top_k and without top_p.

Bounds: this replaces those two functions, only on a CPU, and each only where a call of it shows the fault; in an engine
that is mended it does nothing. vLLM calls `register` in every process before it takes up its kernels, and finds it by
the entry point beside this file wherever the folder is on PYTHONPATH.
"""

import logging
from typing import Any

import torch

FUNCTION = "_expand_kernel_impl"
TOP_K_FUNCTION = "apply_top_k_only"

logger = logging.getLogger("vllm.breakeven_vllm_cpu")  # below vLLM's own, so that it is heard


def expand(output: Any, values: Any, totals: Any, replace_from: float, replace_to: float, _: object = None) -> None:
    """Write each of `values` (batch) to its tokens of `output` (tokens), `replace_from` as `replace_to`.

    `totals` (batch) counts tokens up to and with each value: a, b with totals 2, 5 give a a b b b. vLLM passes its
    arguments by position; the last one is a constant of the Triton kernel. Raises RuntimeError where `output` has
    another length than the last total: a single value would otherwise be broadcast over all tokens.
    """
    counts = totals.diff(prepend=totals.new_zeros(1))
    spread = values.masked_fill(values == replace_from, replace_to).repeat_interleave(counts)
    if len(spread) != len(output):
        message = f"{len(spread)} tokens were counted, and there is room for {len(output)}"
        raise RuntimeError(message)
    output.copy_(spread)


def is_faulty(implementation: Any) -> bool:
    """Whether a call of the function leaves its output as it was."""
    output = torch.zeros(2)
    implementation(output, torch.tensor([0.5]), torch.tensor([2], dtype=torch.int32), 0, 0)
    return bool(output.tolist() != [0.5, 0.5])


def fails_on_nothing(apply_top_k: Any) -> bool:
    """Whether the function raises where there are no logits."""
    try:
        apply_top_k(torch.zeros((0, 2)), torch.tensor([], dtype=torch.int32))
    except (IndexError, RuntimeError):
        return True
    return False


def only_where_there_are_logits(apply_top_k: Any) -> Any:
    """The same function for a batch (tokens x vocabulary) that is not empty; an empty one comes back as it is."""

    def apply(logits: Any, k: Any) -> Any:
        return apply_top_k(logits, k) if logits.shape[0] else logits

    return apply


def register() -> None:
    """Replace each function where it is at fault; may be called any number of times in a process."""
    # Imported here: what fails in this function ends the engine, what fails above is only logged by vLLM, which then
    # goes on and samples wrongly.
    from vllm.platforms import current_platform  # noqa: PLC0415
    from vllm.utils import cpu_triton_utils  # noqa: PLC0415
    from vllm.v1.sample.ops import topk_topp_sampler  # noqa: PLC0415

    if not current_platform.is_cpu():
        return
    current_platform.import_kernels()
    if is_faulty(getattr(cpu_triton_utils, FUNCTION)):
        setattr(cpu_triton_utils, FUNCTION, expand)
        logger.info("sampled speculation on this CPU is repaired (vLLM issue #55005)")
    if fails_on_nothing(getattr(topk_topp_sampler, TOP_K_FUNCTION)):
        apply_top_k = only_where_there_are_logits(getattr(topk_topp_sampler, TOP_K_FUNCTION))
        setattr(topk_topp_sampler, TOP_K_FUNCTION, apply_top_k)
        logger.info("top_k without drafts on this CPU is repaired")
