# SPDX-License-Identifier: Apache-2.0
"""What a pod reaches of the node's own loopback. Spoofing, hostPorts and Services have their tests of real packets
in tests/system/netproxy (docs/security.md)."""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time

from attack import attack, breach_if
from machine import has_ipvs
from probes import in_pieces

PORT = 5353        # listens on the node's loopback
OPEN_PORT = 5354   # listens on every address of the node: reached there (NE-13), not behind a Service's
CLUSTER_IP = "10.96.0.53"
EVERYWHERE = ["0.0.0.0/0", "127.0.0.0/8"]


def listeners_of_the_node():
    listeners = []
    for family, address, port in ((socket.AF_INET, "127.0.0.1", PORT), (socket.AF_INET6, "::1", PORT),
                                  (socket.AF_INET, "0.0.0.0", OPEN_PORT)):
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            server = socket.socket(family, kind)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((address, port))
            if kind == socket.SOCK_STREAM:
                server.listen()
            server.setblocking(False)
            listeners.append(server)
    return listeners


def reached(listeners):
    """Who came to which listener since this was asked before; a datagram may come several times."""
    found = set()
    for server in listeners:
        kind = "UDP" if server.type == socket.SOCK_DGRAM else "TCP"
        try:
            while True:
                sender = server.recvfrom(100)[1] if kind == "UDP" else server.accept()[1]
                found.add(f"{kind} {server.getsockname()} from {sender}")
        except BlockingIOError:
            pass
    return sorted(found)


def publish(kit, pod_ip):
    """A Service with a node port, so that the mode has rules."""
    kit.node.write("knock-service", json.dumps({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "knock"},
        "spec": {"type": "NodePort", "clusterIP": CLUSTER_IP,
                 "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30053}]}}))
    kit.node.write("knock-slice", json.dumps({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "knock-1", "labels": {"kubernetes.io/service-name": "knock"}},
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [pod_ip], "nodeName": kit.node.node, "conditions": {"ready": True}}]}))


def in_force(kit, mode):
    dump = kit.node.ctl("proxy", "dump").stdout
    return dump.startswith(f"# proxy mode {mode}\n") and CLUSTER_IP in dump


def ask(address, port):
    """A connection and a datagram (busybox's nc knows no UDP)."""
    return f"echo x | timeout 1 nc {address} {port}; timeout 1 tftp -g -r x -l /dev/null {address} {port}"


def link_to(pod_ip):
    """The node's end of the pod's link, and the node's address there."""
    way = subprocess.run(["ip", "route", "get", pod_ip], capture_output=True, text=True, check=True).stdout
    return [re.search(rf"{what} (\S+)", way).group(1) for what in ("dev", "src")]


def knock(kit, name, pod_ip, label):
    """From the pod at everything of the node that must not hear it."""
    listeners = listeners_of_the_node()
    link, node = link_to(pod_ip)
    kit.exec(name, "/bin/sh", "-c", ask(node, OPEN_PORT))
    if len(reached(listeners)) != 2:
        raise RuntimeError(f"{label}: the pod's knocking is not heard at {node} either")
    mac = re.search(r"link/ether (\S+)", subprocess.run(["ip", "link", "show", link], capture_output=True, text=True,
                                                         check=True).stdout).group(1)
    said = kit.exec(name, "/bin/attacker", "martian", "eth0", mac, "127.0.0.1", str(PORT))
    breach_if("done 3" not in said, f"frames were not sent: {said!r}")
    gateway = kit.exec(name, "/bin/sh", "-c", "ip route | sed -n 's/^default via \\([^ ]*\\).*/\\1/p'").strip()
    targets = [(t, PORT) for t in ("127.0.0.1", node, gateway, pod_ip, CLUSTER_IP)] + [(CLUSTER_IP, OPEN_PORT)]
    kit.exec(name, "/bin/sh", "-c", f"ip route replace 127.0.0.1 via {gateway} dev eth0 onlink table local; " +
             "; ".join(ask(*target) for target in targets), timeout=60)
    found = reached(listeners)
    for server in listeners:
        server.close()
    breach_if(found, f"{label}: the node was reached at {found}")


def start_again(kit, **config):
    """The agent with another configuration; that it ended is not the attack's doing."""
    kit.node.set_config(**config)
    kit.node.restart_agent()
    kit.starts += 1
    kit.node.wait("the agent answers", lambda: kit.node.ctl("version").returncode == 0)


