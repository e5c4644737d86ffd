# SPDX-License-Identifier: Apache-2.0
"""holdctl's attach, port-forward, cp and debug with real containers; what is left of clients that were killed."""
import hashlib
import os
import pty
import re
import select
import signal
import socket
import subprocess
import threading
import time

from suite import check, equal

SERVE = "mkdir /tmp/www; head -c {0} /dev/zero | tr '\\0' x > /tmp/www/f; httpd -p 8080 -h /tmp/www; "
IDLE = "echo up; while :; do sleep 1000 & wait; done"


def command(node, *words):
    return [*node.inside, node.bin / "holdctl", "--socket", node.run / "holdfastd.sock", *words]


def running(node, name, script, **container):
    node.pod(name, containers=[node.container("main", script, **container)], restartPolicy="Never")
    node.phase(name, "Running")


def end(node, *names):
    for name in names:
        node.remove(name)
    for name in names:
        node.until_gone(name)


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, words):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(words[0], [str(word) for word in words])
        self.seen = b""

    def until(self, text, seconds=20):
        limit = time.monotonic() + seconds
        while text not in self.seen:
            check(select.select([self.fd], [], [], max(0, limit - time.monotonic()))[0], f"{text} in {self.seen}")
            try:
                self.seen += os.read(self.fd, 65536)
            except OSError as error:  # its last user has gone
                raise AssertionError(f"{text} in {self.seen}, ended with {self.code()}") from error

    def type(self, text):
        os.write(self.fd, text)

    def code(self):
        try:
            while True:
                self.seen += os.read(self.fd, 65536)
        except OSError:  # its last user has gone
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def descriptors(node):
    return len(os.listdir(f"/proc/{node.agent.pid}/fd"))


