#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""generate.py OBJECTS SEED COUNT: templates for jsonpath, custom-columns and sort-by, one JSON object a line.

Most are paths that lead somewhere in the objects, bent a little: unions, slices, filters with values that are
there, ranges, quotes; one in eight has characters put in, taken out or doubled, so that errors are compared too."""
import json
import random
import sys

OPERATORS = ["==", "!=", "<", ">", "<=", ">="]
NOISE = "{}[]()'\"\\.,:*@$?!=<>-+ 0159abz_~#%\t"
TEXTS = ["\\n", "\\t", "x", " ", "é", "\\u00e9", "\\x41", "\\101", "\\\\", "", "=", "\\'", "\\q"]


class Templates:
    def __init__(self, root, rng):
        self.root, self.rng = root, rng

    def field(self, name):
        """A step to a member: kubectl reads a dot in quotes as two steps, which ours does not."""
        escaped = name.replace(".", "\\.")
        return self.rng.choice([f".{escaped}", f".{escaped}", f"['{escaped}']", f" .{escaped}"])

    def literal(self, value):
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        text = str(value).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        return f'"{text}"'

    def index(self, items):
        rng, size = self.rng, len(items)
        number = rng.randint(-size - 1, size + 1)
        return rng.choice([
            f"[{number}]", f"[{rng.randrange(size)}]", "[*]", "[]", f"[{number}:]", f"[:{number}]", f"[-1:]", "[::2]",
            f"[{number}:{rng.randint(-size, size + 1)}]", f"[{rng.randint(0, size)}:{size}:{rng.randint(-1, 3)}]",
            f"[{rng.randrange(size)},{number}]", f"[0, {rng.randrange(size)}]"])

    def filter(self, items):
        rng = self.rng
        item = rng.choice(items)
        path, value = "", item
        while isinstance(value, (dict, list)) and value and (not path or rng.random() < 0.8):
            key = rng.choice(sorted(value)) if isinstance(value, dict) else rng.randrange(len(value))
            path += "." + key.replace(".", "\\.") if isinstance(value, dict) else f"[{key}]"
            value = value[key]
        if rng.random() < 0.2:
            return f"[?(@{path})]"
        if rng.random() < 0.2:
            value = rng.choice([1, "Running", True, 2.5, 30])
        quote = self.literal(value)
        if quote.startswith('"') and "'" not in quote and rng.random() < 0.5:
            quote = f"'{quote[1:-1]}'"
        space = rng.choice(["", " "])
        return f"[?(@{path}{space}{rng.choice(OPERATORS)}{space}{quote})]"

    def path(self, value, steps):
        """A path from `value` down, and what it chooses first."""
        rng, text = self.rng, ""
        for _ in range(steps):
            if isinstance(value, dict) and value:
                key = rng.choice(sorted(value))
                others = rng.sample(sorted(value), min(2, len(value)))
                if rng.random() < 0.06 and all("." not in k for k in others):
                    text += "[" + ",".join(f"'{k}'" for k in others) + "]"
                    key = others[0]
                elif rng.random() < 0.04:
                    text += rng.choice([".nothing", "..name", ".*", "..image", "['a','b']", ".."])
                    return text, None
                else:
                    text += self.field(key)
                value = value[key]
            elif isinstance(value, list) and value:
                text += self.filter(value) if rng.random() < 0.3 else self.index(value)
                value = rng.choice(value)
            else:
                if rng.random() < 0.15:
                    text += rng.choice([".x", "[0]", "[*]", "[?(@.a)]"])
                break
        return text, value

    def action(self, value, steps=6):
        text, end = self.path(value, self.rng.randint(0, steps))
        return "{" + self.rng.choice(["", "", "", "@", "$", " "]) + text + self.rng.choice(["", "", " "]) + "}", end

    def quoted(self):
        quote = self.rng.choice("\"'")
        return "{" + quote + "".join(self.rng.choices(TEXTS, k=self.rng.randint(0, 3))) + quote + "}"

    def range(self, depth):
        rng = self.rng
        text, value = self.path(self.root, rng.randint(1, 4))
        body = "".join(rng.choice([self.action(value if value is not None else self.root, 4)[0], self.quoted(), ":",
                                   self.range(depth + 1) if depth < 2 else ""]) for _ in range(rng.randint(1, 3)))
        return "{range " + text + "}" + body + rng.choice(["{end}"] * 12 + ["", "{ end }"])

    def jsonpath(self):
        parts = [self.rng.choice([self.action(self.root)[0], self.action(self.root, 9)[0], self.range(0), self.quoted(),
                                  self.rng.choice(["text ", "\n", "a}b", "{1}", "{true}", "{end}", "{-2.50}", "{word}"])])
                 for _ in range(self.rng.choice([1, 1, 1, 2, 3]))]
        return "".join(parts)

    def columns(self):
        columns = []
        for number in range(self.rng.randint(1, 3)):
            text, _ = self.path(self.rng.choice(self.root["items"]), self.rng.randint(1, 7))
            if "," in text and self.rng.random() < 0.9:
                text = ".metadata.name"
            text = text.lstrip()
            text = self.rng.choice([text, text.lstrip("."), "{" + text + "}"])
            columns.append(f"C{number}:{text}")
        return ",".join(columns)

    def sort(self):
        """Where everything has an order: kubectl ends where it has none."""
        return self.rng.choice([".metadata.name", "{.metadata.creationTimestamp}", ".spec.priority", "metadata.annotations.size",
                                ".status.containerStatuses[0].restartCount", "{.metadata.namespace}", ".metadata.labels.app",
                                ".spec.containers[0].resources.limits.memory", ".spec.containers[-1].resources.limits.cpu",
                                ".metadata.resourceVersion", ".status.podIPs[1].ip", ".nothing",
                                "{.status.phase"])

    def bent(self, text):
        rng, letters = self.rng, list(text)
        for _ in range(rng.randint(1, 2)):
            at = rng.randrange(len(letters) + 1)
            kind = rng.randrange(3)
            if kind == 0 or not letters:
                letters.insert(at, rng.choice(NOISE))
            elif kind == 1:
                del letters[min(at, len(letters) - 1)]
            else:
                letters.insert(at, letters[min(at, len(letters) - 1)])
        return "".join(letters)

    def make(self):
        form = self.rng.choices(["jsonpath", "custom-columns", "sort-by"], [12, 6, 1])[0]
        text = {"jsonpath": self.jsonpath, "custom-columns": self.columns, "sort-by": self.sort}[form]()
        if form != "sort-by" and self.rng.random() < 0.125:
            text = self.bent(text)
        if form == "custom-columns":  # ours shows a tab as a space
            text = text.replace("\t", " ")
        return {"form": form, "text": text}


def main():
    path, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with open(path, encoding="utf-8") as file:
        root = json.load(file)
    for number in range(seed, seed + count):
        print(json.dumps({"id": number, **Templates(root, random.Random(number)).make()}))


if __name__ == "__main__":
    main()
