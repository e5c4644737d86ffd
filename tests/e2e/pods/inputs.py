# SPDX-License-Identifier: Apache-2.0
"""ConfigMaps, Secrets and Services of the manifest directory: what pods of files are made from."""
import base64
import json
import os
import pathlib
import stat
import tempfile
import threading
import time

from node import status
from suite import check, equal

# Of a file: where, its mode, what it holds.
SHOW = "cd /in; for f in */* both/deep/*; do [ -f $f ] && echo ./$f $(stat -Lc %a $f) $(tr '\\000\\001' 01 < $f); done"


def config_map(name, data=None, **more):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data or {}, **more}


def secret(name, texts=None, **more):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": texts or {}, **more}


def put(node, name, *objects):
    """All in one file, as a List."""
    node.write(name, json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def of_key(name, source, key, **more):
    return {"name": name, "valueFrom": {source: {"name": more.pop("of"), "key": key, **more}}}


def mounts(*names):
    return {"volumeMounts": [{"name": name, "mountPath": f"/in/{name}"} for name in names]}


def waiting(pod):
    return status(pod)["state"].get("waiting", {})


def events(node, name):
    return [(e["reason"], e["message"]) for e in json.loads(node.ctl("get", "events", "-o", "json").stdout)["items"]
            if e["involvedObject"]["name"] == f"{name}-{node.node}"]


def below(folder, needle):
    """Regular files that hold the text; what is gone meanwhile holds nothing."""
    found = []
    for path in pathlib.Path(folder).rglob("*"):
        try:
            if path.is_file() and not path.is_symlink() and needle in path.read_bytes():
                found.append(path)
        except OSError:
            pass
    return found


def test_a_pod_of_a_file_is_made_from_config_maps_and_secrets(node):
    put(node, "made-from",
        config_map("conf", {"greeting": "hello", "file.txt": "of the map"},
                   binaryData={"bytes": base64.b64encode(b"\x00\x01").decode()}),
        secret("key", {"password": "hunter2-e2e"}, data={"user": base64.b64encode(b"jane").decode()}),
        {**config_map("conf", {"greeting": "elsewhere"}), "metadata": {"name": "conf", "namespace": "other"}})
    env = [of_key("GREETING", "configMapKeyRef", "greeting", of="conf"),
           of_key("PASSWORD", "secretKeyRef", "password", of="key"),
           of_key("NONE", "configMapKeyRef", "greeting", of="nowhere", optional=True),
           of_key("NO_KEY", "secretKeyRef", "none", of="key", optional=True)]
    env_from = [{"configMapRef": {"name": "conf"}, "prefix": "C_"}, {"secretRef": {"name": "key"}},
                {"secretRef": {"name": "nowhere", "optional": True}}]
    projected = {"defaultMode": 0o440, "sources": [
        {"configMap": {"name": "conf", "items": [{"key": "file.txt", "path": "deep/file", "mode": 0o400}]}},
        {"secret": {"name": "key", "items": [{"key": "user", "path": "user"}]}},
        {"secret": {"name": "nowhere", "optional": True}}]}
    node.pod("made", containers=[node.container(
        "main", "tr '\\000' '\\n' < /proc/1/environ | grep -E '^(GREETING|PASSWORD|password|user|NONE|NO_KEY|C_)' | sort; " + SHOW +
        "; touch /in/key/x 2>/dev/null || echo read-only; ls /in/maybe | wc -l",
        env=env, envFrom=env_from, **mounts("conf", "key", "both", "maybe"))],
        volumes=[{"name": "conf", "configMap": {"name": "conf"}},
                 {"name": "key", "secret": {"secretName": "key", "defaultMode": 0o600}},
                 {"name": "both", "projected": projected},
                 {"name": "maybe", "configMap": {"name": "nowhere", "optional": True}}], restartPolicy="Never")
    node.phase("made", "Succeeded")
    lines = node.log("made").splitlines()
    equal(lines[:6], ["C_file.txt=of the map", "C_greeting=hello", "GREETING=hello", "PASSWORD=hunter2-e2e",
                      "password=hunter2-e2e", "user=jane"], "environment")
    equal(sorted(lines[6:-2]), ["./both/deep/file 400 of the map", "./both/user 440 jane", "./conf/bytes 644 01",
                                "./conf/file.txt 644 of the map", "./conf/greeting 644 hello",
                                "./key/password 600 hunter2-e2e", "./key/user 600 jane"], "files")
    equal(lines[-2:], ["read-only", "0"], "what cannot be written, and the files of what is not there")
    node.remove("made")
    node.until_gone("made")
    for place in (node.top / "root", node.top / "log", node.top / "agent.log"):
        found = below(place, b"hunter2-e2e") if place.is_dir() else [p for p in [place] if b"hunter2-e2e" in p.read_bytes()]
        equal([p for p in found if "/log/pods/" not in str(p)], [], f"a Secret's value below {place}")
    node.remove("made-from")


def test_files_follow_their_config_map_by_one_switch(node):
    put(node, "followed", config_map("followed", {"a": "1", "b": "1", "gone": "1"}))
    script = "while :; do echo $(cat /in/conf/a) $(cat /in/conf/b) $(ls /in/conf | tr '\\n' ' ') sub $(cat /sub) env $A; sleep 0.05; done"
    container = node.container("main", script, env=[of_key("A", "configMapKeyRef", "a", of="followed")])
    container["volumeMounts"] = [{"name": "conf", "mountPath": "/in/conf"},
                                 {"name": "conf", "mountPath": "/sub", "subPath": "a"}]
    node.pod("follows", containers=[container], volumes=[{"name": "conf", "configMap": {"name": "followed"}}])
    pod = node.phase("follows", "Running")
    node.wait("its first lines", lambda: node.log("follows").count("\n") > 3)
    data = node.run / "volumes" / pod["metadata"]["uid"] / "conf" / "..data"
    first = os.readlink(data)
    check(first.startswith("..2"), f"{first} has a time in its name")
    equal([p.name for p in (node.top / "root/pods" / pod["metadata"]["uid"]).glob("inputs*")], [], "a second copy on the disk")
    put(node, "followed", config_map("followed", {"a": "2", "b": "2", "new": "2"}))
    node.wait("the change", lambda: "2 2 a b new sub 1 env 1" in node.log("follows"))
    check(os.readlink(data) != first, "another directory")
    seen = [line for line in node.log("follows").splitlines() if line]
    equal({line.split(" a ")[0] for line in seen} - {"1 1", "2 2", "1 2"}, set(), "no mixture but across the switch")

    os.kill(node.agent.pid, 9)
    node.agent.wait()
    put(node, "followed", config_map("followed", {"a": "3", "b": "3"}))
    node.start_agent()
    node.wait("a change that nobody saw", lambda: "3 3 a b sub 1 env 1" in node.log("follows"))
    pod = node.get("follows")
    equal(status(pod)["restartCount"], 0, "restarts")

    # Away, and what is shown stays; back, and it is shown.
    node.remove("followed")
    node.wait("it is told", lambda: any("configmap \"followed\" not found" in message for _, message in events(node, "follows")))
    equal(node.log("follows").splitlines()[-1], "3 3 a b sub 1 env 1", "what was shown")
    put(node, "followed", config_map("followed", {"a": "4", "b": "4"}))
    node.wait("the one that came back", lambda: "4 4 a b sub 1 env 1" in node.log("follows"))
    node.remove("follows")
    node.until_gone("follows")
    node.remove("followed")


def test_a_pod_waits_for_what_is_missing_and_starts_when_it_comes(node):
    node.pod("lacks-env", containers=[node.container("main", "echo $A; sleep 1000", env=[
        of_key("A", "secretKeyRef", "a", of="late")])])
    node.pod("lacks-volume", containers=[node.container("main", "echo $(cat /in/late/*); sleep 1000", **mounts("late"))],
             volumes=[{"name": "late", "secret": {"secretName": "late"}}])
    pod = node.until("it is told", "lacks-env", lambda p: waiting(p).get("reason") == "CreateContainerConfigError")
    equal(waiting(pod)["message"], 'secret "late" not found', "why")
    node.wait("FailedMount", lambda: ("FailedMount", 'MountVolume.SetUp failed for volume "late" : secret "late" not found')
              in events(node, "lacks-volume"))
    equal(waiting(node.get("lacks-volume"))["reason"], "ContainerCreating", "a volume that cannot be had")
    node.restart_agent()
    node.until("still told", "lacks-env", lambda p: waiting(p).get("reason") == "CreateContainerConfigError")
    put(node, "late", secret("late", {"b": "there"}))
    pod = node.until("the key is missing", "lacks-env", lambda p: waiting(p).get("message", "").startswith("couldn't find"))
    equal(waiting(pod)["message"], "couldn't find key a in Secret default/late", "why")
    put(node, "late", secret("late", {"a": "here"}))
    for name, said in (("lacks-env", "here\n"), ("lacks-volume", "there\n")):
        node.until("it runs", name, lambda p: "running" in status(p)["state"], 60)
        node.wait(f"{name}: its log", lambda n=name, s=said: node.log(n) == s)
        node.remove(name)
        node.until_gone(name)
    node.remove("late")


def test_secrets_are_applied_and_deleted_and_never_shown(node):
    with tempfile.TemporaryDirectory() as folder:
        manifest = pathlib.Path(folder) / "all.yaml"
        manifest.write_text("".join(f"---\n{json.dumps(o)}\n" for o in (
            config_map("applied", {"a": "1"}, immutable=True), secret("applied", {"a": "swordfish-e2e"}))))
        said = node.ctl("apply", "-f", manifest)
        check("configmap/applied created" in said.stdout and "secret/applied created" in said.stdout, said.stdout)
        for kind in ("configmap", "secret"):
            equal(stat.S_IMODE((node.manifests / f"{kind}_default_applied.yaml").stat().st_mode), 0o600, kind)
        check("secret/applied unchanged" in node.ctl("apply", "-f", manifest).stdout, "applied again")
        manifest.write_text(json.dumps(config_map("applied", {"a": "2"}, immutable=True)))
        refused = node.ctl("apply", "-f", manifest, check=False)
        check("The ConfigMap \"applied\" is invalid: data: Forbidden: field is immutable when `immutable` is set"
              in refused.stderr and refused.returncode == 1, refused)
        manifest.write_text(json.dumps(secret("bad", {"a": "swordfish-e2e", "../x": "swordfish-e2e"},
                                              type="kubernetes.io/tls")))
        refused = node.ctl("apply", "-f", manifest, check=False)
        check("data[../x]: Invalid value" in refused.stderr and "data[tls.key]: Required value" in refused.stderr, refused)
        check("swordfish" not in refused.stderr + refused.stdout, refused)
        manifest.write_text(json.dumps(secret("largest", {"a": "x" * (1 << 20)})))
        check("secret/largest created" in node.ctl("apply", "-f", manifest).stdout, "a Secret of a mebibyte")
        node.ctl("delete", "-f", manifest)
        # Somebody edits it until it cannot be read.
        ours = node.manifests / "secret_default_applied.yaml"
        ours.write_text(ours.read_text().replace("stringData:", "stringData: swordfish-e2e"))
        node.wait("the fault is told", lambda: "secret_default_applied.yaml" in (node.top / "agent.log").read_text())
        check("swordfish" not in node.ctl("get", "events", "-o", "json").stdout, "events")
        check("swordfish" not in node.ctl("describe", "node").stdout, "the node's condition")
        check("swordfish" not in (node.top / "agent.log").read_text(), "the log")
        manifest.write_text("".join(f"---\n{json.dumps(o)}\n" for o in (config_map("applied"), secret("applied"))))
        said = node.ctl("delete", "-f", manifest)
        check('configmap "applied" deleted' in said.stdout and 'secret "applied" deleted' in said.stdout, said.stdout)
        equal([p.name for p in node.manifests.iterdir() if "applied" in p.name], [], "files")


def test_holdctl_shows_and_deletes_them_by_name(node):
    """While a pod uses them; a Secret's values stay where they are."""
    marked = "swordfish-shown"
    labels = {"metadata": {"name": "shown", "labels": {"app": "shown"}}}
    with tempfile.TemporaryDirectory() as folder:
        manifest = pathlib.Path(folder) / "all.yaml"

        def apply(value):
            manifest.write_text("".join(f"---\n{json.dumps(o)}\n" for o in (
                {**config_map("shown", {"a": value}), **labels}, {**secret("shown", {"password": marked}), **labels})))
            node.ctl("apply", "-f", manifest)
        apply("1")
        node.pod("shows", containers=[node.container("main", "while :; do cat /in/map/a /in/key/password; echo; sleep 0.1; done",
                                                     **mounts("map", "key"))],
                 volumes=[{"name": "map", "configMap": {"name": "shown"}}, {"name": "key", "secret": {"secretName": "shown"}}])
        node.phase("shows", "Running")

        def row(*words):
            return node.ctl("get", *words, "--no-headers").stdout.split()
        equal(row("configmap", "shown")[:2], ["shown", "1"], "a ConfigMap's row")
        equal(row("secrets", "-l", "app=shown")[:3], ["shown", "Opaque", "1"], "a Secret's row")
        first = json.loads(node.ctl("get", "cm", "shown", "-o", "json").stdout)
        equal((first["kind"], first["data"], first["metadata"]["labels"]), ("ConfigMap", {"a": "1"}, {"app": "shown"}), "as JSON")
        time.sleep(1.1)  # creationTimestamp has seconds
        apply("2")
        again = json.loads(node.ctl("get", "cm", "shown", "-o", "json").stdout)
        equal(again, {**first, "data": {"a": "2"}}, "the same one, with another value")
        check("a:\n----\n2\n" in node.ctl("describe", "configmap", "shown").stdout, "described")
        check(f"password:  {len(marked)} bytes\n" in node.ctl("describe", "secret", "shown").stdout, "a Secret described")
        for words in (("get", "secret", "shown"), ("get", "secrets", "-A", "-o", "wide"), ("get", "secret", "shown", "-o", "yaml"),
                      ("get", "cm,secrets", "-o", "jsonpath={..data}"), ("describe", "secret"), ("describe", "pod", "shows"),
                      ("delete", "secret", "shown", "-o", "yaml")):
            said = node.ctl(*words, check=False)
            check(marked not in said.stdout + said.stderr, f"{words}: {said}")
        node.wait("the pod has the change", lambda: node.log("shows").endswith(f"2{marked}\n"))
        node.restart_agent()
        equal(json.loads(node.ctl("get", "cm", "shown", "-o", "json").stdout)["metadata"]["uid"], first["metadata"]["uid"],
              "the UID after a restart")
        equal(node.ctl("delete", "configmap", "shown").stdout, 'configmap "shown" deleted from default namespace\n', "deleted")
        equal(node.ctl("delete", "secret", "-l", "app=shown").stdout, 'secret "shown" deleted from default namespace\n', "by label")
        absent = node.ctl("delete", "cm", "shown", check=False)
        check('configmaps "shown" not found' in absent.stderr and absent.returncode == 1, absent)
        equal(node.ctl("get", "cm,secret", "-l", "app=shown").stdout, "", "what is left")
        equal(status(node.get("shows"))["restartCount"], 0, "the pod goes on with what it shows")
        check(node.log("shows").endswith(f"2{marked}\n"), "what it shows")
    node.remove("shows")
    node.until_gone("shows")


def test_a_pod_is_told_of_the_services_that_come_with_it(node):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "told-of"}, "spec": {"ports": [{"port": 80}]}}
    other = {**service, "metadata": {"name": "far-away", "namespace": "other"}}

    def pod(name, **more):
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {"restartPolicy": "Never", "dnsPolicy": "Default", "containers": [
                    node.container("main", "env | grep -E 'TOLD_OF|FAR_AWAY' | sort | cut -d= -f1")], **more}}
    put(node, "told", pod("told"), pod("not-told", enableServiceLinks=False), service, other)
    node.phase("told", "Succeeded")
    equal(node.log("told").split(), ["TOLD_OF_PORT", "TOLD_OF_PORT_80_TCP", "TOLD_OF_PORT_80_TCP_ADDR",
                                     "TOLD_OF_PORT_80_TCP_PORT", "TOLD_OF_PORT_80_TCP_PROTO", "TOLD_OF_SERVICE_HOST",
                                     "TOLD_OF_SERVICE_PORT"], "variables")
    node.phase("not-told", "Succeeded")
    equal(node.log("not-told"), "", "a pod that wants none")
    node.remove("told")
    node.until_gone("told")
    node.until_gone("not-told")