@attack("N1,NE-03,NE-06")
def listeners_on_the_nodes_loopback(kit):
    """In every mode, with node ports on the primary address and on all, loopback included (where kube-proxy's
    iptables mode sets route_localnet; the oracle looks at that too)."""
    modes = ["nftables", *["iptables"] * (shutil.which("iptables-restore") is not None), *["ipvs"] * has_ipvs()]
    name = kit.new_name("knock")
    # Its hostPort on the node's loopback makes its link take packets of 127.0.0.0/8.
    kit.pod(name, [kit.container("main", ["/bin/sleep", "1000"], add=["NET_ADMIN", "NET_RAW"],
                                 ports=[{"containerPort": 8080, "hostPort": 8180, "hostIP": "127.0.0.1"}])])
    ip = kit.node.phase(name, "Running")["status"]["podIP"]
    link = link_to(ip)[0]
    if pathlib.Path(f"/proc/sys/net/ipv4/conf/{link}/route_localnet").read_text().strip() != "1":
        raise RuntimeError(f"{link}: the pod's link takes no packets of the node's loopback; nothing is tried")
    publish(kit, ip)
    tried = []
    try:
        for label, addresses in {"primary": ["primary"], "all": EVERYWHERE}.items():
            start_again(kit, nodePortAddresses=addresses)
            for mode in modes:
                kit.node.set_mode(mode)
                kit.node.wait(f"mode {mode}", lambda mode=mode: in_force(kit, mode))
                knock(kit, name, ip, f"{mode}, node ports on {label}")
                tried.append(f"{mode} {label}")
    finally:
        start_again(kit, nodePortAddresses=["primary"], proxyMode="nftables")
        kit.node.wait("mode nftables", lambda: in_force(kit, "nftables"))
    return ", ".join(tried)


def peers_on_a_link(addresses):
    """A network namespace at the other end of a new link of the node, with these addresses. Its holder, and the link's name."""
    holder = subprocess.Popen(["unshare", "--net", "sleep", "1000"])
    wait_for_namespace_of(holder.pid)
    subprocess.run(["ip", "link", "add", "kit-lan", "type", "veth", "peer", "name", "lan", "netns", str(holder.pid)], check=True)
    inside = " && ".join(["ip link set lan up", *[f"ip -6 addr add {a}/64 dev lan nodad" for a in addresses]])
    subprocess.run(["nsenter", f"--net=/proc/{holder.pid}/ns/net", "sh", "-c", inside], check=True)
    subprocess.run("ip link set kit-lan up && ip -6 addr add fd00:99::1/64 dev kit-lan nodad", shell=True, check=True)
    return holder, "kit-lan"


def wait_for_namespace_of(pid):
    mine = os.readlink("/proc/self/ns/net")
    while os.readlink(f"/proc/{pid}/ns/net") == mine:
        time.sleep(0.01)


def is_reached(address):
    """Whether somebody there answers, if only that nobody listens."""
    with socket.socket(socket.AF_INET6) as peer:
        peer.settimeout(1.5)
        try:
            peer.connect((address, 9))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return True


@attack("DO-06")
def neighbours_that_all_network_namespaces_share(kit):
    """A pod without any right sends to ever new addresses of its link; meanwhile the node meets others on a link of its own."""
    addresses = [f"fd00:99::{n:x}" for n in range(2, 14)]
    holder, link = peers_on_a_link(addresses)
    try:
        kit.node.wait("the link carries packets", lambda: is_reached(addresses[0]), 20)
        name = kit.new_name("floods")
        kit.pod(name, [kit.container("main", ["/bin/attacker", "neighbours", "8", "eth0"], drop=["ALL"])])
        kit.node.phase(name, "Running")
        time.sleep(2)  # the address of its link is its own by then
        missed = [address for address in addresses[1:] if not is_reached(address)]
        kit.finished(name)
        sent = int(kit.output(name).split()[1])
        if sent < 3000:
            raise RuntimeError(f"only {sent} datagrams were sent")
    finally:
        subprocess.run(["ip", "link", "delete", link], check=False)
        holder.kill()
        holder.wait()
    breach_if(missed, f"{len(missed)} of {len(addresses) - 1} were not reached")
    return f"{sent} datagrams, {len(addresses) - 1} others were reached"


