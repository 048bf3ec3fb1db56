"""deploy/: the unit, the image and the proxy, as far as this machine can try them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import httpx
import polars as pl
import pytest
from verification_samples import BOOK, make_frame
from web_samples import CALLER, PATIENCE, SLOT, Site, make_site, question

from understudy.survey.codebook_text import write_codebook
from understudy.verify.config import ServerConfig
from understudy.web.connections import ConnectionLimits
from understudy.web.headers import LARGEST_BODY
from understudy.web.sessions import COOKIE

pytestmark = pytest.mark.any_noise  # of a second process

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "understudy.service"
PROXY = DEPLOY / "nginx.conf"
IMAGE = DEPLOY / "Containerfile"


def program(name: str) -> str:
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if path is None:
        reason = f"{name} is not installed; run scripts/test-components"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def test_systemd_finds_little_exposed() -> None:
    """As the guide says; each protection that is taken away adds 0.1 to 0.3."""
    command = [program("systemd-analyze"), "security", "--offline=true", str(UNIT)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (exposure,) = re.findall(r"Overall exposure level for understudy.service: ([\d.]+)", said)
    assert f"rates the unit {exposure} of 10" in (ROOT / "docs" / "operations.md").read_text()
    assert float(exposure) < 1.0


def test_the_unit_is_read_by_systemd(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/understudy/bin/understudy", "/bin/true"))
    done = subprocess.run(
        [program("systemd-analyze"), "verify", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_image_installs_what_there_is_and_is_nobody_in_particular() -> None:
    text = IMAGE.read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (asked,) = re.findall(r"/source\[([\w,]+)\]", text)
    assert set(asked.split(",")) <= set(project["optional-dependencies"])
    lines = text.splitlines()
    assert lines.index("USER understudy") < next(
        number for number, line in enumerate(lines) if line.startswith("ENTRYPOINT")
    )
    assert (ROOT / "constraints.txt").exists()


def test_the_proxy_allows_what_the_server_does() -> None:
    text = PROXY.read_text()
    assert f"client_max_body_size {LARGEST_BODY // 1024}k;" in text
    (waits,) = re.findall(r"proxy_read_timeout (\d+)s;", text)
    assert int(waits) > 2 * ServerConfig.longest_seconds
    assert f"limit_conn callers {ServerConfig.connections_per_address};" in text


@dataclass(frozen=True)
class Proxied:
    """Two server processes on one ledger behind nginx, and the certificate to trust."""

    url: str
    certificate: Path
    site: Site

    def client(self, **headers: str) -> httpx.Client:
        trusted = ssl.create_default_context(cafile=str(self.certificate))
        settings = CALLER | {"verify": trusted}
        return httpx.Client(base_url=self.url, headers=headers, **settings)


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    folder = tmp_path_factory.mktemp("proxied")
    limits = ConnectionLimits(trusted_proxies=("127.0.0.1",))
    frame = make_frame()
    with (
        make_site(folder, frame, limits=limits, https=True, places=1) as site,
        second_process(folder, frame) as other,
        nginx(folder, [site.url, other]) as (url, certificate),
    ):
        yield Proxied(url, certificate, site)


@contextlib.contextmanager
def second_process(folder: Path, frame: pl.DataFrame) -> Iterator[str]:
    """`understudy serve` on the ledger of a server that runs in the tests' own process."""
    frame.write_parquet(folder / "confidential.parquet")
    write_codebook(BOOK, folder / "codebook.toml")
    (folder / "server.toml").write_text(
        f'ledger = "ledger.db"\nport = 0\nslot_seconds = {SLOT}\nplaces = 1\nhttps = true\n'
        'trusted_proxies = ["127.0.0.1"]\nrequests_per_minute = 1000000\n'
        '[datasets.survey]\npath = "confidential.parquet"\ncodebook = "codebook.toml"\n'
        'design = { weight = "w" }\ncap = "1000"\n'
    )
    command = [Path(sys.executable).parent / "understudy", "serve", folder / "server.toml"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield re.findall(r" at (http://\S+)", cast(IO[str], process.stdout).readline())[0]
        finally:
            process.terminate()


@contextlib.contextmanager
def nginx(folder: Path, servers: list[str]) -> Iterator[tuple[str, Path]]:
    """deploy/nginx.conf with ports, paths and servers of this test."""
    certificate, key = folder / "proxy.pem", folder / "proxy.key"
    subprocess.run(
        [
            *(program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt"),
            *("ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    with socket.socket() as plain, socket.socket() as secure:
        for free in (plain, secure):
            free.bind(("127.0.0.1", 0))
        ports = [free.getsockname()[1] for free in (plain, secure)]
    changes = {
        "/run/nginx.pid": str(folder / "nginx.pid"),
        "/etc/ssl/certs/understudy.pem": str(certificate),
        "/etc/ssl/private/understudy.key": str(key),
        "listen 80 ": f"listen 127.0.0.1:{ports[0]} ",
        "listen 443 ": f"listen 127.0.0.1:{ports[1]} ",
        "127.0.0.1:8080": servers[0].removeprefix("http://"),
        "# server 127.0.0.1:8081": f"server {servers[1].removeprefix('http://')}",
        "worker_processes auto": "worker_processes 1",
    }
    text = PROXY.read_text()
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
        text = text.replace("http {\n", f"http {{\n    {kind}_temp_path {folder / kind};\n", 1)
    file = folder / "nginx.conf"
    file.write_text(text)
    folder.chmod(0o755)
    command = [program("nginx"), "-c", str(file), "-e", str(folder / "errors.log")]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert "test is successful" in checked.stderr, checked.stderr
    with subprocess.Popen([*command, "-g", "daemon off;"]) as process:
        try:
            wait_for(ports[1])
            yield f"https://localhost:{ports[1]}", certificate
        finally:
            process.terminate()
            process.wait(PATIENCE)


def wait_for(port: int) -> None:
    """Until somebody listens, however busy the machine is."""
    for _ in range(1000):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        subprocess.run(["sleep", "0.1"], check=True)
    raise TimeoutError("nginx did not start")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
def test_a_handshake_needs_tls_1_2_or_later(proxied: Proxied) -> None:
    host, port = proxied.url.removeprefix("https://").split(":")

    def handshake(context: ssl.SSLContext) -> str | None:
        with (
            socket.create_connection((host, int(port))) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            return secure.version()

    trusted = ssl.create_default_context(cafile=str(proxied.certificate))
    assert handshake(trusted) == "TLSv1.3"
    trusted.maximum_version = ssl.TLSVersion.TLSv1_2
    assert handshake(trusted) == "TLSv1.2"
    with pytest.raises(ssl.SSLError):
        handshake(ssl.create_default_context())  # a certificate that nobody vouches for
    old = ssl.create_default_context(cafile=str(proxied.certificate))
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        handshake(old)


def test_two_processes_behind_the_proxy_are_one_to_their_users(proxied: Proxied) -> None:
    """nginx asks them in turn: four requests in a row reach both of them twice."""
    with proxied.client() as page:
        reply = page.post("/sign-in", data={"key": proxied.site.keys["ann"]})
        assert (reply.status_code, reply.headers["location"]) == (303, "/")
        assert reply.headers["strict-transport-security"]
        assert "secure" in reply.headers["set-cookie"].lower()
        for _ in range(4):
            assert page.get("/ask").status_code == 200
        token = re.findall(r'name="csrf" value="(\w+)"', page.get("/ask").text)[0]
        cookie = page.cookies[COOKIE]
        assert page.post("/sign-out", data={"csrf": token}).status_code == 303
        page.cookies.set(COOKIE, cookie, domain="localhost.local")
        for _ in range(2):
            assert page.get("/ask").status_code == 303
    with proxied.client(Authorization=f"Bearer {proxied.site.keys['bob']}") as api:
        answers = [
            api.post("/api/v1/verify", json=question(estimate=100.0 + n // 2)) for n in range(4)
        ]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert [answer.json()["replayed"] for answer in answers] == [False, True, False, True]
    assert proxied.site.ledger.budget("user", "bob").spent == 2_000_000


def test_two_processes_share_their_line_and_their_limits(proxied: Proxied) -> None:
    turns = proxied.site.service.turns
    tickets = [turns.queue("sum", "carol", 2) for _ in range(2)]  # both of hers are here
    with proxied.client(Authorization=f"Bearer {proxied.site.keys['carol']}") as api:
        replies = [api.post("/api/v1/verify", json=question(estimate=1.0 + n)) for n in range(2)]
    assert [reply.status_code for reply in replies] == [429] * 2
    for ticket in tickets:
        turns.leave(ticket)
    with proxied.client(Authorization=f"Bearer us_{'0' * 16}_{'A' * 43}") as guessing:
        for _ in range(2):
            assert guessing.get("/api/v1/me").status_code == 401
        for _ in range(2):  # both see that this address has none of its guesses left
            with proxied.site.service.shared.transaction() as run:
                run("DELETE FROM buckets")
                run("INSERT INTO buckets VALUES ('address 127.0.0.1', 0, 4e9)")
            assert guessing.get("/api/v1/me").status_code == 429


def test_a_caller_cannot_say_where_the_call_comes_from(proxied: Proxied) -> None:
    with proxied.client(Origin="https://elsewhere.example") as page:
        assert page.post("/sign-in", data={"key": proxied.site.keys["ann"]}).status_code == 403
    with proxied.client(Origin=proxied.url) as page:
        assert page.post("/sign-in", data={"key": proxied.site.keys["ann"]}).status_code == 303
    text = PROXY.read_text()
    assert "X-Forwarded-For $remote_addr;" in text  # and not what was added to the caller's own
