# SPDX-License-Identifier: Apache-2.0
"""What a pull makes of an image beside what `umoci unpack` makes of it, file by file.

HOLDFAST_UMOCI_LAYOUTS: directories (with ':' between) of further OCI layouts, each with one image, to be compared too."""
import errno
import hashlib
import os
import pathlib
import shutil
import stat
import struct
import subprocess

from suite import check, equal

TOP = pathlib.Path(__file__).resolve().parents[5]


def run(*words):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"{words}: {done.stderr}")


def content_of(path, info):
    if stat.S_ISLNK(info.st_mode):
        return os.readlink(path)
    if stat.S_ISREG(info.st_mode):
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return info.st_rdev if stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode) else None


def tree(root):
    """name -> all that can be seen of it; hard links by the first of their names."""
    root = os.fsencode(root)
    names = [b"."]
    for folder, folders, files in os.walk(root):
        names += [os.path.relpath(os.path.join(folder, name), root) for name in folders + files]
    seen, first = {}, {}
    for name in sorted(names):
        path = os.path.join(root, name)
        info = os.lstat(path)
        links = first.setdefault((info.st_dev, info.st_ino), name) if not stat.S_ISDIR(info.st_mode) else name
        attributes = {key: os.getxattr(path, key, follow_symlinks=False)
                      for key in os.listxattr(path, follow_symlinks=False) if not key.startswith("trusted.overlay.")}
        seen[name] = {"mode": oct(info.st_mode), "owner": (info.st_uid, info.st_gid), "mtime": info.st_mtime_ns, "links": links,
                      "size": None if stat.S_ISDIR(info.st_mode) else info.st_size, "content": content_of(path, info),
                      "xattrs": attributes}
    return seen


def same(ours, theirs, what):
    differences = [f"{name!r}: ours {ours.get(name)}, umoci's {theirs.get(name)}"
                   for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    check(not differences, f"{what}: {len(differences)} differ: " + "\n".join(differences[:10]))


def compare(world, registry, layout, name):
    """An image of an OCI layout through a registry."""
    registry.push(f"oci:{layout}", f"{name}:1")
    pulled = world.pull(f"{registry.name}/{name}:1").well()
    folder = world.folder()
    tag = layout if ":" in str(layout) else f"{layout}:latest"
    run("umoci", "unpack", "--image", tag, folder / "bundle")
    merged = folder / "merged"
    merged.mkdir()
    layers = [pathlib.Path(layer) for layer in reversed(pulled.layers)]
    if len(layers) == 1:
        run("mount", "--bind", layers[0], merged)
    else:
        # Short names: mount options are one page.
        for number, layer in enumerate(layers):
            (folder / str(number)).symlink_to(layer)
        run("mount", "-t", "overlay", "none", "-o",
            "ro,lowerdir=" + ":".join(str(folder / str(number)) for number in range(len(layers))), merged)
    try:
        ours, theirs = tree(merged), tree(folder / "bundle/rootfs")
        for root in (ours[b"."], theirs[b"."]):
            del root["mtime"]  # an image need not say it; then it is the time of the unpacking
        same(ours, theirs, name)
    finally:
        run("umount", merged)
    shutil.rmtree(folder)
    shutil.rmtree(pulled.store)
    return theirs


def file(path, data=b"x", mode=0o644, owner=(0, 0), mtime=1_500_000_000):
    path.write_bytes(data)
    os.chown(path, *owner)
    os.chmod(path, mode)
    os.utime(path, ns=(mtime * 10**9, mtime * 10**9))


def capability():
    """cap_net_raw=ep, as the kernel keeps it (VFS_CAP_REVISION_2)."""
    return struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)


def user_attribute(path, key, value):
    try:
        os.setxattr(path, key, value)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:  # a tmpfs before Linux 6.6
            raise


