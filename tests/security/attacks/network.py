# SPDX-License-Identifier: Apache-2.0
"""What a pod reaches of the node's own loopback. Spoofing, hostPorts and Services have their tests of real packets
in tests/system/netproxy (docs/security.md)."""
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess

from attack import attack, breach_if

PORT = 5353


def loopback_listeners():
    listeners = []
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            server = socket.socket(family, kind)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((address, PORT))
            if kind == socket.SOCK_STREAM:
                server.listen()
            server.setblocking(False)
            listeners.append(server)
    return listeners


def reached(listeners):
    found = []
    for server in listeners:
        try:
            if server.type == socket.SOCK_DGRAM:
                found.append(str(server.recvfrom(100)[1]))
            else:
                found.append(str(server.accept()[1]))
        except BlockingIOError:
            pass
    return found


def knock(kit, mode):
    name = kit.new_name("knock")
    kit.pod(name, [kit.container("main", ["/bin/sleep", "1000"], add=["NET_ADMIN", "NET_RAW"])])
    pod = kit.node.phase(name, "Running")
    listeners = loopback_listeners()
    ip = pod["status"]["podIP"]
    way = subprocess.run(["ip", "route", "get", ip], capture_output=True, text=True, check=True).stdout
    link = re.search(r"dev (\S+)", way).group(1)
    mac = re.search(r"link/ether (\S+)", subprocess.run(["ip", "link", "show", link], capture_output=True, text=True,
                                                         check=True).stdout).group(1)
    said = kit.exec(name, "/bin/attacker", "martian", "eth0", mac, "127.0.0.1", str(PORT))
    breach_if("done 3" not in said, f"frames were not sent: {said!r}")
    gateway = kit.exec(name, "/bin/sh", "-c", "ip route | sed -n 's/^default via \\([^ ]*\\).*/\\1/p'").strip()
    for target in filter(None, ("127.0.0.1", gateway, ip)):
        kit.exec(name, "/bin/sh", "-c", f"ip route replace 127.0.0.1 via {gateway or ip} dev eth0 onlink table local; "
                 f"echo x | nc -w 1 {target} {PORT}; echo x | nc -u -w 1 {target} {PORT}")
    found = reached(listeners)
    for server in listeners:
        server.close()
    kit.node.remove(name)
    breach_if(found, f"{mode}: the node's loopback was reached from {found}")


@attack("N1,NE-03")
def listeners_on_the_nodes_loopback(kit):
    tried = []
    try:
        for mode in ("nftables", "iptables"):
            if mode == "iptables" and shutil.which("iptables-restore") is None:
                continue
            kit.node.set_config(proxyMode=mode)
            kit.node.hang_up()
            kit.node.wait(f"mode {mode}", lambda mode=mode: kit.node.ctl("version").returncode == 0)
            knock(kit, mode)
            tried.append(mode)
    finally:
        kit.node.set_config(proxyMode="nftables")
        kit.node.hang_up()
    return ", ".join(tried)


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


@attack("AP-08")
def secrets_in_logs_events_and_files(kit):
    secret = "KIT-MARKED-SECRET-0123456789"
    name = kit.new_name("secret")
    kit.pod(name, [kit.container("main", ["/bin/sleep", "1000"], env=[{"name": "TOKEN", "value": secret}])])
    kit.node.phase(name, "Running")
    kit.exec(name, "/bin/true", secret)
    kit.node.ctl("describe", "pod", f"{name}-{kit.node.node}")
    wrong = []
    found = subprocess.run(["grep", "-rls", secret, kit.node.top, "--exclude-dir=manifests"], capture_output=True, text=True,
                           check=False).stdout.split()
    for file in found:
        mode = subprocess.run(["stat", "-c", "%a", file], capture_output=True, text=True, check=True).stdout.strip()
        if not mode.endswith("00") or "log" in file:
            wrong.append(f"{file} {mode}")
    events = kit.node.ctl("get", "events").stdout
    if secret in events:
        wrong.append("an event")
    breach_if(wrong, "; ".join(wrong))


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
