"""The fleet as a worker sees it: what is believed of the engines comes from the supervisor, which asks them.

A worker judges nobody, so that all workers hold the same belief: it tells what only it can see. One thing it takes into
account before the supervisor has heard of it: a refused connection, since its next request must not go there.
"""

from collections.abc import Callable

from breakeven.backend_state import BackendState
from breakeven.fleet import Believed, ConnectRefused, EndedElsewhere, Erred, Fleet, PoolSpec
from breakeven.in_flight import InFlight
from breakeven_policies.snapshot import EngineSignals, Health, Suspicion

ANSWERING = (Health.EJECTED, Health.DRAINING)
"""Engines that are ready, but for what is held against them or wished."""


class Mirror(Fleet):
    """A fleet that is told. `tell` takes what the supervisor has to hear."""

    def __init__(
        self,
        pools: tuple[PoolSpec, ...],
        in_flight: InFlight,
        tell: Callable[[ConnectRefused | EndedElsewhere | Erred], None],
    ) -> None:
        super().__init__(pools, in_flight=in_flight)
        self._tell = tell
        self._apply[Believed] = self._believed

    def _believed(self, state: BackendState, event: Believed) -> None:
        state.forgive()
        state.suspicion = event.suspicion or (Suspicion.FAILURES if event.health is Health.EJECTED else None)
        if event.suspicion is Suspicion.TRIAL:  # which ends here with the first answer that this worker sees
            state.try_out()
        state.draining = event.draining or event.health is Health.DRAINING
        self._become(state, Health.READY if event.health in ANSWERING else event.health)

    def _connect_refused(self, state: BackendState, event: ConnectRefused) -> None:
        super()._connect_refused(state, event)
        self._tell(event)

    def _failed(self, state: BackendState) -> None:
        self._tell(EndedElsewhere(state.name, answered=False))

    def _erred(self, state: BackendState, event: Erred) -> None:
        del state
        self._tell(event)

    def _judge_progress(self, state: BackendState, signals: EngineSignals, now_s: float) -> None:
        """The supervisor does."""
