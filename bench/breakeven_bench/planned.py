"""One planned request, and the body in which it is sent."""

from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """What is asked, drawn from a seed before the run, so that every arm is asked the same.

    `output_tokens` is where the answer would end by itself. Only a simulated engine heeds it (as metadata); a real
    one ends where it ends. `max_tokens` is the limit that the request states.
    """

    index: int
    prompt_id: str
    category: str
    prompt: str
    temperature: float
    max_tokens: int
    output_tokens: int
    seed: int


def chat_body(planned: PlannedRequest, model: str, cache_salt: str, stream_interval: int = 1) -> bytes:
    """The body of a streamed chat completion.

    Every sampling parameter is explicit: an absent one would be the model's own default, which differs between
    models. The salt keeps a prefix cache from answering a prompt that it has seen (vllm#54227: time per token 34 %
    too good). `stream_interval` is vLLM's own field and left out at 1, so that other engines need not know it.
    """
    interval = {} if stream_interval == 1 else {"stream_interval": stream_interval}
    return orjson.dumps(
        interval
        | {
            "model": model,
            "messages": [{"role": "user", "content": planned.prompt}],
            "temperature": planned.temperature,
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "max_tokens": planned.max_tokens,
            "seed": planned.seed,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "cache_salt": cache_salt,
            "metadata": {"workload": planned.category, "output_tokens": str(planned.output_tokens)},
        }
    )
