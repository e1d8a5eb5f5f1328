"""The fleet as a worker sees it: what is believed of the engines comes from the supervisor, which asks them.

A worker judges nobody, so that all workers hold the same belief: it tells what only it can see. One thing it takes into
account before the supervisor has heard of it: a refused connection, since its next request must not go there.
"""

from collections.abc import Callable

from breakeven.fleet import BackendState, Believed, ConnectRefused, EndedElsewhere, Fleet, PoolSpec
from breakeven.in_flight import InFlight
from breakeven_policies.snapshot import EngineSignals, Health


class Mirror(Fleet):
    """A fleet that is told. `tell` takes what the supervisor has to hear."""

    def __init__(
        self, pools: tuple[PoolSpec, ...], in_flight: InFlight, tell: Callable[[ConnectRefused | EndedElsewhere], None]
    ) -> None:
        super().__init__(pools, in_flight=in_flight)
        self._tell = tell
        self._apply[Believed] = self._believed

    def _believed(self, state: BackendState, event: Believed) -> None:
        state.forgive()
        state.ejected = event.health is Health.EJECTED
        self._become(state, Health.READY if state.ejected else event.health)

    def _connect_refused(self, state: BackendState, event: ConnectRefused) -> None:
        super()._connect_refused(state, event)
        self._tell(event)

    def _failed(self, state: BackendState) -> None:
        self._tell(EndedElsewhere(state.name, answered=False))

    def _judge_progress(self, state: BackendState, signals: EngineSignals, now_s: float) -> None:
        """The supervisor does."""
