# SPDX-License-Identifier: Apache-2.0
"""What nobody but a pod is to see, looked for in all that the node shows and writes."""
import base64
import json
import pathlib
import subprocess

from attack import attack, breach_if


def files_for_others(kit, text, *apart):
    """The node's files with the text in them that are logs, or that more than root may read; without the manifests, and
    without directories of the names in `apart`."""
    found = subprocess.run(["grep", "-rls", text, kit.node.top, *(f"--exclude-dir={name}" for name in ("manifests", *apart))],
                           capture_output=True, text=True, check=False).stdout.split()
    modes = {file: pathlib.Path(file).stat().st_mode & 0o777 for file in found}
    return [f"{file} {mode:o}" for file, mode in modes.items() if mode & 0o077 or "log" in file]


@attack("AP-08")
def secrets_in_logs_events_and_files(kit):
    secret = "KIT-MARKED-SECRET-0123456789"
    name = kit.new_name("secret")
    kit.pod(name, [kit.container("main", ["/bin/sleep", "1000"], env=[{"name": "TOKEN", "value": secret}])])
    kit.node.phase(name, "Running")
    kit.exec(name, "/bin/true", secret)
    kit.node.ctl("describe", "pod", f"{name}-{kit.node.node}")
    wrong = files_for_others(kit, secret)
    events = kit.node.ctl("get", "events").stdout
    if secret in events:
        wrong.append("an event")
    breach_if(wrong, "; ".join(wrong))


@attack("AP-08")
def values_of_a_secret_object(kit):
    """Of a Secret among the manifests, which a pod has as a file and as a variable: by every form in which holdctl shows
    objects, in what fails because of it, and in what the node writes besides the mounted file."""
    value = "KIT-SECRET-VALUE-9876543210"
    spellings = (value, base64.b64encode(value.encode()).decode())
    name = kit.new_name("held")
    kit.node.write(name, json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"key": value}}))
    of_it = {"name": name, "key": "key"}
    pod = f"{name}-user"
    kit.pod(pod, [kit.container("main", ["/bin/sh", "-c", "test -n \"$VALUE\" && exec sleep 1000"], mounts={"held": "/held"},
                                env=[{"name": "VALUE", "valueFrom": {"secretKeyRef": of_it}}]),
                  kit.container("wrong", ["/bin/true"], env=[{"name": "VALUE", "valueFrom": {"secretKeyRef": {**of_it, "key": "none"}}}])],
            volumes=[{"name": "held", "secret": {"secretName": name}}])
    kit.node.until("has it", pod, lambda p: any("running" in s["state"] for s in p["status"].get("containerStatuses", [])))
    given = kit.exec(pod, "/bin/cat", "/held/key")
    if given.strip() != value:
        raise RuntimeError(f"the pod was not given the value: {given[:200]}")
    shown = {}
    for kind in (f"secret/{name}", f"pod/{pod}-{kit.node.node}"):
        for form in ([], ["-o", "wide"], ["-o", "yaml"], ["-o", "json"], ["-o", "jsonpath={..data}{..stringData}"],
                     ["-o", "custom-columns=A:.data.key,B:.data"], ["--show-labels"], ["--sort-by", ".data.key"]):
            shown[f"get {kind} {form}"] = kit.node.ctl("get", kind, *form, check=False)
        shown[f"describe {kind}"] = kit.node.ctl("describe", kind, check=False)
    for words in (["get", "events"], ["get", "events", "-o", "yaml"], ["get", "node"], ["logs", f"{pod}-{kit.node.node}", "-c", "main"]):
        shown[" ".join(words)] = kit.node.ctl(*words, check=False)
    wrong = [words for words, ran in shown.items() if any(spelling in ran.stdout + ran.stderr for spelling in spellings)]
    if shown[f"describe secret/{name}"].returncode != 0:
        raise RuntimeError("holdctl does not know the Secret, so that nothing was tried")
    for spelling in spellings:
        wrong += files_for_others(kit, spelling, "volumes")
    (kit.node.manifests / f"{name}.json").unlink()
    breach_if(wrong, "; ".join(wrong))
    return f"{len(shown)} answers and all files of the node"
