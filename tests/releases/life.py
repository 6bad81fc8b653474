"""The life of a node whose state the folders beside this file have, one for each release.

Its pods keep what no runtime reports: memory of an ended container, and the nodes of an ended pod.
Ids depend on names only, so that the life of each version has the same ones.
"""

from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime
from tests.laboratory.store import RuntimeStore
from tests.simulated_host import SimulatedHost, wait_for

GI = 1 << 30
NAMES = ("nri_numamem_state", "plugin.json", "history-0.log")
"""Files of the state directory that a release leaves."""


def live(host: SimulatedHost) -> tuple[RuntimeStore, object]:
    """Let the present plugin live on a host; return what the runtime knows, and its assignments."""
    with FakeRuntime() as runtime:
        runtime.listen(host.socket)
        process = host.start()
        runtime.accept(30)
        runtime.synchronize()
        gone = runtime.run_pod_sandbox(objects.pod("gone", memory_limit_bytes=GI))
        limit = objects.container(gone, "app", memory_limit_bytes=GI)
        runtime.start_container(runtime.create_container(gone, limit))
        runtime.stop_pod_sandbox(gone)
        runtime.remove_pod_sandbox(gone)
        database = runtime.run_pod_sandbox(objects.pod("database", memory_limit_bytes=2 * GI))
        init = objects.container(database, "init", memory_limit_bytes=2 * GI)
        created = runtime.create_container(database, init)
        runtime.start_container(created)
        runtime.stop_container(created)
        server = objects.container(database, "server", memory_limit_bytes=GI)
        runtime.start_container(runtime.create_container(database, server))
        entries = host.accounting(process)["entries"]
        assert host.stop(process) == 0
        wait_for(host.state_file.exists)
    return runtime.store, entries


def resume(host: SimulatedHost, store: RuntimeStore) -> object:
    """Let a runtime restart with the plugin beside it; return the assignments."""
    with FakeRuntime(store=store) as runtime:
        runtime.listen(host.socket)
        process = host.start()
        runtime.accept(30)
        runtime.synchronize()
        entries = host.accounting(process)["entries"]
        assert host.stop(process) == 0
    return entries
