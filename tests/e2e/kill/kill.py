#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill.py --bin DIR --image BUSYBOX.tar [--kills N] [--pairs N] [--seed S] [--calm] [--patience F] [--pace N]
  [--log-size MIB] [--lives N]:
22 pods run while every process of Holdfast is killed (docs/kill-tests.md), in this order:

  points        once at every pause point (points.py), from the first start of the agent on, while
                pods, images and execs come and go (life.py); with --calm a second time, each kill
                only when all is well again
  points, pairs a sample of them, chosen by the seed: another process dies with the one that arrived
  at random     agent, holder, launcher and logger N times each
  pairs, all    every two of them, and all four, N/6 times each
  nobody        all four dead for a while: containers end, a back-off runs out
  upgrade       holder, launcher and logger execute their binary in place

Then it counts: containers restarted, lines lost or doubled, exit codes lost, things leaked; address
and cgroup books are compared with the kernel. Run as root under
`unshare --net --mount --propagation private`. Prints a line per phase and a summary; exits 1 on any
loss, and when a pause point was never reached.
"""
import argparse
import itertools
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
from exits import Exits, Nobody
from life import Life
from machine import Machine
from pods import restarts

ROLES = points.ROLES
EXITS_IN_PHASE = {"pairs": 6, "all at once": 2}
EXITS_IN_PHASE_OF_ONE = 3
EXITS_WHILE_NOBODY_LIVES = 3


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
        self.follower = logs.Follower(machine.logs, self.go, self.plan, args.log_size, args.pace)
        self.bells = pod_plan.Bells(self.go)
        self.exits = Exits(self.bells)
        self.lives = 0
        self.kills = 0
        self.restarted = 0

    def run(self):
        self.follower.start()
        if self.args.no_points:
            print("points        left out", flush=True)
            self.birth()
            self.before = self.identities()
        else:
            self.all_points()
        rounds = max(1, self.args.kills // 6)
        for role in ROLES:
            self.phase(role, [(role,)], self.args.kills)
        self.phase("pairs", list(itertools.combinations(ROLES, 2)), rounds)
        self.phase("all at once", [ROLES], rounds)
        self.nobody()
        self.upgrade()
        lost_exits = self.exits.check(self.machine, self.tally)
        runs = self.check_loopers()
        books.check(machine=self.machine, tally=self.tally)
        counts = self.check_logs()
        leaked = self.tear_down()
        exits = self.exits
        print(f"summary: {self.kills} kills; {len(self.before)} containers watched, {self.restarted} restarted; "
              f"{counts['written']} lines written and each looked for, {counts['lost']} lost, "
              f"{counts['doubled']} doubled; {len(exits.told)} exits, {lost_exits} lost, "
              f"{exits.unknown} of {len(exits.may_be_unknown)} that may be are unknown, "
              f"{exits.silent} of {len(exits.may_be_silent)} without last words; "
              f"{runs} runs of crashing containers; {leaked} leaked", flush=True)

    # --- killing ---

    def all_points(self):
        names = points.names_of(self.machine.bin)
        if not self.args.pool:
            names = [name for name in names if not name.startswith(points.OF_THE_POOL)]
        self.sweep("points", points.Sweep(self.machine, self.machine.pauses, names))
        if self.args.calm:
            self.sweep("points, calm", points.Sweep(self.machine, self.machine.pauses, names, self.all_shown))
        if self.args.pairs:
            pairs = points.Pairs(self.args.seed)
            sample = pairs.sample(names, self.args.pairs)
            self.sweep("points, pairs", points.Sweep(
                self.machine, self.machine.pauses, sample, self.all_shown, pairs))

    def sweep(self, name, sweep):
        """Kills at every point; the first sweep from the agent's very first start on."""
        began = time.monotonic()
        first = self.lives == 0
        sweep.born = not first
        sweep.start()
        if first:
            self.birth(sweep)
        lives = checked = 0
        passed = -1  # a later sweep ends when a life brings nothing new: some are passed only once
        while (not all(map(points.excepted, sweep.remaining())) and lives < self.args.lives
               and (first or len(sweep.killed) > passed)):
            passed = len(sweep.killed) if lives else -1
            self.exits.end_one(ROLES if sweep.pairs else ())
            life = Life(self.machine, self.tally, self.lives, sweep.owners_died)
            try:
                life.run()
            except TimeoutError as late:
                raise sweep.error or late  # a sweep that broke leaves somebody stopped
            self.lives += 1
            lives += 1
            checked += life.ends_checked
            sweep.again()
            self.each_once()
        sweep.finish()
        self.settle()
        self.wait_ended()
        self.kills += sweep.deaths
        if first:
            self.check_birth()
        else:
            self.compare(name, self.before)
        self.check_reached(name, sweep)
        by_role = {r: sum(1 for role in sweep.killed.values() if role == r) for r in ROLES}
        print(f"{name:13} {sweep.deaths:4} kills at {len(sweep.killed)} of {len(sweep.names)} pause points "
              f"{by_role}, {lives} lives, the ends of {checked} looked at, not reached {sweep.remaining()}, "
              f"{time.monotonic() - began:.0f} s", flush=True)
        if self.args.verbose:
            with_whom = sweep.pairs.chosen if sweep.pairs else {}
            print("  " + " ".join(f"{n}:{'+'.join(with_whom.get(n, (r,)))}"
                                  for n, r in sorted(sweep.killed.items())))

    def check_birth(self):
        self.before = self.identities()
        for name, (identity, restarted) in self.before.items():
            self.tally.expect(len(identity) == 1, f"{name}: processes {identity}")
            self.tally.expect(restarted == 0, f"{name}: {restarted} restarts at its start")
        for text in self.exits.ended_too_early(self.machine):
            self.tally.expect(False, text)

    def check_reached(self, name, sweep):
        """A later sweep finds a point that only a first start passes no more."""
        unreached = [n for n in sweep.remaining() if not points.excepted(n)]
        if name == "points":
            self.tally.expect(not unreached, f"pause points never reached: {unreached}")
        stale = [n for n in sweep.killed if points.excepted(n)]
        self.tally.expect(not stale, f"exceptions of points.py that are none: {stale}")

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
        """So that also what follows a death is passed when nobody stops anywhere else. Who arrives
        somewhere in answer to it dies as well."""
        for roles in (("log",), ("launch",), ("hold",), ("agent",), ("hold", "launch")):
            self.kills += self.machine.kill(roles)
            self.settle()

    def phase(self, name, groups, rounds):
        """In some of its rounds, chosen by the seed, a container ends about when somebody dies."""
        kills = 0
        turns = [group for _ in range(rounds) for group in groups]
        wanted = EXITS_IN_PHASE.get(name, EXITS_IN_PHASE_OF_ONE)
        ends = self.rng.sample(range(len(turns)), min(wanted, len(turns)))
        for turn, group in enumerate(turns):
            # Whoever died in the round before is there again; then a random moment of its life.
            self.machine.wait(f"{group} alive", lambda g=group: all(
                self.machine.pids_of(r) for r in g), 60)
            time.sleep(self.rng.uniform(0, 0.25))
            if turn in ends:
                kills += self.kill_about_an_exit(group)
            else:
                kills += self.machine.kill(group)
        self.settle()
        self.wait_ended()
        self.kills += kills
        self.compare(name, self.before, f"{kills:4} kills, {len(ends)} exits")

    def kill_about_an_exit(self, group):
        """Nobody else is dead when the container ends: all are back before, and the next kill waits."""
        self.settle()
        exit = self.exits.waiting[0]
        process = self.machine.first_process(self.machine.patient_pods()[exit.pod], exit.container)
        if self.rng.random() < 0.5:
            killed = self.machine.kill(group)
            self.exits.end_one(group)
        else:
            self.exits.end_one(group)
            # A random moment of its ending: to wait for any of it would kill at that one only.
            time.sleep(self.rng.uniform(0, 0.02))
            killed = self.machine.kill(group)
        self.machine.wait(f"{exit.file} ended", lambda: not self.machine.is_alive(process))
        return killed

    def nobody(self):
        nobody = Nobody(self.machine, self.tally, self.exits, self.bells)
        kills = nobody.run(EXITS_WHILE_NOBODY_LIVES)
        self.settle()
        self.wait_ended()
        self.kills += kills
        self.compare("nobody", self.before, f"{kills:4} kills, {EXITS_WHILE_NOBODY_LIVES} exits")

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
            print(f"{name:13} {text}, {len(changed)} containers restarted", flush=True)

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

    def wait_ended(self):
        """All that were told to end have ended: in the phase in which they were told to."""
        try:
            self.machine.wait("exiters ended", lambda: not self.exits.outstanding(self.machine.pods()), 120)
        except TimeoutError as late:
            raise TimeoutError("; ".join([str(late), *self.exits.tell_outstanding(self.machine)])) from late

    def check_loopers(self):
        """Each run said its line once; the count of restarts is that of the runs. Returns how many."""
        count = 0
        for name, pod in self.machine.patient_pods().items():
            if self.plan.get(name, ("",))[0] != "looper":
                continue
            meta = pod["metadata"]
            folder = self.machine.logs / f"default_{meta['name']}_{meta['uid']}" / "main"
            runs = sorted(int(p.name.split(".")[0]) for p in folder.glob("*.log"))
            self.tally.expect(runs and runs[-1] - restarts(pod) in (0, 1),
                              f"{name}: logs of runs {runs}, {restarts(pod)} restarts")
            count += restarts(pod) + 1
            for run in runs[:-1]:
                text = (folder / f"{run}.log").read_text()
                self.tally.expect(text.count("stdout F once\n") == 1 == text.count("\n"),
                                  f"{name} run {run}: {text!r}")
        return count

    def check_logs(self):
        """Every line that the writers say they wrote, from the first on."""
        follower = self.follower
        follower.stop_writers()
        self.machine.wait("writers stopped", lambda: len(follower.written()) == len(follower.streams), 120)
        self.wait_quiet_logs()
        follower.finish()
        written = follower.written()
        counts = {"written": sum(written.values()), "lost": 0, "doubled": 0}
        for stream in follower.streams:
            counts["lost"] += stream.lost
            counts["doubled"] += stream.doubled
            self.tally.expect(written[stream.name] > 0, f"{stream.name} wrote no lines")
            self.tally.expect(stream.lost == 0 and stream.doubled == 0 and not stream.examples,
                              f"{stream.name}: {stream.lost} lines lost, {stream.doubled} doubled of "
                              f"{written[stream.name]}; no line of its is {stream.examples[:3]}")
        return counts

    def wait_quiet_logs(self):
        """Until the logger has written, rotated and packed it all."""
        history = []
        def settled():
            history.append(sorted((str(p), p.stat().st_size)
                                  for p in self.machine.logs.glob("*/main/*")))
            return len(history) > 60 and all(h == history[-1] for h in history[-60:])
        self.machine.wait("logs are quiet", settled, 120)

    # --- the end ---

    def tear_down(self):
        machine = self.machine
        for file in machine.manifests.iterdir():
            file.unlink()
        machine.wait("all pods gone", lambda: not machine.pods(), 120)
        self.let_go_of_the_pool()
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


    def let_go_of_the_pool(self):
        """The next agent wants none and drops those of the former one: what is held then is a leftover."""
        self.machine.set_config(sandboxPoolSize=0)
        self.kills += self.machine.kill(("agent",))
        self.machine.wait("the agent is back", lambda: self.machine.ctl("version"), 60)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--image", required=True)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--pairs", type=int, default=40, help="size of the sample of pause points")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--patience", type=int, default=1, help="factor on deadlines, for slow machines")
    parser.add_argument("--pace", type=int, help="lines a second of each writer (default: as many as are read)")
    parser.add_argument("--log-size", type=int, default=10, help="MiB after which a log is rotated")
    # What a life passes once it may pass while nothing is armed, after a kill: four were too few now and then.
    parser.add_argument("--lives", type=int, default=8, help="at most, in each sweep over the points")
    parser.add_argument("--no-points", action="store_true", help="at random only")
    parser.add_argument("--calm", action="store_true", help="kill at every point a second time")
    parser.add_argument("--pool", type=int, default=4, help="sandboxes that lie ready, 0: none")
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
    machine.set_config(sandboxPoolSize=args.pool, containerLogMaxSize=f"{args.log_size}Mi")
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
