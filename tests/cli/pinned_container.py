"""A container that the plugin pinned, for the commands that release it."""

import threading

from nri_numamem.cli.main import main
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime
from tests.simulated_host import SimulatedHost

GI = 1 << 30


class PinnedContainer:
    """A runtime with one pinned container, whose plugin has ended."""

    def __init__(self, host: SimulatedHost, runtime: FakeRuntime) -> None:
        self.host = host
        self.runtime = runtime
        runtime.listen(host.socket)
        self.process = host.start()
        runtime.accept(30)
        runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
        self.container = runtime.create_container(
            pod, objects.container(pod, "server", memory_limit_bytes=GI)
        )
        runtime.start_container(self.container)
        self.directory = host.roots.cgroup / self.container.linux.cgroups_path.lstrip("/")
        self.directory.mkdir(parents=True)
        (self.directory.parent / "cpuset.mems.effective").write_text("0-1\n")
        self.write(self.container.linux.resources.cpu.mems)

    def write(self, mems: str) -> None:
        (self.directory / "cpuset.mems").write_text(f"{mems}\n")

    def remove_history(self) -> None:
        for path in self.host.state_file.parent.glob("history-*.log"):
            path.unlink()

    def restart(self) -> None:
        """Start the plugin again, which adopts the container, and end it."""
        self.close_connection()
        process = self.host.start()
        self.runtime.accept(30)
        self.runtime.synchronize()
        self.host.wait_record("adopted")
        assert self.host.stop(process) == 0

    def close_connection(self) -> None:
        assert self.runtime.plugin is not None
        self.runtime.plugin.connection.close()

    def reset(self, *arguments: str, applies: bool = True, command: str = "reset") -> int:
        """Run the command against the runtime; return its exit status."""
        self.close_connection()

        def serve() -> None:
            self.runtime.accept()
            for update in self.runtime.synchronize():
                if applies:
                    self.write(update.linux.resources.cpu.mems)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            return self.run(*arguments, command=command)
        finally:
            thread.join(20)

    def run(self, *arguments: str, command: str = "reset") -> int:
        """Run the command without a runtime that serves it."""
        return main(
            [
                command,
                f"--socket={self.host.socket}",
                f"--state-file={self.host.state_file}",
                f"--cgroup-root={self.host.roots.cgroup}",
                *arguments,
            ]
        )
