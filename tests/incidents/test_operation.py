"""The plugin, its files and its neighbours: the first command names cause and remedy."""

from nri_numamem.cli.main import main
from tests.incidents.conftest import GI, Incident
from tests.laboratory import api_pb2 as api
from tests.simulated_host import wait_for

_SET_BY_OTHERS = "remedy only one may set it: memoryManagerPolicy None for the kubelet, or no"


def launch_link(incident: Incident) -> None:
    """Make the link by which a runtime launches the plugin; its program does not exist."""
    incident.write("opt/nri/plugins/README", "")
    (incident.root / "opt/nri/plugins/10-nri-numamem").symlink_to("/usr/bin/nri-numamem")


def test_the_runtime_does_not_start_it(incident: Incident) -> None:
    (incident.root / incident.WANTED).unlink()
    launch_link(incident)
    text = incident.shown("doctor")
    assert "FAIL /opt/nri/plugins/10-nri-numamem is a link to a file that does not exist" in text
    assert "install the program again, or remove the link" in text
    assert "the plugin does not run start the service, or the runtime that launches it" in text
    status = incident.shown("status")
    assert "plugin does not run: containers that start now get no NUMA nodes" in status
    assert "nri-numamem doctor says what to do" in status


def test_nri_is_off(incident: Incident) -> None:
    section = '[plugins."io.containerd.nri.v1.nri"]'
    incident.write("etc/containerd/config.toml", f"version = 3\n{section}\ndisable = true\n")
    text = incident.shown("doctor")
    assert "FAIL /etc/containerd/config.toml disables NRI nri-numamem install --enable-nri" in text


def test_the_memory_manager_of_the_kubelet_is_on_too(incident: Incident) -> None:
    incident.write("var/lib/kubelet/config.yaml", "memoryManagerPolicy: Static\n")
    incident.start()
    incident.pod("db", 2, cpuset_mems="1")
    text = incident.shown("doctor")
    assert "config.yaml:1: memoryManagerPolicy is Static, as the plugin's is kubectl cordon" in text
    assert "set None, delete the kubelet's memory_manager_state, restart the kubelet" in text
    text = incident.eventually("container main: placed", "explain", "db")
    assert "because its cpuset.mems was set before, by the kubelet's Memory Manager or" in text
    assert _SET_BY_OTHERS in text


def test_another_plugin_sets_cpuset_mems(incident: Incident) -> None:
    incident.start()
    container = incident.pod("db", 2)
    assert isinstance(container, api.Container)
    incident.eventually("default/db main 0", "status")
    incident.set_mems(container, "1", 2 * GI)
    text = incident.shown("status")
    assert "placed on node 0, but its cpuset.mems is 1: something else set it" in text
    # The plugin compares the cgroups every 10 s.
    text = incident.eventually("cpuset mems conflict", "explain", "db")
    assert "because its cpuset.mems was set later, by the kubelet's Memory Manager, another" in text
    assert "before node 0 nodes 1" in text
    assert _SET_BY_OTHERS in text


def test_a_damaged_state_file_then_an_uninstall(incident: Incident) -> None:
    incident.start()
    incident.pod("db", 2)
    incident.eventually("container main: placed", "explain", "db")
    incident.stop()
    state_file = incident.host.state_file
    wait_for(state_file.exists)
    state_file.write_text("damaged")
    text = incident.shown("doctor")
    assert "nri_numamem_state: not JSON: " in text
    assert "the next start of the plugin renames it and computes the state anew" in text
    assert "problem " in incident.shown("status")
    cgroups = str(incident.root / "cgroup")
    options = ["--state-file", str(state_file), "--cgroup-root", cgroups]
    main(["reset", *options, "--socket", str(incident.host.socket), "--dry-run"])
    text = incident.printed()
    assert "nri_numamem_state: not JSON: " in text
    assert "The history shows what the plugin pinned." in text
    assert "default/db main 0 > would get all nodes of its pod" in text
    text = incident.shown("uninstall", "--dry-run")
    assert "would remove /etc/systemd/system/multi-user.target.wants/nri-numamem.service" in text
    assert "nri-numamem uninstall (on the host itself: unpins the containers)" in text


def test_two_instances(incident: Incident) -> None:
    incident.start()
    config = incident.root / "etc/nri-numamem/config.yaml"
    second = incident.host.start("--config", str(config))
    assert second.stdout is not None
    line = second.stdout.readline()
    assert f"(pid {incident.process.pid}, since 2" in line
    assert "none in a rolling update; otherwise stop one of the two, or give each its own" in line
    launch_link(incident)
    text = incident.shown("doctor")
    assert "FAIL the plugin is started in 2 ways: /opt/nri/plugins/10-nri-numamem, the" in text
    assert "keep one: remove the link, or systemctl disable --now nri-numamem" in text
