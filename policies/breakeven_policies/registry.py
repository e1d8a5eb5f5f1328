"""Finds a policy by the name of its module: `threshold`, `pinned:POOL`, `least_loaded`, or one of your own."""

from importlib import import_module
from pkgutil import iter_modules

import breakeven_policies
from breakeven_policies.policy import Policy


def policy_names() -> tuple[str, ...]:
    """The modules of this package that define `build`, sorted."""
    found = (module.name for module in iter_modules(breakeven_policies.__path__))
    return tuple(
        sorted(name for name in found if hasattr(import_module(f"{breakeven_policies.__name__}.{name}"), "build"))
    )


def build_policy(spec: str, threshold: float = 1.0) -> Policy:
    """The policy named by `spec`, "name" or "name:argument"; ValueError says what is wrong and what there is."""
    name, colon, argument = spec.partition(":")
    if name not in policy_names():
        message = f"unknown policy {name!r}; there are: {', '.join(policy_names())}"
        raise ValueError(message)
    policy: Policy = import_module(f"{breakeven_policies.__name__}.{name}").build(
        argument if colon else None, threshold
    )
    return policy
