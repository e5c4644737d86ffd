# SPDX-License-Identifier: Apache-2.0
"""Images from registries: a pod that names one starts; what it shows when that is not possible."""
import base64
import contextlib
import json
import os
import pathlib
import re
import signal
import time

from node import WAIT_FOR_TERM, status
from registry import OCI, TITLE, MadeArtifact, MadeImage, RealRegistry, digest_of, gzipped, htpasswd, layer_of
from scripted_registry import ScriptedRegistry
from suite import check, equal


@contextlib.contextmanager
def registry(node, port, **options):
    running = RealRegistry(node.top / f"registry-{port}", port, **options)
    try:
        yield running
    finally:
        running.stop()


def busybox(node, marker):
    """A real registry's image of the test's busybox, different from all others by its label."""
    root = (node.top.parent / "busybox.tar").read_bytes()
    return MadeImage([root], config={"Cmd": ["/bin/sh"], "Labels": {"marker": marker}})


def pull_pod(node, name, image, script=WAIT_FOR_TERM, policy=None, **spec):
    container = {"name": "main", "image": image, "command": ["/bin/sh", "-c", script]}
    if policy:
        container["imagePullPolicy"] = policy
    node.pod(name, containers=[container], **spec)


def events_of(node, name):
    """(reason, message) of the pod's events that are about images, in their order."""
    events = json.loads(node.ctl("get", "events", "-o", "json").stdout)["items"]
    mine = [event for event in events if event["involvedObject"]["name"] == f"{name}-{node.node}"]
    return [(event["reason"], event["message"]) for event in mine
            if event["reason"] in ("Pulling", "Pulled", "Failed", "BackOff", "ErrImageNeverPull")]


def waiting(pod):
    return status(pod)["state"].get("waiting", {}) if pod["status"].get("containerStatuses") else {}


def test_a_pod_pulls_its_image_by_name(node):
    with registry(node, 5100) as running:
        image = busybox(node, "by-name")
        running.push_made(image, "team/app:1")
        name = f"{running.name}/team/app:1"
        pull_pod(node, "pulls", name)
        pod = node.phase("pulls", "Running")
        equal(status(pod)["image"], name, "image")
        equal(status(pod)["imageID"], f"{running.name}/team/app@{image.digest}", "imageID")
        events = events_of(node, "pulls")
        equal(events[0], ("Pulling", f'Pulling image "{name}"'), "first event")
        size = len(image.manifest) + len(image.config) + len(image.layers[0])
        check(re.fullmatch(rf'Successfully pulled image "{re.escape(name)}" in [\d.]+m?s \([\d.]+m?s including waiting\)\. '
                           rf'Image size: {size} bytes\.', events[1][1]), str(events))
        node.remove("pulls")
        pull_pod(node, "again", name)
        node.phase("again", "Running")
        equal(events_of(node, "again"), [("Pulled", f'Container image "{name}" already present on machine and can be '
                                                    'accessed by the pod')], "the second pod")
        node.remove("again")


def test_a_volume_of_the_image_is_the_containers_own(node):
    root = (node.top.parent / "busybox.tar").read_bytes()
    image = MadeImage([root, layer_of({"kept/of-the-image": b"text"})],
                      config={"Cmd": ["/bin/sh"], "Volumes": {"/data": {}, "/kept": {}, "/mine": {}}})
    with registry(node, 5101) as running:
        running.push_made(image, "team/volumes:1")
        script = ("ls -A /data /kept /mine; echo a > /data/a && echo written; echo b > /kept/b || echo refused; "
                  "echo c > /mine/c; sleep 1")
        node.pod("volumes", restartPolicy="OnFailure", terminationGracePeriodSeconds=0,
                 volumes=[{"name": "mine", "emptyDir": {}}], containers=[{
                     "name": "main", "image": f"{running.name}/team/volumes:1",
                     "command": ["/bin/sh", "-c", f"{script}; [ -e /mine/again ] || {{ touch /mine/again; exit 1; }}"],
                     "securityContext": {"readOnlyRootFilesystem": True},
                     "volumeMounts": [{"name": "mine", "mountPath": "/mine"}]}])
        node.phase("volumes", "Succeeded")
        said = [node.log("volumes", *which).split("\n") for which in (("--previous",), ())]
        for number, lines in enumerate(said):
            equal(lines[:3], ["/data:", "", "/kept:"], f"life {number}: what /data holds")
            check("of-the-image" in lines and "written" in lines and "refused" in lines, str(lines))
            equal("c" in lines, number == 1, f"life {number}: the pod's own volume")
    node.remove("volumes")
    node.until_gone("volumes")


