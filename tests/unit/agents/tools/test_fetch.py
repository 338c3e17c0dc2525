"""Pages of the web: real requests to a server on loopback; addresses of the own network only when that is allowed."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from perdure.agents.tools.fetch import FETCH, _is_public

from .conftest import Desk

HTML = """<html><head><title>T</title><style>p{}</style></head><body><h1>Hello</h1><script>x()</script>
<p>One   two &amp; <a href="https://a.example/b">three</a></p><ul><li>x<li>y</ul><pre>a
  b</pre></body></html>"""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path, _, rest = self.path.partition("?")
        answers: dict[str, tuple[int, str, bytes, str]] = {
            "/html": (200, "text/html", HTML.encode(), ""),
            "/latin": (200, "text/plain; charset=latin-1", b"caf\xe9", ""),
            "/odd": (200, "text/plain; charset=base64", b"plain", ""),
            "/png": (200, "image/png", b"", ""),
            "/big": (200, "text/plain", b"x" * (6 * 1024 * 1024), ""),
            "/gone": (404, "text/plain", b"no such page", ""),
            "/loop": (302, "text/plain", b"", "/loop"),
            "/to": (302, "text/plain", b"", rest),
            "/host": (200, "text/plain", self.headers["Host"].encode(), ""),
            "/plain": (200, "text/plain; charset=utf-8", b"plain \xc3\xa9", ""),
        }
        status, kind, body, location = answers[path]
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *_args: object) -> None:
        return


@pytest.fixture
def site(desk: Desk) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    desk.use([FETCH])
    desk.context.allow_private_addresses = True
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_page_is_read_as_text(desk: Desk, site: str) -> None:
    text = desk.ok("fetch", url=f"{site}/html")
    assert text == f"{site}/html\n\n# Hello\n\nOne two & three (https://a.example/b)\n\n- x\n- y\n\na\nb"
    assert desk.ok("fetch", url=f"{site}/plain").endswith("plain é")
    assert desk.ok("fetch", url=f"{site}/latin").endswith("café")
    assert "plain" in desk.ok("fetch", url=f"{site}/odd")


def test_the_server_is_asked_by_its_name(desk: Desk, site: str) -> None:
    assert desk.ok("fetch", url=f"{site}/host").endswith(site.removeprefix("http://"))


def test_what_cannot_be_shown_is_an_error(desk: Desk, site: str) -> None:
    assert "image/png" in desk.fault("fetch", url=f"{site}/png")
    assert "answered 404\n\nno such page" in desk.fault("fetch", url=f"{site}/gone")
    assert "more than 10 times" in desk.fault("fetch", url=f"{site}/loop")


def test_a_huge_page_is_cut(desk: Desk, site: str) -> None:
    assert "[cut after 5242880 bytes]" in desk.ok("fetch", url=f"{site}/big")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://a",
        "http://",
        "http://u:p@a/",
        "no",
        "http://[::1",
        "http://a:99999/",
        "http://a\ud83d/",
    ],
)
def test_only_plain_web_addresses_are_fetched(desk: Desk, url: str) -> None:
    desk.use([FETCH])
    assert desk.call("fetch", url=url).is_error


def test_the_own_network_is_closed_also_behind_a_redirect(
    desk: Desk, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert desk.ok("fetch", url=f"{site}/to?{site}/plain")
    desk.context.allow_private_addresses = False
    assert "own network" in desk.fault("fetch", url=f"{site}/plain")
    private = "http://169.254.169.254/latest"
    monkeypatch.setattr(
        "perdure.agents.tools.fetch._is_public", lambda address: address == "127.0.0.1" or address == "::1"
    )
    assert "169.254.169.254, an address of the own network" in desk.fault("fetch", url=f"{site}/to?{private}")


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1", "::1", "fe80::1",
     "fd00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::"],
)  # fmt: skip
def test_every_kind_of_inner_address_is_known(address: str) -> None:
    assert not _is_public(address)
    assert _is_public("1.1.1.1")
    assert _is_public("2606:4700::1111")
