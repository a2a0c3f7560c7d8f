"""The server's figures over HTTP, for Prometheus: `GET /metrics` on a port of their own, in a thread of their own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final

from domain.errors import Misconfigured
from entrypoints.settings import variable

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def figures_at(host: str, port: int, text: Callable[[], bytes]) -> Iterator[int]:
    """Serve figures until the block is left, and give the port.

    Raises:
        Misconfigured: the port cannot be listened on.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds for a request to arrive

        def do_GET(self) -> None:
            """Answer with the figures."""
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            body = text()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            """Log nothing: scrapes come all the time."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        reason = f"{host}:{port} cannot be listened on ({error.strerror or error})"
        raise Misconfigured(variable(("grpc", "metrics_port")), reason) from error
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, name="figures", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
