# SPDX-License-Identifier: Apache-2.0
"""Clients of the node's HTTPS port. Everybody may everything there, so that what is refused is refused for its form."""
import contextlib
import socket
import ssl
import time

from attack import attack, breach_if
from network import start_again

ADDRESS = ("127.0.0.1", 10250)
MOST_SECONDS = 15
MOST_GROWTH_KIB = 64 << 10
MOST_TEXT = 8 << 10
UPGRADE = "Connection: Upgrade\r\nUpgrade: {}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
# An authority that has signed nobody's certificate and never will; the port wants one.
NOBODY = """-----BEGIN CERTIFICATE-----
MIIBeDCCAR+gAwIBAgIUUVlEMhzznpMLA3WRxa5z8FIRaTkwCgYIKoZIzj0EAwIw
ETEPMA0GA1UEAwwGbm9ib2R5MCAXDTI2MTEyMzIxMTAyMFoYDzIxMjYxMDMwMjEx
MDIwWjARMQ8wDQYDVQQDDAZub2JvZHkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAQaiyA+hKihD5N1hoT6NhIJymJCdDJhWzGaZhp2CNm5DKXJzDQ7ZLmhQjtQ5Wov
Q1HWFhnNuiZrCCIukNEmbpPjo1MwUTAdBgNVHQ4EFgQUMkPz9yDVAs7FHL8BMfT1
yXHAotwwHwYDVR0jBBgwFoAUMkPz9yDVAs7FHL8BMfT1yXHAotwwDwYDVR0TAQH/
BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiAn/B4rnSUDNBe5B4qJnHZAtesiV4RR
Ae/WfyRvb7yUvAIgFlar7VgrKf7IEgx+fFJ+ol2e5GvTpUR8bnwFPHrCvsY=
-----END CERTIFICATE-----
"""


@contextlib.contextmanager
def serving(kit):
    """The agent with its port; afterwards without."""
    authority = kit.disk / "authority.crt"
    authority.write_text(NOBODY)
    start_again(kit, address=ADDRESS[0], port=ADDRESS[1], anonymousAuth=True, authorizationMode="AlwaysAllow",
                clientCAFile=str(authority))
    try:
        kit.node.wait("the port is open", lambda: get("/healthz", 2) == "ok")
        yield
    finally:
        start_again(kit, port=0)


def connect(seconds=10):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    raw = socket.create_connection(ADDRESS, timeout=seconds)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(raw)


def head(method, path, more=""):
    return f"{method} {path} HTTP/1.1\r\nHost: node\r\n{more}\r\n".encode()


def whole(peer):
    text = b""
    with contextlib.suppress(OSError):
        while piece := peer.recv(65536):
            text += piece
    return text.decode(errors="replace")


def get(path, seconds=10):
    """The body, or None when nobody answers in time."""
    try:
        with connect(seconds) as peer:
            peer.sendall(head("GET", path, "Connection: close\r\n"))
            return whole(peer).partition("\r\n\r\n")[2]
    except OSError:
        return None


@attack("AP-11")
def handshakes_that_are_never_ended(kit):
    """Connections that say nothing, or half of a hello, from the client's own address and from others."""
    hello = bytes.fromhex("16030100c8010000c40303") + bytes(50)
    count, slowest, held = kit.size(2000, 50000), 0, []
    with serving(kit):
        before = kit.oracle.held()["agent RSS"]
        for number in range(count):
            peer = socket.socket()
            peer.settimeout(5)
            peer.bind((f"127.0.0.{1 + number % 2}", 0))
            with contextlib.suppress(OSError):
                peer.connect(ADDRESS)
                peer.sendall(hello * (number % 3 == 0))
            held.append(peer)
            if len(held) > 700:
                held.pop(0).close()
            if number % 250 == 249:
                began = time.monotonic()
                while get("/healthz", MOST_SECONDS) != "ok":
                    breach_if(time.monotonic() - began > MOST_SECONDS, f"nobody is served after {number} connections")
                slowest = max(slowest, time.monotonic() - began)
                kit.node.ctl("version", timeout=MOST_SECONDS)
        grown = kit.oracle.held()["agent RSS"] - before
        for peer in held:
            peer.close()
    breach_if(grown > MOST_GROWTH_KIB, f"the agent grew by {grown >> 10} MiB")
    return f"{count} connections, others are served after {slowest:.2f} s at most, {max(grown, 0) >> 10} MiB"


