#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when two files define a type of the same full name: one_definition.py TOP.

No compiler sees both. What is made of them by templates has one name too, of which the linker keeps one: a
std::vector of the other type is then walked with the wrong size. (Types in anonymous namespaces are a file's own;
specialisations of templates have the template's name and are left out.)
"""
import collections
import pathlib
import re
import sys

AREAS = ("include", "agent", "runtime", "netproxy")
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
TOKEN = re.compile(r"""//[^\n]* | /\*.*?\*/ | R"(\w*)\(.*?\)\1" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+'
                       | \w+ | :: | \S""", re.S | re.X)
ANONYMOUS = "(anonymous)"


def without_template(statement):
    """What follows `template <...>`, and None for a specialisation, whose list is empty."""
    if statement[:1] != ["template"]:
        return statement
    if statement[1:3] == ["<", ">"]:
        return None
    depth = 0
    for place, token in enumerate(statement):
        depth += (token == "<") - (token == ">")
        if token == ">" and depth == 0:
            return statement[place + 1:]
    return None


def type_defined_by(statement):
    """The name of the type whose body follows the tokens, else None."""
    statement = without_template(statement)
    if not statement or statement[0] not in ("struct", "class", "union", "enum") or {"=", "("} & set(statement[:3]):
        return None
    name = ""
    for token in statement[1:]:
        if token in (":", "final"):
            break
        if token == "<":  # of a specialisation in part
            return None
        name += "" if token in ("class", "struct") else token
    return name or None


def walk(text):
    """Each token of the source that stands in namespaces only: (their names, its statement so far, the token)."""
    scopes, statement = [], []  # one entry per brace that is open: names, or None for what is no namespace
    for match in TOKEN.finditer(DIRECTIVE.sub("", text)):
        token = match.group()
        if token.startswith(("//", "/*")):
            continue
        in_namespaces = None not in scopes
        if in_namespaces:
            yield sum(scopes, []), statement, token
        if token == "{":
            is_namespace = in_namespaces and statement[:1] == ["namespace"]
            scopes.append(([t for t in statement[1:] if t != "::"] or [ANONYMOUS]) if is_namespace else None)
        elif token == "}" and scopes:
            scopes.pop()
        if token in "{};":
            statement = []
        else:
            statement.append(token)


def types(text):
    """Full names of the types that the source defines in namespaces."""
    for namespaces, statement, token in walk(text):
        if token == "{" and (name := type_defined_by(statement)):
            yield "::".join([*namespaces, name])


def main():
    top = pathlib.Path(sys.argv[1])
    files = collections.defaultdict(set)
    for area in AREAS:
        for file in sorted((top / area).rglob("*")):
            if file.suffix in (".h", ".cc"):
                for name in types(file.read_text()):
                    if ANONYMOUS not in name:
                        files[name].add(str(file.relative_to(top)))
    if len(files) < 1000:
        sys.exit(f"only {len(files)} types were found: the sources are read wrongly")
    twice = {name: where for name, where in files.items() if len(where) > 1}
    for name, where in sorted(twice.items()):
        print(f"{name} is defined in {' and in '.join(sorted(where))}: give one another name")
    sys.exit(bool(twice))


if __name__ == "__main__":
    main()
