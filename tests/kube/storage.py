# SPDX-License-Identifier: Apache-2.0
"""PersistentVolumes by their claims; volumes of a storage plugin; block devices."""
import json
import pathlib
import subprocess

from asking import get, inside_pod, pod, pods, restarts, until
from suite import check, equal

HERE = pathlib.Path(__file__).resolve().parent
WAIT = "while :; do sleep 1 & wait; done"


def volume(name, node, **source):
    """A PersistentVolume of one node."""
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "none", **source,
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}}}


CLAIM = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Gi"}}}


def claim(name, volume_name):
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": {**CLAIM, "volumeName": volume_name}}


def with_volume(name, source, script=WAIT, node=None):
    made = pod(name, script, **({"nodeName": node} if node else {}))
    made["spec"]["volumes"] = [{"name": "data", **source}]
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return made


def runs(cluster, name):
    until(f"{name} runs", lambda: get(cluster, "pod", name)["status"]["phase"] == "Running")
    return get(cluster, "pod", name)


def events(cluster, name):
    return [f'{e["reason"]}: {e["message"]}' for e in get(cluster, "events")["items"] if e["involvedObject"]["name"] == name]


def folder(cluster, name):
    made = pathlib.Path(cluster.folder) / name
    made.mkdir(exist_ok=True)
    return str(made)


def test_a_local_and_a_host_path_volume_outlive_their_pods(cluster):
    cluster.apply(volume("disk", "n1", local={"path": folder(cluster, "disk")}),
                  volume("path", "n1", hostPath={"path": folder(cluster, "path")}), claim("disk", "disk"), claim("path", "path"))
    for name in ("disk", "path"):
        source = {"persistentVolumeClaim": {"claimName": name}}
        cluster.apply(with_volume("first", source, f"echo of {name} > /data/file; {WAIT}"))
        equal(runs(cluster, "first")["spec"]["nodeName"], "n1", "the scheduler's choice")
        cluster.kubectl("delete", "pod", "first")
        until("it is gone", lambda: not pods(cluster, "first"))
        source["persistentVolumeClaim"]["readOnly"] = True
        cluster.apply(with_volume("second", source))
        found = runs(cluster, "second")
        equal(inside_pod(cluster, found, "cat", "/data/file"), f"of {name}", "what the first one wrote")
        equal(inside_pod(cluster, found, "sh", "-c", "touch /data/x 2>/dev/null || echo no"), "no", "a use that only reads")
        cluster.kubectl("delete", "pod", "second")
        until("it is gone", lambda: not pods(cluster, "second"))


def test_a_claim_that_is_missing_is_told_and_waited_for(cluster):
    cluster.apply(with_volume("early", {"persistentVolumeClaim": {"claimName": "late"}}, node="n1"))
    until("it is told", lambda: any(
        e.startswith("FailedMount: Unable to attach or mount volumes: unmounted volumes=[data]") and
        'persistentvolumeclaims "late" not found' in e for e in events(cluster, "early")))
    cluster.apply(claim("late", "late"))
    until("it is told that nobody bound it", lambda: any("PVC is not bound" in e for e in events(cluster, "early")))
    cluster.apply(volume("late", "n1", local={"path": folder(cluster, "late")}))
    runs(cluster, "early")
    cluster.kubectl("delete", "pod/early", "pvc/late", "pv/late")


def test_a_volume_of_another_node_is_not_used(cluster):
    cluster.apply(volume("there", "n2", local={"path": folder(cluster, "there")}), claim("there", "there"))
    cluster.apply(with_volume("here", {"persistentVolumeClaim": {"claimName": "there"}}, node="n1"))
    until("it is told", lambda: any(
        'MountVolume.NodeAffinity check failed for volume "there" : no matching NodeSelectorTerms' in e
        for e in events(cluster, "here")))
    cluster.kubectl("delete", "pod/here", "pvc/there", "pv/there")


def test_a_pod_with_a_claim_of_its_own(cluster):
    own = {"ephemeral": {"volumeClaimTemplate": {"spec": {**CLAIM, "volumeName": "own"}}}}
    cluster.apply(volume("own", "n1", local={"path": folder(cluster, "own")}), with_volume("owner", own))
    runs(cluster, "owner")
    equal(get(cluster, "pvc", "owner-data")["status"]["phase"], "Bound", "the claim")
    cluster.kubectl("delete", "pod/owner")
    until("its claim goes with it", lambda: not [c for c in get(cluster, "pvc")["items"] if c["metadata"]["name"] == "owner-data"])
    cluster.kubectl("delete", "pv/own")


