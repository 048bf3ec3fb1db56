"""A configured server, opened and bound, ready to serve."""

from __future__ import annotations

import logging
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import uvicorn

from understudy.errors import Refused
from understudy.verify.config import ServerConfig
from understudy.verify.service import Service, open_service
from understudy.web.app import create_app
from understudy.web.connections import ConnectionLimits, server_settings
from understudy.web.oidc import Provider
from understudy.web.server_log import server_log

log = logging.getLogger("understudy.verify")

OTHER_FILES = 300  # the ledger's connections, one for a thread, workers and their pipes


class RunningServer:
    """Everything is open and the port is ours; `serve` blocks until it is told to stop."""

    def __init__(
        self,
        server: uvicorn.Server,
        bound: socket.socket,
        logs: tuple[Path | None, Path | None],
        metrics: AbstractContextManager[object],
        reload: Callable[[], None],
    ) -> None:
        self._server = server
        self._socket = bound
        self._logs = logs
        self._metrics = metrics
        self._reload = reload

    @property
    def url(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def serve(self) -> None:
        try:
            with server_log(*self._logs), self._metrics, on_hangup(self._reload):
                self._server.run(sockets=[self._socket])
        except KeyboardInterrupt:
            return  # asked for; everything is closed

    def stop(self) -> None:
        self._server.should_exit = True


def run_server(
    config: ServerConfig,
    notice: str = "",
    say: Callable[[str], None] = lambda _: None,
    read: Callable[[], ServerConfig] | None = None,
) -> RunningServer:
    """Bind first: a port that is taken should be known before the data are read. `read` gives the
    configuration anew when the process is told to reload its data sets (SIGHUP)."""
    limits = ConnectionLimits(
        config.connections, config.connections_per_address, config.request_seconds,
        config.idle_seconds, config.trusted_proxies,
    )  # fmt: skip
    _allow_files(limits.connections + OTHER_FILES)
    try:
        bound = socket.create_server(
            (config.host, config.port), family=_family(config.host), backlog=256
        )
    except OSError:
        raise Refused(
            f"Port {config.port} of {config.host} cannot be opened; choose another with --port."
        ) from None
    # asyncio does this only for sockets that it made; without it a reply waits for the
    # acknowledgement of its headers, some 40 ms.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        service = open_service(config, say)
    except BaseException:
        bound.close()
        raise
    app = create_app(
        service,
        places=config.places,
        fitting=fitting_places(config),
        questions_per_user=config.questions_per_user,
        requests_per_minute=config.requests_per_minute,
        session_minutes=config.session_minutes,
        https=config.https,
        notice=notice,
        provider=_provider(config),
    )
    logs = config.log, config.security_log
    metrics = app.state.metrics.served(config.metrics_port)
    again = partial(reload_datasets, service, read or (lambda: config))
    server = uvicorn.Server(server_settings(app, limits))
    return RunningServer(server, bound, logs, metrics, again)


def reload_datasets(service: Service, read: Callable[[], ServerConfig]) -> None:
    """The log says that it failed and not why, which may be about records (threat 17); starting a
    server says it to the steward."""
    try:
        service.reload(read())
    except Exception as error:
        kind = type(error).__name__
        log.error("The data sets were not reloaded (%s); `understudy serve` says why.", kind)
    else:
        log.warning("The data sets are now %s.", ", ".join(service.datasets))


@contextmanager
def on_hangup(act: Callable[[], None]) -> Iterator[None]:
    """Act in a thread of its own when the process gets SIGHUP."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
        return
    before = signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=act).start())
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def fitting_places(config: ServerConfig) -> int:
    """As many questions are fitted at once as the machine has cores for all their workers."""
    workers = max(dataset.workers for dataset in config.datasets.values())
    return max(1, len(os.sched_getaffinity(0)) // workers)


def _provider(config: ServerConfig) -> Provider | None:
    if not config.oidc_issuer:
        return None
    try:
        secret = (config.oidc_secret or Path()).read_text(encoding="utf-8").strip()
    except OSError:
        raise Refused("`oidc_secret` must name a file with the provider's secret.") from None
    return Provider(config.oidc_issuer, config.oidc_client, secret, config.oidc_claim)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _allow_files(wanted: int) -> None:
    """Each connection is an open file; without room for one more nobody can even be turned away."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise Refused(
            f"This process may open {hard} files, and `connections` needs {wanted}; lower it, or "
            "raise the limit (LimitNOFILE of a systemd unit)."
        )
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
