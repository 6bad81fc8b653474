"""What the process writes about itself."""

from pathlib import Path

from nri_numamem.config.load import load_text
from nri_numamem.daemon.description import Description
from nri_numamem.daemon.identity import Identity
from nri_numamem.nri.configuration import Configuration
from nri_numamem.observe.plugin_file import PluginFacts, RuntimeFacts, Setting, StartMode
from nri_numamem.version import VERSION

RUNTIME = Configuration("", "containerd", "v2.1.9", "v0.11.0", 2000)


class Clock:
    now_s = 1000.9

    def wall_s(self) -> float:
        return self.now_s


def taken(description: Description) -> PluginFacts:
    facts = description.take()
    assert facts is not None
    assert description.take() is None
    return facts


def test_nothing_is_known_before_the_settings() -> None:
    description = Description(Clock().wall_s)
    description.configured(RUNTIME)
    description.disconnected()
    description.ended()
    assert description.take() is None


def test_the_facts_follow_the_process(tmp_path: Path) -> None:
    clock = Clock()
    description = Description(clock.wall_s)
    description.connecting(Identity("numa", "07"))
    settings = load_text("logLevel: debug\n", "NRI configuration")
    description.started(settings, StartMode.LAUNCHED, "launched by the runtime")
    facts = taken(description)
    assert (facts.version, facts.name, facts.mode) == (VERSION, "07-numa", StartMode.LAUNCHED)
    assert (facts.started_s, facts.started_as) == (1000, "launched by the runtime")
    assert facts.settings["logLevel"] == Setting("debug", "NRI configuration:1")
    assert facts.settings["logFormat"] == Setting("auto", "default")
    assert (facts.runtime, facts.is_connected) == (None, False)

    clock.now_s = 1001
    description.configured(RUNTIME)
    facts = taken(description)
    assert facts.runtime == RuntimeFacts("containerd", "v2.1.9", "v0.11.0", 1001)
    assert (facts.is_connected, facts.connection_changed_s) == (True, 1001)

    clock.now_s = 1002
    description.disconnected()
    description.disconnected()
    facts = taken(description)
    assert (facts.is_connected, facts.connection_changed_s) == (False, 1002)
    assert facts.runtime is not None

    clock.now_s = 1003
    description.ended()
    assert taken(description).ended_s == 1003


def test_the_name_of_a_later_connection() -> None:
    description = Description(Clock().wall_s)
    description.started(load_text("", "x"), StartMode.SERVICE, "as a test")
    assert taken(description).name == ""
    description.connecting(Identity())
    assert taken(description).name == "10-nri-numamem"
