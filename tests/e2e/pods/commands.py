# SPDX-License-Identifier: Apache-2.0
"""A person at the command line: images, apply, logs, delete, check."""
import json
import pathlib
import subprocess
import tempfile

from node import IMAGE, WAIT_FOR_TERM
from suite import check, equal


def test_images_come_from_directories_and_standard_output(node):
    with tempfile.TemporaryDirectory() as folder:
        archive = pathlib.Path(folder) / "image.tar"
        layout = pathlib.Path(folder) / "layout"
        with open(archive, "wb") as out:
            subprocess.run([node.bin / "holdctl", "--socket", node.run / "holdfastd.sock", "image", "export",
                            IMAGE], stdout=out, check=True)
        layout.mkdir()
        subprocess.run(["tar", "-xf", archive, "-C", layout], check=True)
        for source, name in ((layout, "test/from-layout:1"), (archive, "test/from-archive:latest")):
            said = node.ctl("image", "import", source, "--name", name.removesuffix(":latest")).stdout
            check(said.startswith(f"image/docker.io/{name} imported ("), said)
    images = json.loads(node.ctl("image", "ls", "-o", "json").stdout)["items"]
    tags = [sorted(image["repoTags"]) for image in images]
    equal(tags, [sorted(f"docker.io/{n}" for n in (IMAGE, "test/from-archive:latest", "test/from-layout:1"))],
          "one image with three names")
    node.pod("layout", containers=[{**node.container("main", "echo from a layout"), "image": "test/from-layout:1"}],
             restartPolicy="Never")
    node.phase("layout", "Succeeded")
    equal(node.log("layout"), "from a layout\n", "log")
    node.remove("layout")
    node.until_gone("layout")
    for name in ("test/from-layout:1", "test/from-archive"):
        equal(node.ctl("image", "rm", name).stdout, f'image "{name}" removed\n', "removal")


def test_a_person_at_the_command_line(node):
    container = {"image": IMAGE, "imagePullPolicy": "Never"}
    script = "for i in 1 2 3; do echo {0}$i; done; exec sleep 1000"
    manifest = node.top / "typed.json"
    manifest.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "typed", "labels": {"by": "hand"}},
        "spec": {"dnsPolicy": "Default", "terminationGracePeriodSeconds": 0, "containers": [
            {"name": n, "command": ["/bin/sh", "-c", script.format(n)], **container} for n in ("a", "b")]}}))
    watch = subprocess.Popen([node.bin / "holdctl", "--socket", node.run / "holdfastd.sock", "get", "pods", "-w",
                              "-l", "by=hand", "--no-headers"], stdout=subprocess.PIPE, text=True)
    equal(node.ctl("apply", "-f", manifest).stdout, "pod/typed created\n", "apply")
    equal(node.ctl("apply", "-f", manifest).stdout, "pod/typed unchanged\n", "apply again")
    node.ctl("wait", "--for=condition=Ready", "pod/typed", "--timeout=30s")
    node.wait("both logs", lambda: node.ctl("logs", "typed", "--all-containers").stdout == "a1\na2\na3\nb1\nb2\nb3\n")
    equal(node.ctl("logs", "typed", "-c", "b").stdout, "b1\nb2\nb3\n", "one container")
    said = node.ctl("logs", "typed")
    equal((said.stdout, said.stderr), ("a1\na2\na3\n", 'Defaulted container "a" out of: a, b\n'), "the first one")
    equal(sorted(node.ctl("logs", "typed", "--all-containers", "--prefix").stdout.split("\n"))[1],
          f"[pod/typed-{node.node}/a] a1", "prefix")
    follow = subprocess.Popen([node.bin / "holdctl", "--socket", node.run / "holdfastd.sock", "logs", "-f", "typed",
                               "--all-containers"], stdout=subprocess.PIPE, text=True)
    followed = [follow.stdout.readline() for _ in range(6)]
    equal(sorted(followed), [f"{n}{i}\n" for n in "ab" for i in (1, 2, 3)], "followed")
    equal(node.ctl("delete", "-f", manifest).stdout, 'pod "typed" deleted from default namespace\n', "delete")
    equal(follow.wait(20), 0, "following ends with the pod")
    again = node.ctl("delete", "-f", manifest, check=False)
    equal((again.returncode, again.stderr), (1, 'Error from server (NotFound): pods "typed" not found\n'), "again")
    node.until_gone("typed")
    watch.terminate()
    rows = [line.split() for line in watch.communicate()[0].splitlines()]
    states = [f"{row[1]} {row[2]}" for row in rows]
    check("2/2 Running" in states and "2/2 Terminating" in states, f"watched: {states}")


