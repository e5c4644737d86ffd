# SPDX-License-Identifier: Apache-2.0
"""Tests that are functions of one node, and what they say of it."""
import shutil
import time


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def equal(got, wanted, what):
    check(got == wanted, f"{what}: {got!r}, wanted {wanted!r}")


class Skip(Exception):
    """This machine cannot run the test; the text says why. tests/run counts it."""


def run_tests(node, tests):
    """Runs `tests`, (name, function) each, as GoogleTest reports; returns the names of those that failed."""
    failed = []
    for name, test in tests:
        print(f"[ RUN      ] {name}", flush=True)
        began = time.monotonic()
        try:
            test(node)
            result = "[       OK ]"
        except Skip as reason:
            result = "[  SKIPPED ]"
            print(f"{name}: Skipped\n{reason}")
        except Exception as error:  # a test that breaks fails, the others go on
            failed.append(name)
            result = "[  FAILED  ]"
            print(f"{type(error).__name__}: {error}")
        print(f"{result} {name} ({(time.monotonic() - began) * 1000:.0f} ms)", flush=True)
    return failed


def run_on(node, top, tests, begin=lambda: None):
    """Tests of a node whose agent is started, and which is as it should be after `begin`: the exit code. The agent's log
    is shown when one failed. Nothing of the node is left, nor of the folder `top`."""
    failed = tests
    try:
        node.start_agent()
        node.wait("the agent answers", lambda: node.ctl("version").returncode == 0)
        begin()
        failed = run_tests(node, tests)
    finally:
        if failed:
            print((node.top / "agent.log").read_text()[-8000:])
        node.stop()
        shutil.rmtree(top, ignore_errors=True)
    return 1 if failed else 0