def test_without_the_api_server_a_pod_finds_its_volume(cluster):
    cluster.apply(with_volume("steady", {"persistentVolumeClaim": {"claimName": "disk"}}, "echo run >> /data/runs; sleep 1000 & wait"))
    found = runs(cluster, "steady")
    node = cluster.nodes["n1"]
    with cluster.without_api_server():
        node.kill_agent()
        node.ctl("exec", "steady", "--", "sh", "-c", "kill 1", check=False)  # which may end with the container
        until("it runs again", lambda: inside_pod(cluster, found, "cat", "/data/runs").split() == ["run"] * 2)
    until("that is told", lambda: restarts({"steady": get(cluster, "pod", "steady")}) == {"steady": [1]})
    check(not [e for e in events(cluster, "steady") if e.startswith("FailedMount")], "no trouble")
    cluster.kubectl("delete", "pod/steady", "pvc/disk", "pvc/path", "pv/disk", "pv/path")


# --- a storage plugin ---

DRIVER = "disk.holdfast.dev"


class Plugin:
    """tests/kube/csi_driver on a node."""

    def __init__(self, cluster, node):
        built = subprocess.run([HERE / "csi_driver/build"], check=True, capture_output=True, text=True).stdout.strip()
        self.folder = pathlib.Path(folder(cluster, f"plugin-{node}"))
        self.node, self.log = cluster.nodes[node], self.folder / "calls"
        self.words = [*self.node.inside, built, DRIVER, node, self.folder, self.node.top / "root"]
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def stop(self):
        self.process.kill()
        self.process.wait()

    def calls(self, volume):
        return [line.split()[0] for line in self.log.read_text().splitlines() if line.endswith(" " + volume)]

    def hang(self, call):
        (self.folder / f"hang-{call}").touch()

    def let(self, call):
        (self.folder / f"hang-{call}").unlink()

    def mounts(self):
        """Those of volumes of the plugin on the node."""
        table = pathlib.Path(f"/proc/{self.process.pid}/mountinfo").read_text()
        return [line.split()[4] for line in table.splitlines() if "kubernetes.io" in line and "csi" in line.split()[4]]


def plugin_volume(name, **spec):
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
        "csi": {"driver": DRIVER, "volumeHandle": name, "volumeAttributes": {"a": "1"}, **spec}}}


def plugin_pod(name, claim_name, script=WAIT):
    return with_volume(name, {"persistentVolumeClaim": {"claimName": claim_name}}, script, "n1")


def gone(cluster, *names):
    cluster.kubectl("delete", "pod", *names)
    until("they are gone", lambda: not [n for n in names if pods(cluster, n)])


def test_a_storage_plugin_registers_and_the_node_says_so(cluster):
    cluster.plugin = Plugin(cluster, "n1")
    cluster.apply({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": {
        "attachRequired": False, "podInfoOnMount": True, "volumeLifecycleModes": ["Persistent", "Ephemeral"]}})
    until("it is told", lambda: "registered true" in cluster.plugin.log.read_text())
    until("the CSINode has it", lambda: get(cluster, "csinode", "n1")["spec"]["drivers"] == [{
        "name": DRIVER, "nodeID": "id-of-n1", "topologyKeys": [f"topology.{DRIVER}/node"], "allocatable": {"count": 12}}])
    until("and the Node", lambda: get(cluster, "node", "n1")["metadata"]["labels"].get(f"topology.{DRIVER}/node") == "n1")
    equal(json.loads(get(cluster, "node", "n1")["metadata"]["annotations"]["csi.volume.kubernetes.io/nodeid"]),
          {DRIVER: "id-of-n1"}, "its id")


def shown_of_claim(cluster, name):
    """What /stats/summary says of a claim's volume, without its time."""
    summary = json.loads(cluster.kubectl("get", "--raw", "/api/v1/nodes/n1/proxy/stats/summary"))
    shown = [v for p in summary["pods"] for v in p.get("volume", []) if v.get("pvcRef", {}).get("name") == name]
    return {key: value for key, value in shown[0].items() if key not in ("time", "name", "pvcRef")} if shown else None


