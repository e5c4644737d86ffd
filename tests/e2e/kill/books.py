# SPDX-License-Identifier: Apache-2.0
"""The books of the agent beside those of the kernel, and what is left when all pods are gone."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import journal
from life import interface_of
from machine import cgroups_in


def check(machine, tally):
    """Addresses and cgroups as the agent has them and as the kernel has them."""
    book = set(journal.values(machine.top / "root/network/pods.journal"))  # flagged: is being released
    names = links_of_pods()
    links = set(names.values())
    seen = machine.patient_pods()
    running = {n: p for n, p in seen.items() if p["status"]["phase"] == "Running"}
    tally.expect({interface_of(uid) for uid in book} == links,
                 f"address book {sorted(book)}, links {sorted(links)}")
    routes = {}
    for family in ("-4", "-6"):
        for route in json.loads(ip(family, "-j", "route", "show", "table", "main")):
            if route.get("dev", "").startswith("hk"):
                routes.setdefault(names.get(route["dev"], route["dev"]), set()).add(route["dst"])
    used = [a for addresses in routes.values() for a in addresses]
    tally.expect(len(used) == len(set(used)), f"an address twice: {routes}")
    for name, pod in running.items():
        wanted = {a["ip"] for a in pod["status"]["podIPs"]}
        got = {d for d in routes.get(interface_of(pod["metadata"]["uid"]), set())
               if not d.startswith("fe80")}
        tally.expect(wanted == got, f"{name}: addresses {wanted}, routes {got}")
    check_connected(machine, tally, running)
    known = {p["metadata"]["uid"] for p in seen.values()}
    for tree in machine.cgroup_trees():
        present = {p.name.removeprefix("pod") for p in pod_cgroups(tree)}
        tally.expect(present <= known, f"{tree}: cgroups of unknown pods {present - known}")
    for tree in machine.container_trees():
        for name, pod in running.items():
            uid = pod["metadata"]["uid"]
            ids = {s["containerID"].removeprefix("holdfast://")
                   for s in pod["status"]["containerStatuses"] if "running" in s["state"]}
            got = {name for p in pod_cgroups(tree) if p.name == f"pod{uid}"
                   for name in next(os.walk(p), (p, [], []))[1]}
            tally.expect(ids <= got, f"{name}: containers {ids}, cgroups {got} in {tree}")
    said = machine.ctl("check", check=False)
    tally.expect(said.returncode == 0, f"holdctl check: {said.stdout} {said.stderr}")
    check_pool(machine, tally)


def check_connected(machine, tally, running):
    """What runs in a pod has the other end of its link: it would have none in namespaces that are no longer its pod's."""
    numbers = {known: link["ifindex"] for link in links_of_ours() for known in (link["ifname"], *link.get("altnames", []))}
    for name, pod in running.items():
        if pod["spec"].get("hostNetwork"):
            continue
        number = numbers.get(interface_of(pod["metadata"]["uid"]))
        for pid, _ in machine.process_identity(pod):
            shown = subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", "-j", "link", "show", "eth0"],
                                   capture_output=True, text=True, check=False)
            if shown.returncode and not pathlib.Path(f"/proc/{pid}").exists():
                continue  # it has just ended
            others = [link.get("link_index") for link in json.loads(shown.stdout or "[]")]
            tally.expect(others == [number], f"{name}: process {pid} sees the link of {others}, the pod's is {number}: {shown.stderr}")


def check_pool(machine, tally):
    """As many links lie ready as sandboxes, once those of former agents are gone."""
    wanted = json.loads(machine.config.read_text())["sandboxPoolSize"]
    try:
        machine.wait("the pool has its links", lambda: len(links_ready()) == wanted, 30)
    except TimeoutError:
        tally.expect(False, f"links that lie ready: {links_ready()}, not {wanted}")


def links_of_ours():
    return [link for link in json.loads(ip("-j", "link")) if link["ifname"].startswith("hk")]


def links_ready():
    """No pod's yet."""
    return sorted(link["ifname"] for link in links_of_ours()
                  if link["ifname"].startswith("hkp") and "altnames" not in link)


def links_of_pods():
    """By the names that routes show: those by which the pods' are known. One that lay ready has it as its second."""
    names = {link["ifname"]: link.get("altnames", [link["ifname"]])[0] for link in links_of_ours()}
    return {name: known for name, known in names.items() if name not in links_ready()}


def pod_cgroups(tree):
    """Those in back-off may lose and get theirs at any moment: what goes meanwhile is left out."""
    return [cgroup for cgroup in cgroups_in(tree) if cgroup.name.startswith("pod")]


def leftovers(machine):
    """What is still in the kernel or on disk after everything was deleted."""
    found = []
    for tree in machine.cgroup_trees():
        found += map(str, pod_cgroups(tree))
    found += [link["ifname"] for link in links_of_ours()]
    # There as long as the node is.
    of_the_node = (f" {machine.run} ", f" {machine.run}/pods ", f" {machine.run}/volumes ")
    found += [l for l in pathlib.Path("/proc/self/mounts").read_text().splitlines()
              if str(machine.top) in l and not any(own in l for own in of_the_node)]
    for folder in ("run/pods", "run/volumes", "run/keeper/starts", "run/keeper/exits", "run/keeper/logs", "root/pods",
                   "run/runtime/sandboxes", "run/runtime/containers",
                   "root/images/ingest", "log/pods", "log/containers"):
        if (machine.top / folder).is_dir():
            found += [str(p) for p in (machine.top / folder).iterdir()]
    for kept in ("root/pods.journal", "root/network/pods.journal"):
        found += [f"{kept}: {key}" for key in journal.entries(machine.top / kept)]
    for folder in ("manifests", "root/services", "root/images", "root/network"):
        found += [str(p) for p in (machine.top / folder).rglob(".*.tmp")]
    # Half written, or put aside.
    found += [str(p) for folder in ("root", "root/network") for p in (machine.top / folder).glob("*.journal.*")]
    if shutil.which("nft"):
        rules = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=True)
        found += [l.strip() for l in rules.stdout.splitlines()
                  if re.search(r"10\.123\.0\.\d+ ?:|dnat to", l)]
    for role, pids in {**machine.keepers(), "agent": machine.pids_of("agent")}.items():
        found += [f"{role}: {name}" for pid in pids for name in namespaces_held(pid)]
    return found


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=True).stdout


def namespaces_held(pid):
    """Descriptors of namespaces; an idle process holds none of a pod."""
    found = []
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(fd)
        except OSError:
            continue
        if re.match(r"(net|ipc|uts|pid):\[", target):
            own = os.readlink(f"/proc/{pid}/ns/{target.split(':')[0]}")
            if target != own:
                found.append(target)
    return found
