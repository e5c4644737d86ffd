# SPDX-License-Identifier: Apache-2.0
"""Streams over the node's HTTPS server, to real containers: what a kubelet's clients see."""
import json
import subprocess
import threading
import time

from suite import check, equal
from web_socket import WebSocket

PORT = 10250
SUCCESS = {"metadata": {}, "status": "Success"}


def serve(node):
    """Before the agent starts: for everybody on this machine, as there is no API server to ask. (An authority switches it on.)"""
    authority = node.top / "authority.crt"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                    "/CN=nobody", "-keyout", "/dev/null", "-out", authority], check=True, capture_output=True)
    node.set_config(address="127.0.0.1", port=PORT, anonymousAuth=True, authorizationMode="AlwaysAllow",
                    clientCAFile=str(authority))


def open_stream(node, verb, name, query):
    return WebSocket(("127.0.0.1", PORT), f"/{verb}/default/{name}-{node.node}/main?{query}")


def running(node, name, script, **container):
    node.pod(name, containers=[node.container("main", script, **container)], restartPolicy="Never")
    node.phase(name, "Running")


def test_attach_sees_a_prompt_and_feeds_stdin(node):
    running(node, "asks", "while true; do printf 'name? '; read x || break; echo hello $x; echo e $x >&2; done; echo bye",
            stdin=True, stdinOnce=True)
    first = open_stream(node, "attach", "asks", "input=1&output=1&error=1")
    second = open_stream(node, "attach", "asks", "output=1")
    second.receive()  # it has begun
    time.sleep(0.5)  # the logger takes it up unseen
    first.send(b"\0you\n")
    first.until(1, b"hello you\nname? ")
    second.until(1, b"hello you\nname? ")
    first.until(2, b"e you\n")
    first.send(b"\xff\0")
    for stream in (first, second):
        seen = stream.all()
        check(seen[1].endswith(b"bye\n"), seen)
        equal(json.loads(seen[3]), SUCCESS, "status")
    node.phase("asks", "Succeeded")
    check("hello you\n" in node.log("asks") and "bye\n" in node.log("asks"), "the log has everything")
    node.remove("asks")
    node.until_gone("asks")


def test_attach_to_a_terminal(node):
    running(node, "shell", "exec sh", stdin=True, tty=True)
    stream = open_stream(node, "attach", "shell", "input=1&output=1&tty=1")
    stream.send(b'\4{"Width":97,"Height":41}\n')
    time.sleep(0.5)  # nothing says that the size was set
    stream.send(b"\0stty size\n")
    stream.until(1, b"41 97")
    stream.send(b"\0exit\n")
    equal(json.loads(stream.all()[3]), SUCCESS, "status")
    check("41 97" in node.log("shell"), "the log has it too")
    node.remove("shell")
    node.until_gone("shell")


def test_nothing_is_lost_between_the_log_and_who_is_attached(node):
    """The container waits for a slow reader, and goes on when he leaves."""
    running(node, "counts", "read x; i=0; while [ $i -lt 60000 ]; do echo line $i; i=$((i+1)); done", stdin=True)
    stream = open_stream(node, "attach", "counts", "input=1&output=1")
    slow = open_stream(node, "attach", "counts", "output=1")
    stream.receive()
    slow.receive()
    time.sleep(0.5)  # the logger takes both up unseen
    stream.send(b"\0go\n")
    leaves = threading.Timer(3, slow.close)  # without having read
    leaves.start()
    text = "".join(f"line {i}\n" for i in range(60000))
    equal(stream.all()[1].decode() == text, True, "all lines came in their order")
    leaves.join()
    node.phase("counts", "Succeeded")
    equal(node.log("counts") == text, True, "the log has them once")
    node.remove("counts")
    node.until_gone("counts")


def test_exec_by_websocket(node):
    running(node, "works", "while :; do sleep 1000 & wait; done")
    stream = open_stream(node, "exec", "works", "command=sh&command=-c&command=cat%3B%20exit%205&input=1&output=1")
    stream.send(b"\0some words")
    stream.send(b"\xff\0")
    seen = stream.all()
    equal(seen[1], b"some words", "output")
    equal(json.loads(seen[3])["details"]["causes"], [{"reason": "ExitCode", "message": "5"}], "exit code")
    missing = open_stream(node, "exec", "works", "command=nosuch&output=1").all()
    check("error executing command in container: " in json.loads(missing[3])["message"], missing)
    gone = open_stream(node, "exec", "works", "command=sleep&command=4321&output=1")
    gone.receive()
    node.wait("it runs", lambda: "sleep 4321" in node.ctl("exec", f"works-{node.node}", "--", "ps").stdout)
    gone.close()
    node.wait("it went with its client", lambda: "sleep 4321" not in node.ctl("exec", f"works-{node.node}", "--", "ps").stdout, 5)
    node.remove("works")
    node.until_gone("works")
