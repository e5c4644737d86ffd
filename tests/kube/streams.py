# SPDX-License-Identifier: Apache-2.0
"""exec, attach, cp and port-forward through stock kubectl and the API server, to containers on nodes of ours."""
import collections
import contextlib
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
COPIED = 1 << 30
FORWARDED = 100  # connections at once


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


def with_stdin(name, script, nodeName=None, **container):
    made = pod(name, script, restartPolicy="Never", **({"nodeName": nodeName} if nodeName else {}))
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

        threads = [threading.Thread(target=fetch) for _ in range(FORWARDED)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal(seen, [digest.split()[0].decode()] * FORWARDED, "what came")
        client = socket.create_connection(("127.0.0.1", forward.port), 30)  # it leaves without a word
        client.close()
        fetch()
        equal(len(seen), FORWARDED + 1, "the tunnel goes on")
    with Forward(cluster, "pod/files", ":81", spdy=spdy) as forward:
        with socket.create_connection(("127.0.0.1", forward.port), 30) as client:
            client.settimeout(30)
            equal(client.recv(1), b"", "a port that nobody listens on")
        said = next(line for line in forward.process.stdout if "error occurred forwarding" in line)
        check("dial tcp 127.0.0.1:81: connect: connection refused" in said, said)


def begun(cluster, *words, spdy=False, **more):
    """kubectl, which runs until it is killed or what it speaks to ends."""
    return subprocess.Popen(words_of(cluster, *words), stdin=subprocess.PIPE, env=environment(spdy),
                            **{"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, **more})


def node_of(cluster, name):
    return cluster.nodes[get(cluster, "pod", name)["spec"]["nodeName"]]


def sleepers(cluster, seconds):
    out, _ = kubectl(cluster, "exec", "shell", "--", "sh", "-c", f"ps | grep -c '[s]leep {seconds}' || true")
    return int(out)


def open_in(agent):
    """How many descriptors and threads of each kind an agent has."""
    found = collections.Counter()
    for link in pathlib.Path(f"/proc/{agent}/fd").iterdir():
        with contextlib.suppress(OSError):
            found[os.readlink(link).split("[")[0]] += 1
    for task in pathlib.Path(f"/proc/{agent}/task").iterdir():
        with contextlib.suppress(OSError):
            found["thread " + (task / "comm").read_text().strip()] += 1
    return found


@by_both
def test_streams_what_clients_left_is_gone(cluster, spdy):
    """Five of each kind, in the middle of what they do; the API server is the one that goes from the node."""
    with_input = "left-spdy" if spdy else "left"
    running(cluster, with_stdin(with_input, "cat", nodeName=node_of(cluster, "shell").node))
    agent = node_of(cluster, "shell").agent.pid

    def begin():
        clients = [begun(cluster, *words, spdy=spdy, stdout=subprocess.DEVNULL) for words in (
            ("exec", "-i", "shell", "--", "sh", "-c", "exec sleep 4321"), ("exec", "shell", "--", "yes", "sleep 4321"),
            ("attach", "-i", with_input), ("logs", "-f", "shell"))]
        forward = Forward(cluster, "pod/files", ":80", spdy=spdy)
        connection = socket.create_connection(("127.0.0.1", forward.port), 30)
        connection.sendall(b"GET /big HTTP/1.0\r\n\r\n")  # and reads no more than a little
        connection.recv(1)
        return [*clients, forward.process], connection

    def end(sets):
        for clients, connection in sets:
            for client in clients:
                client.kill()
            for client in clients:
                client.wait()
            connection.close()

    first = [begin()]  # connections and threads that stay once they are there
    until("they run", lambda: sleepers(cluster, 4321) >= 2)
    end(first)
    until("they are gone", lambda: sleepers(cluster, 4321) == 0, 10)
    time.sleep(1)  # what else theirs was is closed a moment later, and only what is measured here would tell
    before = open_in(agent)
    sets = [begin() for _ in range(5)]
    until("they run", lambda: sleepers(cluster, 4321) >= 10)
    check(open_in(agent)["pipe:"] > before["pipe:"] + 10, "sessions have descriptors")
    end(sets)
    began = time.monotonic()
    more = lambda: open_in(agent) - before
    try:
        # Threads are of pools that all share; they end when they had nothing to do for a while.
        until("what sessions had is closed", lambda: all(kind.startswith("thread ") for kind in more()), 10)
        took = time.monotonic() - began
        until("the threads have ended", lambda: not more())
    except TimeoutError as error:
        raise AssertionError(f"left: {more()}") from error
    until("they are gone", lambda: sleepers(cluster, 4321) == 0, 10)
    print(f"  descriptors are gone after {took:.2f} s", flush=True)


@by_both
def test_streams_end_with_the_agent_and_containers_do_not(cluster, spdy):
    name = "survivor-spdy" if spdy else "survivor"
    node = node_of(cluster, "shell")
    running(cluster, with_stdin(name, "while read x; do echo got $x; done", nodeName=node.node))
    before = get(cluster, "pod", name)["status"]["containerStatuses"][0]

    def say(client, word):
        """An attach that has just begun may miss what is answered at once."""
        for _ in range(100):
            client.stdin.write(f"{word}\n".encode())
            client.stdin.flush()
            if select.select([client.stdout], [], [], 0.3)[0]:
                break
        equal(client.stdout.readline(), f"got {word}\n".encode(), "the container's answer")

    clients = [begun(cluster, "attach", "-i", name, spdy=spdy), begun(cluster, "exec", "-i", "shell", "--", "sleep", "4323", spdy=spdy)]
    say(clients[0], "before")
    until("it runs", lambda: sleepers(cluster, 4323) == 1)
    with Forward(cluster, f"pod/{name}", ":80", spdy=spdy) as forward:
        clients.append(forward.process)
        node.kill(("agent",))
        # With which code is not the node's affair: for the API server both streams just ended.
        print("  exit codes:", [client.wait(30) for client in clients[:2]], flush=True)
        node.start_agent()
        until("the agent answers", lambda: node.ctl("version", check=False).returncode == 0)
    until("what exec began is gone", lambda: sleepers(cluster, 4323) == 0, 20)
    clients.append(begun(cluster, "attach", "-i", name, spdy=spdy))
    say(clients[-1], "after")
    clients[-1].kill()
    after = get(cluster, "pod", name)["status"]["containerStatuses"][0]
    equal([after[k] for k in ("containerID", "restartCount")], [before[k] for k in ("containerID", "restartCount")], "the container")
    for client in clients:
        client.wait()
        client.stdout.close()


def test_streams_are_forgotten(cluster):
    cluster.kubectl("delete", "pod", "shell", "files", *(
        f"{name}{by}" for name in ("reader", "terminal", "left", "survivor") for by in ("", "-spdy")), "--ignore-not-found", "--wait=false")