@attack("AP-07")
def requests_that_come_in_pieces(kit):
    """Bodies in chunks, cut at every place: a parser that counts on more bytes than came must not end the agent."""
    begin = head("POST", "/run/default/nobody/main?cmd=id", "Transfer-Encoding: chunked\r\n")
    bodies = (b"0\r\n\r\n", b"0\r\na: b\r\n\r\n", b"5;x=y\r\nabcde\r\n0\r\n\r\n", b"5\r\nabcde\r\n0\r\nt: u\r\n\r\n")
    cuts = [(body, first, second) for body in bodies for first in range(len(body)) for second in range(first, len(body), kit.size(3, 1))]
    unanswered = []
    with serving(kit):
        agent = kit.node.agent.pid
        for body, first, second in cuts:
            with connect(5) as peer:
                for piece in (begin + body[:first], body[first:second], body[second:]):
                    peer.sendall(piece)
                    time.sleep(0.003)
                with contextlib.suppress(OSError):
                    if not peer.recv(65536).startswith(b"HTTP/1.1 "):
                        unanswered.append((body, first, second))
        breach_if(kit.node.agent.pid != agent or kit.node.agent.poll() is not None, "the agent ended")
        breach_if(get("/healthz") != "ok", "nobody is served any more")
    breach_if(unanswered, f"no answer to {unanswered[:3]}")
    return f"{len(cuts)} requests, each is answered"


@attack("AP-03")
def upgrades_that_fail_and_what_is_sent_behind_them(kit):
    """An API server whose upgrade fails must not be left with a connection on which others go on as itself."""
    name = kit.new_name("tunnel")
    kit.pod(name, [kit.container("main", ["/bin/sleep", "1000"])])
    kit.node.phase(name, "Running")
    pod = f"default/{name}-{kit.node.node}"
    requests = [(path, protocol) for protocol in ("websocket", "SPDY/3.1", "h2c", "nothing") for path in (
        "/exec/default/nobody/main?command=id&output=1", f"/exec/{pod}/nobody?command=id&output=1", f"/exec/{pod}/main",
        f"/attach/{pod}/nobody?output=1", f"/portForward/{pod}?port=0", "/portForward/default/nobody", "/pods", "/nowhere",
        "/../exec", "/containerLogs/default/nobody/main")]
    with serving(kit):
        for path, protocol in requests:
            wrong = f"{path} {protocol}: "
            with connect(5) as peer:
                peer.sendall(head("GET", path, UPGRADE.format(protocol)))
                answer = peer.recv(65536).decode(errors="replace")
                breach_if(answer.startswith("HTTP/1.1 101"), wrong + "it is given a stream")
                breach_if("\r\nlocation:" in answer.lower(), wrong + "it is sent elsewhere")
                with contextlib.suppress(OSError):
                    peer.sendall(head("GET", "/runningpods/"))
                rest = whole(peer)
                breach_if("HTTP/1.1 200" in rest, wrong + "what is sent behind it is answered")
    return f"{len(requests)} requests, each connection is closed"


@attack("DO-08")
def metrics_with_names_of_others(kit):
    """Paths, users and pods that are never the same: the texts do not grow with them."""
    paths = ("/metrics", "/metrics/resource", "/metrics/cadvisor", "/metrics/probes", "/stats/summary")
    mark, pods = "m" * 63, kit.size(4, 20)
    probe = {"exec": {"command": ["/bin/true"]}, "periodSeconds": 1}

    def sizes():
        time.sleep(6)  # what was read is not older than five seconds
        return {path: len(get(path)) for path in paths}

    def ask(number):
        method, path = (("GET", f"/x{number}"), (f"M{number}", "/pods"), ("GET", f"/exec/{number}/a/b"))[number % 3]
        with connect() as peer:
            peer.sendall(head(method, path, f"Authorization: Bearer {number}\r\nConnection: close\r\n"))
            whole(peer)

    def come_and_go(turn):
        for number in range(pods):
            kit.pod(f"{mark[:30]}-{turn}-{number}", [kit.container(f"{mark[:50]}-{c}", ["/bin/sleep", "1000"], readinessProbe=probe)
                                                     for c in range(3)])
        kit.node.wait("they run", lambda: sum(p["status"]["phase"] == "Running" for p in kit.node.pods().values()) == pods, 60)
        kit.node.wait("they are shown", lambda: mark[:30] in get("/metrics/cadvisor"), 20)
        kit.clear()

    with serving(kit):
        for number in range(3):  # what the first of each kind brings
            ask(number)
        come_and_go("first")
        sizes()
        before = sizes()
        for number in range(kit.size(200, 5000)):
            ask(number)
        for turn in range(kit.size(1, 6)):
            come_and_go(turn)
        after = sizes()
        left = [path for path in paths if mark[:30] in get(path)]
    breach_if(left, f"series of containers that are gone: {left}")
    grown = {path: after[path] - before[path] for path in paths if after[path] - before[path] > MOST_TEXT}
    breach_if(grown, f"they grew by {grown} bytes")
    return ", ".join(f"{path} {before[path]} -> {after[path]}" for path in paths)
