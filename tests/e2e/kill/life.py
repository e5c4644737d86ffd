# SPDX-License-Identifier: Apache-2.0
"""One life of pods, images, execs and leftovers: every action that changes something, so that every
pause point is passed. Each step is repeated until it has succeeded, as its caller would, for any
process may be killed meanwhile; what must hold in spite of that is checked."""
import io
import os
import subprocess
import tarfile

import logs
import pods
from machine import cgroups_of_pod
from pods import IMAGE, container, manifest

NODE_MAC = "02:68:66:00:00:01"  # netproxy/podnet/wiring.h
STUBBORN = "trap '' TERM; echo begin; while :; do sleep 1000 & wait $!; done"


def interface_of(uid):
    """netproxy/podnet/wiring.cc: FNV-1a of the uid, lowest digit first."""
    value = 0xcbf29ce484222325
    for byte in uid.encode():
        value = ((value ^ byte) * 0x100000001b3) % 2**64
    return "hk" + "".join("0123456789abcdef"[(value >> (4 * i)) & 15] for i in range(11))


class Life:
    """`owners_died`: how often so far holder and launcher, or holder and logger, died together. When they
    did in this life, how its short-lived containers ended is not looked at."""

    def __init__(self, machine, tally, number, owners_died=lambda: 0):
        self.owners_died = owners_died
        self.owners_had_died = owners_died()
        self.ends_checked = False
        self.machine = machine
        self.tally = tally
        self.name = f"life{number}"
        self.number = number
        self.patience = 120

    def run(self):
        self.import_and_remove_image()
        self.apply()
        self.check_ends()
        self.serve()
        self.resize()
        self.execute()
        self.leave_and_repair()
        self.upgrade()
        self.delete()
        self.come_back_while_the_interface_is_there()

    # --- steps ---

    def insist(self, what, step, patience=None):
        """Repeats `step` until it is true; a call that fails because its server was killed is
        made again."""
        self.machine.wait(f"{self.name}: {what}", step, patience or self.patience)

    def ctl(self, *words, **more):
        return self.machine.ctl(*words, **more)

    def works(self, *words):
        return self.ctl(*words, check=False).returncode == 0

    def import_and_remove_image(self):
        file = self.machine.top / f"{self.name}.tar"
        with tarfile.open(file, "w") as tar:
            info = tarfile.TarInfo("only")
            info.size = len(self.name)
            tar.addfile(info, io.BytesIO(self.name.encode()))
        name = f"test/{self.name}:1"
        self.insist("image imported", lambda: self.works("image", "import", file, "--name", name))
        self.insist("image shown", lambda: f"test/{self.name}" in self.ctl("image", "ls").stdout)
        def gone():
            if f"test/{self.name}" not in self.ctl("image", "ls").stdout:
                return True
            self.works("image", "rm", name)
            return False
        self.insist("image removed", gone)
        file.unlink()

    def pods(self):
        """Pods that pass every step of the making and removing of pods."""
        host = self.machine.top / f"host-{self.name}"
        volumes = [{"name": "disk", "emptyDir": {}},
                   {"name": "memory", "emptyDir": {"medium": "Memory"}},
                   {"name": "image", "image": {"reference": IMAGE, "pullPolicy": "Never"}},
                   {"name": "host", "hostPath": {"path": str(host), "type": "DirectoryOrCreate"}}]
        mounts = [{"name": v["name"], "mountPath": "/" + v["name"]} for v in volumes]
        # Who joins a container's namespaces last has the container's root already when it arrives at
        # its point: the folder of the points is in there too.
        pauses = [{"name": "pauses", "hostPath": {"path": str(self.machine.pauses)}}]
        see_pauses = [{"name": "pauses", "mountPath": str(self.machine.pauses)}]
        return {
            "main": manifest(f"{self.name}-main", [
                container("main", STUBBORN, volumeMounts=mounts + see_pauses,
                          ports=[{"containerPort": 80, "hostPort": 18000 + self.number}]),
                container("term", "echo begin; cat", tty=True, stdin=True),
                container("pipe", "echo begin; cat", stdin=True)],
                initContainers=[container("init", "echo begin")], volumes=volumes + pauses),
            # Hooks that run no program: one that dies with the launcher fails, and its container goes for it.
            "shared": manifest(f"{self.name}-shared", [container(
                "main", STUBBORN, volumeMounts=see_pauses,
                lifecycle={"postStart": {"sleep": {"seconds": 0}}, "preStop": {"sleep": {"seconds": 0}}},
                readinessProbe={"exec": {"command": ["true"]}, "periodSeconds": 1})],
                               shareProcessNamespace=True, volumes=pauses),
            "users": manifest(f"{self.name}-users", [
                container("main", STUBBORN), container("second", STUBBORN)], hostUsers=False),
            "brief": manifest(f"{self.name}-brief", [container("main", "echo begin; exit 7")],
                              restartPolicy="Never"),
            "oom": manifest(f"{self.name}-oom", [
                container("main", "exec tail /dev/zero",
                          resources={"limits": {"memory": "16Mi", "cpu": "500m"}})],
                restartPolicy="Never"),
        }

    def apply(self):
        self.manifests = self.pods()
        for short, body in self.manifests.items():
            file = self.machine.top / f"{self.name}-{short}.json"
            file.write_text(pods.json.dumps(body))
            self.insist(f"{short} applied", lambda f=file: self.works("apply", "-f", f))
            file.unlink()
        def started():
            seen = self.machine.patient_pods()
            return (all(seen[f"{self.name}-{s}"]["status"]["phase"] == "Running"
                        for s in ("main", "shared", "users"))
                    and all(seen[f"{self.name}-{s}"]["status"]["phase"] == "Failed"
                            for s in ("brief", "oom")))
        self.insist("pods run", started)

    def check_ends(self):
        """Each container began once, and ended as it did."""
        if self.owners_died() != self.owners_had_died:
            return
        self.ends_checked = True
        seen = self.machine.patient_pods()
        for short, code, reasons in (("brief", 7, ("Error",)), ("oom", 137, ("OOMKilled",))):
            status = seen[f"{self.name}-{short}"]["status"]["containerStatuses"][0]
            ended = status["state"].get("terminated", {})
            self.tally.expect(ended.get("exitCode") == code and ended.get("reason") in reasons
                              and status["restartCount"] == 0,
                              f"{self.name}-{short}: ended as {status}")
        for short in ("main", "shared", "users", "brief"):
            pod = seen[f"{self.name}-{short}"]
            for kind in ("containerStatuses", "initContainerStatuses"):
                for status in pod["status"].get(kind, []):
                    self.check_began_once(pod, status)

    def check_began_once(self, pod, status):
        meta = pod["metadata"]
        folder = f"default_{meta['name']}_{meta['uid']}"
        lines = []
        def written():
            lines[:] = logs.payload_lines(self.machine.logs, folder, status["name"])
            return lines
        try:
            self.insist(f"log of {status['name']}", written, 30)
        except TimeoutError:
            pass
        told = [line.strip() for line in lines]
        # Who stops at launch.successor_cloned is on the way to become the container itself: killed
        # there, the start has failed and is made again as the next attempt.
        attempts = (0, 1) if meta["name"].startswith(f"{self.name}-users") else (0,)
        self.tally.expect(told == [b"begin"] and status["restartCount"] in attempts,
                          f"{meta['name']} {status['name']}: {told}, {status['restartCount']} restarts")

    def serve(self):
        """A Service that gets its address from the node, and goes again."""
        file = self.machine.top / f"{self.name}-service.json"
        file.write_text(pods.json.dumps({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": self.name},
            "spec": {"selector": {"app": self.name}, "ports": [{"port": 80}]}}))
        self.insist("service applied", lambda: self.works("apply", "-f", file))
        file.unlink()
        def address():
            said = self.ctl("get", "services", self.name, "-o", "json", check=False)
            return said.returncode == 0 and pods.json.loads(said.stdout)["spec"].get("clusterIP")
        self.insist("service has an address", address)
        def gone():
            if self.name not in self.ctl("get", "services", "-o", "name").stdout:
                return True
            self.works("delete", "service", self.name)
            return False
        self.insist("service removed", gone)
        self.serve_udp()
        self.change_proxy_mode()

    def serve_udp(self):
        """A UDP Service whose endpoint moves: its flows are looked at."""
        names = service, piece = f"{self.name}-udp", f"{self.name}-udp-slice"
        address = f"10.96.77.{self.number + 1}"
        pods.write_manifest(self.machine.manifests, service, {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": f"{self.name}-udp"},
            "spec": {"clusterIP": address, "ports": [{"port": 53, "protocol": "UDP"}]}})
        for endpoint in ("198.51.100.1", "198.51.100.2"):
            pods.write_manifest(self.machine.manifests, piece, {
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": f"{self.name}-udp-1",
                             "labels": {"kubernetes.io/service-name": f"{self.name}-udp"}},
                "ports": [{"port": 53, "protocol": "UDP"}],
                "endpoints": [{"addresses": [endpoint]}]})
            self.insist(f"rules lead to {endpoint}", lambda e=endpoint: e in self.rules("nftables"))
        for name in names:
            (self.machine.manifests / f"{name}.json").unlink()
        self.insist("rules gone", lambda: address not in self.rules("nftables"))

    def change_proxy_mode(self):
        """To iptables and back; whoever is killed meanwhile starts in the mode of the file."""
        for mode, other in (("iptables", "nftables"), ("nftables", "iptables")):
            def changed(m=mode, o=other):
                self.machine.set_config(proxyMode=m)
                return (self.machine.hang_up() and self.rules(m) and not self.rules(o))
            self.insist(f"services by {mode}", changed)

    def rules(self, mode):
        """What the kernel has of Services."""
        if mode == "nftables":
            said = subprocess.run(["nft", "list", "table", "ip", f"{self.machine.table}-services"],
                                  capture_output=True, text=True, check=False)
            return said.stdout if said.returncode == 0 else ""
        saved = [subprocess.run([f"iptables-{kind}-save"], capture_output=True, text=True,
                                check=False).stdout for kind in ("nft", "legacy")]
        return "".join(text for text in saved if "KUBE-" in text)

    def execute(self):
        target = f"{self.name}-main-{self.machine.node}"
        def command(code, *flags):
            return self.ctl("exec", *flags, target, "-c", "main", "--", "/bin/sh", "-c", f"exit {code}",
                            check=False, timeout=20).returncode == code
        self.insist("exec", lambda: command(55))
        self.insist("exec with a terminal", lambda: command(56, "-i", "-t"))
        seen = []
        def in_its_users():
            target = f"{self.name}-users-{self.machine.node}"
            seen[:] = self.ctl("exec", target, "-c", "second", "--", "/bin/cat", "/proc/self/uid_map",
                               check=False, timeout=20).stdout.split()
            return len(seen) == 3
        self.insist("exec with users of its own", in_its_users)
        self.tally.expect(int(seen[1]) >= 65536, f"{self.name}-users: uid map of an exec {seen}")

    def resize(self):
        """A pod of a UID of its own gets more, then less; its container goes on."""
        name = f"{self.name}-sized"
        runs = set()
        for cpu, memory in ((20, 32), (40, 64), (10, 24)):
            body = manifest(name, [container("main", STUBBORN, resources={
                "requests": {"cpu": f"{cpu}m", "memory": "16Mi"}, "limits": {"cpu": f"{cpu * 10}m", "memory": f"{memory}Mi"}})])
            body["metadata"]["uid"] = f"22222222-0000-4000-8000-{self.number:012d}"
            pods.write_manifest(self.machine.manifests, name, body)
            def resized(wanted=f"{cpu}m"):
                status = self.machine.pods()[name]["status"]
                if "PodResizeInProgress" in {c["type"] for c in status["conditions"]}:
                    return False
                main = status["containerStatuses"][0]
                has = "running" in main["state"] and main["resources"]["requests"]["cpu"] == wanted
                if has:
                    runs.add(main["containerID"])
                return has
            self.insist(f"{name} has {cpu}m", resized)
            limits = {int((cgroup / file).read_text()) for tree in self.machine.cgroup_trees()
                      for cgroup in cgroups_of_pod(tree, body["metadata"]["uid"])
                      for file in ("memory.max", "memory.limit_in_bytes") if (cgroup / file).exists()}
            self.tally.expect(limits == {memory << 20}, f"{name}: limits {limits}, not {memory} MiB")
        self.tally.expect(len(runs) == 1, f"{name}: {len(runs)} runs of its container")
        (self.machine.manifests / f"{name}.json").unlink()
        self.insist(f"{name} gone", lambda: name not in self.machine.pods())

    def leave_and_repair(self):
        """What a crash of long ago might have left: check finds it, --repair takes it away."""
        uid = f"00000000-0000-4000-8000-{self.number:012d}"
        link = interface_of(uid)
        for tree in self.machine.container_trees()[:2]:
            (tree / f"kubepods/besteffort/pod{uid}").mkdir()
        subprocess.run(["ip", "link", "add", link, "address", NODE_MAC, "type", "veth",
                        "peer", "name", f"peer{self.number}"], check=True)
        def repaired():
            self.works("check", "--repair")
            return self.works("check")
        self.insist("leftovers repaired", repaired)
        still = subprocess.run(["ip", "link", "show", link], capture_output=True, check=False)
        self.tally.expect(still.returncode != 0, f"{self.name}: {link} was not repaired")
        self.tally.expect(not any((t / f"kubepods/besteffort/pod{uid}").exists()
                                  for t in self.machine.cgroup_trees()), f"{self.name}: cgroup stayed")

    def upgrade(self):
        def upgraded():
            self.machine.upgrade_keeper()
            return True
        self.insist("keeper upgraded in place", upgraded)

    def delete(self):
        for short in self.manifests:
            name = f"{self.name}-{short}"
            def deleted(n=name):
                return (self.works("delete", "pod", n)
                        or not list(self.machine.manifests.glob(f"pod_*{n}.*")))
            self.insist(f"{short} deleted", deleted)
        self.insist("pods gone", lambda: not any(
            n.startswith(self.name) for n in self.machine.pods()))

    def come_back_while_the_interface_is_there(self):
        """A pod of the same uid is made again while somebody else still holds the namespace of the
        first: it gets the same address, and its old interface is taken out of the way."""
        name = f"{self.name}-fixed"
        body = manifest(name, [container("main", pods.SLEEPER)])
        body["metadata"]["uid"] = f"11111111-0000-4000-8000-{self.number:012d}"
        addresses = []
        held = None
        for _ in range(2):
            pods.write_manifest(self.machine.manifests, name, body)
            self.insist(f"{name} runs", lambda: self.machine.pods()[name]["status"]["phase"] == "Running")
            pod = self.machine.patient_pods()[name]
            addresses.append(pod["status"]["podIP"])
            if held is None:
                (pid, _), = self.machine.process_identity(pod)
                held = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            (self.machine.manifests / f"{name}.json").unlink()
            self.insist(f"{name} gone", lambda: name not in self.machine.pods())
        os.close(held)
        self.tally.expect(addresses[0] == addresses[1], f"{name}: {addresses}")