@attack("C9,PR-11,AP-01")
def sockets_that_a_pod_on_the_nodes_network_sees(kit):
    text = kit.run(["/bin/sh", "-c", "cat /proc/net/unix; echo; netstat -ltn; echo done"], pod={"hostNetwork": True})
    ours = [line for line in text.splitlines() if "@" in line and "holdfast" in line]
    breach_if(ours, f"abstract sockets: {ours}")
    listening = [line.split()[3] for line in text.splitlines() if line.startswith("tcp")]
    return f"listening: {listening or 'nothing'}"


@attack("C8,PR-01")
def processes_of_the_node_seen_from_its_pid_namespace(kit):
    role_pids = {role: kit.node.pids_of(role)[0] for role in ("agent", "hold", "launch", "log")}
    script = "; ".join(f"for f in environ mem root/etc fd/0 cwd exe maps; do cat /proc/{pid}/$f > /dev/null 2>&1 && "
                       f"echo READ {role} $f; ls /proc/{pid}/$f/ > /dev/null 2>&1 && echo LISTED {role} $f; done"
                       for role, pid in role_pids.items()) + "; echo done"
    lines = kit.complete(["/bin/sh", "-c", script], pod={"hostPID": True})
    breach_if(lines, "; ".join(lines))
    return "nothing of agent, holder, launcher and logger is readable"


@attack("B-12,AP-08")
def core_dump_of_the_agent(kit):
    """Of a killed agent with a core limit: an empty filter keeps it small where it is written all the same."""
    if pathlib.Path("/proc/sys/kernel/core_pattern").read_text().startswith(("|", "/")):
        return "not tried: core_pattern leads out of the working directory"
    pid = kit.node.agent.pid
    folder = pathlib.Path(os.readlink(f"/proc/{pid}/cwd"))
    before = set(folder.iterdir())
    pathlib.Path(f"/proc/{pid}/coredump_filter").write_text("0")
    hardest = resource.prlimit(pid, resource.RLIMIT_CORE)[1]
    resource.prlimit(pid, resource.RLIMIT_CORE, (hardest, hardest))
    os.kill(pid, signal.SIGABRT)
    _, status = os.waitpid(pid, 0)
    for file in set(folder.iterdir()) - before:
        if file.name.startswith("core"):
            file.unlink()
    kit.node.agent = None
    kit.node.start_agent()
    kit.starts += 1
    kit.node.wait("the agent answers", lambda: kit.node.ctl("version").returncode == 0)
    breach_if(os.WCOREDUMP(status), "its memory was written to a file")


@attack("AP-10")
def probed_servers_that_send_the_node_elsewhere_or_never_end(kit):
    """A redirect to what only the node reaches, an answer without an end, and one whose empty body comes byte by byte, to
    each probe. (The last ended the agent: an assertion of Boost's parser did not hold.)"""
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def accept():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                asked.append(connection.recv(4096))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                connection.close()
        threading.Thread(target=accept, daemon=True).start()
        elsewhere = f"HTTP/1.1 302 Found\\r\\nLocation: http://127.0.0.1:{listener.getsockname()[1]}/secret\\r\\n\\r\\n"
        answers = {"redirects": f"printf '{elsewhere}'", "endless": "printf 'HTTP/1.1 200 OK\\r\\n\\r\\n'; cat /dev/zero"}
        probe = {"httpGet": {"port": 80, "path": "/"}, "periodSeconds": 1, "timeoutSeconds": 3}
        names = {kind: kit.new_name(kind) for kind in (*answers, "pieces")}
        before = kit.oracle.held()["agent RSS"]
        for kind, answer in answers.items():
            script = f"while :; do {{ {answer}; }} | nc -l -p 80; done"
            kit.pod(names[kind], [kit.container("main", ["/bin/sh", "-c", script], readinessProbe=probe)])
        agent = kit.node.agent.pid
        kit.pod(names["pieces"], [kit.container("main", ["/bin/sh", "-c", in_pieces(80)], readinessProbe=probe)])
        for name in names.values():
            kit.node.until("it was probed", name, lambda p: any(
                c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", [])))
        time.sleep(kit.size(5, 20))  # a probe a second follows the answer, if it follows any
        listener.shutdown(socket.SHUT_RDWR)
    breach_if(kit.node.agent.pid != agent or kit.node.agent.poll() is not None, "the agent ended")
    breach_if(asked, f"the node was sent to a server of its own: {asked[:1]}")
    grown = kit.oracle.held()["agent RSS"] - before
    breach_if(grown > 16 << 10, f"the agent grew by {grown} KiB of answers")
    return "nobody else was asked; 10 KiB of each answer were read"