def first_layer(root):
    for name in ("etc", "usr/bin", "var/cache", "gone/deep", "kept", "opaque/old", "tmp"):
        (root / name).mkdir(parents=True)
    os.chmod(root / "tmp", 0o1777)
    os.chown(root / "kept", 1000, 2_000_000)
    file(root / "etc/passwd", b"root:x:0:0::/:/bin/sh\n")
    file(root / "usr/bin/su", b"su", 0o4755)
    file(root / "usr/bin/wall", b"wall", 0o2755, (0, 5))
    file(root / "usr/bin/ping", b"ping", 0o755)
    os.setxattr(root / "usr/bin/ping", "security.capability", capability())
    file(root / "unreadable", b"", 0o000, (4_000_000_000, 4_000_000_000), 0)
    user_attribute(root / "etc/passwd", "user.note", b"\x00\xffbytes")
    user_attribute(root / "kept", "user.on-a-directory", b"1")
    os.link(root / "usr/bin/su", root / "usr/bin/su-again")
    os.link(root / "usr/bin/su", root / "etc/su")
    os.symlink("/etc/../etc/passwd", root / "absolute-link")
    os.symlink("nowhere/at/all", root / "kept/dangling")
    os.mknod(root / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    os.mknod(root / "loop", 0o660 | stat.S_IFBLK, os.makedev(7, 200))
    os.mkfifo(root / "fifo", 0o600)
    for name in (b"new\nline", b"tab\tand space ", "ümläut-日本".encode(), b"-rf", b"n" * 255, b"back\\slash", b"..dots", b"*"):
        with open(os.path.join(os.fsencode(root), name), "wb") as out:
            out.write(name)
    with open(root / "sparse", "wb") as out:
        out.seek(5 << 20)
        out.write(b"middle")
        out.truncate(20 << 20)
    deep = root
    for number in range(40):
        deep = deep / f"level-{number}-{'d' * 60}"
        deep.mkdir()
    file(deep / "bottom", b"deep", mtime=2_000_000_000)
    file(root / "gone/deep/file")
    file(root / "opaque/old/file")
    file(root / "becomes-a-directory")
    for name in ("becomes-a-file", "becomes-a-link", "becomes-a-dangling-link"):
        (root / name / "sub").mkdir(parents=True)
        file(root / name / "inside-it")
    os.utime(root / "kept", ns=(10**18, 10**18))


def second_layer(root):
    """Whiteouts, replacements, a file in a directory that only the first layer has attributes of."""
    shutil.rmtree(root / "gone")
    (root / "usr/bin/su-again").unlink()
    (root / "becomes-a-directory").unlink()
    (root / "becomes-a-directory").mkdir(mode=0o700)
    file(root / "becomes-a-directory/new", b"new", owner=(7, 7))
    for name in ("becomes-a-file", "becomes-a-link", "becomes-a-dangling-link"):
        shutil.rmtree(root / name)
    os.symlink("kept", root / "becomes-a-link")
    os.symlink("no/where", root / "becomes-a-dangling-link")
    file(root / "becomes-a-file", b"now a file")
    file(root / "etc/passwd", b"changed\n", 0o600)
    file(root / "kept/added", b"added", mtime=1_600_000_000)
    (root / "null").unlink()
    os.symlink("etc/passwd", root / "null")


def made_image(world):
    folder = world.folder()
    layout, bundle = folder / "layout", folder / "bundle"
    run("umoci", "init", "--layout", layout)
    run("umoci", "new", "--image", f"{layout}:latest")
    run("umoci", "unpack", "--image", f"{layout}:latest", bundle)
    for change in (first_layer, second_layer):
        change(bundle / "rootfs")
        run("umoci", "repack", "--refresh-bundle", "--image", f"{layout}:latest", bundle)
    instead = folder / "instead"
    instead.mkdir()
    file(instead / "only", b"only this", owner=(3, 4))
    run("umoci", "insert", "--opaque", "--image", f"{layout}:latest", instead, "/opaque")
    run("umoci", "insert", "--whiteout", "--image", f"{layout}:latest", "/var/cache")
    return layout


def test_an_image_with_all_kinds_of_files_is_as_umoci_unpacks_it(world):
    registry = world.registry()
    seen = compare(world, registry, made_image(world), "odd")
    # That the image has what it is to show.
    check(b"sparse" in seen and b"opaque/only" in seen and b"opaque/old" not in seen and b"gone" not in seen and
          b"var/cache" not in seen, "whiteouts and opaque directories")
    equal(seen[b"usr/bin/ping"]["xattrs"].get("security.capability"), capability(), "file capabilities")
    equal(seen[b"usr/bin/su"]["mode"], oct(0o104755), "set-user-ID")
    check(len([one for one in seen.values() if one["links"] == b"etc/su"]) == 2, "hard links")


def python_root(tar, folder):
    """The files of Debian's python3 as they lie on this machine."""
    packages = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\n", "python3*minimal", "libpython3*stdlib", "libpython3*minimal"],
                              capture_output=True, text=True, check=False).stdout.split()
    listed = subprocess.run(["dpkg-query", "-L", *packages], capture_output=True, text=True, check=False).stdout.splitlines()
    names = sorted({name.lstrip("/") for name in listed if f"{name}/".startswith("/usr/") and os.path.lexists(name)})
    check(len(names) > 300, f"{len(names)} files of python3: is it Debian's?")
    (folder / "names").write_text("\n".join(names))
    run("tar", "-C", "/", "--no-recursion", "-T", folder / "names", "-cf", tar)


def busybox_root(tar, _):
    run(TOP / "packaging/make-image", "busybox", tar)


def test_images_of_debians_packages_are_as_umoci_unpacks_them(world):
    registry = world.registry()
    for kind, make in {"busybox": busybox_root, "python3": python_root}.items():
        folder = world.folder()
        make(folder / "root.tar", folder)
        run("umoci", "init", "--layout", folder / "layout")
        run("umoci", "new", "--image", f"{folder}/layout:latest")
        run("umoci", "raw", "add-layer", "--image", f"{folder}/layout:latest", folder / "root.tar")
        compare(world, registry, folder / "layout", kind)
    for number, layout in enumerate(filter(None, os.environ.get("HOLDFAST_UMOCI_LAYOUTS", "").split(":"))):
        folder = world.folder()
        run("skopeo", "--insecure-policy", "copy", f"oci:{layout}", f"oci:{folder}/layout:latest")
        compare(world, registry, folder / "layout", f"further-{number}")