def test_always_takes_what_the_tag_means_now(node):
    with registry(node, 5101) as running:
        first, second = busybox(node, "first"), busybox(node, "second")
        running.push_made(first, "moving:1")
        name = f"{running.name}/moving:1"
        pull_pod(node, "always", name, "sleep 2; exit 1", "Always")
        node.until("the first", "always", lambda p: first.digest in status(p)["imageID"])
        running.push_made(second, "moving:1")
        node.until("the second", "always", lambda p: second.digest in status(p)["imageID"])
        equal(digest_of(second.config)[:7], "sha256:", "ids")
        node.remove("always")
        node.until_gone("always")


def test_what_cannot_be_pulled_waits_with_a_kubelets_words(node):
    with registry(node, 5102) as running:
        name = f"{running.name}/none:1"
        pull_pod(node, "absent", name)
        pod = node.until("ErrImagePull", "absent", lambda p: waiting(p).get("reason") == "ErrImagePull")
        check("not found" in waiting(pod)["message"], str(waiting(pod)))
        pod = node.until("ImagePullBackOff", "absent", lambda p: waiting(p).get("reason") == "ImagePullBackOff")
        check(waiting(pod)["message"].startswith(f'Back-off pulling image "{name}": ErrImagePull: '), str(waiting(pod)))
        reasons = [reason for reason, _ in events_of(node, "absent")]
        equal(reasons[:5], ["Pulling", "Failed", "Failed", "BackOff", "Failed"], "events")
        # Once it is there the next try has it.
        running.push_made(busybox(node, "late"), "none:1")
        node.phase("absent", "Running", 40)
        node.remove("absent")


def test_a_deleted_pod_does_not_wait_for_its_pull(node):
    image = busybox(node, "slow")

    def drip(handler):
        if digest_of(image.layers[0]) not in handler.path:
            return False
        handler.drip(image.layers[0], 3000, 0.5)
        return True
    running = ScriptedRegistry({"slow:1": image}, drip)
    pull_pod(node, "slow", f"{running.name}/slow:1")
    node.wait("the pull is under way", lambda: running.paths("/blobs/"))
    # How far it is can be seen meanwhile: some of the one layer.
    amount = r"[1-9][0-9.]*[kM]?B of [0-9.]+MB"
    picture = re.compile(rf"Pulling: +{running.name}/slow:1: {amount}, 0 of 1 layers unpacked, for \d+s\n"
                         rf" +{digest_of(image.layers[0])[7:19]}: +downloading, {amount}\n")
    node.wait("the pull is shown", lambda: picture.search(node.ctl("describe", "pod", "slow").stdout))
    began = time.monotonic()
    node.remove("slow")
    node.until_gone("slow")
    check(time.monotonic() - began < 10, "the pod waited for its pull")
    ingest = node.top / "root/images/ingest"
    node.wait("nothing is left of it", lambda: not any(ingest.iterdir()) if ingest.exists() else True)
    running.stop()


def test_a_registry_that_is_away_is_told_as_such(node):
    name = "127.0.0.1:5199/away:1"
    pull_pod(node, "away", name)
    pod = node.until("RegistryUnavailable", "away", lambda p: waiting(p).get("reason") == "RegistryUnavailable", 90)
    check(waiting(pod)["message"].startswith(f"image pull failed for {name} because the registry is unavailable: "), str(pod))
    pod = node.until("ImagePullBackOff", "away", lambda p: waiting(p).get("reason") == "ImagePullBackOff")
    check(waiting(pod)["message"].startswith(f'Back-off pulling image "{name}": RegistryUnavailable: image pull failed'),
          str(waiting(pod)))
    check(("Failed", "Error: RegistryUnavailable") in events_of(node, "away"), str(events_of(node, "away")))
    node.remove("away")
    node.until_gone("away")


@contextlib.contextmanager
def signature_policy(node, **document):
    file = node.top / "policy.json"
    file.write_text(json.dumps(document))
    node.set_config(signaturePolicyPath=str(file))
    node.restart_agent()
    try:
        yield
    finally:
        node.set_config(signaturePolicyPath="")
        node.restart_agent()


