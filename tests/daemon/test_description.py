"""What the process writes about itself."""

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


class Described:
    """A description on a clock, and what it hands over."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.facts: list[PluginFacts] = []
        self.description = Description(self.facts.append, self.clock.wall_s)

    def taken(self) -> PluginFacts:
        """Return the only facts since the last call."""
        self.description.flush()
        self.description.flush()
        (facts,) = self.facts
        self.facts.clear()
        return facts


def test_nothing_is_known_before_the_settings() -> None:
    described = Described()
    described.description.configured(RUNTIME)
    described.description.disconnected()
    described.description.ended()
    described.description.flush()
    assert described.facts == []


def test_the_facts_follow_the_process() -> None:
    described = Described()
    clock, description = described.clock, described.description
    description.connecting(Identity("numa", "07"))
    settings = load_text("logLevel: debug\n", "NRI configuration")
    description.started(settings, StartMode.LAUNCHED, "launched by the runtime")
    facts = described.taken()
    assert (facts.version, facts.name, facts.mode) == (VERSION, "07-numa", StartMode.LAUNCHED)
    assert (facts.started_s, facts.started_as) == (1000, "launched by the runtime")
    assert facts.settings["logLevel"] == Setting("debug", "NRI configuration:1")
    assert facts.settings["logFormat"] == Setting("auto", "default")
    assert (facts.runtime, facts.is_connected) == (None, False)

    clock.now_s = 1001
    description.configured(RUNTIME)
    assert described.facts == []  # not within the request
    facts = described.taken()
    assert facts.runtime == RuntimeFacts("containerd", "v2.1.9", "v0.11.0", 1001)
    assert (facts.is_connected, facts.connection_changed_s) == (True, 1001)

    clock.now_s = 1002
    description.disconnected()
    description.disconnected()
    assert described.facts != []
    facts = described.taken()
    assert (facts.is_connected, facts.connection_changed_s) == (False, 1002)
    assert facts.runtime is not None

    clock.now_s = 1003
    description.ended()
    assert described.taken().ended_s == 1003


def test_the_name_of_a_later_connection() -> None:
    described = Described()
    description = described.description
    description.started(load_text("", "x"), StartMode.SERVICE, "as a test")
    assert described.taken().name == ""
    description.connecting(Identity())
    assert described.taken().name == "10-nri-numamem"
