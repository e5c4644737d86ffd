#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill.py --bin DIR --image BUSYBOX.tar [--kills N] [--seed S] [--patience F] [--calm]: 20 pods run
while every process of Holdfast is killed (docs/kill-tests.md), in this order:

  points       once at every pause point of the source (points.py), from the first start of the agent
               on, while pods, images and execs come and go (life.py); with --calm a second time,
               each kill only when all is well again
  at random    agent, holder, launcher and logger N times each
  pairs, all   every two of them, and all four, N/6 times each
  upgrade      holder, launcher and logger execute their binary in place

Then it counts: containers restarted, lines lost or doubled, exit codes lost, things leaked; address
and cgroup books are compared with the kernel. Run as root under
`unshare --net --mount --propagation private`. Prints a line per phase and a summary; exits 1 on any
loss, and when a pause point was never reached.
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import books
import logs
import points
import pods as pod_plan
from life import Life
from machine import Machine

ROLES = points.ROLES
MOST_LIVES = 4


class Tally:
    def __init__(self):
        self.problems = []

    def expect(self, good, text):
        if not good:
            self.problems.append(text)
            print(f"  PROBLEM {text}", flush=True)


class KillTest:
    def __init__(self, machine, args, tally):
        self.machine = machine
        self.args = args
        self.tally = tally
        self.rng = random.Random(args.seed)
        self.go = machine.top / "go"
        self.go.mkdir()
        self.plan = pod_plan.plan(self.go)
        self.exiters = iter([n for n, (kind, _) in self.plan.items() if kind == "exiter"])
        self.may_be_unknown = set()  # exit codes that nobody could see
        self.ended = []
        self.lives = 0
        self.kills = 0
        self.restarted = 0

    def run(self):
        if self.args.no_points or not points.names_in_source():
            print("points       left out", flush=True)
            self.birth()
            self.before = self.identities()
        else:
            self.points(dense=True)
        if self.args.calm:
            self.points(dense=False)
        rounds = max(1, self.args.kills // 6)
        for role in ROLES:
            self.phase(role, [(role,)], self.args.kills)
        self.phase("pairs", list(itertools.combinations(ROLES, 2)), rounds)
        self.phase("all at once", [ROLES], rounds)
        self.upgrade()
        lost_exits = self.check_exits()
        self.check_loopers()
        books.check(machine=self.machine, tally=self.tally)
        counts = self.check_logs()
        leaked = self.tear_down()
        print(f"summary: {self.kills} kills, {self.restarted} containers restarted, "
              f"{counts['lines']} lines checked, {counts['lost']} lost, {counts['doubled']} doubled, "
              f"{len(self.ended)} exit codes, {lost_exits} lost, {leaked} leaked", flush=True)

    # --- killing ---

    def points(self, dense):
        """Kills at every point; `dense` from the agent's very first start on."""
        machine = self.machine
        names = points.names_in_source()
        sweep = points.Sweep(machine, machine.pauses, names,
                             (lambda: True) if dense else self.all_shown)
        began = time.monotonic()
        sweep.start()
        if dense:
            self.birth(sweep)
        else:
            sweep.born = True
        before = self.identities() if not dense else None
        while not all(map(points.excepted, sweep.remaining())) and self.lives < MOST_LIVES * (1 if dense else 2):
            try:
                Life(machine, self.tally, self.lives).run()
            except TimeoutError as late:
                raise sweep.error or late  # a sweep that broke leaves somebody stopped
            self.lives += 1
            if self.lives == 1:
                self.end_one()
            sweep.again()
            self.each_once()
        missed = sweep.remaining()
        sweep.finish()
        self.settle()
        self.wait_ended()
        self.kills += len(sweep.killed)
        if dense:
            self.before = self.identities()
            for name, (identity, restarts) in self.before.items():
                self.tally.expect(len(identity) == 1, f"{name}: processes {identity}")
                self.tally.expect(restarts == 0, f"{name}: {restarts} restarts at its start")
            unreached = [n for n in missed if not points.excepted(n)]
            self.tally.expect(not unreached, f"pause points never reached: {unreached}")
            stale = [n for n in sweep.killed if points.excepted(n)]
            self.tally.expect(not stale, f"exceptions of points.py that are none: {stale}")
        else:
            self.compare("points, calm", before)
        by_role = {r: sum(1 for role in sweep.killed.values() if role == r) for r in ROLES}
        print(f"{'points' if dense else 'points, calm':12} {len(sweep.killed):4} kills at "
              f"{len(names)} pause points {by_role}, not reached {missed}, "
              f"{time.monotonic() - began:.0f} s", flush=True)
        if self.args.verbose:
            print("  " + " ".join(f"{n}:{r}" for n, r in sorted(sweep.killed.items())))

    def birth(self, sweep=None):
        machine = self.machine
        machine.wait("the agent answers", lambda: machine.ctl("version"), 120)
        machine.wait("image imported", lambda: machine.ctl(
            "image", "import", self.args.image, "--name", pod_plan.IMAGE, "--cmd", "/bin/sh"), 120)
        if sweep:
            sweep.born = True
        for name, (_, body) in self.plan.items():
            pod_plan.write_manifest(machine.manifests, name, body)
        machine.wait("all pods started", self.all_started, 180)

    def each_once(self):
        """So that also what follows a death is passed when nobody stops anywhere else."""
        for roles in (("log",), ("launch",), ("hold",), ("agent",), ("hold", "launch")):
            self.kills += self.machine.kill(roles)
            self.settle()

    def phase(self, name, groups, rounds):
        kills = 0
        self.end_one(name == "all at once")
        for _ in range(rounds):
            for group in groups:
                # Whoever died in the round before is there again; then a random moment of its life.
                self.machine.wait(f"{group} alive", lambda g=group: all(
                    self.machine.pids_of(r) for r in g), 60)
                time.sleep(self.rng.uniform(0, 0.25))
                kills += self.machine.kill(group)
        self.settle()
        self.wait_ended()
        self.kills += kills
        self.compare(name, self.before, f"{kills:4} kills")

    def upgrade(self):
        machine = self.machine
        pids = machine.upgrade_keeper()
        def replaced():
            return all("memfd:holdfast-keeper" in os.readlink(f"/proc/{pid}/exe") for pid in pids)
        try:
            machine.wait("the keeper runs its new binary", replaced, 60)
        except TimeoutError as error:
            self.tally.expect(False, str(error))
        self.settle()
        after = [machine.ask_keeper(path, 10) for path in machine.keeper_sockets()]
        self.tally.expect(pids == after, f"upgrade in place: pids {pids}, then {after}")
        self.compare("upgrade", self.before, "of all")

    def compare(self, name, before, text=""):
        after = self.identities()
        changed = [n for n in before if before[n] != after[n]]
        self.restarted += len(changed)
        self.tally.expect(not changed, f"after {name}: restarted {changed}")
        self.before = after
        if text:
            print(f"{name:12} {text}, {len(changed)} containers restarted", flush=True)

    # --- looking ---

    def all_started(self):
        seen = self.machine.patient_pods()
        return all(n in seen and restarts(seen[n]) >= 0 and (
            kind == "looper" or seen[n]["status"].get("phase") == "Running")
                   for n, (kind, _) in self.plan.items())

    def all_shown(self):
        try:
            return set(self.plan) <= set(self.machine.pods())
        except (RuntimeError, ValueError, OSError, subprocess.TimeoutExpired):
            return False

    def settle(self):
        """Every process is there again and the API shows every pod."""
        def ready():
            return self.machine.keeper_answers() and set(self.plan) <= set(self.machine.pods())
        self.machine.wait("all processes back", ready, 60)

    def identities(self):
        seen = self.machine.patient_pods()
        return {n: (self.machine.process_identity(seen[n]), restarts(seen[n]))
                for n, (kind, _) in self.plan.items() if kind in ("writer", "partial", "sleeper")}

    def end_one(self, nobody_may_see=False):
        name = next(self.exiters)
        self.ended.append(name)
        if nobody_may_see:
            self.may_be_unknown.add(name)
        (self.go / name).touch()

    def wait_ended(self):
        """All that were told to end have ended: in the phase in which they were told to."""
        def over():
            seen = self.machine.pods()
            return all(seen[n]["status"]["phase"] == "Failed" for n in self.ended)
        self.machine.wait("exiters ended", over, 120)

    def check_exits(self):
        seen = self.machine.patient_pods()
        lost = 0
        for name, (kind, _) in self.plan.items():
            if kind != "exiter":
                continue
            status = seen[name]["status"]["containerStatuses"][0]
            state = status["state"].get("terminated", {})
            got = (state.get("exitCode"), state.get("reason"))
            wanted = [(pod_plan.expected_exit(name), "Error")] if name in self.ended else [(None, None)]
            if name in self.may_be_unknown:
                wanted.append((137, "ContainerStatusUnknown"))
            if got not in wanted or status["restartCount"] != 0:
                lost += 1
                self.tally.expect(False, f"{name}: {got}, {status['restartCount']} restarts, "
                                         f"{json.dumps(status)}")
            if name in self.ended and got == wanted[0]:
                meta = seen[name]["metadata"]
                told = list(logs.payload_lines(
                    self.machine.logs, f"default_{meta['name']}_{meta['uid']}"))
                self.tally.expect(told == [b"over"], f"{name}: last words {told}")
        return lost

    def check_loopers(self):
        """Each run said its line once; the count of restarts is that of the runs."""
        for name, pod in self.machine.patient_pods().items():
            if self.plan.get(name, ("",))[0] != "looper":
                continue
            meta = pod["metadata"]
            folder = self.machine.logs / f"default_{meta['name']}_{meta['uid']}" / "main"
            runs = sorted(int(p.name.split(".")[0]) for p in folder.glob("*.log"))
            self.tally.expect(runs and runs[-1] - restarts(pod) in (0, 1),
                              f"{name}: logs of runs {runs}, {restarts(pod)} restarts")
            for run in runs[:-1]:
                text = (folder / f"{run}.log").read_text()
                self.tally.expect(text.count("stdout F once\n") == 1 == text.count("\n"),
                                  f"{name} run {run}: {text!r}")

    def check_logs(self):
        self.quiet_logs()
        seen = self.machine.patient_pods()
        counts = {"lines": 0, "lost": 0, "doubled": 0}
        for name, (kind, _) in self.plan.items():
            if kind not in ("writer", "partial"):
                continue
            meta = seen[name]["metadata"]
            folder = f"default_{meta['name']}_{meta['uid']}"
            counter = logs.count_writer if kind == "writer" else logs.count_partial
            total, lost, doubled = counter(logs.payload_lines(self.machine.logs, folder))
            counts["lines"] += total
            counts["lost"] += lost
            counts["doubled"] += doubled
            self.tally.expect(total > 0, f"{name} has no log lines")
            self.tally.expect(lost == 0 and doubled == 0,
                              f"{name}: {lost} lines lost, {doubled} doubled of {total}")
        return counts

    def quiet_logs(self):
        """Stops the writers, then waits until the logger has written, rotated and packed it all."""
        for name, pod in self.machine.patient_pods().items():
            if self.plan.get(name, ("",))[0] in ("writer", "partial"):
                for pid, _ in self.machine.process_identity(pod):
                    os.kill(pid, signal.SIGSTOP)
        history = []
        def settled():
            history.append(sorted((str(p), p.stat().st_size)
                                  for p in self.machine.logs.glob("*/main/*")))
            return len(history) > 30 and all(h == history[-1] for h in history[-30:])
        self.machine.wait("logs are quiet", settled, 120)

    # --- the end ---

    def tear_down(self):
        machine = self.machine
        for file in machine.manifests.iterdir():
            file.unlink()
        machine.wait("all pods gone", lambda: not machine.pods(), 120)
        try:
            machine.wait("nothing left", lambda: not books.leftovers(machine), 30)
        except TimeoutError:
            pass
        left = books.leftovers(machine)
        self.tally.expect(not left, f"leaked: {left[:12]}")
        check = machine.ctl("check", check=False)
        self.tally.expect(check.returncode == 0,
                          f"holdctl check: {check.stdout.strip()} {check.stderr.strip()}")
        return len(left)


def restarts(pod):
    return pod["status"]["containerStatuses"][0]["restartCount"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--image", required=True)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--patience", type=int, default=1, help="factor on deadlines, for slow machines")
    parser.add_argument("--no-points", action="store_true", help="at random only")
    parser.add_argument("--calm", action="store_true", help="kill at every point a second time")
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    parser.add_argument("--verbose", action="store_true", help="say who was killed where")
    args = parser.parse_args()
    print(f"seed {args.seed}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-kill-"))
    # Below the root directory, which the launcher's own mount namespace shows too.
    pauses = top / "root/pauses"
    machine = Machine(args.bin, top, "kill", args.patience, points.Sweep.environment(pauses))
    machine.pauses = pauses
    tally = Tally()
    try:
        KillTest(machine, args, tally).run()
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
