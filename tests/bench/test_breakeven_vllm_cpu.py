"""The plugin replaces two functions, only on a CPU and each only where it is at fault.

Neither torch nor vLLM is installed beside the tests: both are stood in for by as much of them as the plugin touches.
That real vLLM then draws from the right distribution is shown by `tests/contract/test_sampling.py`.
"""

import importlib.util
import sys
from importlib.metadata import entry_points
from itertools import pairwise
from types import ModuleType, SimpleNamespace

import pytest

from breakeven_bench.vllm import host


class Tensor(list):
    """One dimension, and the methods that the plugin calls."""

    def tolist(self):
        return list(self)

    def new_zeros(self, length):
        return Tensor([0] * length)

    def diff(self, prepend):
        return Tensor([after - before for before, after in pairwise([*prepend, *self])])

    def __eq__(self, value):
        return Tensor([each == value for each in self])

    __hash__ = None

    def masked_fill(self, mask, value):
        return Tensor([value if masked else each for masked, each in zip(mask, self, strict=True)])

    def repeat_interleave(self, counts):
        return Tensor([each for each, count in zip(self, counts, strict=True) for _ in range(count)])

    def copy_(self, other):
        """Like torch, a single value fills the whole."""
        if len(other) not in {1, len(self)}:
            raise RuntimeError("the sizes differ")
        self[:] = other * len(self) if len(other) == 1 else other


class Rows:
    """No logits at all."""

    shape = (0, 2)


def takes_nothing(logits, k):
    """Top-k of no logits is no logits."""
    return logits


def takes_the_largest_of_nothing(logits, k):
    """What vLLM 0.32.0 does on a CPU: torch says so with an IndexError or a RuntimeError, by its version."""
    if not logits.shape[0]:
        raise IndexError("max(): Expected reduction dim to be specified")
    return "logits"


def works(output, values, totals, replace_from, replace_to, _=None):
    """What the function is to do, in the words of a loop."""
    start = 0
    for value, end in zip(values, totals, strict=True):
        output[start:end] = [replace_to if value == replace_from else value] * (end - start)
        start = end


def drops_its_output(output, values, totals, replace_from, replace_to, _=None):
    """Issue #55005: all the work is done on a copy."""
    works(Tensor(output), values, totals, replace_from, replace_to)


@pytest.fixture
def plugin(monkeypatch):
    """The plugin, loaded as if torch were there."""
    torch = ModuleType("torch")
    torch.zeros = lambda shape: Rows() if isinstance(shape, tuple) else Tensor([0.0] * shape)
    torch.tensor = lambda values, dtype=None: Tensor(values)
    torch.int32 = "int32"
    monkeypatch.setitem(sys.modules, "torch", torch)
    spec = importlib.util.spec_from_file_location("breakeven_vllm_cpu", host.SHIMS / "breakeven_vllm_cpu.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def engine(monkeypatch):
    """As much of vLLM as the plugin sees, by platform and by what its function does."""

    def made(implementation, is_cpu=True, apply_top_k=takes_nothing):
        loaded = []
        platform = SimpleNamespace(is_cpu=lambda: is_cpu, import_kernels=lambda: loaded.append("kernels"))
        sampler = SimpleNamespace(apply_top_k_only=apply_top_k)
        kernels = SimpleNamespace(_expand_kernel_impl=implementation, loaded=loaded, sampler=sampler)
        for name, members in {
            "vllm": {},
            "vllm.platforms": {"current_platform": platform},
            "vllm.utils": {"cpu_triton_utils": kernels},
            "vllm.v1": {},
            "vllm.v1.sample": {},
            "vllm.v1.sample.ops": {"topk_topp_sampler": sampler},
        }.items():
            module = ModuleType(name)
            vars(module).update(members)
            monkeypatch.setitem(sys.modules, name, module)
        return kernels

    return made


@pytest.mark.parametrize(("length", "total"), [(3, 2), (3, 1), (1, 2), (0, 1)])
def test_an_output_of_another_length_is_an_error_and_not_a_wrong_temperature(plugin, length, total):
    output = Tensor([9.0] * length)
    with pytest.raises(RuntimeError, match=f"{total} tokens were counted, and there is room for {length}"):
        plugin.expand(output, Tensor([0.5]), Tensor([total]), 0, 0)
    assert output.tolist() == [9.0] * length


def test_an_engine_laid_out_otherwise_is_an_error_and_not_a_silent_fault(plugin, engine):
    kernels = engine(works)
    del kernels._expand_kernel_impl
    with pytest.raises(AttributeError, match="_expand_kernel_impl"):
        plugin.register()


@pytest.mark.parametrize(
    ("values", "totals", "replaced", "expected"),
    [
        ([0.5, 1.2], [2, 5], (0, 0), [0.5, 0.5, 1.2, 1.2, 1.2]),
        ([0.0, 0.7], [1, 3], (0, 1), [1, 0.7, 0.7]),
        ([3, 4, 5], [2, 2, 3], (0, 0), [3, 3, 5]),
        ([], [], (0, 0), []),
    ],
)
def test_each_value_goes_to_the_tokens_of_its_request(plugin, values, totals, replaced, expected):
    ours, theirs = Tensor([9.0] * len(expected)), Tensor([9.0] * len(expected))
    plugin.expand(ours, Tensor(values), Tensor(totals), *replaced, 32)
    works(theirs, values, totals, *replaced)
    assert (ours.tolist(), theirs.tolist()) == (expected, expected)


def test_a_faulty_function_is_replaced_once_the_kernels_are_there(plugin, engine, caplog):
    caplog.set_level("INFO", "vllm")
    kernels = engine(drops_its_output)
    plugin.register()
    assert kernels._expand_kernel_impl is plugin.expand
    assert kernels.loaded == ["kernels"]
    assert "#55005" in caplog.text


def test_top_k_of_no_logits_is_no_logits_and_of_some_what_the_engine_says(plugin, engine):
    sampler = engine(works, apply_top_k=takes_the_largest_of_nothing).sampler
    plugin.register()
    plugin.register()
    nothing = Rows()
    assert sampler.apply_top_k_only(nothing, None) is nothing
    assert sampler.apply_top_k_only(SimpleNamespace(shape=(3, 2)), None) == "logits"


def test_a_sampler_that_is_right_is_left_alone(plugin, engine):
    sampler = engine(works).sampler
    plugin.register()
    assert sampler.apply_top_k_only is takes_nothing


def test_a_second_call_changes_nothing(plugin, engine, caplog):
    caplog.set_level("INFO", "vllm")
    kernels = engine(drops_its_output)
    plugin.register()
    plugin.register()
    assert kernels._expand_kernel_impl is plugin.expand
    assert caplog.text.count("#55005") == 1


def test_a_function_that_works_is_left_alone(plugin, engine):
    kernels = engine(works)
    plugin.register()
    assert kernels._expand_kernel_impl is works


def test_a_gpu_is_left_alone(plugin, engine):
    kernels = engine(drops_its_output, is_cpu=False)
    plugin.register()
    assert kernels._expand_kernel_impl is drops_its_output
    assert kernels.loaded == []


def test_vllm_finds_it_by_its_entry_point(monkeypatch):
    monkeypatch.syspath_prepend(host.SHIMS)
    (found,) = [each for each in entry_points(group="vllm.general_plugins") if each.name == "breakeven_vllm_cpu"]
    assert found.value == "breakeven_vllm_cpu:register"
