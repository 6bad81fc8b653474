"""Installs the plugin, or a changed copy, in a runtime's plugin directory."""

import stat
import sys
from pathlib import Path

INSTALLED = Path(sys.executable).with_name("nri-numamem")


def install_plugin(root: Path, config: str, name: str = "10-nri-numamem") -> None:
    """Link the installed program into the plugin directory and write its configuration."""
    (root / "plugins").mkdir(exist_ok=True)
    (root / "configs").mkdir(exist_ok=True)
    (root / "plugins" / name).symlink_to(INSTALLED)
    assert INSTALLED.stat().st_mode & stat.S_IXUSR
    (root / "configs" / f"{name}.conf").write_text(config)


def install_plugin_with_state(root: Path, state_file: Path) -> None:
    """Install the plugin without a configuration, with another default state file."""
    install_plugin(root, "")
    _replace_plugin(
        root, f"from nri_numamem.daemon import service\nservice.STATE_FILE = {str(state_file)!r}\n"
    )


def install_plugin_with_slow_start(root: Path, config: str) -> None:
    """Install a plugin whose first engine takes longer than every timeout."""
    install_plugin(root, config)
    _replace_plugin(
        root,
        "import time\n"
        "from nri_numamem.daemon import launched\n"
        "build, pauses_s = launched.build_engine, [60]\n"
        "def slow(settings, roots):\n"
        "    time.sleep(pauses_s.pop() if pauses_s else 0)\n"
        "    return build(settings, roots)\n"
        "launched.build_engine = slow\n",
    )


def _replace_plugin(root: Path, before: str) -> None:
    path = root / "plugins" / "10-nri-numamem"
    path.unlink()
    path.write_text(
        f"#!{sys.executable}\n"
        f"{before}"
        "import sys\n"
        "from nri_numamem.cli import main\n"
        "sys.exit(main.main())\n"
    )
    path.chmod(0o755)
