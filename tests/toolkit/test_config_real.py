"""Which ``config.toml`` the real runtime refuses, document by document."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.lab.programs import TOOLKIT_VERSIONS, ProgramMissingError, toolkit

from gpucdi.host import HostTree
from gpucdi.toolkit.config import read_config

pytestmark = pytest.mark.lab

R = "[nvidia-container-runtime]\n"
DOCUMENTS: dict[str, str | bytes] = {
    "empty": "",
    "comments only": "# a\n#b = 1\n",
    "byte order mark": "\ufeff" + R + "mode = 'cdi'\n",
    "crlf": R.replace("\n", "\r\n") + "mode = 'cdi'\r\n",
    "unknown keys": "x = 1\n[y]\nz = {a = [1, 2]}\n",
    "dotted keys": "nvidia-container-runtime.mode = 'cdi'\n",
    "quoted keys": '["nvidia-container-runtime"]\n\'mode\' = "cdi"\n',
    "inline table": "nvidia-container-runtime = { mode = 'cdi' }\n",
    "trailing comma": R + "runtimes = ['runc',]\n",
    "array over lines": R + "runtimes = [ # a\n 'runc', # b\n]\n",
    "empty list": R + "runtimes = ['runc']\n[nvidia-container-runtime.modes.cdi]\nspec-dirs = []\n",
    "literal string": R + "mode = '''cdi'''\n",
    "multi-line string": R + 'mode = """\ncdi"""\n',
    "escape": R + 'mode = "c\\u0064i"\n',
    "capital key": R + "MODE = 'cdi'\n",
    "sub table first": "[nvidia-container-runtime.modes.cdi]\n" + R + "mode = 'cdi'\n",
    "no toml": "this is no toml\n",
    "unclosed table": "[nvidia-container-runtime\n",
    "unclosed string": R + "mode = 'cdi\n",
    "key twice": R + "mode = 'cdi'\nmode = 'cdi'\n",
    "table twice": R + "mode = 'cdi'\n" + R + "debug = 'x'\n",
    "value without key": "= 1\n",
    "two on a line": "a = 1 b = 2\n",
    "string for bool": "disable-require = 'true'\n",
    "int for string": R + "mode = 5\n",
    "bool for string": R + "mode = true\n",
    "float for string": R + "log-level = 1.5\n",
    "date for string": R + "mode = 1979-05-27\n",
    "string for list": R + "runtimes = 'runc'\n",
    "ints in list": R + "runtimes = [1]\n",
    "nested list": R + "runtimes = [['runc']]\n",
    "string for table": "nvidia-container-runtime = 'x'\n",
    "table for string": "[nvidia-container-runtime.mode]\nx = 1\n",
    "array of tables": "[[nvidia-container-runtime]]\nmode = 'cdi'\n",
    "int for bool": "accept-nvidia-visible-devices-as-volume-mounts = 1\n",
    "feature": "[features]\nallow-ldconfig-from-container = 'x'\n",
    "later feature": "[features]\nallow-unknown-oci-spec-fields = 'x'\n",
    "later mode table": "[nvidia-container-runtime.modes.jit-cdi]\nnvcdi-feature-flags = 'x'\n",
    "later hooks key": "[nvidia-container-runtime.modes.jit-cdi]\nnvcdi-disable-hooks = 'x'\n",
    "later legacy table": "[nvidia-container-runtime.modes.legacy]\ncuda-compat-mode = 1\n",
    "ldconfig": "[nvidia-container-cli]\nldconfig = '/sbin/ldconfig'\n",
    "empty ldconfig": "[nvidia-container-cli]\nldconfig = ''\n",
    "ldconfig allowed": "[nvidia-container-cli]\nldconfig = '/sbin/ldconfig'\n"
    "[features]\nallow-ldconfig-from-container = true\n",
    "not utf-8": R.encode() + b"mode = '\xff'\n",
    "zero byte": R.encode() + b"mode = 'a\0b'\n",
    "tab in string": R + "mode = 'a\tb'\n",
    "newline in inline table": "nvidia-container-runtime = {\n mode = 'cdi' }\n",
    "mixed list": "x = [1, 'a']\n",
    "hexadecimal": "x = 0xff\n",
    "infinity": "x = inf\n",
    "bare value": R + "mode = cdi\n",
    "missing value": R + "mode =\n",
    "comment after": R + "mode = 'cdi'#x\n",
    "dotted after table": "a.b = 1\n[a]\nc = 2\n",
    "key as table": "a = 1\n[a]\nb = 2\n",
    "empty quoted key": "'' = 1\n",
    "carriage return alone": "a = 1\rb = 2\n",
}

# go-toml 1.9 takes these against the TOML standard; Python's parser does not. We call such a file
# refused, which errs on the side of telling people to mend it.
WRITTEN_DOWN = {"newline in inline table", "dotted after table"}


@pytest.mark.parametrize("version", TOOLKIT_VERSIONS)
def test_the_runtime_refuses_what_we_say_it_refuses(version: str, tmp_path: Path) -> None:
    try:
        runtime = toolkit(version) / "nvidia-container-runtime"
    except ProgramMissingError as missing:
        pytest.skip(str(missing))
    major, minor, patch = map(int, version.split("."))
    file = tmp_path / "nvidia-container-runtime/config.toml"
    file.parent.mkdir()
    differences = {}
    for name, text in DOCUMENTS.items():
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        done = subprocess.run(
            [runtime, "--version"],
            env={"XDG_CONFIG_HOME": str(tmp_path), "PATH": "/nowhere"},
            check=False,
            capture_output=True,
            text=True,
        )
        refused = "error loading config" in done.stderr
        path = "/nvidia-container-runtime/config.toml"
        usable = read_config(HostTree(tmp_path), path, (major, minor, patch)).usable
        if usable == refused:
            differences[name] = f"we usable={usable}, it {done.stderr.strip()[-160:]!r}"
    assert set(differences) == WRITTEN_DOWN, differences
