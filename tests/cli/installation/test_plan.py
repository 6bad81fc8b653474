"""Steps from each state of a host to each installation."""

from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.cli.installation import hook_program, systemd
from nri_numamem.cli.installation.facts import COPY, Facts, Program
from nri_numamem.cli.installation.plan import plan_external, plan_launched, plan_uninstall
from nri_numamem.cli.installation.steps import (
    Copy,
    Link,
    Move,
    Remove,
    Service,
    Write,
)
from nri_numamem.cli.runtimes import Runtime
from nri_numamem.config.errors import UsageError
from nri_numamem.config.example import example_text

RUNTIME = Runtime("containerd", "/etc/containerd/config.toml", {}, hides_hugepages=True)
SCRIPT = Program("/usr/bin/nri-numamem", Path("/usr/bin/nri-numamem"), is_single_file=False)
DOWNLOAD = Program("/root/download", Path("/root/download"), is_single_file=True)
ENTRY = "/opt/nri/plugins/10-nri-numamem"
CONF = "/etc/nri/conf.d/10-nri-numamem.conf"
SERVICE_CONF = "/etc/nri-numamem/config.yaml"
EMPTY = Facts(RUNTIME)
LAUNCHED = Facts(RUNTIME, {ENTRY: SCRIPT.path}, configs={CONF: "a: b\n"})
EXTERNAL = Facts(
    RUNTIME, unit=systemd.unit_for(SCRIPT.path), is_enabled=True, configs={SERVICE_CONF: "a: b\n"}
)


def on_systemd(facts: Facts, *, is_active: bool = False) -> Facts:
    """Return a host whose systemd runs, without the service or with it."""
    return replace(facts, has_systemd=True, is_active=is_active)


RELOAD = Service(("daemon-reload",))
START = Service(("start", systemd.UNIT), ("stop", systemd.UNIT))
STOP = Service(("stop", systemd.UNIT), ("start", systemd.UNIT))


class TestLaunched:
    def test_an_empty_host(self) -> None:
        assert plan_launched(EMPTY, SCRIPT) == [
            Link(ENTRY, SCRIPT.path),
            Write(CONF, example_text()),
        ]

    def test_a_second_run(self) -> None:
        assert plan_launched(on_systemd(LAUNCHED), SCRIPT) == []

    def test_another_program_and_index(self) -> None:
        other = Program("/opt/p", Path("/opt/p"), is_single_file=True)
        assert plan_launched(LAUNCHED, other) == [Link(ENTRY, "/opt/p")]
        assert plan_launched(LAUNCHED, SCRIPT, "20") == [
            Remove(ENTRY),
            Link("/opt/nri/plugins/20-nri-numamem", SCRIPT.path),
            Move(CONF, CONF.replace("10-", "20-")),
        ]

    def test_the_shared_name_of_a_configuration(self) -> None:
        facts = Facts(RUNTIME, LAUNCHED.entries, configs={"/etc/nri/conf.d/nri-numamem.conf": ""})
        assert plan_launched(facts, SCRIPT) == []

    def test_a_single_file_elsewhere_is_copied(self) -> None:
        facts = Facts(RUNTIME, configs={CONF: ""})
        assert plan_launched(facts, DOWNLOAD) == [Copy(ENTRY, DOWNLOAD.file)]
        facts = Facts(RUNTIME, {ENTRY: None}, configs={CONF: ""})
        assert plan_launched(facts, DOWNLOAD) == [Copy(ENTRY, DOWNLOAD.file)]
        same = Facts(RUNTIME, {ENTRY: None}, configs={CONF: ""}, identical=frozenset({ENTRY}))
        assert plan_launched(same, DOWNLOAD) == []

    def test_a_single_file_in_the_plugin_directory_stays_or_gets_its_name(self) -> None:
        dropped = Program(ENTRY, Path(ENTRY), is_single_file=True)
        facts = Facts(RUNTIME, {ENTRY: None}, configs={CONF: ""})
        assert plan_launched(facts, dropped) == []
        assert plan_launched(facts, dropped, "05")[0] == Move(
            ENTRY, "/opt/nri/plugins/05-nri-numamem"
        )

    def test_the_service_is_taken_away_first(self) -> None:
        assert plan_launched(on_systemd(EXTERNAL, is_active=True), SCRIPT) == [
            STOP,
            Remove(systemd.WANTED),
            Remove(systemd.PATH),
            RELOAD,
            Link(ENTRY, SCRIPT.path),
            Move(SERVICE_CONF, CONF),
        ]

    def test_a_copy_for_the_service_is_taken_away(self) -> None:
        facts = Facts(RUNTIME, LAUNCHED.entries, configs={CONF: ""}, has_copy=True)
        assert plan_launched(facts, SCRIPT) == [Remove(COPY)]
        copy = Program(COPY, Path(COPY), is_single_file=True)
        assert plan_launched(facts, copy) == [Link(ENTRY, COPY)]

    def test_a_unit_of_an_administrator_stays(self) -> None:
        facts = Facts(RUNTIME, unit="[Unit]\n", is_enabled=True, configs={CONF: ""})
        assert plan_launched(facts, SCRIPT) == [
            Remove(systemd.WANTED),
            Link(ENTRY, SCRIPT.path),
        ]

    def test_other_directories_of_the_runtime(self) -> None:
        nri = {"plugin_path": "/p", "plugin_config_path": "/c"}
        facts = Facts(Runtime("containerd", "x", nri, hides_hugepages=True))
        assert plan_launched(facts, SCRIPT) == [
            Link("/p/10-nri-numamem", SCRIPT.path),
            Write("/c/10-nri-numamem.conf", example_text()),
        ]


