"""``make lab``: put every program of the lab into the cache, building only what is missing.

A set is built into a temporary folder beside its place and renamed, so a set that exists is whole.
Where Go is absent nothing is built and the tests that need a program say so; where this runs as
root on a Debian, the packages of the lab are installed too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.lab import base_image, driver
from tests.lab.oracle import build as oracle
from tests.lab.programs import (
    DEBIAN_PACKAGES,
    ProgramMissingError,
    ProgramSet,
    all_sets,
    cache_folder,
    publish,
)


def main() -> int:
    """Install and build; the exit status is 1 when a build failed."""
    install_packages()
    go = shutil.which("go")
    if go is None:
        say("no Go on this machine: nothing built; tests that need these programs are skipped")
        return 0
    failed = [each.name for each in all_sets() if not ensure(each, go)]
    failed += [f"oracle-{version}" for version in oracle.VERSIONS if not ensure_oracle(version)]
    try:
        say(f"stub libnvidia-ml.so.1 in {driver.compile_stub()}")
        say(f"base image: in {base_image.ensure().archive.parent}")
    except ProgramMissingError as missing:
        say(str(missing))
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def ensure(program_set: ProgramSet, go: str) -> bool:
    """Build the set unless it is in the cache; False when the build failed."""
    if program_set.is_built:
        say(f"{program_set.name}: in {program_set.folder}")
        return True
    started = time.monotonic()
    say(f"{program_set.name}: building {', '.join(program_set.programs)}")
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=cache_folder()) as scratch:
        into = Path(scratch) / program_set.name
        into.mkdir()
        if not run_go(program_set, go, into):
            return False
        missing = [name for name in program_set.programs if not (into / name).is_file()]
        if missing:
            say(f"{program_set.name}: the build did not make {', '.join(missing)}")
            return False
        publish(into, program_set.folder)
    say(f"{program_set.name}: built in {time.monotonic() - started:.0f} s")
    return True


def ensure_oracle(version: str) -> bool:
    """Build the oracle of one version of the CDI library, whose recipe is its own."""
    if version in oracle.missing():
        say(f"oracle-{version}: building")
    try:
        say(f"oracle-{version}: {oracle.build(version)}")
    except (OSError, subprocess.SubprocessError) as error:
        say(f"oracle-{version}: {error}")
        return False
    return True


def run_go(program_set: ProgramSet, go: str, into: Path) -> bool:
    """Run the set's Go command with its output shown; False when it failed."""
    command = [part.format(into=into) for part in program_set.command]
    environment = dict(os.environ)
    for name, value in program_set.environment.items():
        environment[name] = value.format(into=into)
    # `go install` of a version must not see a module of the folder it runs in.
    where = program_set.module or into
    return subprocess.run([go, *command], env=environment, cwd=where, check=False).returncode == 0


def install_packages() -> None:
    """Install the Debian packages that are missing, when this is a Debian and we are root."""
    if shutil.which("dpkg-query") is None:
        say("not a Debian: its packages are for you to install: " + " ".join(DEBIAN_PACKAGES))
        return
    missing = [name for name in DEBIAN_PACKAGES if not is_installed(name)]
    if not missing:
        return
    if os.geteuid() != 0:
        say(f"not root: these packages are not installed: {' '.join(missing)}")
        return
    say(f"installing {' '.join(missing)}")
    # No maintainer script may start a daemon: the lab starts its own, on its own ports.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "SYSTEMD_OFFLINE": "1"}
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *missing]
    for command in (["apt-get", "update"], install):
        done = subprocess.run(
            command, env=environment, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode != 0:
            say(f"{' '.join(command[:2])} failed:\n{done.stdout.decode(errors='replace')}")
            return


def is_installed(package: str) -> bool:
    """True when dpkg says that the package is installed."""
    answer = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package],
        check=False,
        capture_output=True,
        text=True,
    )
    return answer.stdout == "installed"


def say(text: str) -> None:
    """Print one line at once, so that it stands before the output of what follows."""
    print(f"lab: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
