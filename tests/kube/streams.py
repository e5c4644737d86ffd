# SPDX-License-Identifier: Apache-2.0
"""exec, attach, cp and port-forward through stock kubectl and the API server, to containers on nodes of ours."""
import fcntl
import functools
import hashlib
import http.client
import json
import os
import pathlib
import pty
import select
import socket
import subprocess
import tempfile
import termios
import threading
import time

from asking import IMAGE, get, pod, until
from suite import check, equal

SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
COPIED = 100 << 20


def words_of(cluster, *words):
    return [json.loads(cluster.record.read_text())["kubectl"], "--kubeconfig", str(cluster.admin), *words]


def environment(spdy):
    return {**os.environ, **(SPDY if spdy else {})}


def kubectl(cluster, *words, spdy=False, stdin=None, limit=120, code=0):
    """(stdout, stderr) of stock kubectl; its exit code must be `code`."""
    done = subprocess.run(words_of(cluster, *words), input=stdin, capture_output=True, timeout=limit,
                          env=environment(spdy), check=False)
    equal(done.returncode, code, f"exit code of kubectl {' '.join(words)[:80]}: {done.stderr.decode(errors='replace')}")
    return done.stdout, done.stderr


def running(cluster, *manifests):
    cluster.apply(*manifests)
    for each in manifests:
        name = each["metadata"]["name"]
        until(f"{name} runs", lambda n=name: get(cluster, "pod", n)["status"]["phase"] == "Running")


def by_both(test):
    """By WebSocket, then by SPDY."""
    @functools.wraps(test)
    def run(cluster):
        for spdy in (False, True):
            test(cluster, spdy)
    return run


def test_streams_need_a_pod(cluster):
    running(cluster, pod("shell", "while :; do sleep 1 & wait; done"))


@by_both
def test_streams_exec_carries_streams_and_exit_codes(cluster, spdy):
    out, err = kubectl(cluster, "exec", "shell", "--", "sh", "-c", "echo out; echo err >&2", spdy=spdy)
    equal((out, err), (b"out\n", b"err\n"), "streams")
    out, err = kubectl(cluster, "exec", "shell", "--", "sh", "-c", "exit 7", spdy=spdy, code=7)
    equal(err, b"command terminated with exit code 7\n", "what kubectl says")
    text = os.urandom(3 << 20)
    out, _ = kubectl(cluster, "exec", "-i", "shell", "--", "cat", stdin=text, spdy=spdy)
    check(out == text, f"{len(out)} bytes of {len(text)} came back")
    out, _ = kubectl(cluster, "exec", "shell", "--", "head", "-c", "30000000", "/dev/zero", spdy=spdy)
    equal(len(out), 30000000, "bytes of a long output")
    kubectl(cluster, "exec", "shell", "--", "sh", "-c", "kill -9 $$", spdy=spdy, code=137)


def test_streams_exec_refuses_in_a_kubelets_words(cluster):
    _, err = kubectl(cluster, "exec", "shell", "--", "nosuchprogram", code=1)
    check(b"error executing command in container" in err, err)
    _, err = kubectl(cluster, "exec", "nosuchpod", "--", "true", code=1)
    check(b'pods "nosuchpod" not found' in err, err)


class Terminal:
    """kubectl on a terminal of this machine."""

    def __init__(self, cluster, *words, spdy=False, size=(24, 80)):
        self.master, slave = pty.openpty()
        self.resize(*size)
        self.process = subprocess.Popen(words_of(cluster, *words), stdin=slave, stdout=slave, stderr=slave,
                                        env=environment(spdy), start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.seen = b""

    def resize(self, rows, columns):
        termios.tcsetwinsize(self.master, (rows, columns))

    def send(self, text):
        os.write(self.master, text)

    def expect(self, text, seconds=30):
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            check(time.monotonic() < deadline, f"{text} did not come: {self.seen[-500:]}")
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.master, 65536)
                except OSError:
                    check(text in self.seen, f"ended without {text}: {self.seen[-500:]}")
        self.seen = self.seen.split(text, 1)[1]

    def end(self, code):
        try:
            equal(self.process.wait(30), code, f"exit code: {self.seen[-300:]}")
        finally:
            self.process.kill()
            os.close(self.master)


@by_both
def test_streams_exec_on_a_terminal_knows_its_size(cluster, spdy):
    terminal = Terminal(cluster, "exec", "-it", "shell", "--", "sh", spdy=spdy, size=(33, 101))
    terminal.send(b"stty size; echo at-$((40+2))\n")
    terminal.expect(b"33 101")
    terminal.expect(b"at-42")
    terminal.resize(25, 90)
    time.sleep(1)  # kubectl sends it by and by, and nothing says that it came
    terminal.send(b"stty size; exit 5\n")
    terminal.expect(b"25 90")
    terminal.end(5)


