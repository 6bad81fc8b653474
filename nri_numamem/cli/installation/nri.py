"""How to enable NRI: the lines to add, and a separate file that has them.

containerd 1.7 replaces the whole table of a plugin by that of an imported file, and newer ones do
not start if an imported file has a later version than config.toml. So the file repeats the version
and the other settings of the table. containerd's config.toml itself is never changed.
"""

import json
from collections.abc import Iterator, Mapping

from nri_numamem.cli.host_files import Host, at
from nri_numamem.cli.installation.steps import Write
from nri_numamem.cli.runtimes import CONTAINERD, CRIO_DROP_INS, NRI_TABLE, Runtime, imports_of
from nri_numamem.config.errors import UsageError

MARK = "# Written by nri-numamem install --enable-nri; removed by nri-numamem uninstall.\n"
# Read last: files are read in the order of their names.
_CONTAINERD_NAME = "99-nri-numamem.toml"
_CRIO_FILE = f"{CRIO_DROP_INS}/99-nri-numamem.conf"


def instructions(runtime: Runtime) -> Iterator[str]:
    """Yield lines that describe how to enable NRI.

    A table that the configuration has already must not be added a second time.
    """
    if runtime.enabled is False:
        yield f"{runtime.file} disables NRI. Run this again with --enable-nri, or change it:"
    else:
        version = "containerd 2.0" if runtime.name == "containerd" else "CRI-O 1.30"
        yield f"NRI is off by default before {version}. To enable it, run this again with"
        verb = "set" if runtime.nri else "add"
        yield f"--enable-nri, or {verb} this in {runtime.file}:"
    yield from (f"  {line}" for line in _snippet(runtime).splitlines())


def _snippet(runtime: Runtime) -> str:
    """Return the lines that enable NRI in the runtime's configuration."""
    if runtime.name == "containerd":
        return f'[plugins."{NRI_TABLE}"]\n  disable = false\n'
    return "[crio.nri]\nenable_nri = true\n"


def drop_in(host: Host, runtime: Runtime) -> Write:
    """Return the file that enables NRI; raise UsageError if the runtime would not read it."""
    if runtime.name != "containerd":
        return Write(_CRIO_FILE, MARK + _snippet(runtime))
    document = host.toml(CONTAINERD)
    directory = next(iter(_import_directories(document)), None)
    if directory is None:
        remedy = 'add a line such as imports = ["/etc/containerd/conf.d/*.toml"] before its first '
        remedy += "table, or enable NRI there"
        raise UsageError(f"{CONTAINERD}: imports no directory; {remedy}")
    version = at(document, "version")
    first = f"version = {version}\n" if isinstance(version, int) else ""
    table = {**runtime.nri, "disable": False}
    lines = "".join(f"  {key} = {_toml(value)}\n" for key, value in table.items())
    return Write(
        f"{directory}/{_CONTAINERD_NAME}", f'{MARK}{first}[plugins."{NRI_TABLE}"]\n{lines}'
    )


def drop_ins(host: Host) -> list[str]:
    """Return the paths of the files that `drop_in` wrote."""
    document = host.toml(CONTAINERD)
    paths = [f"{directory}/{_CONTAINERD_NAME}" for directory in _import_directories(document)]
    return [path for path in (*paths, _CRIO_FILE) if (host.read(path) or "").startswith(MARK)]


def _import_directories(document: object) -> list[str]:
    """Return the directories of which containerd imports every file *.toml."""
    patterns = (pattern.rpartition("/") for pattern in imports_of(document))
    return [folder for folder, _, name in patterns if name in ("*", "*.toml") and "*" not in folder]


def _toml(value: object) -> str:
    """Return a value of a TOML document on one line."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml(entry)}' for key, entry in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)
