"""Which policy decides: the configured one, or another that somebody has switched to while the router runs.

A switch outlasts a reload, since a renewed key must not undo what was done in an emergency. It ends where another
policy is configured, which is the later word, where it cannot be built any more, and with the process.
"""

from collections.abc import Callable

from breakeven.config import Settings, require_pool
from breakeven_policies.policy import Policy
from breakeven_policies.registry import build_policy


class PolicyInForce:
    """`current` decides the next request, `configured` would without a switch; `switched_to` is as it was asked for."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.switched_to: str | None = None
        self.configured: Policy = settings.build_policy()
        self.current: Policy = self.configured

    def switch(self, spec: str | None) -> None:
        """Have another policy decide; None: the configured one again. ValueError: there is no such, nothing changes."""
        self.current = self.configured if spec is None else self.build(spec)
        self.switched_to = spec

    def build(self, spec: str) -> Policy:
        """Another policy for this fleet; ValueError: there is no such."""
        policy = build_policy(spec, self._settings.threshold)
        require_pool(policy.name, [pool.name for pool in self._settings.pools])
        return policy

    def reconfigure(self, settings: Settings, warn: Callable[[str], object]) -> None:
        """Other settings are in force; `warn` hears where they end a switch."""
        before, self._settings = self._settings, settings
        self.configured = self.current = settings.build_policy()
        spec, self.switched_to = self.switched_to, None
        if spec is None:
            return
        if settings.policy != before.policy:
            warn(f"the policy is the configured one again, {self.configured.name}: the configuration names another now")
            return
        try:
            self.switch(spec)
        except ValueError as error:
            warn(f"the policy is the configured one again, {self.configured.name}: {error}")