def test_a_volume_is_staged_published_and_taken_away(cluster):
    cluster.apply(plugin_volume("vol"), claim("vol", "vol"), plugin_pod("one", "vol", f"echo kept > /data/file; {WAIT}"),
                  plugin_pod("two", "vol"))
    found = runs(cluster, "two")
    runs(cluster, "one")
    equal(inside_pod(cluster, found, "cat", "/data/file"), "kept", "what the other pod wrote")
    until("the Node has it in use", lambda: get(cluster, "node", "n1")["status"]["volumesInUse"] == [
        f"kubernetes.io/csi/{DRIVER}^vol"])
    until("its plugin's numbers are shown", lambda: shown_of_claim(cluster, "vol") == {
        "capacityBytes": 4096, "availableBytes": 4000, "usedBytes": 96, "inodes": 12, "inodesFree": 10, "inodesUsed": 2})
    series = 'kubelet_volume_stats_available_bytes{namespace="default",persistentvolumeclaim="vol"} 4000'
    check(series in cluster.kubectl("get", "--raw", "/api/v1/nodes/n1/proxy/metrics"), "no such series")
    gone(cluster, "one", "two")
    calls = cluster.plugin.calls("vol")
    equal(calls[0], "NodeStageVolume", "the first call")
    equal(calls[-3:], ["NodeUnpublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"], "the last ones")
    equal(cluster.plugin.mounts(), [], "mounts that are left")
    until("nothing is in use", lambda: not get(cluster, "node", "n1")["status"].get("volumesInUse"))


def test_a_volume_of_the_pods_own(cluster):
    cluster.apply(with_volume("inline", {"csi": {"driver": DRIVER, "volumeAttributes": {"x": "y"}}}, node="n1"))
    found = runs(cluster, "inline")
    equal(inside_pod(cluster, found, "cat", "/data/pod"), "inline", "what the plugin was told")
    gone(cluster, "inline")
    equal(cluster.plugin.mounts(), [], "mounts that are left")


def test_a_plugin_is_given_tokens_of_the_pods_account_and_asked_again(cluster):
    """As plugins want it that bring secrets of a store to pods."""
    wishes = {"requiresRepublish": True, "tokenRequests": [{"audience": "store", "expirationSeconds": 600}]}
    cluster.kubectl("patch", "csidriver", DRIVER, "--type=merge", "-p", json.dumps({"spec": wishes}))
    inline = {"csi": {"driver": DRIVER, "volumeAttributes": {"csi.storage.k8s.io/pod.name": "somebody else"}}}
    cluster.apply(with_volume("reader", inline, node="n1"))
    found = runs(cluster, "reader")
    equal(inside_pod(cluster, found, "cat", "/data/pod"), "reader", "whose it is, whatever its attributes say")

    def token():
        return json.loads(inside_pod(cluster, found, "cat", "/data/tokens"))["store"]

    first = token()
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
              "spec": {"token": first["token"], "audiences": ["store"]}}
    said = json.loads(cluster.kubectl("create", "-f", "-", "-o", "json", text=json.dumps(review)))["status"]
    equal((said["authenticated"], said["user"]["username"]), (True, "system:serviceaccount:default:default"), "whose token it is")
    equal(said["user"]["extra"]["authentication.kubernetes.io/pod-name"], ["reader"], "which pod's")
    check(first["expirationTimestamp"].endswith("Z"), first["expirationTimestamp"])
    inside_pod(cluster, found, "rm", "/data/tokens")
    until("the plugin writes it anew", lambda: token()["token"], 120)
    gone(cluster, "reader")
    equal(cluster.plugin.mounts(), [], "mounts that are left")
    cluster.kubectl("patch", "csidriver", DRIVER, "--type=merge", "-p", json.dumps({"spec": {key: None for key in wishes}}))


def resized(cluster, name, size):
    """What an external resizer does for a claim, once the storage itself has grown."""
    cluster.kubectl("patch", "pv", name, "--type=merge", "-p", json.dumps({"spec": {"capacity": {"storage": size}}}))
    cluster.kubectl("patch", "pvc", name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": {
        "allocatedResources": {"storage": size}, "allocatedResourceStatuses": {"storage": "NodeResizePending"},
        "conditions": [{"type": "FileSystemResizePending", "status": "True"}]}}))


def test_a_claim_that_is_given_more_room_while_its_pod_runs(cluster):
    cluster.apply(plugin_volume("growing"), claim("growing", "growing"), plugin_pod("grower", "growing"))
    found = runs(cluster, "grower")
    resized(cluster, "growing", "2Gi")
    status = lambda: get(cluster, "pvc", "growing")["status"]
    until("it has its size", lambda: status()["capacity"]["storage"] == "2Gi", 150)
    equal((status().get("conditions"), status().get("allocatedResourceStatuses")), (None, None), "what is left to do")
    equal(inside_pod(cluster, found, "cat", "/data/size"), str(2 << 30), "what the plugin was asked for")
    told = 'FileSystemResizeSuccessful: MountVolume.NodeExpandVolume succeeded for volume "growing" n1'
    until("the pod is told", lambda: told in events(cluster, "grower"))
    until("and who has the claim", lambda: told in events(cluster, "growing"))
    resized(cluster, "growing", "2Ti")
    until("what cannot be is told", lambda: status()["allocatedResourceStatuses"]["storage"] == "NodeResizeInfeasible", 150)
    error = {c["type"]: c.get("message") for c in status()["conditions"]}["NodeResizeError"]
    check(error.endswith("rpc error: code = OutOfRange desc = no disk is as large"), error)
    equal(restarts({"grower": get(cluster, "pod", "grower")}), {"grower": [0]}, "restarts")
    gone(cluster, "grower")
    cluster.kubectl("delete", "pvc/growing", "pv/growing")


