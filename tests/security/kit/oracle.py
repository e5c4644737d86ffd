# SPDX-License-Identifier: Apache-2.0
"""What must be the same after an attack as before: the node outside of Holdfast's directories, and what
the agent itself holds."""
import hashlib
import json
import os
import pathlib
import stat
import subprocess
import time

from machine import cgroups_in

SWITCHES = ("kernel/core_pattern", "kernel/modprobe", "kernel/hotplug", "kernel/sysrq", "kernel/hostname",
            "kernel/random/boot_id", "kernel/panic", "vm/overcommit_memory", "net/ipv4/ip_forward",
            "net/ipv4/conf/all/route_localnet", "net/ipv4/conf/all/accept_redirects")
PROGRAMS = ("holdfastd", "holdfast-keeper", "holdfast-init", "holdfast-unpack", "holdfast-fetch", "holdctl")
MOST_GROWTH_KIB = 40 << 10
SECRET = "SECRET-OF-THE-NODE"


def text_of(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError as error:
        return str(error.errno)


def tree(top):
    """Every file below: type, mode, owner, time, links, content."""
    found = {}
    for path in [top, *sorted(top.rglob("*"))]:
        st = path.lstat()
        what = [oct(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns, st.st_nlink]
        if stat.S_ISREG(st.st_mode):
            what.append(hashlib.sha256(path.read_bytes()).hexdigest())
        if stat.S_ISLNK(st.st_mode):
            what.append(os.readlink(path))
        found[str(path)] = what
    return found


def said(*words):
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def links():
    """But for those that lie ready for pods to come: each pod takes one, and another comes in its place."""
    return sorted(link["ifname"] for link in json.loads(said("ip", "-j", "link"))
                  if not link["ifname"].startswith("hkp") or "ifalias" in link)


class Oracle:
    """`canary`: the node's own files, made here. `node`: the agent that is attacked."""

    def __init__(self, canary, programs, node):
        self.canary = canary
        self.programs = programs
        self.node = node

    @staticmethod
    def plant(canary, proof):
        """A tree that only root may read, with a program, a secret, a container's log and a decoy /dev."""
        for folder in ("", "bin", "dir", "dev", "log"):
            (canary / folder).mkdir(parents=True, mode=0o700)
        (canary / "bin/proof").write_bytes(proof.read_bytes())
        (canary / "bin/proof").chmod(0o755)
        (canary / "secret").write_text(SECRET + "\n")
        (canary / "secret").chmod(0o600)
        (canary / "dir/file").write_text("untouched\n")
        (canary / "dev/ptmx").write_text("decoy\n")
        for run in range(3):
            (canary / f"log/{run}.log").write_text(f"2026-01-01T00:00:00.000000000Z stdout F {SECRET}\n")
        # Only root's files, but the way to them is open, so that a mode and nothing else guards them.
        for folder in ("", "bin"):
            (canary / folder).chmod(0o755)

    def look(self):
        """Fact -> value."""
        facts = {f"canary {path}": value for path, value in tree(self.canary).items()}
        facts.update({f"/proc/sys/{name}": text_of("/proc/sys/" + name) for name in SWITCHES})
        facts["/sys/kernel/uevent_helper"] = text_of("/sys/kernel/uevent_helper")
        for agent in pathlib.Path("/sys/fs/cgroup").glob("*/release_agent"):
            facts[str(agent)] = text_of(agent)
        facts["listing of /"] = sorted((p.name, oct(p.lstat().st_mode)) for p in pathlib.Path("/").iterdir())
        for name in PROGRAMS:
            facts[f"program {name}"] = hashlib.sha256((self.programs / name).read_bytes()).hexdigest()
        facts["mounts"] = sorted(line.split(" ", 2)[2] for line in
                                 text_of("/proc/self/mountinfo").splitlines())
        facts["links"] = links()
        facts["routes"] = said("ip", "route") + said("ip", "-6", "route")
        facts["cgroups"] = sorted(str(p) for t in self.node.cgroup_trees() for p in cgroups_in(t))
        facts["pods"] = sorted(p.name for p in (self.node.top / "root/pods").glob("*"))
        return facts

    def held(self):
        """What agent and keeper hold: name -> number."""
        holds = {}
        for role in ("agent", "hold", "launch", "log"):
            for pid in self.node.pids_of(role)[:1]:
                holds[f"{role} descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
                holds[f"{role} threads"] = len(os.listdir(f"/proc/{pid}/task"))
                holds[f"{role} zombies"] = zombies(pid)
                holds[f"{role} RSS"] = int(text_of(f"/proc/{pid}/statm").split()[1]) * 4
        return holds

    def differences(self, before, held_before, patience=15):
        """What is not as it was; waits for what is still being cleaned up."""
        deadline = time.monotonic() + patience
        while True:
            found = list(self.compare(before, held_before))
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.3)

    def compare(self, before, held_before):
        now = self.look()
        for fact in sorted(before.keys() | now.keys()):
            if before.get(fact) != now.get(fact):
                yield f"{fact}: {shown(before.get(fact), now.get(fact))}"
        # Pools of threads grow to their bounds with the first crowd; a connection to each keeper process is kept.
        slack = {"descriptors": 8 + 3, "threads": 48, "zombies": 0, "RSS": MOST_GROWTH_KIB}
        for what, value in self.held().items():
            allowed = held_before.get(what, value) + slack[what.split()[1]]
            if value > allowed:
                yield f"{what}: {held_before[what]} before, {value} after"


def shown(before, after):
    if isinstance(before, list) and isinstance(after, list):
        gone, new = [x for x in before if x not in after], [x for x in after if x not in before]
        return f"gone {gone[:4]}, new {new[:4]}"
    return f"{str(before)[:200]} became {str(after)[:200]}"


def zombies(parent):
    count = 0
    for children in pathlib.Path(f"/proc/{parent}/task").glob("*/children"):
        for pid in text_of(children).split():
            count += ") Z " in text_of(f"/proc/{pid}/stat")
    return count
