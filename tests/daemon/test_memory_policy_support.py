"""Whether the runtime can set memory policies: its NRI, and the OCI runtime of a handler."""

from collections.abc import Mapping
from pathlib import Path
from threading import Event, Thread

import pytest

from nri_numamem.daemon.memory_policy_support import MemoryPolicySupport
from nri_numamem.engine.core.facts import PolicySupport
from nri_numamem.host.memory_policies import FeaturesError
from nri_numamem.host.roots import HostRoots
from nri_numamem.nri.configuration import Configuration
from nri_numamem.numa import MemoryPolicies, PolicyMode

MODES = frozenset(
    {
        "MPOL_DEFAULT",
        "MPOL_PREFERRED",
        "MPOL_BIND",
        "MPOL_INTERLEAVE",
        "MPOL_LOCAL",
        "MPOL_PREFERRED_MANY",
        "MPOL_WEIGHTED_INTERLEAVE",
    }
)
LIST_IT = "list the handler in memoryPolicy.runtimes if its OCI runtime sets policies"


class Programs:
    """OCI runtimes by name, with their modes or an error; names without an entry are absent."""

    def __init__(self, found: Mapping[str, frozenset[str] | FeaturesError]) -> None:
        self.found = dict(found)
        self.reads = 0

    def find(self, name: str) -> Path | None:
        return Path("/bin", name) if name in self.found else None

    def read(self, program: Path) -> frozenset[str]:
        self.reads += 1
        found = self.found[program.name]
        if isinstance(found, FeaturesError):
            raise found
        return found


def configuration(nri: str | None = "v0.12.0", name: str = "containerd") -> Configuration:
    return Configuration("", name, "v2.3.4", nri, 2000)


def support(
    programs: Programs,
    runtimes: tuple[str, ...] | None = None,
    configured: Configuration | None = None,
) -> MemoryPolicySupport:
    """Return what is known after Configure."""
    policies = MemoryPolicies((PolicyMode.BIND,), runtimes=runtimes)
    made = MemoryPolicySupport(HostRoots(), policies, programs.find, programs.read)
    made.wait()
    made.configured(configured or configuration())
    made.wait()
    return made


def obstacle(made: MemoryPolicySupport, handler: str) -> str:
    return made.of_handler(handler).obstacle


def test_modes_that_the_kernel_lacks(tmp_path: Path) -> None:
    roots = HostRoots(tmp_path, tmp_path, tmp_path)
    policies = MemoryPolicies((PolicyMode.BIND,), runtimes=("default",))
    made = MemoryPolicySupport(roots, policies)
    made.configured(configuration())
    assert made.of_handler("") == PolicySupport("", frozenset({PolicyMode.WEIGHTED_INTERLEAVE}))


def test_the_default_handler_is_that_of_the_container_runtime() -> None:
    programs = Programs({"runc": frozenset(), "crun": MODES})
    containerd = support(programs)
    text = "/bin/runc sets no memory policies; runc does since 1.4, crun since 1.24"
    assert (obstacle(containerd, ""), obstacle(containerd, "runc")) == (text, text)
    assert obstacle(containerd, "crun") == ""
    assert obstacle(support(programs, configured=configuration(name="cri-o")), "") == ""


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({}, f"the plugin does not find runc; {LIST_IT}"),
        ({"runc": FeaturesError("/bin/runc: it fails")}, f"/bin/runc: it fails; {LIST_IT}"),
        (
            {"runc": MODES - {"MPOL_WEIGHTED_INTERLEAVE", "MPOL_LOCAL"}},
            "/bin/runc lacks MPOL_LOCAL, MPOL_WEIGHTED_INTERLEAVE",
        ),
        ({"runc": MODES - {"MPOL_DEFAULT"}}, ""),
    ],
)
def test_programs(found: Mapping[str, frozenset[str] | FeaturesError], text: str) -> None:
    assert obstacle(support(Programs(found)), "") == text


def test_other_handlers_are_not_known() -> None:
    made = support(Programs({"runc": MODES}))
    assert obstacle(made, "kata") == f"the OCI runtime of the handler kata is not known; {LIST_IT}"


def test_a_list_replaces_the_detection() -> None:
    programs = Programs({})
    made = support(programs, ("default", "kata"))
    assert (obstacle(made, ""), obstacle(made, "kata")) == ("", "")
    assert obstacle(made, "runc") == "memoryPolicy.runtimes does not list the handler runc"
    assert programs.reads == 0
    made = support(programs, ())
    assert obstacle(made, "") == "memoryPolicy.runtimes does not list the handler default"


@pytest.mark.parametrize(
    ("version", "shown"), [("v0.11.0", "v0.11.0"), (None, "of an unknown version before 0.12")]
)
def test_an_old_nri_has_no_policies(version: str | None, shown: str) -> None:
    made = support(Programs({"runc": MODES}), ("default",), configuration(version))
    text = f"the container runtime's NRI is {shown}; policies need 0.12 or newer"
    assert obstacle(made, "") == text


def test_before_configure_nothing_is_known() -> None:
    made = MemoryPolicySupport(HostRoots(), MemoryPolicies((PolicyMode.BIND,)), Programs({}).find)
    made.wait()
    assert "policies need 0.12 or newer" in obstacle(made, "")


def test_features_are_unknown_until_they_are_read() -> None:
    reading = Event()

    def find(_name: str) -> None:
        assert reading.wait(30)

    made = MemoryPolicySupport(HostRoots(), MemoryPolicies((PolicyMode.BIND,)), find)
    made.configured(configuration())
    assert obstacle(made, "crun") == "the features of crun are not known yet"
    reading.set()
    made.wait()


def test_configure_reads_the_features_again() -> None:
    programs = Programs({"runc": frozenset()})
    made = support(programs)
    assert obstacle(made, "") != ""
    programs.found["runc"] = MODES
    made.configured(configuration())
    made.wait()
    assert obstacle(made, "") == ""


def test_what_no_thread_or_process_could_read_is_read_at_the_next_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    programs = Programs({"runc": FeaturesError("/bin/runc: no process", is_shortage=True)})
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", fail)
        made = support(programs)
        assert obstacle(made, "") == "the features of runc are not known yet"
    made.wait()
    obstacle(made, "")
    made.wait()
    assert obstacle(made, "") == f"/bin/runc: no process; {LIST_IT}"
    made.wait()
    programs.found["runc"] = MODES
    obstacle(made, "")
    made.wait()
    assert obstacle(made, "") == ""
    reads = programs.reads
    obstacle(made, "")
    made.wait()
    assert programs.reads == reads
