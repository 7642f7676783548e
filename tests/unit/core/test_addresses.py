"""A token goes to the server that it is for, and to no other: not by a trick of spelling, not after a redirect."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lpplusplus._core.addresses import only_for, origin, same_origin

httpx = pytest.importorskip("httpx2")


@pytest.mark.parametrize(
    "address",
    ["http://a.org", "http://a.org/", "http://A.ORG:80/x?y#z", "HTTP://a.org:080", "http://a.org/ü b/\\\\c.org/x@y"],
)
def test_the_same_server_in_other_words(address):
    assert same_origin(address, "http://a.org:80/labels/")


@pytest.mark.parametrize(
    "address",
    [
        "https://a.org", "http://a.org:8080", "http://b.org", "http://a.org.b.org", "http://a.org@b.org", "//a.org",
        "http://b.org@a.org", "http://a.org\\@b.org", "http://b.org\\@a.org", "http://b.org#@a.org", "http:a.org", "",
        "http://b.org?@a.org", "/a.org", "a.org", "http:///a.org", "http:\\\\a.org", " http://a.org", "ht\ttp://a.org",
        "http://a.\norg", "http://a.org\x00", "http://a.org%2eb.org", "http://a.org%00", "http://\uff41.org",
        "http://a\u3002org", "http://a.org:", "http://a.org:80@b.org", "http://a.org:80:81", "http://[a.org]",
        "ftp://a.org", "javascript://a.org",
    ],
)  # fmt: skip
def test_another_server_or_none(address):
    assert not same_origin(address, "http://a.org")


ODD = ["\t", "\n", "\r", "\x00", " ", "\u200b", "\uff41", "\u3002"]
USUAL = "http: https: / // \\ @ : ? # %2f %40 . .. [ ] a.org A.org b.org 80 8080 ::1 x ; & data: user é xn--"
PIECES = st.sampled_from([*USUAL.split(), *ODD])


@settings(max_examples=2000, deadline=None)
@given(
    st.lists(PIECES, max_size=12).map("".join), st.sampled_from(["http://a.org", "http://b.org:8080", "https://a.org"])
)
@example("//http://b.org", "http://a.org")
@example("\t//b.org/x", "http://a.org")
def test_where_the_client_connects_is_where_we_said(tail, base):
    """Whatever follows, alone or after the base: if we say it is the same server, the client goes to that one."""
    for address in (tail, base + tail, base + "/" + tail, "http://" + tail):
        if not same_origin(address, base):
            continue
        url = httpx.URL(address)
        scheme, host, port = origin(base)
        assert (url.scheme, url.host, url.port or {"http": 80, "https": 443}[url.scheme]) == (scheme, host, port)
        assert not url.userinfo


@contextmanager
def server(location=None):
    """Answers every request, by a redirect if `location` is given; and what it was asked, with which secret."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("X-Key")))
            self.send_response(302 if location and self.path == "/go" else 200)
            if location and self.path == "/go":
                self.send_header("Location", location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_address[1]}", asked
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def test_a_secret_stays_behind_when_a_redirect_leaves():
    """Also one in a header that the client does not know as a secret."""
    with server() as (other, asked_of_other), server(f"{other}/stolen") as (mine, asked):
        hooks = {"request": [only_for(mine, "X-Key", lambda: "secret")]}
        with httpx.Client(follow_redirects=True, trust_env=False, event_hooks=hooks) as client:
            assert client.get(f"{mine}/go").status_code == 200
            assert client.get(f"{other}/straight", headers={"X-Key": "secret"}).status_code == 200
            assert client.get(f"{mine}/again").status_code == 200
        assert asked == [("/go", "secret"), ("/again", "secret")]
        assert asked_of_other == [("/stolen", None), ("/straight", None)]


def test_a_secret_comes_back_with_a_redirect_home():
    with server() as (mine, asked), server(f"{mine}/home") as (other, _):
        hooks = {"request": [only_for(mine, "X-Key", lambda: "secret")]}
        with httpx.Client(follow_redirects=True, trust_env=False, event_hooks=hooks) as client:
            client.get(f"{other}/go")
        assert asked == [("/home", "secret")]