def test_the_node_is_described_with_what_its_pods_ask_for(node):
    node.pod("asks", containers=[node.container("main", WAIT_FOR_TERM, resources={"requests": {"cpu": "150m"}})])
    node.phase("asks", "Running")
    said = node.ctl("describe", "node").stdout
    rows = [line.split() for line in said.splitlines() if f"asks-{node.node}" in line]
    equal([row[:3] for row in rows], [["default", f"asks-{node.node}", "150m"]], "row of the pod")
    equal(node.ctl("describe", "node", node.node).stdout.splitlines()[0].split(), ["Name:", node.node], "by name")
    versions = json.loads(node.ctl("version", "-o", "json").stdout)
    equal(versions["serverVersion"]["nodeName"], node.node, "server version")
    node.remove("asks")


def test_top_shows_what_pods_and_containers_use(node):
    node.pod("burns", containers=[node.container("idle", WAIT_FOR_TERM),
                                  node.container("busy", "while :; do :; done")])
    node.phase("burns", "Running")
    name = f"burns-{node.node}"

    def rows(*words):
        return [line.split() for line in node.ctl("top", *words).stdout.splitlines()]

    equal(rows("pods")[0], ["NAME", "CPU(cores)", "MEMORY(bytes)"], "header")
    # However busy the machine is, a loop gets more than a shell that waits.
    by_cpu = rows("pod", "burns", "--containers", "--sort-by=cpu")
    equal([row[:2] for row in by_cpu], [["POD", "NAME"], [name, "busy"], [name, "idle"]], "containers, the busiest first")
    equal([row[:2] for row in rows("containers", "burns", "--no-headers")], [[name, "busy"], [name, "idle"]], "by name")
    whole = next(row for row in rows("pods", "-A") if row[1] == name)
    check(whole[0] == "default" and int(whole[2].removesuffix("m")) > 0 and whole[3].endswith("Mi"), f"pod: {whole}")
    equal(rows("node")[0], ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"], "header of the node")
    machine = rows("node", "--no-headers")[0]
    check(machine[0] == node.node and int(machine[1].removesuffix("m")) > 0, f"node: {machine}")
    watch = subprocess.Popen([node.bin / "holdctl", "--socket", node.run / "holdfastd.sock", "top", "pods", "-w",
                              "--interval=1s"], stdout=subprocess.PIPE, text=True)
    seen = []
    while seen.count("NAME") < 3:
        seen.append((watch.stdout.readline().split() or [""])[0])
    watch.terminate()
    watch.communicate()
    check(seen.count(name) >= 2, f"watched: {seen}")
    node.remove("burns")
    node.until_gone("burns")
    said = node.ctl("top", "pods", "-n", "nobody")
    equal((said.stdout, said.stderr), ("", "No resources found in nobody namespace.\n"), "without pods")


def test_check_finds_and_removes_what_is_left_over(node):
    stray = node.top / "root/pods/no-such-pod"
    stray.mkdir()
    groups = [tree / "kubepods/podno-such-pod" for tree in node.cgroup_trees()]
    for group in groups:
        group.mkdir()
    found = node.ctl("check", check=False)
    equal(found.returncode, 1, "exit code while something is left")
    check(str(stray) in found.stdout and "podno-such-pod" in found.stdout, found.stdout)
    check(stray.exists() and all(group.exists() for group in groups), "looking changes nothing")
    repaired = node.ctl("check", "--repair")
    check("removed." in repaired.stdout + repaired.stderr, f"{repaired.stdout}{repaired.stderr}")
    check(not stray.exists() and not any(group.exists() for group in groups), "gone")
    equal(node.ctl("check").returncode, 0, "nothing is left")
