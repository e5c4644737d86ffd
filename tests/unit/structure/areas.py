#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when two sources that a release build compiles together name helpers alike: areas.py TOP.

holdfast_area() in CMakeLists.txt makes units of sources of several folders, which only the preset release does: what
their anonymous namespaces hold then meets. Compared are types, aliases, constants and functions (by their parameters,
as they are written).
"""
import collections
import pathlib
import re
import sys

from one_definition import ANONYMOUS, type_defined_by, walk, without_template

LINE = re.compile(r"^(holdfast_area|add_subdirectory)\(\"?([\w/]*)", re.M)
CONSTANT = re.compile(r"k[A-Z]\w*$")


def areas(top):
    """Name of an area -> its folders."""
    found = collections.defaultdict(list)
    for lists in sorted(top.glob("[!.b]*/**/CMakeLists.txt")):
        area = ""
        for verb, argument in LINE.findall(lists.read_text()):
            if verb == "holdfast_area":
                area = argument
            elif area:
                found[area].append(lists.parent / argument)
    return found


def parameters(tokens):
    """The types of a parameter list, without names and defaults."""
    types, current, depth = [], [], 0
    for token in [*tokens, ","]:
        depth += (token in "(<[{") - (token in ")>]}")
        if token == "," and depth <= 0:
            current = current[:current.index("=")] if "=" in current else current
            named = len(current) > 1 and re.match(r"\w", current[-1]) and current[-2] not in ("::", "const")
            types.append(" ".join(current[:-1] if named else current))
            current = []
        else:
            current.append(token)
    return ", ".join(types)


def function_defined_by(statement):
    """(name, parameters) of the function whose body follows the tokens, else None."""
    statement = without_template(statement) or []
    if "(" not in statement or "=" in statement[:statement.index("(")]:
        return None
    start = statement.index("(")
    name, depth = statement[start - 1] if start else "", 0
    if not re.match(r"[A-Za-z_]\w*$", name) or statement[start - 2:start - 1] == ["::"]:
        return None
    for end in range(start, len(statement)):
        depth += (statement[end] == "(") - (statement[end] == ")")
        if depth == 0:
            return name, parameters(statement[start + 1:end])
    return None


def helpers(text):
    """(namespaces, name, what tells it apart) of what anonymous namespaces of the source define: a function's
    parameters, an alias' "= type", None for others."""
    for namespaces, statement, token in walk(text):
        if ANONYMOUS not in namespaces or not statement:
            continue
        where = "::".join(name for name in namespaces if name != ANONYMOUS)
        if token == "{" and (name := type_defined_by(statement)):
            yield where, name, None
        elif token == "{" and (function := function_defined_by(statement)):
            yield where, *function
        elif token == ";" and statement[:1] == ["using"] and statement[2:3] == ["="]:
            yield where, statement[1], " ".join(statement[2:])
        elif token in "{;=[" and CONSTANT.match(statement[-1]) and {"constexpr", "const", ","} & set(statement):
            yield where, statement[-1], None


def meet(a, b):
    """Whether two of one name do not go together."""
    if a is None or b is None:
        return True
    aliases = a.startswith("=") + b.startswith("=")
    return a != b if aliases == 2 else aliases == 1 or a == b


def main():
    top = pathlib.Path(sys.argv[1])
    seen, complaints = 0, []
    for area, folders in areas(top).items():
        users = collections.defaultdict(dict)  # (namespaces, name) -> file -> what tells it apart
        for file in sorted(file for folder in folders for file in folder.glob("*.cc")):
            for where, name, of in helpers(file.read_text()):
                users[where, name].setdefault(str(file.relative_to(top)), set()).add(of)
                seen += 1
        for (where, name), files in users.items():
            met = [a for a in files if any(meet(x, y) for b in files if b != a for x in files[a] for y in files[b])]
            if met:
                complaints.append(f"{area}: {where} has {name} in {' and in '.join(met)}: give one another name")
    if seen < 1000:
        sys.exit(f"only {seen} helpers were found: the sources are read wrongly")
    print("\n".join(sorted(complaints)) or "the helpers of each area have names of their own")
    sys.exit(bool(complaints))


if __name__ == "__main__":
    main()
