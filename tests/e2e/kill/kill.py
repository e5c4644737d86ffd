#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill.py --bin DIR --image BUSYBOX.tar [--kills N] [--seed S] [--patience F]: 20 pods run while every process of
Holdfast is killed: agent, holder, launcher and logger N times each at random, in every pair, and all
at once. Then it counts: containers restarted, lines lost or doubled, exit codes lost, things leaked.
Run under `unshare --net --mount`. Prints one summary line per phase and exits 1 on any loss.
"""
import argparse
import itertools
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import logs
import pods as pod_plan
from machine import Machine

ROLES = ("agent", "hold", "launch", "log")


class Tally:
    def __init__(self):
        self.problems = []

    def expect(self, good, text):
        if not good:
            self.problems.append(text)
            print(f"  PROBLEM {text}", flush=True)


def wait_running(machine, names):
    def ready():
        seen = machine.pods()
        return all(n in seen and seen[n]["status"].get("phase") in ("Running", "Succeeded", "Failed")
                   for n in names)
    machine.wait("all pods started", ready, 90)


def identities(machine, plan):
    seen = machine.pods()
    return {n: (machine.process_identity(seen[n]), restarts(seen[n]))
            for n, (kind, _) in plan.items() if kind in ("writer", "partial", "sleeper")}


def restarts(pod):
    return pod["status"]["containerStatuses"][0]["restartCount"]


def settle(machine, plan):
    """Every process is there again and the API shows every pod."""
    def ready():
        roles = machine.keepers()
        return all(roles[r] for r in ("hold", "launch", "log")) and set(plan) <= set(machine.pods())
    machine.wait("all processes back", ready, 30)


def kill_phase(machine, plan, rng, groups, rounds):
    kills = 0
    for _ in range(rounds):
        for group in groups:
            # Whoever died in the round before is there again; then a random moment of its life.
            machine.wait(f"{group} alive", lambda g=group: all(machine.pids_of(r) for r in g), 30)
            time.sleep(rng.uniform(0, 0.25))
            kills += machine.kill(group)
    settle(machine, plan)
    return kills


def quiet_logs(machine, plan):
    """Stops the writers, then waits until the logger has written and rotated all they said."""
    for name, pod in machine.pods().items():
        if plan.get(name, ("",))[0] in ("writer", "partial"):
            for pid, _ in machine.process_identity(pod):
                os.kill(pid, signal.SIGSTOP)
    history = []
    def settled():
        history.append(sorted((str(p), p.stat().st_size) for p in machine.logs.glob("*/main/*")))
        return len(history) > 20 and all(h == history[-1] for h in history[-20:])
    machine.wait("logs are quiet", settled, 60)


def check_logs(machine, plan, tally):
    quiet_logs(machine, plan)
    seen = machine.pods()
    counts = {"lines": 0, "lost": 0, "doubled": 0}
    for name, (kind, _) in plan.items():
        if kind not in ("writer", "partial"):
            continue
        meta = seen[name]["metadata"]
        folder = f"default_{meta['name']}_{meta['uid']}"
        counter = logs.count_writer if kind == "writer" else logs.count_partial
        total, lost, doubled = counter(logs.payload_lines(machine.logs, folder))
        counts["lines"] += total
        counts["lost"] += lost
        counts["doubled"] += doubled
        tally.expect(total > 0, f"{name} has no log lines")
        tally.expect(lost == 0 and doubled == 0, f"{name}: {lost} lines lost, {doubled} doubled of {total}")
    return counts


def check_exits(machine, plan, tally):
    names = [n for n, (kind, _) in plan.items() if kind == "exiter"]
    machine.wait("exiters ended", lambda: all(
        machine.pods()[n]["status"]["phase"] in ("Failed", "Succeeded") for n in names), 120)
    lost = 0
    seen = machine.pods()
    for name in names:
        state = seen[name]["status"]["containerStatuses"][0]["state"].get("terminated", {})
        if state.get("exitCode") != pod_plan.expected_exit(name):
            lost += 1
            tally.expect(False, f"{name}: exit code {state.get('exitCode')} ({state.get('reason')}), "
                                f"not {pod_plan.expected_exit(name)}")
    return len(names), lost


def leftovers(machine):
    """What is still in the kernel or on disk after everything was deleted."""
    found = []
    for tree in machine.cgroup_trees():
        found += [str(p) for p in tree.glob("**/pod*") if p.is_dir()]
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    found += re.findall(r"\d+: (hk[^:@]*)", links)
    found += [l for l in pathlib.Path("/proc/self/mounts").read_text().splitlines()
              if str(machine.top) in l and f" {machine.run} " not in l]
    for folder in ("keeper/starts", "keeper/exits", "keeper/logs"):
        if (machine.run / folder).is_dir():
            found += [str(p) for p in (machine.run / folder).iterdir()]
    found += [str(p) for p in (machine.top / "root/pods").glob("*")]
    return found


def tear_down(machine, tally):
    for file in machine.manifests.iterdir():
        file.unlink()
    machine.wait("all pods gone", lambda: not machine.pods(), 90)
    try:
        machine.wait("nothing left", lambda: not leftovers(machine), 20)
    except TimeoutError:
        pass
    left = leftovers(machine)
    tally.expect(not left, f"leaked: {left[:12]}")
    check = machine.ctl("check", check=False)
    tally.expect(check.returncode == 0, f"holdctl check: {check.stdout.strip()} {check.stderr.strip()}")
    return len(left)


def run(machine, args, tally):
    rng = random.Random(args.seed)
    plan = pod_plan.plan(args.kills * len(ROLES) // 4)
    machine.start_agent()
    machine.wait("the agent answers", lambda: machine.ctl("version"), 30)
    machine.ctl("image", "import", args.image, "--name", "test/busybox:latest", "--cmd", "/bin/sh")
    pod_plan.write_manifests(machine.manifests, plan)
    wait_running(machine, plan)
    before = identities(machine, plan)
    for name, (identity, _) in before.items():
        tally.expect(len(identity) == 1, f"{name} has no process of its own: {identity}")

    phases = [(role, [(role,)], args.kills) for role in ROLES]
    phases.append(("pairs", list(itertools.combinations(ROLES, 2)), max(1, args.kills // 6)))
    phases.append(("all at once", [ROLES], max(1, args.kills // 6)))
    total_kills = restarted = 0
    for name, groups, rounds in phases:
        kills = kill_phase(machine, plan, rng, groups, rounds)
        after = identities(machine, plan)
        changed = [n for n in before if before[n] != after[n]]
        restarted += len(changed)
        total_kills += kills
        tally.expect(not changed, f"after killing {name}: restarted {changed}")
        print(f"{name:12} {kills:4} kills, {len(changed)} containers restarted", flush=True)
        before = after
        if name == "pairs":
            exits, lost_exits = check_exits(machine, plan, tally)
    counts = check_logs(machine, plan, tally)
    leaked = tear_down(machine, tally)
    print(f"summary: {total_kills} kills, {restarted} restarts, {counts['lines']} lines checked, "
          f"{counts['lost']} lost, {counts['doubled']} doubled, {exits} exit codes, {lost_exits} lost, "
          f"{leaked} leaked")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--image", required=True)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--patience", type=int, default=1, help="factor on deadlines, for slow machines")
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    args = parser.parse_args()
    print(f"seed {args.seed}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    top = tempfile.mkdtemp(prefix="holdfast-kill-")
    machine = Machine(args.bin, top, "kill", args.patience)
    tally = Tally()
    try:
        run(machine, args, tally)
    except Exception as error:  # the summary must say what stopped it
        tally.expect(False, f"{type(error).__name__}: {error}")
        print(subprocess.run(["tail", "-n", "30", machine.top / "agent.log"],
                             capture_output=True, text=True, check=False).stdout)
    finally:
        machine.stop()
        if not args.keep and not tally.problems:
            shutil.rmtree(top)
        else:
            print(f"left for a look: {top}")
    print(f"{len(tally.problems)} problems")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
