"""What a pool would refuse: rules of the engine that hold before any preference and that failover never breaks."""

from breakeven_policies.decision import Reason
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import BackendView, PoolKind, PoolView

PLAIN = PoolKind.PLAIN  # see `policy.READY`


def pool_can_sample(pool: PoolView, request: RequestView) -> bool:
    """Whether the pool's engines accept the sampling parameters; speculative ones refuse min_p and logit_bias."""
    return pool.kind is PLAIN or not request.sampled or not request.needs_plain_sampling


def serves_model(backend: BackendView, request: RequestView) -> bool:
    """Whether the engine lists the model; an engine that has not listed its models yet may serve any."""
    return backend.models is None or request.model is None or request.model in backend.models


def capable_backends(pool: PoolView, request: RequestView) -> tuple[BackendView, ...]:
    """The backends of a pool that would accept the request, whatever their health."""
    if not pool_can_sample(pool, request):
        return ()
    model = request.model
    for backend in pool.backends:  # nearly always all of them serve it: `serves_model` written out, one call less each
        if backend.models is not None and model is not None and model not in backend.models:
            return tuple(candidate for candidate in pool.backends if serves_model(candidate, request))
    return pool.backends


def why_incapable(pool: PoolView, request: RequestView) -> Reason | None:
    """The rule by which every backend of the pool would refuse the request, or None where one accepts it."""
    if not pool_can_sample(pool, request):
        return Reason.CAPABILITY
    if not any(serves_model(backend, request) for backend in pool.backends):
        return Reason.MODEL
    return None