def test_a_plugin_that_hangs_holds_up_its_own_pods_only(cluster):
    plugin = cluster.plugin
    plugin.hang("NodePublishVolume")
    cluster.apply(*[plugin_pod(f"stuck-{n}", "vol") for n in range(3)])
    until("it is asked", lambda: plugin.calls("vol")[-1] == "NodePublishVolume")
    cluster.apply(pod("free", WAIT, nodeName="n1"))
    runs(cluster, "free")
    gone(cluster, "stuck-2", "free")
    plugin.let("NodePublishVolume")
    runs(cluster, "stuck-0")
    runs(cluster, "stuck-1")
    gone(cluster, "stuck-0", "stuck-1")
    equal(plugin.mounts(), [], "mounts that are left")


def test_an_agent_that_is_killed_between_its_calls(cluster):
    plugin, node = cluster.plugin, cluster.nodes["n1"]
    plugin.hang("NodePublishVolume")
    cluster.apply(plugin_pod("killed", "vol"))
    asked = len(plugin.calls("vol"))
    until("it is staged", lambda: plugin.calls("vol")[asked:][-1:] == ["NodePublishVolume"])
    node.kill_agent()
    plugin.let("NodePublishVolume")
    runs(cluster, "killed")
    plugin.hang("NodeUnpublishVolume")
    cluster.kubectl("delete", "pod", "killed", "--wait=false")
    until("it is being taken away", lambda: plugin.calls("vol")[-1] == "NodeUnpublishVolume")
    node.kill_agent()
    plugin.let("NodeUnpublishVolume")
    until("it is gone", lambda: not pods(cluster, "killed"))
    equal(plugin.calls("vol")[-1], "NodeUnstageVolume", "the last call")
    equal(plugin.mounts(), [], "mounts that are left")


# --- block devices ---

BLOCK = {"volumeMode": "Block"}


def block_claim(name, volume_name):
    made = claim(name, volume_name)
    made["spec"].update(BLOCK)
    return made