class TestExternal:
    def test_an_empty_host(self) -> None:
        steps = [
            Write(systemd.PATH, systemd.unit_for(SCRIPT.path)),
            Write(SERVICE_CONF, example_text()),
            Link(systemd.WANTED, systemd.PATH),
        ]
        assert plan_external(EMPTY, SCRIPT) == steps
        assert plan_external(on_systemd(EMPTY), SCRIPT) == [*steps, RELOAD, START]

    def test_a_second_run(self) -> None:
        assert plan_external(on_systemd(EXTERNAL, is_active=True), SCRIPT) == []
        assert plan_external(on_systemd(EXTERNAL), SCRIPT) == [RELOAD, START]

    def test_a_new_version_of_the_unit(self) -> None:
        old = systemd.unit_for("/opt/old")
        facts = Facts(RUNTIME, unit=old, is_enabled=True, configs={SERVICE_CONF: ""})
        assert plan_external(on_systemd(facts, is_active=True), SCRIPT) == [
            Write(systemd.PATH, systemd.unit_for(SCRIPT.path)),
            RELOAD,
            Service(("restart", systemd.UNIT)),
        ]

    def test_a_unit_of_an_administrator_or_a_package_is_used(self) -> None:
        own = Facts(RUNTIME, unit="[Unit]\n", configs={SERVICE_CONF: ""})
        assert plan_external(own, SCRIPT) == [Link(systemd.WANTED, systemd.PATH)]
        packaged = systemd.PACKAGED[1]
        facts = Facts(RUNTIME, packaged_unit=packaged, configs={SERVICE_CONF: ""})
        assert plan_external(facts, SCRIPT) == [Link(systemd.WANTED, packaged)]

    def test_the_launched_plugin_is_taken_away(self) -> None:
        assert plan_external(LAUNCHED, SCRIPT)[1:] == [
            Move(CONF, SERVICE_CONF),
            Link(systemd.WANTED, systemd.PATH),
            Remove(ENTRY),
        ]

    @pytest.mark.parametrize("path", ["/root/download", ENTRY])
    def test_a_single_file_elsewhere_is_copied(self, path: str) -> None:
        program = Program(path, Path(path), is_single_file=True)
        steps = plan_external(EMPTY, program)
        assert steps[:2] == [Copy(COPY, Path(path)), Write(systemd.PATH, systemd.unit_for(COPY))]

    @pytest.mark.parametrize("path", ["/root/venv/bin/p", "/home/a/p", "/tmp/p"])
    def test_a_script_that_the_unit_hides_is_refused(self, path: str) -> None:
        program = Program(path, Path(path), is_single_file=False)
        with pytest.raises(UsageError, match=f"^{path}: the systemd unit hides .* /opt or /usr$"):
            plan_external(EMPTY, program)

    def test_a_socket_of_the_runtime(self) -> None:
        runtime = Runtime("containerd", "x", {"socket_path": "/s"}, hides_hugepages=True)
        steps = plan_external(Facts(runtime), SCRIPT)
        assert steps[0] == Write(systemd.PATH, systemd.unit_for(SCRIPT.path, "/s"))

    def test_of_two_configurations_one_without_settings_goes(self) -> None:
        configs = {SERVICE_CONF: "a: b\n", CONF: example_text()}
        facts = Facts(RUNTIME, unit=EXTERNAL.unit, is_enabled=True, configs=configs)
        assert plan_external(facts, SCRIPT) == [Remove(CONF)]
        configs[CONF] = "c: d\n"
        assert plan_external(facts, SCRIPT) == []

    def test_settings_replace_the_empty_file_of_a_package(self) -> None:
        configs = {SERVICE_CONF: example_text(), CONF: "c: d\n"}
        facts = Facts(RUNTIME, unit=EXTERNAL.unit, is_enabled=True, configs=configs)
        steps = [Remove(SERVICE_CONF), Move(CONF, SERVICE_CONF)]
        assert plan_external(facts, SCRIPT) == steps
        configs[CONF] = example_text()
        assert plan_external(facts, SCRIPT) == [Remove(CONF)]


