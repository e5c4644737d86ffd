# SPDX-License-Identifier: Apache-2.0
"""Images whose archives and contents try to reach the node: while they are imported, and when they run."""
import gzip

from attack import attack, breach_if
from images import Image, Member, digest, document, tar
from oracle import tree
from target import MARK

LINKS = {"absolute": "{canary}", "climbing": "../../../../../../../../../../../../../../..{canary}", "root": "/",
         "up": "..", "proc": "/proc/self/root"}


def names(kit):
    """Ways to name something outside of the layer."""
    canary = str(kit.canary)
    return ["../x", "../../../../../../../../../../.." + canary + "/x", canary + "/x", "a/../../x", "./../x", ".", "",
            "/", "..", "./", "//", "a/./../../../x", "x\0y", "a" * 4096, "x/" * 1100, ".wh...", ".wh..", ".wh.",
            ".wh./x", "a/.wh..wh..opq", ".wh..wh.plnk", "\x1b]0;x\x07", "-rf", "nul\xff"]


def member_cases(kit):
    """name -> layers of members."""
    canary = str(kit.canary)
    for i, name in enumerate(names(kit)):
        for kind in kit.size(("file", "symlink", "hardlink"), ("file", "dir", "symlink", "hardlink", "char", "fifo")):
            link = canary + "/dir/file" if kind in ("symlink", "hardlink") else ""
            yield f"{kind} named {i}", [[Member(name, kind, b"x" if kind == "file" else b"", link=link)]]
        yield f"pax path {i}", [[Member("x", content=b"x", pax={"path": name})]]
        yield f"long name {i}", [[Member("././@LongLink", "longname", name.encode(errors="replace") + b"\0"),
                                  Member("x", content=b"x")]]
    for label, form in LINKS.items():
        target = form.format(canary=canary)
        deep = "x" if label in ("absolute", "climbing") else f".{canary}/x"
        after = {"file": [Member(f"l/{deep}", content=b"x")], "dir": [Member(f"l/{deep}", "dir")],
                 "over": [Member("l", content=b"x")], "dir-over": [Member("l", "dir", mode=0o777)],
                 "chmod": [Member("l/dir", "dir", mode=0o777, uid=1234)],
                 "hardlink": [Member("h", "hardlink", link="l/dir/file"), Member("h", content=b"x")],
                 "whiteout": [Member("l/dir/.wh.file")], "opaque": [Member("l/dir/.wh..wh..opq")],
                 "hardlink-to-link": [Member("h", "hardlink", link="l"), Member("h/x", content=b"x")],
                 "device": [Member("l/null", "char", device=(1, 3))]}
        for what, members in after.items():
            yield f"{what} through a {label} link", [[Member("l", "symlink", link=target), *members]]
            yield f"{what} through a {label} link of the layer below", [[Member("l", "symlink", link=target)], members]
    yield from odd_members(canary)


def odd_members(canary):
    for what, link in {"outside": canary + "/dir/file", "up": "../../../../../../../.." + canary + "/dir/file",
                       "itself": "h", "nothing": "nowhere", "empty": ""}.items():
        yield f"hard link to {what}", [[Member("h", "hardlink", link=link)]]
        yield f"pax link to {what}", [[Member("h", "hardlink", pax={"linkpath": link})]]
    yield "root is a symlink", [[Member(".", "symlink", link=canary)], [Member("x", content=b"x")]]
    yield "file below a file", [[Member("f", content=b"x"), Member("f/x", content=b"x")]]
    yield "owner beyond 32 bits", [[Member("f", uid=1 << 40, gid=1 << 40)]]
    yield "device number beyond 32 bits", [[Member("d", "block", device=(1 << 33, 1 << 33))]]
    yield "size beyond the end", [[Member("f", content=b"x", size=1 << 40)]]
    yield "negative size", [[Member("f", content=b"x", size=-1)]]
    yield "pax size", [[Member("f", content=b"x", pax={"size": "99999999999999999999"})]]
    yield "pax record without an end", [[Member("p", "pax", b"99999 path=x"), Member("f")]]
    yield "pax of 3 MiB", [[Member("f", pax={"comment": "x" * (3 << 20)})]]
    yield "sparse", [[Member("f", "sparse", size=1 << 50)]]
    yield "unknown kind", [[Member("f", "Z")]]
    attributes = {"trusted.overlay.redirect": canary, "trusted.overlay.opaque": "y", "user.overlay.redirect": "/x",
                  "trusted.overlay.metacopy": "", "security.selinux": "x", "security.ima": "x", "user.ok": "1"}
    yield "attributes", [[Member("f", pax={f"SCHILY.xattr.{k}": v for k, v in attributes.items()}),
                          Member("d", "dir", pax={f"SCHILY.xattr.{k}": v for k, v in attributes.items()})]]
    yield "set-user-ID", [[Member("su", content=b"x", mode=0o6755)]]
    yield "many members", [[Member(f"m{i}") for i in range(20000)]]
    yield "twice the same", [[Member("f", content=b"1"), Member("f", "dir"), Member("f", "symlink", link=canary),
                              Member("f/x", content=b"2")]]


