#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ask_server.py ETCD KUBE_APISERVER FOLDER: reads answered cases, asks a real kube-apiserver (server dry run, strict
fields) the same, and tells where its answer differs from the oracle's. In a network namespace of its own.

Not asked are objects in another namespace than default: they would need it to exist."""
import collections
import json
import pathlib
import subprocess
import sys
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "support"))
from control_plane import ControlPlane  # noqa: E402

ADDRESS = "192.0.2.1"
RANGES = "10.96.0.0/16,fd00:10:96::/112"
# As in oracle/main.go.
GATES = ("ContainerStopSignals=true,ClusterTrustBundle=true,ClusterTrustBundleProjection=true,"
         "PodCertificateRequest=true")
QUERY = urllib.parse.urlencode({"dryRun": "All", "fieldValidation": "Strict"})


def start(etcd, apiserver, folder):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
    pathlib.Path(folder).mkdir(parents=True)
    plane = ControlPlane({"etcd": etcd, "kube-apiserver": apiserver}, folder, ADDRESS, RANGES,
                         ["--allow-privileged=true", f"--feature-gates={GATES}",
                          "--disable-admission-plugins=ServiceAccount"])
    plane.wait_until_ready()
    return plane


def ask(plane, kind, text):
    """(code, causes) of a creation."""
    resource = "services" if kind == "Service" else "pods"
    path = f"/api/v1/namespaces/default/{resource}?{QUERY}"
    form = "application/json" if text.lstrip().startswith("{") else "application/yaml"
    code, body = plane.exchange("POST", path, text.encode(), form)
    answer = json.loads(body)
    causes = [(c.get("field", ""), c.get("message", ""))
              for c in (answer.get("details") or {}).get("causes", [])]
    return code, causes, answer.get("message", "")


def kind_and_namespace(text):
    if not text.lstrip().startswith("{"):  # a text by hand
        return ("Service" if "kind: Service" in text else "Pod"), "default"
    try:
        one = json.loads(text)
        return one.get("kind"), (one.get("metadata") or {}).get("namespace") or "default"
    except (ValueError, AttributeError):
        return None, None


def compare(plane, lines):
    seen = collections.Counter()
    differences = []
    for line in lines:
        case = json.loads(line)
        kind, namespace = kind_and_namespace(case["text"])
        if kind not in ("Pod", "Service") or namespace != "default":
            seen["not asked"] += 1
            continue
        code, causes, message = ask(plane, kind, case["text"])
        wanted = [(c.get("field", ""), c.get("message", "")) for c in case.get("causes") or []]
        if code == 403 or (code == 500 and not causes):  # RuntimeClass answers 500 to an empty name
            seen["refused by an admission plugin"] += 1
        elif code == case["code"] and set(causes) == set(wanted):  # owners named twice are asked once
            seen["same code and causes"] += 1
        else:
            seen["different"] += 1
            differences.append((case["id"], case["code"], wanted, code, causes, message))
    return seen, differences


def main():
    etcd, apiserver, folder = sys.argv[1:]
    plane = start(etcd, apiserver, folder)
    began = time.monotonic()
    try:
        seen, differences = compare(plane, sys.stdin)
    finally:
        plane.stop()
    print(f"kube-apiserver beside the oracle, {time.monotonic() - began:.0f} s:",
          ", ".join(f"{count} {what}" for what, count in sorted(seen.items())))
    for difference in differences[:40]:
        print("different:", *difference, sep="\n    ")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