def test_a_policy_rejects_and_accepts(node):
    accept, reject = [{"type": "insecureAcceptAnything"}], [{"type": "reject"}]
    with registry(node, 5113) as running:
        names = {what: f"{running.name}/{what}/app:1" for what in ("good", "bad")}
        for what in names:
            running.push_made(busybox(node, what), f"{what}/app:1")
        with signature_policy(node, default=reject, transports={"docker": {f"{running.name}/good": accept}}):
            for what, name in names.items():
                pull_pod(node, what, name)
            node.phase("good", "Running")
            name = names["bad"]
            rejected = f"Source image rejected: Running image docker://{name} is rejected by policy."
            message = f"image pull failed for {name} because the signature validation failed: {rejected}"
            pod = node.until("it is rejected", "bad", lambda p: waiting(p).get("reason") == "SignatureValidationFailed")
            equal(waiting(pod)["message"], message, "why it waits")
            pod = node.until("ImagePullBackOff", "bad", lambda p: waiting(p).get("reason") == "ImagePullBackOff")
            equal(waiting(pod)["message"], f'Back-off pulling image "{name}": SignatureValidationFailed: {message}', "then")
            check(("Failed", "Error: SignatureValidationFailed") in events_of(node, "bad"), str(events_of(node, "bad")))
            said = node.ctl("image", "pull", name, check=False)
            check(said.returncode != 0 and rejected in said.stderr, said.stderr)
            imported = node.ctl("image", "import", str(node.top.parent / "busybox.tar"), "--name", "rejected:1", check=False)
            check("Running image from tarball is rejected by policy" in imported.stderr, imported.stderr)
        # Without the policy it is tried once more.
        node.phase("bad", "Running", 60)
        for what in names:
            node.remove(what)
            node.until_gone(what)


ARTIFACT_SCRIPT = """
cd /model; find . -type f | sort; cat weights/w.bin; cat tarred/x
stat -c '%a %u:%g' weights/w.bin; id -u
cat /one; ls /some
grep ' /model ' /proc/mounts | cut -d' ' -f4
""" + WAIT_FOR_TERM


def test_an_artifact_is_a_volume_and_no_container(node):
    artifact = MadeArtifact([("application/octet-stream", b"of a model\n", {TITLE: "weights/w.bin"}),
                             ("text/plain", b"hello\n", {TITLE: "readme.txt"}),
                             (OCI + "layer.v1.tar+gzip", gzipped(layer_of({"tarred/x": b"of a tar\n"})), {})])
    with registry(node, 5114) as running:
        running.push_made(artifact, "team/model:1")
        name = f"{running.name}/team/model:1"
        volume = [{"name": "model", "image": {"reference": name}}]
        mounts = [{"name": "model", "mountPath": "/model"}, {"name": "model", "mountPath": "/one", "subPath": "readme.txt"},
                  {"name": "model", "mountPath": "/some", "subPath": "weights"}]
        container = {**node.container("main", ARTIFACT_SCRIPT), "volumeMounts": mounts, "securityContext": {"runAsUser": 1000}}
        node.pod("model", containers=[container], volumes=volume)
        node.phase("model", "Running")
        node.wait("it has looked", lambda: node.log("model").endswith("up\n"))
        *told, options, _ = node.log("model").splitlines()
        equal(told, ["./readme.txt", "./tarred/x", "./weights/w.bin", "of a model", "of a tar", "644 0:0", "1000",
                     "hello", "w.bin"], "what the container sees")
        check({"ro", "nosuid", "nodev"} <= set(options.split(",")), options)
        shown = status(node.get("model"))["volumeMounts"][0]
        equal(shown["volumeStatus"]["image"]["imageRef"], f"{running.name}/team/model@{artifact.digest}", "its digest")
        refused = node.ctl("image", "rm", name, check=False)
        check("in use" in refused.stderr, refused.stderr)
        node.pod("lost", containers=[{**container, "volumeMounts": [{**mounts[0], "subPath": "none"}]}], volumes=volume)
        pod = node.until("no such path", "lost", lambda p: "CreateContainer" in waiting(p).get("reason", ""))
        check("failed to prepare subPath" in waiting(pod)["message"] and "none" in waiting(pod)["message"], str(waiting(pod)))
        # Run it cannot.
        pull_pod(node, "runs", name)
        pod = node.until("an error", "runs", lambda p: waiting(p).get("reason") == "CreateContainerError")
        equal(waiting(pod)["message"], f'image "{name}" is an OCI artifact (application/vnd.example.files), which can be a '
              "volume, but cannot run", "why")
        for each in ("model", "lost", "runs"):
            node.remove(each)
            node.until_gone(each)
        # Without a registry it comes as it went.
        archive = node.top / "model.tar"
        node.ctl("image", "export", name, "-o", archive)
        node.ctl("image", "rm", name)
        check(name not in node.ctl("image", "ls").stdout, "it is still there")
        node.ctl("image", "import", archive)
        kept = json.loads(node.ctl("image", "inspect", name).stdout)
        equal((kept["id"], kept["layers"], kept["artifactType"]), (artifact.digest, 2, "application/vnd.example.files"), "what it is")
        check(any("artifact" in line.split() for line in node.ctl("image", "ls", "-o", "wide").stdout.splitlines()), "a list says so")
        node.ctl("image", "rm", name)


