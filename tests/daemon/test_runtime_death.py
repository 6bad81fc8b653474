"""The runtime dies in the middle of a request: the exact order of request, commit and reply.

The plugin commits a request whose reply is lost. The next Synchronize shows what the runtime made
of it, and the state file follows.
"""

from pathlib import Path

import pytest

from nri_numamem.daemon.service import Service
from nri_numamem.engine.core.snapshot import restore
from tests.daemon.test_external import GI, Host
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects

Places = dict[str, str]
"""Container name -> its nodes."""


class Node:
    """A pod with an ended init container of 3 GiB, and a runtime that dies and comes back."""

    def __init__(self, root: Path) -> None:
        self.host = Host(root)
        self.runtime = self.host.runtime
        self.pod = objects.pod("db", memory_limit_bytes=3 * GI)
        self.init = objects.container(self.pod, "init", memory_limit_bytes=3 * GI)
        self.app = objects.container(self.pod, "app", memory_limit_bytes=2 * GI)

    def begin(self) -> None:
        """Run the pod and its init container to its end."""
        self.runtime.run_pod(self.pod)
        self.runtime.create(self.pod, self.init)
        self.stop(self.init)

    def stop(self, container: api.Container) -> None:
        """End a container in the runtime's records."""
        self.runtime.containers.remove(container)
        request = api.StopContainerRequest(pod=self.pod, container=container)
        self.runtime.plugin.call("StopContainer", request, api.StopContainerResponse)

    def stop_pod(self) -> None:
        """Stop the sandbox, which the runtime lists until it is removed."""
        self.runtime.plugin.notify(api.STOP_POD_SANDBOX, self.pod)

    def create_app(self) -> None:
        """Create the second container; without a reply it starts without nodes."""
        self.runtime.create(self.pod, self.app)

    def die_before_reply(self) -> None:
        """Let the runtime die when the plugin sends its next reply."""
        self.runtime.newest.connection.cut_at_reply = 1

    def places(self, service: Service) -> Places:
        """Return the assignments of the pod, which the state file has as well."""
        assert service.engine is not None
        state = service.engine.state
        found = {
            str(name): str(blocks[0].numa_affinity)
            for name, blocks in state.accounting.assignments.get(self.pod.uid, {}).items()
        }
        in_file = restore(self.host.state_file.read_bytes())
        assert in_file.holders == state.holders
        return found


@pytest.mark.parametrize("is_sent", [True, False], ids=["reply lost", "request lost"])
@pytest.mark.parametrize(
    ("request_", "expected", "expected_unsent"),
    [
        # A pod whose end the plugin received stays released, even if it is listed again.
        (Node.stop_pod, {}, {"init": "0"}),
        # A container without nodes is placed as if it was never seen: here, on the same nodes.
        (Node.create_app, {"init": "0", "app": "0"}, {"init": "0", "app": "0"}),
    ],
    ids=["StopPodSandbox", "CreateContainer"],
)
def test_the_runtime_dies_in_a_request(
    tmp_path: Path, request_: object, expected: Places, expected_unsent: Places, *, is_sent: bool
) -> None:
    assert callable(request_)
    node = Node(tmp_path)
    world, runtime = node.host.world, node.runtime

    def die() -> None:
        if is_sent:
            node.die_before_reply()
            request_(node)
            runtime.stop()
        else:
            runtime.stop()
            request_(node)

    world.after(1, runtime.start)
    world.after(10, node.begin)
    world.after(20, die)
    world.after(25, runtime.start)
    world.after(60, node.host.stop)
    service = node.host.run()
    assert [served.is_synchronized for served in runtime.served] == [True, True]
    assert node.places(service) == (expected if is_sent else expected_unsent)
    if node.app in runtime.containers:
        assert node.app.linux.resources.cpu.mems == "0"


def test_the_end_of_a_container_whose_reply_is_lost(tmp_path: Path) -> None:
    """The container is not listed any more; its pod keeps the memory."""
    node = Node(tmp_path)
    world, runtime = node.host.world, node.runtime

    def die() -> None:
        node.create_app()
        node.die_before_reply()
        node.stop(node.app)
        runtime.stop()

    world.after(1, runtime.start)
    world.after(10, node.begin)
    world.after(20, die)
    world.after(25, runtime.start)
    world.after(60, node.host.stop)
    service = node.host.run()
    assert node.places(service) == {"init": "0", "app": "0"}
    assert service.engine is not None
    assert all(holder.ended for holder in service.engine.state.holders.values())
