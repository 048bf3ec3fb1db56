"""A configured server, opened and bound, ready to serve."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from understudy.errors import Refused
from understudy.verify.config import ServerConfig
from understudy.verify.service import open_service
from understudy.web.app import create_app


class RunningServer:
    """Everything is open and the port is ours; `serve` blocks until it is told to stop."""

    def __init__(self, server: uvicorn.Server, bound: socket.socket) -> None:
        self._server = server
        self._socket = bound

    @property
    def url(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def serve(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except KeyboardInterrupt:
            return  # asked for; everything is closed

    def stop(self) -> None:
        self._server.should_exit = True


def run_server(
    config: ServerConfig, notice: str = "", say: Callable[[str], None] = lambda _: None
) -> RunningServer:
    """Bind first: a port that is taken should be known before the data are read."""
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
    )
    # No access log: addresses carry receipts' numbers, and nobody needs them (threat 17).
    # Nor handlers of its own: they would hold on to the streams of whoever started it.
    settings = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
    )
    return RunningServer(uvicorn.Server(settings), bound)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
