"""A server behind a reverse proxy, below a path: the page, the endpoints, and what the API's description says."""

import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from gnn_encoder.core.errors import UserError
from gnn_encoder.serving.app import create_app

from ..project import ROOT
from .conftest import Server, serving

QUERY = "Which milk is halloumi made with?"
NAME = "search.example.org"
PREFIX = "/find"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


@pytest.fixture(scope="module")
def behind(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that is told where the proxy has it, as docs/serving.md starts it."""
    log = tmp_path_factory.mktemp("behind") / "log.txt"
    with serving(built, log, "--allow-host", NAME, "--root-path", PREFIX) as server:
        yield server


@pytest.fixture(scope="module", params=["small", "nginx"])
def proxy(behind: Server, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of the proxy, whose name is `NAME`."""
    if request.param == "nginx" and NGINX is None:
        pytest.skip("no nginx here: the server is not tried behind it")
    run = nginx if request.param == "nginx" else small
    with run(behind.url, tmp_path_factory.mktemp("proxy")) as address:
        yield address


@contextmanager
def nginx(server: str, folder: Path) -> Iterator[str]:
    """The configuration that docs/serving.md shows, in an nginx of its own."""
    text = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```nginx\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert "http://127.0.0.1:8000/" in shown
    port = free_port()
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; {temporary}\nserver {{ listen 127.0.0.1:{port}; server_name {NAME};\n"
        f"{shown.replace('http://127.0.0.1:8000/', server + '/')} }} }}\n"
    )
    assert NGINX is not None
    process = subprocess.Popen([NGINX, "-c", folder / "nginx.conf", "-e", folder / "error.log"])
    try:
        wait_for(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()
    assert "[emerg]" not in (folder / "error.log").read_text()


@contextmanager
def small(server: str, folder: Path) -> Iterator[str]:
    """A proxy that takes the prefix off and has nothing elsewhere."""

    class Forward(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith(f"{PREFIX}/"):
                self.send_error(404)
                return
            length = int(self.headers.get("Content-Length", 0))
            headers = {name: value for name, value in self.headers.items() if name != "Content-Length"}
            asked = urllib.request.Request(
                server + self.path.removeprefix(PREFIX), self.rfile.read(length) or None, headers, method=self.command
            )
            try:
                answer: Any = urllib.request.urlopen(asked, timeout=120)
            except urllib.error.HTTPError as error:
                answer = error
            body = answer.read()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Forward) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        assert process.poll() is None, "the proxy has ended"
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("no proxy")


def get(proxy: str, path: str, **values: str | int) -> httpx.Response:
    return httpx.get(f"{proxy}{path}", params=values, headers={"Host": NAME}, timeout=120)


def test_endpoints(proxy: str, behind: Server) -> None:
    expected = behind.get("/search", query=QUERY).json()["hits"]
    assert get(proxy, f"{PREFIX}/search", query=QUERY).json()["hits"] == expected
    for path in ("/", "/page.js", "/page.css", "/health", "/metrics", f"/passages/{expected[0]['pid']}", "/v1/models"):
        assert get(proxy, f"{PREFIX}{path}").status_code == 200, path
    assert get(proxy, "/search", query=QUERY).status_code == 404
    told = get(proxy, f"{PREFIX}/explain", query=QUERY, pid=expected[0]["pid"]).json()
    assert told["graph"]["attention_to_itself"] > 0
    body = {"model": "gnn_encoder", "input": QUERY}
    posted = httpx.post(f"{proxy}{PREFIX}/v1/embeddings", json=body, headers={"Host": NAME})
    assert len(posted.json()["data"][0]["embedding"]) == 32


def test_the_api_s_description_has_the_prefix(proxy: str) -> None:
    """So that a client that is made from it asks the proxy where it is to be asked."""
    told = get(proxy, f"{PREFIX}/openapi.json").json()
    assert told["servers"] == [{"url": PREFIX}] and "/search" in told["paths"]


def test_nothing_is_redirected(proxy: str) -> None:
    """A redirect would name the address of the server behind the proxy."""
    response = get(proxy, f"{PREFIX}/search/", query=QUERY)
    assert response.status_code == 404 and "location" not in response.headers


def test_a_name_that_is_not_allowed(proxy: str) -> None:
    response = httpx.get(f"{proxy}{PREFIX}/systems", headers={"Host": "evil.example"})
    assert response.status_code == 421 and "evil.example" in response.json()["detail"]


def test_a_proxy_that_leaves_the_prefix_on(behind: Server) -> None:
    assert behind.get(f"{PREFIX}/systems").json() == behind.get("/systems").json()
    assert behind.get(f"{PREFIX}/page.js").status_code == 200


@pytest.mark.parametrize("path", ["find", "/find/", "/", "/a//b"])
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(UserError, match=f"--root-path is '{path}': must begin with one slash and end without"):
        create_app(root_path=path)


def test_the_page(proxy: str, behind: Server) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no Chromium here: the page is not tested behind a proxy")
    port = proxy.rpartition(":")[2]
    hosts = f"--host-resolver-rules=MAP {NAME} 127.0.0.1"
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu", hosts])
        page, errors = browser.new_page(), []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(f"http://{NAME}:{port}{PREFIX}/")
        page.get_by_role("searchbox").fill(QUERY)
        page.keyboard.press("Enter")
        cards = page.locator(".right .hit")
        playwright.expect(cards).to_have_count(10)
        expected = [hit["pid"] for hit in behind.get("/search", query=QUERY).json()["hits"]]
        assert cards.evaluate_all("all => all.map(one => one.dataset.pid)") == expected
        assert page.url.startswith(f"http://{NAME}:{port}{PREFIX}/?q=")
        page.reload()
        cards.first.get_by_role("button", name="Why").click()
        playwright.expect(page.locator(".right .scores")).to_be_visible(timeout=60_000)
        page.get_by_role("link", name="gnn-encoder").click()
        playwright.expect(page.get_by_role("heading", name="Try one of these")).to_be_visible()
        assert page.url == f"http://{NAME}:{port}{PREFIX}/"
        assert [error for error in errors if "untrustworthy" not in error] == []  # said of any page without TLS
        browser.close()
