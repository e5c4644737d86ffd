# SPDX-License-Identifier: Apache-2.0
"""A node with Services of written EndpointSlices: endpoints are servers of this process on addresses
of the loopback interface, clients are its sockets. No pod is needed."""
import contextlib
import json
import os
import pathlib
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from machine import IPVS, Machine, has_ipvs  # noqa: E402

PORT = 8080


def run(*words):
    subprocess.run(words, check=True)


def prepare_network():
    """An uplink with a default route, so that there is a way to addresses that only rules know."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
    run("ip", "address", "add", "10.60.0.2/24", "dev", "up0")
    run("ip", "link", "set", "up0", "up")
    run("ip", "link", "set", "up1", "up")
    run("ip", "route", "add", "default", "via", "10.60.0.1")
    # A router that takes everything: what nobody translates is lost, and nobody is told.
    run("ip", "neighbour", "add", "10.60.0.1", "lladdr", "02:00:00:00:00:01", "dev", "up0", "nud", "permanent")


class Servers(threading.Thread):
    """TCP and UDP at `addresses` {name: address}: each line or datagram is answered by the name."""

    def __init__(self, addresses):
        super().__init__(daemon=True)
        self.selector = selectors.DefaultSelector()
        for name, address in addresses.items():
            run("ip", "address", "add", f"{address}/32", "dev", "lo")
            for kind, handler in ((socket.SOCK_STREAM, self.accept), (socket.SOCK_DGRAM, self.datagram)):
                server = socket.socket(socket.AF_INET, kind)
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind((address, PORT))
                if kind == socket.SOCK_STREAM:
                    server.listen(64)
                self.selector.register(server, selectors.EVENT_READ, (handler, name))

    def run(self):
        while True:
            for key, _ in self.selector.select():
                handler, name = key.data
                handler(key.fileobj, name)

    def accept(self, server, name):
        connection, _ = server.accept()
        self.selector.register(connection, selectors.EVENT_READ, (self.line, name))

    def line(self, connection, name):
        try:
            got = connection.recv(100)
            if got:
                connection.sendall(name.encode())
                return
        except OSError:
            pass
        self.selector.unregister(connection)
        connection.close()

    @staticmethod
    def datagram(server, name):
        _, sender = server.recvfrom(100)
        server.sendto(name.encode(), sender)


IPVS_HEADINGS = 3


class Node(Machine):
    """A Machine with verbs for Services."""

    def write(self, name, body):
        new = self.manifests / f".{name}.new"
        new.write_text(json.dumps(body))
        new.rename(self.manifests / f"{name}.json")

    def service(self, name, address, port=80, protocol="TCP", **spec):
        self.write(name, {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"clusterIP": address, "ports": [{"port": port, "protocol": protocol}], **spec}})

    def endpoints(self, name, addresses, protocol="TCP", zones=None):
        """`zones`: for which zone each address is meant."""
        self.write(f"{name}-slice", {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": f"{name}-1", "labels": {"kubernetes.io/service-name": name}},
            "ports": [{"name": "", "port": PORT, "protocol": protocol}],
            "endpoints": [{"addresses": [a], "nodeName": self.node, "conditions": {"ready": True},
                           **({"hints": {"forZones": [{"name": zones[a]}]}} if zones else {})}
                          for a in addresses]})

    def remove(self, name):
        for suffix in ("", "-slice"):
            (self.manifests / f"{name}{suffix}.json").unlink(missing_ok=True)

    def get(self, url):
        """Status and body."""
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def modes(self):
        """Which modes have rules in the kernel."""
        found = set()
        if subprocess.run(["nft", "list", "table", "ip", f"{self.table}-services"],
                          capture_output=True, check=False).returncode == 0:
            found.add("nftables")
        for kind in ("nft", "legacy"):
            saved = subprocess.run([f"iptables-{kind}-save", "-t", "nat"], capture_output=True,
                                   text=True, check=False).stdout
            if "KUBE-" in saved:
                found.add("iptables")
        if has_ipvs() and len(IPVS.read_text().splitlines()) > IPVS_HEADINGS:
            found.add("ipvs")
        return found

    def recorded_modes(self):
        return set((self.top / "root/proxy/modes").read_text().split())

    def log(self):
        return (self.top / "agent.log").read_text()


def ask(address, port=80, patience=0.25):
    """The name of the endpoint that answers a new connection, or why none does."""
    try:
        with socket.create_connection((address, port), patience) as client:
            client.sendall(b"who\n")
            return client.recv(100).decode()
    except OSError as error:
        return str(error)


class Sender:
    """A UDP client that keeps its port."""

    def __init__(self, address, port):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(0.25)
        self.to = (address, port)

    def ask(self):
        try:
            self.socket.sendto(b"who", self.to)
            return self.socket.recv(100).decode()
        except OSError:
            return None


class Neighbour:
    """Another machine on a segment with this one: 10.61.0.1 behind seg1, this node is 10.61.0.2 on seg0."""

    def __init__(self):
        self.process = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo ready; exec sleep infinity"],
                                        stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        run("ip", "link", "add", "seg0", "type", "veth", "peer", "name", "seg1", "netns",
            str(self.process.pid))
        run("ip", "address", "add", "10.61.0.2/24", "dev", "seg0")
        run("ip", "link", "set", "seg0", "up")
        self.inside("ip", "address", "add", "10.61.0.1/24", "dev", "seg1")
        self.inside("ip", "link", "set", "seg1", "up")

    def inside(self, *words):
        return subprocess.run(["nsenter", f"--net=/proc/{self.process.pid}/ns/net", *words], check=True,
                              capture_output=True, text=True).stdout

    def ask(self, address, port=80):
        """As ask(), from there, without what it knew of the segment before."""
        self.inside("ip", "neigh", "flush", "dev", "seg1")
        folder = pathlib.Path(__file__).resolve().parent
        code = f"import sys; sys.path.insert(0, '{folder}'); import world; print(world.ask('{address}', {port}, 1))"
        return self.inside("python3", "-c", code).strip()

    def close(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def frozen(pid):
    """All threads of the process stand still within, and nothing runs that it started."""
    def fields(pattern):
        for stat in pathlib.Path("/proc").glob(pattern):
            with contextlib.suppress(OSError):  # ended meanwhile
                yield stat.read_text().rpartition(")")[2].split()

    os.kill(pid, signal.SIGSTOP)
    try:
        while True:
            # One thread is told, and it tells the others when it runs.
            while (states := {state for state, *_ in fields(f"{pid}/task/*/stat")}) != {"T"}:
                if not states - {"Z", "X"}:
                    raise RuntimeError(f"process {pid} has ended")
                time.sleep(0.001)
            if all(int(parent) != pid or state == "Z" for state, parent, *_ in fields("[0-9]*/stat")):
                break
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.05)
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Knocking:
    """A TCP connection that has sent its first packet and goes on sending it."""

    def __init__(self, address, port=80):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.connect_ex((address, port))

    def answer(self, patience):
        """The name of the endpoint, when it is there in time."""
        if not select.select([], [self.socket], [], patience)[1]:
            return None
        try:
            self.socket.settimeout(5)
            self.socket.sendall(b"who\n")
            return self.socket.recv(100).decode()
        except OSError as error:
            return str(error)


class Held:
    """A TCP connection that stays."""

    def __init__(self, address, port=80):
        self.socket = socket.create_connection((address, port), 5)
        self.socket.settimeout(5)

    def ask(self):
        self.socket.sendall(b"who\n")
        return self.socket.recv(100).decode()


def seconds_until(ready, deadline):
    """How long it took; None when it did not happen."""
    began = time.monotonic()
    while True:
        done = ready()
        took = time.monotonic() - began
        if done and took <= deadline:
            return took
        if took > deadline:
            return None