def block_pod(name, claim_name, script=WAIT, read_only=False):
    made = pod(name, script, nodeName="n1")
    made["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name, "readOnly": read_only}}]
    made["spec"]["containers"][0]["volumeDevices"] = [{"name": "data", "devicePath": "/dev/xvda"}]
    return made


def test_a_block_device_of_a_plugin(cluster):
    raw = plugin_volume("raw")
    raw["spec"].update(BLOCK)
    cluster.apply(raw, block_claim("raw", "raw"), block_pod("writer", "raw", f"echo kept > /dev/xvda; {WAIT}"))
    writer = runs(cluster, "writer")
    until("it wrote", lambda: inside_pod(cluster, writer, "head", "-n1", "/dev/xvda") == "kept")
    cluster.apply(block_pod("reader", "raw", read_only=True))
    reader = runs(cluster, "reader")
    equal(inside_pod(cluster, reader, "head", "-n1", "/dev/xvda"), "kept", "what the other pod wrote")
    equal(inside_pod(cluster, reader, "sh", "-c", "echo x > /dev/xvda 2>/dev/null || echo no"), "no", "a use that only reads")
    resized(cluster, "raw", "2Gi")
    until("the claim has its size", lambda: get(cluster, "pvc", "raw")["status"]["capacity"]["storage"] == "2Gi", 150)
    device = cluster.loop_devices("raw.img")[0]
    equal(int(pathlib.Path(f"/sys/block/{device}/size").read_text()) * 512, 2 << 30, "and so has the device")
    gone(cluster, "writer", "reader")
    calls = cluster.plugin.calls("raw")
    equal(calls[0], "NodeStageVolume", "the first call")
    equal(calls[-3:], ["NodeUnpublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"], "the last ones")
    equal((cluster.plugin.mounts(), cluster.loop_devices("raw.img")), ([], []), "mounts and devices that are left")


def test_an_agent_that_is_killed_between_the_calls_for_a_block_device(cluster):
    plugin, node = cluster.plugin, cluster.nodes["n1"]
    plugin.hang("NodePublishVolume")
    asked = len(plugin.calls("raw"))
    cluster.apply(block_pod("killed", "raw"))
    until("it is staged", lambda: plugin.calls("raw")[asked:][-1:] == ["NodePublishVolume"])
    node.kill_agent()
    plugin.let("NodePublishVolume")
    found = runs(cluster, "killed")
    until("it reads what is on it", lambda: inside_pod(cluster, found, "head", "-n1", "/dev/xvda") == "kept")
    node.kill_agent()
    until("and after another kill", lambda: inside_pod(cluster, found, "head", "-n1", "/dev/xvda") == "kept")
    plugin.hang("NodeUnpublishVolume")
    cluster.kubectl("delete", "pod", "killed", "--wait=false")
    until("it is being taken away", lambda: plugin.calls("raw")[-1] == "NodeUnpublishVolume")
    node.kill_agent()
    plugin.let("NodeUnpublishVolume")
    until("it is gone", lambda: not pods(cluster, "killed"))
    equal(plugin.calls("raw")[-1], "NodeUnstageVolume", "the last call")
    equal((plugin.mounts(), cluster.loop_devices("raw.img")), ([], []), "mounts and devices that are left")


def test_a_block_device_is_no_directory(cluster):
    cluster.apply(plugin_pod("mounting", "raw"))
    told = "volume data has volumeMode Block, but is specified in volumeMounts"
    until("it is told", lambda: any(e.startswith("FailedMount: ") and e.endswith(told) for e in events(cluster, "mounting")))
    gone(cluster, "mounting")
    cluster.kubectl("delete", "pvc/raw", "pv/raw")


def test_a_local_block_device(cluster):
    image = pathlib.Path(cluster.folder) / "local.img"
    image.write_bytes(b"of the node\n".ljust(1 << 20, b"\0"))
    device = subprocess.run(["losetup", "--find", "--show", image], check=True, capture_output=True, text=True).stdout.strip()
    link = pathlib.Path(cluster.folder) / "by-id"
    link.symlink_to(device)
    try:
        cluster.apply(volume("blank", "n1", local={"path": str(link)}, **BLOCK), block_claim("blank", "blank"),
                      block_pod("local", "blank"))
        found = runs(cluster, "local")
        equal(inside_pod(cluster, found, "head", "-n1", "/dev/xvda"), "of the node", "what is on it")
        gone(cluster, "local")
        cluster.apply(volume("folder", "n1", local={"path": folder(cluster, "no-device")}, **BLOCK),
                      block_claim("folder", "folder"), block_pod("mistaken", "folder"))
        until("what is none is told", lambda: any(
            e.startswith('FailedMapVolume: MapVolume.MapBlockVolume failed for volume "folder" : path ') and
            e.endswith("is no block device") for e in events(cluster, "mistaken")))
        gone(cluster, "mistaken")
        cluster.kubectl("delete", "pvc/blank", "pv/blank", "pvc/folder", "pv/folder")
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
    until("nobody has it open", lambda: not cluster.loop_devices("local.img"))


def test_a_volume_that_must_be_attached_waits_for_that(cluster):
    cluster.kubectl("delete", "csidriver", DRIVER)
    cluster.apply({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": {}})
    cluster.apply(plugin_volume("remote"), claim("remote", "remote"), plugin_pod("attached", "remote"))
    until("the controller asks for it", lambda: get(cluster, "volumeattachments")["items"])
    attachment = get(cluster, "volumeattachments")["items"][0]
    equal((attachment["spec"]["nodeName"], attachment["metadata"]["name"][:4]), ("n1", "csi-"), "the attachment")
    equal(cluster.plugin.calls("remote"), [], "calls before it is attached")
    # What an external attacher says.
    cluster.kubectl("patch", "volumeattachment", attachment["metadata"]["name"], "--subresource=status", "--type=merge",
                    "-p", '{"status": {"attached": true, "attachmentMetadata": {"device": "vdb"}}}')
    runs(cluster, "attached")
    gone(cluster, "attached")
    until("it is detached", lambda: not get(cluster, "volumeattachments")["items"])


def test_the_plugin_goes(cluster):
    cluster.kubectl("delete", "pvc/vol", "pv/vol", "pvc/remote", "pv/remote", f"csidriver/{DRIVER}")
    cluster.plugin.stop()
    (cluster.nodes["n1"].top / f"root/plugins_registry/{DRIVER}-reg.sock").unlink()
    until("the CSINode has it no more", lambda: not get(cluster, "csinode", "n1")["spec"]["drivers"])
