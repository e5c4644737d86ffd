#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian package of this build: what is in it, and that it is of one piece. Installing, upgrading and removing it
under systemd is the scenario `deb` of the VM tier.

    package_test.py SOURCE BUILD
"""
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE, BUILD = map(pathlib.Path, sys.argv[1:3])
sys.path.insert(0, str(SOURCE / "tests/support"))
from suite import check, run_tests  # noqa: E402


def run(*command) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def test_the_control_file_names_what_is_linked(unpacked):
    package, root = unpacked
    depends = run("dpkg-deb", "-f", package, "Depends")
    for library in ("libc6", "libgrpc++", "libprotobuf", "libseccomp2", "libsystemd0"):
        check(library in depends, f"no {library} in Depends: {depends}")
    version = run("dpkg-deb", "-f", package, "Version").strip()
    check(re.fullmatch(r"\d+\.\d+\.\d+-1~deb\d+", version), f"version {version}")
    told = run(root / "usr/bin/holdctl", "version", "--client")
    check(version.split("-")[0] in told, f"the program says {told!r}, the package {version}")


def test_every_unit_starts_a_program_of_the_package(unpacked):
    _, root = unpacked
    units = sorted((root / "usr/lib/systemd/system").glob("*.service"))
    check([u.name for u in units] == ["holdfast-keeper.service", "holdfast-pods.service", "holdfastd.service"], units)
    for unit in units:
        program = re.search(r"^ExecStart=(\S+)", unit.read_text(), re.M)[1]
        check(program == "/bin/true" or (root / program[1:]).exists(), f"{unit.name}: {program} is not in the package")
    for program in ("holdfastd", "holdctl", "holdfast-keeper", "holdfast-unpack", "holdfast-fetch", "holdfast-init"):
        check((root / "usr/bin" / program).stat().st_mode & 0o777 == 0o755, program)


def test_manuals_completions_and_the_configuration_are_there(unpacked):
    _, root = unpacked
    for page in (SOURCE / "packaging/man").iterdir():
        check((root / f"usr/share/man/man{page.suffix[1:]}/{page.name}.gz").exists(), page.name)
    for path in ("bash-completion/completions/holdctl", "zsh/vendor-completions/_holdctl",
                 "fish/vendor_completions.d/holdctl.fish"):
        check("holdctl" in (root / "usr/share" / path).read_text(), path)
    check((root / "DEBIAN/conffiles").read_text() == "/etc/holdfast/config.yaml\n", "conffiles")


def test_the_scripts_are_shell(unpacked):
    _, root = unpacked
    for script in ("postinst", "prerm", "postrm"):
        run("sh", "-n", root / "DEBIAN" / script)
        check((root / "DEBIAN" / script).stat().st_mode & 0o111, f"{script} cannot be run")


def main() -> int:
    with tempfile.TemporaryDirectory() as work:
        package, root = pathlib.Path(work) / "holdfast.deb", pathlib.Path(work) / "root"
        run(SOURCE / "packaging/deb", "--build", BUILD, package)
        run("dpkg-deb", "-R", package, root)
        tests = [(name, test) for name, test in sorted(globals().items()) if name.startswith("test_")]
        return 1 if run_tests((package, root), tests) else 0


if __name__ == "__main__":
    sys.exit(main())
