#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""conformance_run.py PROGRAMS [flags]: what tests/kube/conformance runs, in namespaces of its own.

Brings a control plane and nodes of ours up, has Kubernetes' own e2e.test run the tests of a list on them, and compares
what came of each with the list. Exit code 1: a test that the list has as passed did not pass."""
import argparse
import collections
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import conformance_images  # noqa: E402
from asking import are_ready, until  # noqa: E402
from kube_cluster import BRIDGE_ADDRESS, Cluster  # noqa: E402

LABELS = re.compile(r" \[[A-Za-z][^\[\]]*, [^\[\]]*\]$")  # of a test, which a report puts after its name
PASSED = "passed"


def read_list(path):
    """name -> what is expected of it."""
    lines = [line.rstrip("\n").split("\t") for line in open(path, encoding="utf-8") if line.strip() and line[0] != "#"]
    for number, words in enumerate(lines):
        if len(words) != 2 or not (words[0] == PASSED or words[0].startswith("failing: ")):
            raise RuntimeError(f"{path}: entry {number + 1}: not `passed` or `failing: WHY`, a tab and a name")
    return {name: state for state, name in lines}


def results(junit):
    """name -> (passed, failed or skipped; why), of what was run or skipped itself."""
    found = {}
    for case in xml.etree.ElementTree.parse(junit).getroot().iter("testcase"):
        name = LABELS.sub("", case.get("name")).removeprefix("[It] ")
        skipped, bad = case.find("skipped"), [case.find(kind) for kind in ("failure", "error")]
        bad = next((one for one in bad if one is not None), None)
        if not name.startswith("[sig-") or (skipped is not None and not skipped.get("message", "").startswith("skipped - ")):
            continue
        why = bad if bad is not None else skipped
        state = "failed" if bad is not None else "skipped" if skipped is not None else PASSED
        found[name] = (state, " ".join((why.get("message", "") if why is not None else "").split())[:400])
    return found


def report(expected, found):
    """Prints it; how many did worse than the list says."""
    counts = collections.defaultdict(collections.Counter)
    worse = 0
    for name in sorted(expected.keys() | found.keys()):
        state, why = found.get(name, ("not run", ""))
        counts[name.partition("]")[0][1:]][state] += 1
        wanted = expected.get(name, "not in the list")
        if state != PASSED:
            worse += wanted == PASSED
            print(f"{state}  ({wanted})  {name}\n    {why}")
        elif wanted != PASSED:
            print(f"passes ({wanted})  {name}")
    for sig, of in sorted(counts.items()):
        print(f"{sig:16}", "  ".join(f"{count} {state}" for state, count in of.most_common()))
    return worse


def use_mirror(folder, registry):
    """What a registry is asked for is asked for at ours, whatever its name."""
    (folder / "_default").mkdir(parents=True)
    (folder / "_default/hosts.toml").write_text(
        f'server = "http://{registry}"\n[host."http://{registry}"]\n  capabilities = ["pull", "resolve"]\n')


def run_suite(cluster, programs, args, expected):
    """ginkgo's exit code says the same as its report, so it is not looked at."""
    names = args.focus or "|".join(map(re.escape, expected))
    with open(args.out / "log.txt", "wb") as log:
        subprocess.run([programs["ginkgo"], f"--procs={args.procs}", "--timeout=4h", f"--focus={names}", "--no-color",
                        "--silence-skips", "--junit-report=junit.xml", f"--output-dir={args.out}", programs["e2e.test"], "--",
                        f"--kubeconfig={cluster.admin}", "--provider=skeleton", f"--kubectl-path={programs['kubectl']}",
                        "--disable-log-dump"], stdout=log, stderr=log, check=False,
                       env={**os.environ, "TMPDIR": cluster.folder.parent})  # where it leaves files


def keep_logs(cluster, out):
    for log in [*cluster.folder.glob("*/agent.log"), *cluster.folder.glob("plane/*.log")]:
        if log.name != "audit.log":
            shutil.copy(log, out / f"{log.parent.name}-{log.name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--list", type=pathlib.Path, default=HERE / "conformance.list")
    parser.add_argument("--focus", metavar="RE", help="tests whose name matches, in the list or not")
    parser.add_argument("--procs", type=int, default=4, help="tests at a time")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--bin", type=pathlib.Path, default=HERE.parents[1] / "build/dev/bin")
    parser.add_argument("--out", type=pathlib.Path, default=HERE.parents[1] / "build/conformance", help="for logs and report")
    args = parser.parse_args()
    expected = read_list(args.list)
    if args.focus:
        expected = {name: state for name, state in expected.items() if re.search(args.focus, name)}
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "junit.xml").unlink(missing_ok=True)
    programs = dict(line.split("=", 1) for line in args.programs.read_text().splitlines())
    os.environ["PATH"] += f":{pathlib.Path(programs['ginkgo']).parent}"

    with contextlib.ExitStack() as stack:
        top = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-conformance-")))
        use_mirror(top / "hosts", f"{BRIDGE_ADDRESS}:{conformance_images.PORT}")
        cluster = Cluster(top / "cluster", args.bin.resolve(), {"registryConfigPath": str(top / "hosts")})
        stack.callback(cluster.down)
        cluster.up(programs, args.nodes)
        stack.callback(keep_logs, cluster, args.out)
        registry = conformance_images.offer(programs, BRIDGE_ADDRESS)
        stack.callback(registry.stop)
        until("all nodes are ready", lambda: are_ready(cluster))
        cluster.reach_pods()
        run_suite(cluster, programs, args, expected)
    return 1 if report(expected, results(args.out / "junit.xml")) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, TimeoutError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"conformance: {error}")
