"""Sampled speculation draws from the model's own distribution, and the plugin in `bench/vllm_shims` is why.

vLLM's rejection sampler is called in the environment of the engines, with and without the plugin, on logits whose
distribution is known: a speculative engine may not change what is sampled, only how fast. No engine is started.
"""

import os
import subprocess

import pytest

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

TRIALS = 4000
WORDS = 40
NOISE = 0.4 * (WORDS / TRIALS) ** 0.5
"""Total variation between that many draws and the distribution itself, about; the bound below is twice as much."""

DRAW = f"""
import torch
from types import SimpleNamespace
from vllm.plugins import load_general_plugins
from vllm.platforms import current_platform

torch.manual_seed(0)
load_general_plugins()
current_platform.register_triton_kernel_overrides()
import vllm.v1.sample.rejection_sampler as sampler

trials, words, drafts = {TRIALS}, {WORDS}, 2
logits = torch.randn(1, words) * 2
draft = (logits + torch.randn(1, words)).argmax(-1).expand(trials * drafts).contiguous().to(torch.int32)
totals = (torch.arange(trials, dtype=torch.int32) + 1) * drafts
for temperature in (0.3, 0.7, 1.0, 1.5):
    how = SimpleNamespace(
        all_greedy=False,
        all_random=True,
        temperature=torch.full((trials,), temperature),
        generators={{}},
        top_k=None,
        top_p=None,
    )
    spoilt = torch.full((trials * drafts,), 0.01)  # what an uninitialised tensor may then find
    del spoilt
    scaled = sampler.apply_sampling_constraints(logits.expand(trials * drafts, words).clone(), totals, how)
    bonus = torch.zeros(trials, 1, dtype=torch.int32)
    drawn = sampler.rejection_sample(draft, [drafts] * trials, drafts, totals, None, scaled, bonus, how)
    share = torch.bincount(drawn[:, 0].long(), minlength=words).float() / trials
    print("distance", 0.5 * (share - (logits / temperature).softmax(-1)[0]).abs().sum().item())
"""


def distances(environment, **variables):
    """Total variation between what was drawn and what should be, at each temperature."""
    said = subprocess.run(
        [environment.python, "-c", DRAW],
        env=os.environ | environment.variables | variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return [float(line.split()[1]) for line in said.stdout.splitlines() if line.startswith("distance")]


def test_with_the_plugin_every_temperature_is_sampled_as_it_should_be(real_vllm):
    found = distances(real_vllm)
    assert len(found) == 4
    assert max(found) < 2 * NOISE


def test_without_the_plugin_it_is_not_so_that_the_plugin_is_still_needed(real_vllm):
    assert max(distances(real_vllm, VLLM_PLUGINS="")) > 0.3