@attack("I1,IM-01,IM-09")
def layers_that_leave_their_directory(kit):
    imported = refused = 0
    wrong = []
    before = tree(kit.canary)
    for label, layers in member_cases(kit):
        for form in kit.size(("oci",), ("oci", "docker")):
            result = kit.import_image("attack/case:1", Image([tar(members) for members in layers]), form=form)
            imported += result.returncode == 0
            refused += result.returncode != 0
            if result.returncode != 0 and not result.stderr.strip():
                wrong.append(f"{label}: refused without a reason")
        if tree(kit.canary) != before:
            wrong.append(f"{label}: changed the node")
            before = tree(kit.canary)
    breach_if(wrong, "; ".join(wrong[:8]))
    return f"{imported + refused} archives, {refused} refused with a reason, {imported} imported"


def document_cases():
    good = tar([Member("f", content=b"x")])
    other = digest(b"other")
    for what, value in {"of other bytes": other, "upper case": digest(good).upper().replace("SHA256", "sha256"),
                        "short": "sha256:abc", "path": "sha256:../../../etc/passwd", "other algorithm": "md5:" + "0" * 32,
                        "empty": "", "number": 7, "null": None}.items():
        yield f"digest {what}", Image([good], descriptor={"digest": value})
        yield f"diff_id {what}", Image([good], diff_ids=[value])
    for size in (-1, 0, 1, 1 << 62, "1", None, 1.5):
        yield f"size {size}", Image([good], descriptor={"size": size})
    yield "foreign urls", Image([good], descriptor={"urls": ["http://127.0.0.1/x"]})
    yield "media type", Image([good], media="application/x-unknown")
    yield "600 layers", Image([good] * 600)
    yield "no layers, one diff_id", Image([], diff_ids=[digest(good)])
    yield "two diff_ids", Image([good], diff_ids=[digest(good)] * 2)
    for what, text in {"deep": b"[" * 100000, "deep object": b'{"a":' * 100000, "not JSON": b"\x7fELF", "empty": b"",
                       "5 MiB": b'{"a":"' + b"x" * (5 << 20) + b'"}', "NUL": b'{"config":{"User":"\\u0000"}}',
                       "twice": b'{"config":{},"config":{"User":"0"}}', "surrogate": b'{"a":"\\ud800"}'}.items():
        yield f"config {what}", Image([good], config_document=text)
        yield f"index {what}", Image([good], index=text)
    yield "manifest and index in one", Image([good], manifest={"manifests": []})
    yield "index that names itself", Image([good], index=lambda m: {"schemaVersion": 2, "manifests": [
        {"mediaType": "application/vnd.oci.image.index.v1+json", "digest": digest(m), "size": len(m)}]})
    yield "docker layer named ..", Image([good], manifest={"Layers": ["../../etc/passwd"]})
    yield "docker config named ..", Image([good], manifest={"Config": "../../etc/passwd"})
    yield from double_cases(good, other)
    yield from packing_cases()