def test_a_killed_agent_pulls_again(node):
    image = busybox(node, "killed")
    running = ScriptedRegistry({"killed:1": image}, lambda handler: time.sleep(0.3))
    pull_pod(node, "killed", f"{running.name}/killed:1")
    node.wait("the pull is under way", lambda: running.paths("/blobs/"))
    node.restart_agent()
    node.phase("killed", "Running", 60)
    node.remove("killed")
    running.stop()


def test_the_nodes_own_login_is_used(node):
    with registry(node, 5103, auth=htpasswd(node.top / "htpasswd", "jane", "s3cret-word")) as running:
        running.push_made(busybox(node, "private"), "private:1", "--dest-creds", "jane:s3cret-word")
        name = f"{running.name}/private:1"
        refused = node.ctl("image", "pull", name, check=False)
        check(refused.returncode != 0 and "may require authorization" in refused.stderr, refused.stderr)
        config = pathlib_root(node) / "config.json"
        config.write_text(json.dumps({"auths": {running.name: {
            "auth": base64.b64encode(b"jane:s3cret-word").decode()}}}))
        pulled = node.ctl("image", "pull", name)
        check(f"image/{name} pulled: {running.name}/private@sha256:" in pulled.stdout, pulled.stdout)
        check("done" in pulled.stdout, pulled.stdout)
        config.unlink()
        check("s3cret-word" not in (node.top / "agent.log").read_text(), "the password is in the log")


def pathlib_root(node):
    return node.top / "root"


PROVIDER = """#!/bin/sh
cat >> {asked}; echo >> {asked}
{script}
cat <<'END'
{{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "cacheKeyType": "Registry",
 "auth": {{"{registry}": {{"username": "jane", "password": "s3cret-word"}}}}}}
END
"""


@contextlib.contextmanager
def credential_providers(node, providers):
    """`providers`: name -> (registry, what its program does first)."""
    folder = node.top / "providers"
    folder.mkdir()
    for name, (registry_name, script) in providers.items():
        (folder / name).write_text(PROVIDER.format(asked=folder / f"{name}.asked", script=script, registry=registry_name))
        (folder / name).chmod(0o700)
    (folder / "config.yaml").write_text(json.dumps({
        "apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [
            {"name": name, "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "matchImages": [registry_name],
             "defaultCacheDuration": "1h"} for name, (registry_name, _) in providers.items()]}))
    node.set_config(imageCredentialProviderConfig=str(folder / "config.yaml"), imageCredentialProviderBinDir=str(folder))
    node.restart_agent()
    try:
        yield lambda name: (folder / f"{name}.asked").read_text().splitlines() if (folder / f"{name}.asked").exists() else []
    finally:
        node.set_config(imageCredentialProviderConfig="", imageCredentialProviderBinDir="")
        node.restart_agent()
        for pid in (int(file.read_text()) for file in node.top.glob("*.pid")):  # of one that hangs
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x001000\0":
                    os.kill(pid, signal.SIGKILL)


