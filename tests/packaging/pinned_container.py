"""A host with a container that may be pinned by the plugin, whose state file is lost."""

from pathlib import Path

from nri_numamem.config.settings import STATE_FILE
from nri_numamem.observe.files import lock_file_of

_POD = "/sys/fs/cgroup/kubepods/pod1"

SCRIPT = f"""
mkdir -p /var/lib/nri-numamem {_POD}/{"a" * 64}
touch {lock_file_of(Path(STATE_FILE))} /sys/fs/cgroup/cgroup.controllers
echo 0-1 >{_POD}/cpuset.mems.effective
echo 0 >{_POD}/{"a" * 64}/cpuset.mems
"""
"""Makes it with a POSIX shell, below the root directory."""
