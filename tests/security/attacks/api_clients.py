# SPDX-License-Identifier: Apache-2.0
"""Clients that do not speak as clients should."""
import os
import socket
import struct
import subprocess
import time

from attack import attack, breach_if

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, RESET, SETTINGS, PING, CONTINUATION = 1, 3, 4, 6, 9
END_HEADERS = 4
MOST_SECONDS = 15
MOST_GROWTH = 64 << 10


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def connect(kit, greet=True):
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(5)
    peer.connect(str(kit.node.run / "holdfastd.sock"))
    if greet:
        peer.sendall(PREFACE + frame(SETTINGS, 0, 0))
    return peer


def answers_within(kit, seconds):
    """How long until a root client is served; a breach when that is too long."""
    began = time.monotonic()
    last = ""
    while time.monotonic() - began < seconds:
        result = kit.node.ctl("version", check=False, timeout=seconds)
        if result.returncode == 0:
            return time.monotonic() - began
        last = " ".join(result.stderr.split())
        time.sleep(0.2)
    breach_if(True, f"root is not served after {seconds} s: {last[:200]}")


@attack("A4,B-10,AP-11")
def silent_connections(kit):
    silent = []
    for _ in range(200):
        try:
            silent.append(connect(kit, greet=False))
        except OSError:
            break
    seconds = answers_within(kit, MOST_SECONDS)
    for peer in silent:
        peer.close()
    answers_within(kit, 5)
    return f"{len(silent)} silent connections, root is served after {seconds:.1f} s"


@attack("A4,B-10,AP-07")
def greeted_connections_that_then_are_silent(kit):
    silent = []
    for _ in range(62):
        try:
            silent.append(connect(kit))
        except OSError:
            break
    seconds = answers_within(kit, MOST_SECONDS)
    for peer in silent:
        peer.close()
    return f"{len(silent)} connections, root is served after {seconds:.1f} s"


@attack("A2,AP-07")
def connections_that_come_and_go(kit):
    count = kit.size(2000, 20000)
    for _ in range(count):
        try:
            connect(kit, greet=False).close()
        except OSError:
            time.sleep(0.01)
    return f"{count} connections, root is served after {answers_within(kit, MOST_SECONDS):.1f} s"


@attack("A2,B-7,AP-04,AP-05")
def bytes_that_are_no_protocol(kit):
    texts = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", os.urandom(65536), b"\0" * 65536, PREFACE + os.urandom(4096),
             PREFACE + frame(99, 255, 1, b"x" * 16000), PREFACE + frame(SETTINGS, 0, 1, b"x" * 7),
             PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0xffffffff) * 2000),
             PREFACE + frame(SETTINGS, 0, 0) + frame(PING, 0, 0, b"x" * 8) * 50000,
             PREFACE + frame(SETTINGS, 0, 0) + frame(CONTINUATION, END_HEADERS, 1, b"x"),
             PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 2, b"\x82"),
             PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, b"\x3f" + b"\xff" * 200 + b"\x7f")]
    for text in texts:
        try:
            peer = connect(kit, greet=False)
            peer.sendall(text)
            peer.settimeout(0.2)
            while peer.recv(65536):
                pass
        except OSError:
            pass
        finally:
            peer.close()
    return f"{len(texts)} texts, root is served after {answers_within(kit, MOST_SECONDS):.1f} s"