def double_cases(good, other):
    """Of two fields of one name a scanner that is written in Go sees the last, in whatever case it is written."""
    yield "layers and Layers", Image([good], manifest={"Layers": []})
    yield "digest and Digest", Image([good], descriptor={"Digest": other})
    yield "User and user", Image([good], config={"User": "65534", "user": "0"})
    yield "docker Layers and layers", Image([good], manifest={"layers": []})
    rest = document({"os": "linux", "rootfs": {"diff_ids": [digest(good)]}, "config": {"User": "0"}})
    yield "two configs", Image([good], config_document=b'{"config":{"User":"65534"},' + rest[1:])
    yield "user and u\u017fer", Image([good], config_document={
        "os": "linux", "rootfs": {"diff_ids": [digest(good)]}, "user": "", "u\u017fer": ""})


def packing_cases():
    """Each with a layer of its own: one that is already unpacked is not read again."""
    gz = "application/vnd.oci.image.layer.v1.tar+gzip"
    damages = {"cut off": lambda packed: packed[:-9], "garbage after": lambda packed: packed + b"garbage",
               "bit flip": lambda packed: packed[:20] + b"\xff" + packed[21:], "empty": lambda packed: b"",
               "20,000 members": lambda packed: gzip.compress(b"") * 20000 + packed,
               "zstd magic": lambda packed: b"\x28\xb5\x2f\xfd\xff\xff"}
    for what, damage in damages.items():
        layer = tar([Member("f", content=what.encode())])
        yield f"gzip {what}", Image([layer], stored=[damage(gzip.compress(layer))], media=gz)
    layer = tar([Member("f", content=b"window")])
    yield "zstd window of 2 GiB", Image([layer], stored=[b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x01\x00\x00x"],
                                        media="application/vnd.oci.image.layer.v1.tar+zstd")


MAY_BE_IMPORTED = {"foreign urls", "gzip 20,000 members", "docker layer named ..", "docker config named ..",
                   "config surrogate", "config NUL", "size None"}


@attack("I1,I6,IM-02,IM-04")
def documents_that_lie(kit):
    wrong, refused = [], 0
    for label, image in document_cases():
        for form in ("oci", "docker"):
            if (form == "docker") != label.startswith("docker"):
                continue
            result = kit.import_image("attack/document:1", image, form=form)
            refused += result.returncode != 0
            if result.returncode == 0 and label not in MAY_BE_IMPORTED:
                wrong.append(f"{label}: imported")
            if result.returncode != 0 and not result.stderr.strip():
                wrong.append(f"{label}: refused without a reason")
    breach_if(wrong, "; ".join(wrong))
    return f"{refused} refused"


EMPTY = b"{}"


def artifact(title):
    """One file, which is to be called so."""
    content = b"planted"
    return Image([content], config_document=EMPTY, manifest={
        "artifactType": "application/vnd.attack",
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": digest(EMPTY), "size": len(EMPTY)},
        "layers": [{"mediaType": "text/plain", "digest": digest(content), "size": len(content),
                    "annotations": {"org.opencontainers.image.title": title}}]})


def leaves_the_volume(title):
    return title.startswith("/") or ".." in title.split("/") or any(c < " " or "\x7f" <= c < "\xa0" for c in title)


@attack("I1,IM-01")
def artifacts_whose_titles_leave_the_volume(kit):
    """Those that are taken are mounted: each volume shows its one file, and nothing else has come about."""
    wrong, taken = [], []
    before = tree(kit.canary)
    titles = names(kit) + ["a/..", "..", "\u009b2J", "a\nb", "/proc/self/cwd/x", "x//y/./z"]
    for number, title in enumerate(titles):
        name = f"attack/artifact-{number}:1"
        result = kit.import_image(name, artifact(title))
        if result.returncode == 0:
            taken.append(name)
            if leaves_the_volume(title):
                wrong.append(f"{title!r}: imported")
        elif not result.stderr.strip():
            wrong.append(f"{title!r}: refused without a reason")
    volumes = [{"name": f"v{i}", "image": {"reference": name, "pullPolicy": "Never"}} for i, name in enumerate(taken)]
    seen = kit.run(["/bin/sh", "-c", "cat $(find /v -type f); echo; find /v ! -type f ! -type d"],
                   mounts={volume["name"]: f"/v/{volume['name']}" for volume in volumes}, pod={"volumes": volumes})
    if seen.strip() != "planted" * len(taken):
        wrong.append(f"{len(taken)} volumes show {seen!r}")
    if tree(kit.canary) != before:
        wrong.append("the node is changed")
    breach_if(wrong, "; ".join(wrong))
    return f"{len(titles)} titles, {len(titles) - len(taken)} refused with a reason, {len(taken)} mounted"


@attack("I8,B-13")
def archives_that_hold_nothing(kit):
    imported = []
    for label, archive in {"empty": b"", "one zero": b"\0", "zeros": bytes(10240), "text": b"hello\n",
                           "html": b"<html></html>" * 100, "gzip of nothing": gzip.compress(b"")}.items():
        if kit.import_image("attack/nothing:1", archive).returncode == 0:
            imported.append(label)
    # An archive that ends at once is a tar without members: a legal image of nothing, but for a stream of
    # no bytes nobody meant one.
    imported = [i for i in imported if i != "zeros"]
    breach_if(imported, f"imported: {imported}")


@attack("A5,IM-01")
def sources_of_an_import_that_are_no_files(kit):
    wrong = []
    for source in ("/dev/null", "/proc/self/mem", "/proc/self/environ", "/nowhere"):
        if kit.node.ctl("image", "import", source, "--name", "attack/source:1", check=False).returncode == 0:
            wrong.append(source)
    breach_if(wrong, f"imported: {wrong}")


def root_cases(kit):
    """What an image has at the places that the start uses -> may it run?"""
    canary = str(kit.canary)
    targets = {"absolute": canary, "climbing": "../../../../../../../../../../../../../.." + canary, "inside": "tmp"}
    for place in ("proc", "sys", "dev", "etc"):
        for how, target in targets.items():
            yield f"{place} {how}", [Member(f".wh.{place}")], [Member(place, "symlink", link=target)]
        yield f"{place} a file", [Member(f".wh.{place}")], [Member(place, content=b"x")]
    yield "proc with content", [], [Member("proc/self", "dir"), Member("proc/self/attr", "symlink", link=canary)]
    for place in ("dev/null", "dev/pts", "dev/shm", "dev/mqueue", "dev/fd", "dev/ptmx", "dev/console",
                  "dev/termination-log"):
        for how in ("absolute", "climbing"):
            yield f"{place} {how}", [], [Member(place, "symlink", link=targets[how] + "/dev/ptmx")]
    for place in ("etc/hosts", "etc/resolv.conf", "etc/hostname", "etc/mtab"):
        for how in ("absolute", "climbing"):
            yield f"{place} {how}", [], [Member(place, "symlink", link=targets[how] + "/dir/file")]
        yield f"{place} a directory", [], [Member(place, "dir")]
        yield f"{place} a fifo", [], [Member(place, "fifo")]


@attack("I2,RT-03,RT-05,RT-07,RT-08,RT-09")
def roots_with_links_at_the_places_of_mounts(kit):
    ran, names_of = 0, []
    for label, hidden, members in root_cases(kit):
        name = kit.new_name("root")
        image = kit.image("root", hidden, members) if hidden else kit.image("root", members)
        kit.pod(name, [kit.container("main", ["/bin/sh", "-c", "echo ran"], image, tty="console" in label)],
                hostUsers=len(names_of) % 2 == 0)
        names_of.append(name)
    for name in names_of:
        kit.finished(name)
        ran += "ran" in kit.output(name)
    return f"{len(names_of)} images, {ran} ran inside, {len(names_of) - ran} refused"


PASSWD = (b"root:x:0:0::/root:/bin/sh\n+0:x:0:0::/:/bin/sh\n 0:x:0:0::/:/bin/sh\n0x0:x:0:0::/:/bin/sh\n"
          b"-1:x:0:0::/:/bin/sh\n4294967296:x:0:0::/:/bin/sh\n2147483648:x:0:0::/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n"
          b"99999999999999999999:x:0:0::/:/bin/sh\nwrap:x:4294967296:4294967296::/:/bin/sh\n")
# Only digits are a number; anything else is a name, which the image's own file may map to 0.
# USER -> the one uid that may run, None: nothing.
USERS = {"0": 0, "00": 0, "root": 0, "user": 1000, "1000": 1000, "1000:1000": 1000, "2147483647": 2147483647,
         "4294967295": None, "4294967296": None, "2147483648": None, "1000:4294967296": None,
         "1000:-1": None, "99999999999999999999": None, "wrap": None, "no-such-user": None, "user:no-such-group": None,
         ":": 0, ":1000": 0, "1000:": 1000, "-1": 0, "+0": 0, " 0": 0, "0x0": 0, "../root": None, "root\n": None,
         "a" * 5000: None}


@attack("I2,PR-03")
def users_that_are_numbers_names_or_neither(kit):
    wrong = []
    running = {}
    for user, wanted in USERS.items():
        image = kit.image("user", [Member("etc/passwd", content=PASSWD)], config={"User": user})
        for not_root in (False, True):
            name = kit.new_name("user")
            kit.pod(name, [kit.container("main", ["/bin/sh", "-c", "id -u"], image)],
                    securityContext={"runAsNonRoot": True} if not_root else {})
            running[name] = user, wanted, not_root
    for name, (user, wanted, not_root) in running.items():
        kit.finished(name)
        got = kit.output(name).strip()
        if not_root and got == "0":
            wrong.append(f"{user[:30]!r} ran as root in spite of runAsNonRoot")
        if got and got != str(wanted):
            wrong.append(f"{user[:30]!r} ran as {got}")
        if not got and isinstance(wanted, int) and not not_root and user.isdigit() and wanted < 1 << 31:
            wrong.append(f"{user[:30]!r} did not run")
    breach_if(wrong, "; ".join(wrong))
    return f"{len(running)} pods"


def account_files():
    line = b"u:x:7:7::/:/bin/sh\n"
    yield "fifo", [Member("etc/.wh.passwd")], [Member("etc/passwd", "fifo")]
    yield "directory", [Member("etc/.wh.passwd")], [Member("etc/passwd", "dir")]
    yield "loop", [Member("etc/.wh.passwd")], [Member("etc/passwd", "symlink", link="passwd")]
    yield "link outside", [Member("etc/.wh.passwd")], [Member("etc/passwd", "symlink", link="../../../../etc/passwd")]
    yield "device", [Member("etc/.wh.passwd")], [Member("etc/passwd", "char", device=(1, 5))]
    yield "12 MiB", [], [Member("etc/passwd", content=line * (12 << 20 >> 4))]
    yield "one line of 12 MiB", [], [Member("etc/passwd", content=b"x" * (12 << 20))]
    yield "9 MiB of groups", [], [Member("etc/group", content=b"g:x:1:root\n" * (9 << 20 >> 4))]


@attack("I2,PR-04")
def account_files_that_are_none(kit):
    """The agent's memory and the time to refuse are the oracle's and `finished`'s to judge."""
    names_of = {}
    for label, hidden, members in account_files():
        layers = [hidden, members] if hidden else [members]
        image = kit.image("accounts", *layers, config={"User": "u"})
        names_of[label] = kit.new_name("accounts")
        kit.pod(names_of[label], [kit.container("main", ["/bin/sh", "-c", "id -u"], image)])
    for label, name in names_of.items():
        kit.finished(name, 30)
        breach_if(kit.output(name).strip() not in ("", "7"), f"{label}: {kit.output(name)!r}")
    return f"{len(names_of)} images"


@attack("I2,PR-05,PR-07,PR-13,IM-05")
def environment_labels_and_volumes_of_an_image(kit):
    image = kit.image("config", config={
        "Env": ["X", "=X", "*", "X=", "HOME=/a\nroot2:x:0:0::/:/bin/sh", "LD_PRELOAD=/proc/self/cwd/x.so", "P=1", "Q=a=b"],
        "Labels": {"io.kubernetes.cri-o.seccompProfile": "unconfined", "org.systemd.property.ExecStart": "/bin/sh"},
        "Volumes": {"/../../canary": {}, "/proc/1/root": {}}, "StopSignal": "SIGBOGUS\n", "Hostname": "evil",
        "Healthcheck": {"Test": ["CMD-SHELL", "touch /x"]}, "Entrypoint": ["/bin/sh", "-c", "env; cat /etc/passwd; "
                                                                           "attacker identity"]})
    text = kit.run(None, image=image)
    breach_if("done" not in text, f"did not run: {text[-200:]!r}")
    breach_if(MARK in text, "the agent's environment is the container's")
    accounts = text[text.index("root:x:0:0:root"):]
    breach_if("root2" in accounts, "a newline of HOME is a line of /etc/passwd")
    breach_if("no-new-privileges-and-seccomp 02" not in text, "a label took the profile away")


@attack("B-13,PR-07")
def environment_of_the_keeper(kit):
    told = [role for role, pids in kit.node.keepers().items() for pid in pids
            if MARK.encode() in open(f"/proc/{pid}/environ", "rb").read()]
    breach_if(told, f"the agent's environment is that of: {', '.join(told)}")


@attack("I7,RT-01")
def entry_points_that_are_the_runtime_itself(kit):
    image = kit.image("self", [Member("script", content=b"#!/proc/self/exe\n"),
                               Member("link", "symlink", link="/proc/self/exe"),
                               Member("link1", "symlink", link="/proc/1/exe")])
    pods = []
    for command in (["/proc/self/exe"], ["/script"], ["/link"], ["/link1"], ["/proc/1/exe"]):
        for spec in ({}, {"shareProcessNamespace": True}):
            name = kit.new_name("self")
            kit.pod(name, [kit.container("main", command, image)], **spec)
            pods.append(name)
    for name in pods:
        kit.finished(name)
    name = kit.new_name("victim")
    opener = "while :; do for p in /proc/[0-9]*; do (: > $p/exe) 2>/dev/null && echo OPENED; done; done"
    kit.pod(name, [kit.container("main", ["/bin/sh", "-c", opener], image)])
    kit.node.phase(name, "Running")
    for i in range(kit.size(30, 2000)):
        kit.exec(name, "/script" if i % 2 else "/link")
    # Own programs in the image may be opened; the oracle compares ours.
    return f"{len(pods)} starts, {kit.size(30, 2000)} execs; the programs are as before"


@attack("PR-14")
def helpers_and_libraries_out_of_an_image(kit):
    proof = (kit.programs / "security-proof-node").read_bytes()
    trojans = ["nsenter", "xz", "unpigz", "gzip", "mount", "modprobe", "ip", "nft", "iptables-restore"]
    files = [Member(f"bin/{t}", content=proof) for t in trojans]
    files += [Member("etc/ld.so.preload", content=b"/lib/evil.so\n"), Member("lib/evil.so", content=proof),
              Member("etc/nsswitch.conf", content=b"passwd: evil\ngroup: evil\nhosts: evil\n"),
              Member("lib/libnss_evil.so.2", content=proof), Member("lib/x86_64-linux-gnu/libnss_files.so.2",
                                                                    content=proof)]
    image = kit.image("trojan", [Member(f"bin/.wh.{t}") for t in trojans], files, config={"User": "user"})
    name = kit.new_name("trojan")
    kit.pod(name, [kit.container("main", ["/bin/busybox", "sleep", "1000"], image)])
    kit.node.phase(name, "Running")
    kit.exec(name, "/bin/busybox", "id")
    kit.node.ctl("logs", f"{name}-{kit.node.node}", check=False)
    kit.node.ctl("describe", "pod", f"{name}-{kit.node.node}")
    wrong = []
    for role in ("agent", "hold", "launch", "log"):
        for pid in kit.node.pids_of(role):
            maps = open(f"/proc/{pid}/maps").read()
            wrong += [f"{role}: {line}" for line in maps.splitlines() if "evil" in line or "/layers/" in line]
    said = (kit.node.top / "agent.log").read_text(errors="replace")
    breach_if(wrong or "PROOF-FROM" in said, f"{wrong[:3]}")