@by_both
def test_streams_cp_both_ways_keeps_every_byte(cluster, spdy):
    with tempfile.TemporaryDirectory() as top:
        sent, back = pathlib.Path(top, "sent"), pathlib.Path(top, "back")
        sent.write_bytes(os.urandom(1 << 20) * (COPIED >> 20))
        expected = hashlib.sha256(sent.read_bytes()).hexdigest()
        began = time.monotonic()
        kubectl(cluster, "cp", str(sent), "shell:/tmp/sent", spdy=spdy, limit=300)
        said, _ = kubectl(cluster, "exec", "shell", "--", "sha256sum", "/tmp/sent", spdy=spdy)
        equal(said.split()[0].decode(), expected, "what came into the pod")
        kubectl(cluster, "cp", "shell:/tmp/sent", str(back), spdy=spdy, limit=300)
        equal(hashlib.sha256(back.read_bytes()).hexdigest(), expected, "what came out of it")
        print(f"  {COPIED >> 20} MiB in and out: {time.monotonic() - began:.1f} s", flush=True)


def with_stdin(name, script, **container):
    made = pod(name, script, restartPolicy="Never")
    made["spec"]["containers"][0].update(stdin=True, **container)
    made["spec"]["containers"][0]["command"] = ["sh", "-c", script]
    return made


@by_both
def test_streams_attach_reaches_the_container_itself(cluster, spdy):
    name = "reader-spdy" if spdy else "reader"
    running(cluster, with_stdin(name, "while read x; do echo got $x; echo err $x >&2; done; echo all", stdinOnce=True))
    out, err = kubectl(cluster, "attach", "-i", name, stdin=b"one\ntwo\n", spdy=spdy)
    equal(out, b"got one\ngot two\nall\n", "output")
    check(b"err one\nerr two\n" in err, err)
    until("it ended with its input", lambda: get(cluster, "pod", name)["status"]["phase"] == "Succeeded")
    logged, _ = kubectl(cluster, "logs", name)
    check(b"got two\n" in logged and b"err two\n" in logged, "the log has it too")


@by_both
def test_streams_attach_to_a_terminal(cluster, spdy):
    name = "terminal-spdy" if spdy else "terminal"
    running(cluster, with_stdin(name, "exec sh", tty=True))
    terminal = Terminal(cluster, "attach", "-it", name, spdy=spdy, size=(40, 111))
    time.sleep(2)  # kubectl sends the size once it is attached, and nothing says that it came
    terminal.send(b"stty size\n")
    terminal.expect(b"40 111")
    terminal.send(b"exit\n")
    terminal.end(0)


def test_streams_run_gives_what_a_pod_says(cluster):
    out, _ = kubectl(cluster, "run", "once", f"--image={IMAGE}", "--image-pull-policy=IfNotPresent", "--restart=Never",
                     "--rm", "-i", "--quiet", "--", "sh", "-c", "cat; echo done", stdin=b"to the pod\n")
    equal(out, b"to the pod\ndone\n", "output")


class Forward:
    def __init__(self, cluster, *words, spdy=False):
        self.process = subprocess.Popen(words_of(cluster, "port-forward", *words), stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, env=environment(spdy))
        line = self.process.stdout.readline()
        check("Forwarding from 127.0.0.1:" in line, line)
        self.port = int(line.split("127.0.0.1:")[1].split()[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


@by_both
def test_streams_port_forward_carries_many_connections(cluster, spdy):
    running(cluster, pod("files", "mkdir /www; head -c 3000000 /dev/urandom > /www/big; hostname > /www/index.html; "
                                  "httpd -p 80 -h /www; while :; do sleep 1 & wait; done"))
    digest, _ = kubectl(cluster, "exec", "files", "--", "sha256sum", "/www/big")
    with Forward(cluster, "pod/files", ":80", spdy=spdy) as forward:
        seen = []

        def fetch():
            client = http.client.HTTPConnection("127.0.0.1", forward.port, timeout=60)
            client.request("GET", "/big")
            seen.append(hashlib.sha256(client.getresponse().read()).hexdigest())

        threads = [threading.Thread(target=fetch) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal(seen, [digest.split()[0].decode()] * 20, "what came")
        client = socket.create_connection(("127.0.0.1", forward.port), 30)  # it leaves without a word
        client.close()
        fetch()
        equal(len(seen), 21, "the tunnel goes on")
    with Forward(cluster, "pod/files", ":81", spdy=spdy) as forward:
        with socket.create_connection(("127.0.0.1", forward.port), 30) as client:
            client.settimeout(30)
            equal(client.recv(1), b"", "a port that nobody listens on")
        said = next(line for line in forward.process.stdout if "error occurred forwarding" in line)
        check("dial tcp 127.0.0.1:81: connect: connection refused" in said, said)


def test_streams_what_a_client_left_is_gone(cluster):
    words = words_of(cluster, "exec", "-i", "shell", "--", "sh", "-c", "exec sleep 4321")
    clients = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) for _ in range(5)]

    def left():
        out, _ = kubectl(cluster, "exec", "shell", "--", "sh", "-c", "ps | grep -c '[s]leep 4321' || true")
        return int(out)
    until("they run", lambda: left() >= 5)
    for client in clients:
        client.kill()
    until("they are gone", lambda: left() == 0, 10)
    for client in clients:
        client.wait()
    cluster.kubectl("delete", "pod", "shell", "reader", "reader-spdy", "terminal", "terminal-spdy", "files", "--wait=false")