def literal(name, value):
    """A header without indexing; HPACK, RFC 7541 6.2.2."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


@attack("A3,B-7,AP-07")
def headers_without_end(kit):
    agent = kit.node.agent.pid
    rss = lambda: kit.oracle.held()["agent RSS"]  # noqa: E731
    before, most, sent = rss(), 0, 0
    peer = connect(kit)
    block = literal(b"x-flood", b"v" * 120) * 32
    try:
        peer.sendall(frame(HEADERS, 0, 1, block))
        for sent in range(kit.size(50000, 500000)):
            peer.sendall(frame(CONTINUATION, 0, 1, block))
            if sent % 500 == 0:
                most = max(most, rss())
    except OSError:
        pass
    most = max(most, rss())
    peer.close()
    answers_within(kit, MOST_SECONDS)
    breach_if(agent != kit.node.agent.pid, "the agent died")
    breach_if(most - before > MOST_GROWTH, f"{sent} frames; the agent grew by {most - before >> 10} MiB")
    return f"closed after {sent} frames, {most - before >> 10} MiB at most"


@attack("A3,B-7,AP-07")
def streams_reset_at_once(kit):
    peer = connect(kit)
    headers = (b"\x83\x86" + literal(b":path", b"/holdfast.v1.NodeAgent/GetNode") + literal(b":authority", b"x") +
               literal(b"te", b"trailers") + literal(b"content-type", b"application/grpc"))
    stream = 1
    try:
        for _ in range(kit.size(20000, 1000000)):
            peer.sendall(frame(HEADERS, END_HEADERS, stream, headers) + frame(RESET, 0, stream, b"\0\0\0\x08"))
            stream += 2
    except OSError:
        pass
    peer.close()
    return f"{stream // 2} streams, root is served after {answers_within(kit, MOST_SECONDS):.1f} s"


@attack("A1,PR-11,IM-06")
def users_without_a_role(kit):
    """As nobody, and as root of other namespaces: no answer. As nobody on the node: nothing readable."""
    ctl = [str(kit.bin / "holdctl"), "--socket", str(kit.node.run / "holdfastd.sock"), "version"]
    peers = {"nobody": ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
             "other pids": ["unshare", "--pid", "--fork"], "other users": ["unshare", "--user", "--map-root-user"]}
    wrong = []
    for label, words in peers.items():
        result = subprocess.run([*words, *ctl], capture_output=True, text=True, timeout=30, check=False)
        if result.returncode == 0:
            wrong.append(label)
    found = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "find", kit.node.top,
                            "-type", "f", "-readable"], capture_output=True, text=True, check=False).stdout.split()
    wrong += [f for f in found if not f.endswith(("agent.log", "config.yaml"))]  # the kit's own
    breach_if(wrong, f"{wrong[:8]}")


@attack("A5,A6,VO-04")
def names_that_are_paths(kit):
    evil = ("..", "../..", "../../../../etc", "/etc/passwd", "a/../b", "%2e%2e", "x\n", "\x1b[31m", "a" * 5000, "")
    wrong = []
    for name in evil:
        for words in (("logs", name), ("exec", name, "--", "/bin/true"), ("delete", "pod", name),
                      ("describe", "pod", name), ("get", "pods", "-n", name or "."), ("image", "rm", name),
                      ("image", "export", name, "-o", "/dev/null"), ("logs", "x", "-c", name)):
            result = kit.node.ctl(*words, check=False, timeout=20)
            if result.returncode == 0 and words[0] not in ("get",):
                wrong.append(f"{words}: {result.stdout[:60]!r}")
            # (An operator's own -n comes back to the operator as it is.)
            if words[0] != "get" and "\x1b" in result.stdout + result.stderr:
                wrong.append(f"{words}: raw escape")
    breach_if(wrong, "; ".join(wrong[:5]))
    return f"{len(evil) * 8} calls"


@attack("A5,AP-06")
def sessions_and_output_beyond_every_limit(kit):
    name = kit.new_name("sessions")
    kit.pod(name, [kit.container("main", ["/bin/sleep", "1000"])])
    kit.node.phase(name, "Running")
    command = [kit.bin / "holdctl", "--socket", kit.node.run / "holdfastd.sock", "exec", f"{name}-{kit.node.node}", "--"]
    silent = [subprocess.Popen([*command, "/bin/yes"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
              for _ in range(kit.size(12, 80))]  # nobody reads
    time.sleep(3)
    growth = kit.oracle.held()["agent RSS"] - kit.baseline[1]["agent RSS"]
    seconds = answers_within(kit, MOST_SECONDS)
    for child in silent:
        child.kill()
        child.stdout.close()
        child.wait()
    breach_if(growth > MOST_GROWTH, f"the agent grew by {growth >> 10} MiB")
    return f"{len(silent)} unread floods, {max(growth, 0) >> 10} MiB, root is served after {seconds:.1f} s"