def test_no_start_is_lost_to_files_that_keep_coming(node):
    """Each of them may bring Services, for whose variables pods wait that came with them, and nobody else."""
    names = [f"amid{i}" for i in range(60)]
    node.set_config(maxPods=2 * len(names))  # beside those of other tests
    node.restart_agent()
    ended = threading.Event()
    new = node.top / "ever-new.json"

    def keep_writing():
        count = 0
        while not ended.wait(0.001):
            count += 1
            new.write_text(json.dumps(config_map("ever-new", {"count": str(count)})))
            new.rename(node.manifests / "ever-new.json")
    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        for name in names:
            node.pod(name, "exec sleep 1000", terminationGracePeriodSeconds=0)
        for name in names:
            node.phase(name, "Running", 60)
    finally:
        ended.set()
        writer.join()
    refused = [line for line in (node.top / "agent.log").read_text().splitlines() if "cannot construct envvars" in line]
    equal(refused, [], "starts that were refused, each for 10 s")
    for name in (*names, "ever-new"):
        node.remove(name)
    for name in names:
        node.until_gone(name)


def test_hostile_files_of_secrets_do_no_harm(node):
    """Links, FIFOs, sizes and numbers; the node goes on and pods go on."""
    put(node, "many-keys", config_map("many-keys", {f"k{i}": "x" for i in range(10_000)}))
    node.pod("many-keys-pod", containers=[node.container("main", "ls /in/many | wc -l", **mounts("many"))],
             volumes=[{"name": "many", "configMap": {"name": "many-keys"}}], restartPolicy="Never")
    node.phase("many-keys-pod", "Succeeded", 60)
    equal(node.log("many-keys-pod"), "10000\n", "keys")
    for kind in ("configMap", "secret"):
        big = {"apiVersion": "v1", "kind": kind[0].upper() + kind[1:], "metadata": {"name": "big"},
               ("binaryData" if kind == "configMap" else "data"): {"big": base64.b64encode(os.urandom(1 << 20)).decode()}}
        put(node, f"big-{kind}", big)
    node.pod("big-pod", containers=[node.container("main", "cat /in/a/big /in/b/big | wc -c", **mounts("a", "b"))],
             volumes=[{"name": "a", "configMap": {"name": "big"}}, {"name": "b", "secret": {"secretName": "big"}}],
             restartPolicy="Never")
    node.phase("big-pod", "Succeeded", 60)
    equal(node.log("big-pod"), f"{2 << 20}\n", "bytes")

    put(node, "trap", secret("trap", {"a": "1"}))
    node.pod("trap-pod", containers=[node.container("main", "while :; do cat /in/trap/a; echo; sleep 0.1; done", **mounts("trap"))],
             volumes=[{"name": "trap", "secret": {"secretName": "trap"}}])
    node.phase("trap-pod", "Running")
    file = node.manifests / "trap.json"
    file.unlink()
    os.mkfifo(file)
    node.wait("the Secret counts as gone", lambda: any('secret "trap" not found' in m for _, m in events(node, "trap-pod")))
    file.unlink()
    outside = node.top / "outside.json"
    outside.write_text("swordfish-outside: [")
    file.symlink_to(outside)
    node.wait("the fault is told", lambda: "trap.json" in (node.top / "agent.log").read_text())
    check("swordfish-outside" not in (node.top / "agent.log").read_text(), "what a link leads to is not logged")
    file.unlink()
    put(node, "trap-again", secret("trap", {"a": "2"}))
    node.wait("the one in its place", lambda: "2\n" in node.log("trap-pod"))
    put(node, "trap-twice", secret("trap", {"a": "3"}))
    node.wait("the second is told", lambda: "trap-twice.json: secret default/trap is already defined in trap-again.json"
              in (node.top / "agent.log").read_text())
    equal(node.log("trap-pod").split()[-1], "2", "the first file's")

    for i in range(20):
        put(node, f"crowd-{i}", *[config_map(f"crowd-{i}-{n}", {"a": "x"}) for n in range(500)])
    put(node, "trap-again", secret("trap", {"a": "4"}))
    node.wait("the change among 10,000", lambda: "4\n" in node.log("trap-pod"), 60)
    for name in ("many-keys-pod", "big-pod", "trap-pod"):
        node.remove(name)
    for i in range(20):
        node.remove(f"crowd-{i}")
    for name in ("many-keys", "big-configMap", "big-secret", "trap-again", "trap-twice"):
        node.remove(name)
    for name in ("many-keys-pod", "big-pod", "trap-pod"):
        node.until_gone(name)
    equal(node.agent.poll(), None, "the agent that was there is there")