def test_attach_without_a_terminal(node):
    running(node, "reads", "while read x; do echo got $x; echo e $x >&2; done; echo bye", stdin=True, stdinOnce=True)
    attach = subprocess.Popen(command(node, "attach", "-i", "reads"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
    time.sleep(0.5)  # the logger takes it up unseen
    out, err = attach.communicate(b"one\ntwo\n", timeout=30)
    equal((attach.returncode, out), (0, b"got one\ngot two\nbye\n"), "what it wrote")
    check(err.endswith(b"If you don't see a command prompt, try pressing enter.\ne one\ne two\n"), err)
    node.phase("reads", "Succeeded")
    late = node.ctl("attach", "reads", check=False)
    equal((late.returncode, late.stderr),
          (1, "error: cannot attach a container in a completed pod; current phase is Succeeded\n"), "too late")
    end(node, "reads")


def test_attach_to_a_shell_on_a_terminal(node):
    running(node, "shell", "exec sh", stdin=True, tty=True)
    first = Terminal(command(node, "attach", "-it", "shell"))
    first.until(b"try pressing enter.")
    first.type(b"\n")
    first.until(b"# ")
    first.type(b"echo $((20 + 3))\n")
    first.until(b"23")
    first.type(b"\x10\x11")
    equal(first.code(), 0, "left by ^P^Q")
    check(b"Session ended, resume using 'holdctl attach shell-" in first.seen, first.seen)
    second = Terminal(command(node, "attach", "-it", "-q", "shell"))
    time.sleep(0.5)  # it is told nothing when it has begun
    second.type(b"exit\n")
    equal(second.code(), 0, "the shell's end")
    node.phase("shell", "Succeeded")
    end(node, "shell")


def test_port_forward_of_100_connections(node):
    running(node, "serves", SERVE.format(300000) + IDLE)
    node.wait("it listens", lambda: "up" in node.log("serves"))
    forward = subprocess.Popen(command(node, "port-forward", "serves", ":8080", "--address", "127.0.0.1"),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = forward.stdout.readline()
    match = re.fullmatch(r"Forwarding from 127\.0\.0\.1:(\d+) -> 8080\n", line)
    check(match, line)
    port = int(match[1])
    failed = []

    def fetch(number):
        try:
            with socket.create_connection(("127.0.0.1", port), 30) as connection:
                connection.settimeout(60)
                connection.sendall(b"GET /f HTTP/1.0\r\n\r\n")
                page = b""
                while piece := connection.recv(65536):
                    page += piece
            if page.partition(b"\r\n\r\n")[2] != b"x" * 300000:
                failed.append((number, len(page)))
        except OSError as error:
            failed.append((number, error))

    threads = [threading.Thread(target=fetch, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(failed, [], "each got the whole file")
    equal(forward.stdout.readline(), f"Handling connection for {port}\n", "it tells")
    forward.send_signal(signal.SIGINT)
    equal(forward.stdout.read().count("Handling connection"), 99, "each is told once")
    equal((forward.wait(20), forward.stderr.read()), (0, ""), "Ctrl-C")
    end(node, "serves")


def test_port_forward_tells_and_ends(node):
    running(node, "quiet", IDLE)
    forward = subprocess.Popen(command(node, "port-forward", "pod/quiet", ":81", "--address", "127.0.0.1"),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    port = int(re.search(r":(\d+) ->", forward.stdout.readline())[1])
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.settimeout(10)
        equal(connection.recv(10), b"", "nobody listens there")
    end(node, "quiet")
    _, err = forward.communicate(timeout=20)
    equal(forward.returncode, 1, "it ends with the pod")
    check(f"an error occurred forwarding {port} -> 81: error forwarding port 81 to pod quiet-" in err
          and "dial tcp 127.0.0.1:81: connect: connection refused" in err
          and err.endswith("error: lost connection to pod\n"), err)


def digest(path):
    sum = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            sum.update(piece)
    return sum.hexdigest()


def test_cp_of_100_megabytes_both_ways(node):
    running(node, "store", IDLE)
    local = node.top / "copied"
    local.mkdir()
    with open(local / "big", "wb") as file:
        for _ in range(100):
            file.write(os.urandom(1 << 20))
    (local / "empty").mkdir()
    (local / "a name with spaces").write_text("x\n")
    os.chmod(local / "a name with spaces", 0o751)
    equal(node.ctl("cp", local, "store:/tmp/there").stderr, "", "into the container")
    inside = node.ctl("exec", f"store-{node.node}", "--", "sh", "-c",
                      "cd /tmp/there; sha256sum big; ls -d empty; stat -c %a 'a name with spaces'").stdout.split("\n")
    equal(inside[:3], [f"{digest(local / 'big')}  big", "empty", "751"], "what is there")
    node.ctl("cp", "store:/tmp/there", node.top / "back")
    equal(digest(node.top / "back/big"), digest(local / "big"), "the same")
    equal((node.top / "back/a name with spaces").read_text(), "x\n", "a name with spaces")
    node.ctl("cp", f"default/store-{node.node}:/tmp/there/big", node.top / "one", "--retries", "2")
    equal(digest(node.top / "one"), digest(local / "big"), "one file, and by tail")
    node.ctl("cp", local / "a name with spaces", "store:/tmp")
    equal(node.ctl("exec", f"store-{node.node}", "--", "cat", "/tmp/a name with spaces").stdout, "x\n", "into a directory")
    missing = node.ctl("cp", "store:/tmp/nosuch", node.top / "none", check=False)
    check(missing.returncode != 0 and "No such file" in missing.stderr, missing)
    equal(node.ctl("cp", "/nosuch", "store:/tmp", check=False).stderr,
          "error: /nosuch doesn't exist in local filesystem\n", "no source")
    equal(node.ctl("cp", "a", "b", check=False).stderr,
          "error: one of src or dest must be a remote file specification\n", "no pod")
    end(node, "store")


def test_debug_puts_a_container_into_a_pod(node):
    running(node, "suspect", "exec sleep 4711")
    image = node.get("suspect")["spec"]["containers"][0]["image"]
    added = node.ctl("debug", "suspect", f"--image={image}", "--image-pull-policy=Never", "-c", "look", "--target", "main",
                     "--", "sh", "-c", "ps; echo seen; sleep 1000")
    equal(added.stdout, "", "it is quiet with a name")
    node.wait("it sees the other's processes", lambda: "sleep 4711" in node.log("suspect", "-c", "look"))
    again = node.ctl("debug", "suspect", f"--image={image}", "-c", "look", check=False)
    equal((again.returncode, "has a container \"look\" already" in again.stderr), (1, True), "its name is taken")
    wrong = node.ctl("debug", "suspect", "--image=x", "-c", "other", "--target", "nosuch", check=False)
    check('spec.ephemeralContainers[1].targetContainerName: Not found: "nosuch"' in wrong.stderr, wrong.stderr)
    ids = [s["containerID"] for s in node.get("suspect")["status"]["ephemeralContainerStatuses"]]
    node.restart_agent()
    node.wait("the agent answers", lambda: node.ctl("version", check=False).returncode == 0)
    pod = node.until("the container is there", "suspect", lambda p: p["status"].get("ephemeralContainerStatuses"))
    equal([s["containerID"] for s in pod["status"]["ephemeralContainerStatuses"]], ids, "the same one, and it runs")
    check("running" in pod["status"]["ephemeralContainerStatuses"][0]["state"], pod["status"])
    shell = Terminal(command(node, "debug", "-it", "suspect", f"--image={image}", "--image-pull-policy=Never",
                             "-c", "shell", "--", "sh"))
    shell.until(b"try pressing enter.")
    shell.type(b"\n")
    shell.until(b"# ")
    shell.type(b"echo $((40 + 2)); exit\n")
    shell.until(b"42")
    equal(shell.code(), 0, "its end")
    check(b"the ephemeral container will not be restarted" in shell.seen, shell.seen)
    end(node, "suspect")


def test_an_agent_killed_in_the_middle_of_sessions(node):
    """exec and attach end with the agent that carried them; the container goes on, and its log has all that it said."""
    running(node, "midway", "while read x; do echo got $x; done", stdin=True)
    name = f"midway-{node.node}"
    ps = lambda: node.ctl("exec", name, "--", "ps").stdout
    full, writer = os.pipe()  # nobody reads it
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    sleeps = subprocess.Popen(command(node, "exec", name, "--", "sleep", "6001"), **pipes)
    floods = subprocess.Popen(command(node, "exec", name, "--", "yes", "6002"), **{**pipes, "stdout": writer})
    attached = subprocess.Popen(command(node, "attach", "-i", "midway"), **pipes)
    node.wait("both programs run", lambda: all(word in ps() for word in ("sleep 6001", "yes 6002")))
    time.sleep(0.5)  # the logger takes it up unseen

    def say(client, word):
        client.stdin.write(f"{word}\n".encode())
        client.stdin.flush()
        equal(client.stdout.readline(), f"got {word}\n".encode(), "the container's answer")

    say(attached, "before")
    node.restart_agent()
    for client in (sleeps, attached):
        _, err = client.communicate(timeout=30)
        equal(client.returncode, 1, f"its exit code: {err}")
    floods.kill()
    floods.communicate()
    node.wait("the agent answers", lambda: node.ctl("version", check=False).returncode == 0)
    node.wait("their programs are gone", lambda: not any(word in ps() for word in ("sleep 6001", "yes 6002")), 10)
    again = subprocess.Popen(command(node, "attach", "-i", "midway"), **pipes)
    time.sleep(0.5)  # as above
    say(again, "after")
    again.kill()
    again.communicate()
    equal(node.log("midway"), "got before\ngot after\n", "the log")
    os.close(full)
    os.close(writer)
    end(node, "midway")


def test_killed_clients_leave_nothing(node):
    """exec, attach, cp and port-forward, killed while they are idle, while much comes, while nobody reads."""
    running(node, "victim", SERVE.format(50000000) + IDLE, stdin=True)
    ps = lambda: node.ctl("exec", f"victim-{node.node}", "--", "ps").stdout
    node.wait("it listens", lambda: "up" in node.log("victim"))
    ps()  # what the first session makes stays: the audit log
    before = descriptors(node)
    programs = ("sleep 5001", "cat; sleep 5002", "yes 5003", "sleep 5004")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    full, writer = os.pipe()  # nobody reads it
    zero = open("/dev/zero", "rb")
    clients = [subprocess.Popen(command(node, *words), **{"stdin": subprocess.PIPE, **quiet, **more})
               for words, more in (
                   (("exec", f"victim-{node.node}", "--", "sleep", "5001"), {}),
                   (("exec", "-i", f"victim-{node.node}", "--", "sh", "-c", "cat; sleep 5002"), {}),
                   (("exec", f"victim-{node.node}", "--", "yes", "5003"), {"stdout": writer}),
                   (("exec", "-i", f"victim-{node.node}", "--", "sleep", "5004"), {"stdin": zero}),
                   (("attach", "-i", "victim"), {}))]
    forward = subprocess.Popen(command(node, "port-forward", "victim", ":8080", "--address", "127.0.0.1"),
                               stdout=subprocess.PIPE, text=True)
    port = int(re.search(r":(\d+) ->", forward.stdout.readline())[1])
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
    for connection in connections[::2]:
        connection.sendall(b"GET /f HTTP/1.0\r\n\r\n")  # and reads nothing
    node.wait("all are at work", lambda: all(word in ps() for word in programs))
    check(descriptors(node) > before, "sessions have descriptors")
    for client in (*clients, forward):
        client.kill()
        client.wait()
    began = time.monotonic()
    node.wait("their programs are gone", lambda: not any(word in ps() for word in programs), 10)
    node.wait("and their descriptors", lambda: descriptors(node) <= before, 10)
    print(f"    gone after {time.monotonic() - began:.1f} s")
    for connection in connections:
        connection.close()
    os.close(full)
    os.close(writer)
    zero.close()
    end(node, "victim")
