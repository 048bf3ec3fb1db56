"""A configured server, opened and bound, ready to serve."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from understudy.errors import Refused
from understudy.verify.config import ServerConfig
from understudy.verify.service import open_service
from understudy.web.app import create_app
from understudy.web.connections import ConnectionLimits, server_settings
from understudy.web.oidc import Provider
from understudy.web.server_log import server_log

OTHER_FILES = 300  # the ledger's connections, one for a thread, workers and their pipes


class RunningServer:
    """Everything is open and the port is ours; `serve` blocks until it is told to stop."""

    def __init__(
        self, server: uvicorn.Server, bound: socket.socket, logs: tuple[Path | None, Path | None]
    ) -> None:
        self._server = server
        self._socket = bound
        self._logs = logs

    @property
    def url(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def serve(self) -> None:
        try:
            with server_log(*self._logs):
                self._server.run(sockets=[self._socket])
        except KeyboardInterrupt:
            return  # asked for; everything is closed

    def stop(self) -> None:
        self._server.should_exit = True


def run_server(
    config: ServerConfig, notice: str = "", say: Callable[[str], None] = lambda _: None
) -> RunningServer:
    """Bind first: a port that is taken should be known before the data are read."""
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
        questions_per_user=config.questions_per_user,
        requests_per_minute=config.requests_per_minute,
        session_minutes=config.session_minutes,
        https=config.https,
        notice=notice,
        provider=_provider(config),
    )
    logs = config.log, config.security_log
    return RunningServer(uvicorn.Server(server_settings(app, limits)), bound, logs)


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
