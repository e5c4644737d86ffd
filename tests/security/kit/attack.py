# SPDX-License-Identifier: Apache-2.0
"""Attacks by name, and what became of them."""
import dataclasses
import time
import traceback

REGISTRY = []


class Breach(Exception):
    """The attack did what it should not have been able to do."""


@dataclasses.dataclass
class Attack:
    id: str
    name: str
    function: object
    only_whole: bool
    open_because: str


@dataclasses.dataclass
class Verdict:
    attack: Attack
    word: str   # held, broken, open
    text: str
    seconds: float


def attack(identifier, only_whole=False, open_because=""):
    """`identifier`: rows of the catalogue and findings. `open_because`: known not to hold, and why."""
    def register(function):
        REGISTRY.append(Attack(identifier, function.__name__, function, only_whole, open_because))
        return function
    return register


def breach_if(condition, text):
    if condition:
        raise Breach(text)


def chosen(names, whole):
    """Those that are asked for: by name or id, else all of the form."""
    if names:
        unknown = [n for n in names if not any(matches(a, n) for a in REGISTRY)]
        if unknown:
            raise SystemExit(f"run: no attack {', '.join(unknown)}")
        return [a for a in REGISTRY if any(matches(a, n) for n in names)]
    return [a for a in REGISTRY if whole or not a.only_whole]


def matches(candidate, name):
    return name == candidate.name or name in candidate.id.replace(",", " ").split()


def run_one(candidate, kit):
    """Tries it, cleans up after it, and asks the oracle."""
    print(f"[ RUN      ] security.{candidate.name}", flush=True)
    began = time.monotonic()
    found = []
    kit.begin()
    text = ""
    try:
        text = candidate.function(kit) or ""
    except Breach as breach:
        found.append(str(breach))
    except Exception as error:  # not tried to the end is not held
        found.append(f"could not be tried: {type(error).__name__}: {error}")
        traceback.print_exc()
    found += kit.end()
    word = "held" if not found else "open" if candidate.open_because else "broken"
    if found:
        text = " ".join("; ".join(found).split())
    if word == "open":
        text = f"{candidate.open_because} ({text})"
    seconds = time.monotonic() - began
    if found:
        print(f"{word}: {text}")
    result = "[  FAILED  ]" if word == "broken" else "[       OK ]"
    print(f"{result} security.{candidate.name} ({seconds * 1000:.0f} ms)", flush=True)
    return Verdict(candidate, word, text, seconds)


def table(verdicts):
    for v in verdicts:
        yield f"{v.attack.id:<22} {v.word:<7} {v.seconds:5.1f} s  {v.attack.name:<44} {v.text[:300]}"
    count = {word: sum(v.word == word for v in verdicts) for word in ("held", "broken", "open")}
    yield (f"attacks: {len(verdicts)} run, {count['held']} held, {count['broken']} broken, "
           f"{count['open']} open")
