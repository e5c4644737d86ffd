# SPDX-License-Identifier: Apache-2.0
"""What is copied out of a container whose tar is the attacker's."""
import os

from attack import attack, breach_if
from images import Member, tar

TAR = b"#!/bin/sh\nexec cat /evil.tar\n"  # whatever it is asked for
PAYLOAD = b"written from a container\n"


def evil_tars(outside):
    """By name. Each tries to write `outside`/NAME, or to make something that would lead there."""
    up = "../" * 40 + str(outside).lstrip("/")
    return {
        "up": [Member(f"data/{up}/up", content=PAYLOAD)],
        "absolute": [Member(f"{outside}/absolute", content=PAYLOAD)],
        "beside": [Member("database/../../beside", content=PAYLOAD), Member("data-2/beside", content=PAYLOAD)],
        "link": [Member("data/a", "symlink", link=str(outside)), Member("data/a/link", content=PAYLOAD)],
        "link-up": [Member("data/a", "symlink", link=up), Member("data/a/link-up", content=PAYLOAD)],
        "link-itself": [Member("data", "symlink", link=str(outside)), Member("data/link-itself", content=PAYLOAD)],
        "link-of-link": [Member("data/a", "symlink", link="."), Member("data/a/b", "symlink", link=".."),
                         Member("data/a/b/link-of-link", content=PAYLOAD)],
        "hard": [Member("data/x", "hardlink", link=f"{outside}/kept"), Member("data/x", content=PAYLOAD)],
        "pax": [Member("data/f", content=PAYLOAD, pax={"path": f"data/{up}/pax"})],
        "pax-link": [Member("data/a", "symlink", link="b", pax={"linkpath": str(outside)}),
                     Member("data/a/pax-link", content=PAYLOAD)],
        "device": [Member("data/null", "char", device=(1, 3)), Member("data/pipe", "fifo")],
        "escape": [Member("data/\x1b]0;owned\x07", "symlink", link="\x1b[31m")],
    }


@attack("VO-05, IM-01")
def a_tar_that_leaves_the_destination(kit):
    top = kit.top / kit.new_name("copies")
    outside = top / "outside"
    outside.mkdir(parents=True)
    (outside / "kept").write_text("kept\n")
    tried = 0
    for name, members in evil_tars(outside).items():
        image = kit.image("tar", [Member("bin/tar", content=TAR), Member("evil.tar", content=tar(members))])
        pod = kit.new_name("copied")
        kit.pod(pod, [kit.container("main", ["/bin/sleep", "1000"], image=image)])
        kit.node.phase(pod, "Running")
        for linked in (False, True):
            destination = top / f"{name}-{linked}"
            if linked:  # a link of the user's own, within the destination, that leads out of it
                destination.mkdir()
                for entry in ("a", "x", "f"):
                    os.symlink(outside / entry, destination / entry)
            said = kit.node.ctl("cp", f"{pod}-{kit.node.node}:/data", destination, check=False)
            tried += 1
            found = sorted(entry.name for entry in outside.iterdir())
            breach_if(found != ["kept"], f"{name}: beside the destination there is {found}")
            breach_if((outside / "kept").read_text() != "kept\n", f"{name}: what was there was written")
            breach_if((top / "beside").exists(), f"{name}: written above the destination")
            breach_if("\x1b" in said.stdout + said.stderr, f"{name}: steers the terminal")
            for entry in destination.rglob("*") if destination.is_dir() and not linked else []:
                breach_if(entry.is_symlink() or not (entry.is_file() or entry.is_dir()), f"{name}: made {entry.name}")
        kit.node.remove(pod)
    return f"{tried} copies"