@pytest.mark.parametrize("plan", [plan_launched, plan_external])
def test_a_plugin_directory_that_stops_the_runtime_is_refused(plan: type) -> None:
    bad = Facts(RUNTIME, bad_names=("/opt/nri/plugins/x.sh",))
    with pytest.raises(UsageError, match=r"^/opt/nri/plugins/x.sh: .* move it away$"):
        plan(bad, SCRIPT)
    with pytest.raises(UsageError, match=r"^/p/10-nri-numamem: .*; move it away$"):
        plan(Facts(RUNTIME, other_programs=("/p/10-nri-numamem",)), SCRIPT)


class TestUninstall:
    def test_nothing(self) -> None:
        assert plan_uninstall(on_systemd(EMPTY)) == []

    def test_launched(self) -> None:
        assert plan_uninstall(LAUNCHED) == [Remove(ENTRY)]

    def test_external(self) -> None:
        facts = Facts(
            RUNTIME,
            unit=EXTERNAL.unit,
            is_enabled=True,
            has_copy=True,
            has_claim_hook=True,
            drop_ins={"/d/99-nri-numamem.toml": ""},
        )
        assert plan_uninstall(on_systemd(facts, is_active=True)) == [
            STOP,
            Remove(systemd.WANTED),
            Remove(systemd.PATH),
            RELOAD,
            Remove(COPY),
            Remove(hook_program.PATH),
            Remove("/d/99-nri-numamem.toml"),
        ]

    def test_the_hook_program_of_a_package_stays(self) -> None:
        packaged = replace(LAUNCHED, has_claim_hook=True, packaged_unit=systemd.PACKAGED[0])
        assert plan_uninstall(packaged) == [Remove(ENTRY)]

    def test_an_exporter(self) -> None:
        """It is stopped before the plugin, and only by an uninstall."""
        facts = replace(LAUNCHED, is_exporter_enabled=True)
        running = on_systemd(facts)
        stop = Service(("stop", systemd.EXPORTER), ("start", systemd.EXPORTER))
        steps = [stop, Remove(systemd.EXPORTER_WANTED), RELOAD, Remove(ENTRY)]
        assert plan_uninstall(running, is_exporter_active=True) == steps
        assert plan_uninstall(facts) == [Remove(systemd.EXPORTER_WANTED), Remove(ENTRY)]
        assert plan_launched(running, SCRIPT) == []
