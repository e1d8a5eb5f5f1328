"""Tables to build tests from: a plain and an EAGLE-3 setup, measured at a few batch sizes."""

import json
from copy import deepcopy

from breakeven_policies.measured import parse_table

DOCUMENT = {
    "format": 1,
    "name": "llama-on-a100",
    "kind": "measured",
    "provenance": {
        "model": "meta-llama/Llama-3.3-70B-Instruct",
        "engine": "vllm",
        "engine_version": "0.33.0",
        "gpu": "4x A100 80 GB",
        "parallelism": "TP4",
        "data_set": "500 prompts",
        "measured_on": "2026-11-01",
        "expires_on": "2027-05-01",
        "repeats": 3,
        "commit": "0123abc",
    },
    "setups": [
        {"name": "plain", "kind": "plain", "prefill_ms_per_prompt_token": {"mean": 0.25}, "running_max": 128},
        {
            "name": "k3",
            "kind": "speculative",
            "method": "eagle3",
            "speculative_tokens": 3,
            "draft_model": "head",
            "drafting": "greedy",
        },
    ],
    "cells": [
        {"setup": "plain", "workload": "*", "running": 1, "step_time_ms": {"mean": 20, "low": 19, "high": 21, "n": 30}},
        {"setup": "plain", "workload": "*", "running": 9, "step_time_ms": {"mean": 28, "n": 10}},
        {
            "setup": "k3",
            "workload": "code",
            "running": 8,
            "temperature": 0,
            "step_time_ms": {"mean": 30},
            "acceptance_length": {"mean": 2.9, "low": 2.8, "high": 3.0, "n": 100},
            "accepted_per_position": [0.9, 0.6, 0.4],
        },
    ],
}


def document(**changes):
    """The table as JSON data, with changes such as `cells__2__running=0`; a value of `...` takes the member away."""
    made = deepcopy(DOCUMENT)
    for path, value in changes.items():
        *way, last = (int(step) if step.isdigit() else step for step in path.split("__"))
        place = made
        for step in way:
            place = place[step]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return made


def written(**changes):
    return json.dumps(document(**changes)).encode()


def table(**changes):
    return parse_table(written(**changes))
