# SPDX-License-Identifier: Apache-2.0
"""Whether the limit program makes for a pod what ours makes: a limit that does less would be none. Looks at one process of
each through /proc and `ip`."""
import json
import pathlib
import subprocess
import time

# What the agent, and not the launch, adds for a pod: files of its own, bound over the image's.
OF_THE_AGENT = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/termination-log")


def mounts(pid):
    """{mount point: type of its file system}"""
    found = {}
    for line in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        found[before.split()[4]] = after.split()[0]
    return {point: kind for point, kind in found.items() if point not in OF_THE_AGENT}


def own_cgroups(pid):
    """The hierarchies in which it has left its root, by controllers."""
    lines = (line.split(":", 2) for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    return {controllers for _, controllers, path in lines if path != "/"}


def ip(pid, *words):
    text = subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", "-j", *words], capture_output=True, text=True,
                          check=True).stdout
    return json.loads(text or "[]")


def await_links(pid):
    """The kernel looks at a new link within a second, and only then gives it its link-local address and route."""
    deadline = time.monotonic() + 10
    while any(link["operstate"] == "DOWN" for link in ip(pid, "link")):
        if time.monotonic() > deadline:
            raise RuntimeError(f"process {pid}: a link stays down")
        time.sleep(0.05)  # between two looks


def network(pid):
    """How many links, addresses, routes and neighbours."""
    await_links(pid)
    return {"links": len(ip(pid, "link")), "addresses": sum(len(link["addr_info"]) for link in ip(pid, "address")),
            "routes": len(ip(pid, "route")) + len(ip(pid, "-6", "route")), "neighbours": len(ip(pid, "neighbour"))}


def status(pid):
    """Capabilities, and how many seccomp filters."""
    lines = (line.split(":\t") for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return {key: value for key, value in lines if key in ("CapEff", "CapBnd", "Seccomp_filters")}


def of(pid):
    return {"mounts": mounts(pid), "cgroups": own_cgroups(pid), "network": network(pid), "status": status(pid)}


def check(ours, limit):
    """`ours`, `limit`: what of() gave."""
    for what, value in ours.items():
        if value != limit[what]:
            raise RuntimeError(f"the limit program does not make what ours makes: {what}: {value}, the limit {limit[what]}")
