"""One process of the router as others see it: the sockets it was given, the signals it hears, what it says of itself.

It runs a `Router` from the first signal that it must not miss to the last line that it writes.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack

from breakeven.certificates import certificates_of
from breakeven.check import judge_certificates, judge_settings
from breakeven.clock import utc_now
from breakeven.config import Settings
from breakeven.early_signals import let_through
from breakeven.inherited import NOTHING, Inherited, UnfitSocketError, address_of, take_inherited
from breakeven.notify import READY, STOPPING, VARIABLE, Notifier, patience
from breakeven.recorders import CannotTraceError, UnwritableError, open_recorders, open_tracing
from breakeven.reloader import Reloader
from breakeven.successor import start_successor, this_command
from breakeven.takeover import Takeover
from breakeven.wiring import (
    Router,
    StartError,
    calm_collector,
    mark_log,
    raise_open_files,
    reason,
    run_in_loop,
    start_logging,
)

LOG = logging.getLogger(__name__)

LAST_WORDS_S = 10.0
"""Beyond the time for requests: for the admin port, the last lines of logs, and the end of workers."""


async def serve(
    settings: Settings,
    reread: Callable[[], Settings],
    make: type[Router] = Router,
    inherited: Inherited = NOTHING,
    notifier: Notifier | None = None,
) -> None:
    """Run a router until SIGTERM or SIGINT, or until another process has taken over as SIGUSR2 asks.

    A second signal cuts what still runs. SIGHUP reads the settings again.
    """
    loop = asyncio.get_running_loop()
    notifier = notifier or Notifier(None)
    ending = Ending()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.on_signal)
    with ExitStack() as stack:
        try:
            recorder = stack.enter_context(open_recorders(settings, utc_now))
            tracing = stack.enter_context(open_tracing(settings, utc_now))
        except CannotTraceError as error:
            raise StartError(str(error)) from None
        except UnwritableError as unwritable:
            raise StartError(f"{unwritable}: {reason(unwritable.error)}") from None
        router = make(settings, recorder, tracing=tracing)
        reloader = Reloader(
            router, reread, lambda result: router.metrics.config_reloaded(result, utc_now().timestamp())
        )
        takeover = Takeover(
            lambda sockets: start_successor(this_command(), sockets, os.environ),
            lambda: router.sockets,
            notifier,
            os.getpid(),
        )
        # Before the start of workers: unheard, they would end us.
        loop.add_signal_handler(signal.SIGHUP, reloader.ask)
        loop.add_signal_handler(signal.SIGUSR2, takeover.ask)
        let_through()
        router.metrics.certificates = certificates = certificates_of(settings)
        for finding in [*judge_settings(settings), *judge_certificates(certificates, utc_now().timestamp())]:
            LOG.warning("%s", finding.text)
        for line in unused(settings, inherited):
            LOG.warning("%s", line)
        await router.start(inherited)
        beside = [asyncio.create_task(work) for work in (reloader.run(), takeover.run())]
        calm_collector()
        sys.stderr.write(ready_line(settings, router.port, router.admin_port, inherited))
        sys.stderr.flush()
        tell_ready(inherited, notifier)
        try:
            await router.run_until(ending.stop, *beside)
        finally:
            ending.begins(router.settings, succeeded=takeover.succeeded)
            if takeover.succeeded:
                mark_log(f"before (process {os.getpid()}): ")
                for name in router.drained:
                    LOG.warning("%s was drained here: the process that serves now gives it requests", name)
            else:
                notifier.tell(STOPPING, patience(ending.limit_s))
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await router.stop(ending.at_once, succeeded=takeover.succeeded)


class Ending:
    """What signals say of the end: `stop` once it begins, `at_once` where what still runs is to be cut.

    A process that was taken over ends in its own time; the first signal that it then hears gives it the time that
    SIGTERM leaves, the second none.
    """

    def __init__(self) -> None:
        self.stop, self.at_once = asyncio.Event(), asyncio.Event()
        self.limit_s = self._drain_s = 0.0
        self._spare = False

    def begins(self, settings: Settings, *, succeeded: bool) -> None:
        """The end begins, whoever wanted it."""
        self.stop.set()
        self._spare = succeeded
        self._drain_s = settings.drain_timeout_s
        self.limit_s = settings.drain_delay_s + settings.drain_timeout_s + LAST_WORDS_S

    def on_signal(self) -> None:
        """SIGTERM or SIGINT."""
        if not self.stop.is_set():
            self.stop.set()
        elif self._spare:
            self._spare = False
            asyncio.get_running_loop().call_later(self._drain_s, self.at_once.set)
        else:
            self.at_once.set()


def tell_ready(inherited: Inherited, notifier: Notifier) -> None:
    """Tell the process before this one, which tells the service manager, or the service manager itself."""
    if not inherited.succeeds:
        notifier.tell(READY)
        return
    try:
        inherited.tell_ready()
    except OSError:
        LOG.warning("the process before this one is gone: this one serves alone")


def run(settings: Settings, reread: Callable[[], Settings], make: type[Router] = Router) -> None:
    """`breakeven serve`; StartError where it cannot start. `reread` reads what the settings were made of once more."""
    start_logging(settings.log_level)
    raise_open_files()
    try:
        inherited = take_inherited(os.environ, os.getpid())
    except UnfitSocketError as error:
        raise StartError(str(error)) from None
    run_in_loop(serve(settings, reread, make, inherited, Notifier(os.environ.get(VARIABLE))))


def unused(settings: Settings, inherited: Inherited) -> list[str]:
    """Ports that somebody has set and that inherited sockets make mean nothing."""
    lines = []
    for setting, sockets in (("port", inherited.api), ("admin_port", inherited.admin)):
        wanted, given = getattr(settings, setting), sorted({address_of(each)[1] for each in sockets})
        if given and setting in settings.model_fields_set and wanted not in {0, *given}:
            used = ", ".join(map(str, given))
            lines.append(f"{setting}: {wanted} is not used: this process was given sockets that listen on {used}")
    return lines


def ready_line(settings: Settings, port: int, admin_port: int, inherited: Inherited = NOTHING) -> str:
    """What a person, and whoever started us as a process, waits for."""
    scheme = "http" if settings.tls_cert is None else "https"
    host = address_of(inherited.api[0])[0] if inherited.api else settings.host
    admin_host = address_of(inherited.admin[0])[0] if inherited.admin else settings.admin_host
    return f"breakeven ready on {origin(host, port, scheme)}, admin on {origin(admin_host, admin_port)}\n"


def origin(host: str, port: int, scheme: str = "http") -> str:
    """The address as a URL."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
