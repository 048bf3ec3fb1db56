"""A small HTTP server of a test's own, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Quiet(BaseHTTPRequestHandler):
    """Answers by `get` and `post`, and logs nothing."""

    def get(self) -> None: ...

    def post(self) -> None: ...

    def do_GET(self) -> None:
        self.get()

    def do_POST(self) -> None:
        self.post()

    def reply(self, status: int, text: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(text.encode())

    def body(self) -> str:
        return self.rfile.read(int(self.headers["Content-Length"])).decode()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def serving(handler: type[Quiet]) -> Iterator[str]:
    """The address of a server on loopback with this handler."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