def test_a_program_makes_the_login_and_one_that_hangs_holds_up_nobody_else(node):
    slow, fast = "127.0.0.1:5105", "127.0.0.1:5104"
    with registry(node, 5104, auth=htpasswd(node.top / "htpasswd", "jane", "s3cret-word")) as running, \
            credential_providers(node, {"hangs": (slow, f"echo $$ > {node.top}/hangs.pid; exec sleep 1000"), "works": (fast, "")}) as asked:
        for marker in ("one", "two"):
            running.push_made(busybox(node, marker), f"made/{marker}:1", "--dest-creds", "jane:s3cret-word")
        pull_pod(node, "hangs", f"{slow}/x:1")
        node.wait("its program is asked", lambda: asked("hangs"))
        pull_pod(node, "works", f"{fast}/made/one:1")
        node.phase("works", "Running")
        equal([json.loads(line) for line in asked("works")], [
            {"kind": "CredentialProviderRequest", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
             "image": f"{fast}/made/one"}], "what it is asked")
        node.ctl("image", "pull", f"{fast}/made/two:1")
        equal(len(asked("works")), 1, "its answer is for the whole registry")
        began = time.monotonic()
        node.remove("hangs")
        node.until_gone("hangs")
        check(time.monotonic() - began < 20, "the pod waited for a program")
        node.remove("works")
        node.until_gone("works")
        check("s3cret-word" not in (node.top / "agent.log").read_text(), "the password is in the log")


def test_what_was_pulled_is_written_down_and_always_verify_trusts_no_import(node):
    with registry(node, 5106) as running:
        running.push_made(busybox(node, "written"), "written:1")
        pull_pod(node, "written", f"{running.name}/written:1")
        node.phase("written", "Running")
        manager = pathlib_root(node) / "image_manager"
        records = [json.loads(path.read_text()) for path in (manager / "pulled").iterdir()]
        mine = [record for record in records if f"{running.name}/written" in record["credentialMapping"]]
        equal([record["credentialMapping"] for record in mine], [{f"{running.name}/written": {"nodePodsAccessible": True}}],
              "who may use it")
        equal(list((manager / "pulling").iterdir()), [], "pulls under way")
        node.remove("written")
        node.until_gone("written")
        node.ctl("image", "rm", f"{running.name}/written:1")
        node.wait("its record goes with it", lambda: not any(
            "written" in path.read_text() for path in (manager / "pulled").iterdir()))
    node.set_config(imagePullCredentialsVerificationPolicy="AlwaysVerify")
    node.restart_agent()
    try:
        node.pod("imported", WAIT_FOR_TERM)
        pod = node.until("it is refused", "imported", lambda p: waiting(p).get("reason") == "ErrImageNeverPull")
        check("is not present with pull policy of Never" in waiting(pod)["message"], str(waiting(pod)))
    finally:
        node.set_config(imagePullCredentialsVerificationPolicy="NeverVerifyPreloadedImages")
        node.restart_agent()
    node.phase("imported", "Running", 40)
    node.remove("imported")
    node.until_gone("imported")


def test_what_is_pushed_can_be_pulled_by_its_short_name(node):
    with registry(node, 5110) as empty, registry(node, 5111) as running:
        image = busybox(node, "pushed")
        running.push_made(image, "team/app:1")
        node.ctl("image", "pull", f"{running.name}/team/app:1")
        pushed = node.ctl("image", "push", f"{running.name}/team/app:1", f"{running.name}/other/app:2")
        check("taken over from another repository" in pushed.stdout, pushed.stdout)
        check(f"pushed: {running.name}/other/app@{image.digest}" in pushed.stdout, pushed.stdout)
        conf = pathlib_root(node) / "registries.conf"
        conf.write_text(f'unqualified-search-registries = ["{empty.name}", "{running.name}"]\n'
                        f'[aliases]\n"mine" = "{running.name}/other/app"\n')
        node.set_config(shortNamesPath=str(conf))
        node.restart_agent()
        try:
            for name, full in (("other/app:2", "other/app:2"), ("mine:2", "other/app:2")):
                check(f"pulled: {running.name}/" in node.ctl("image", "pull", name).stdout, name)
                tags = json.loads(node.ctl("image", "inspect", name).stdout)["repoTags"]
                check(f"{running.name}/{full}" in tags, f"{name}: {tags}")
            absent = node.ctl("image", "pull", "none/such:1", check=False)
            for asked in (empty, running):
                check(f"{asked.name}/none/such:1: not found" in absent.stderr, absent.stderr)
            # A manifest means the same on every node: nobody asks these registries for it.
            pull_pod(node, "short", "other/app:2", policy="Never")
            node.until("it is docker.io's", "short", lambda p: waiting(p).get("reason") == "ErrImageNeverPull")
            node.remove("short")
            node.ctl("image", "rm", "mine:2")
            gone = node.ctl("image", "inspect", f"{running.name}/other/app:2", check=False)
            check(gone.returncode != 0, gone.stdout)
        finally:
            node.set_config(shortNamesPath="")
            node.restart_agent()
