"""Every method of the plugin's service with any payload, with a real engine.

A payload is arbitrary bytes or a message drawn field by field. Error replies occur only for invalid
messages and refusals of CreateContainer. Every other reply is a message of the method's type, and
no record reports a bug.
"""

from collections.abc import Iterable, Mapping

from nri_numamem.engine.core.events import Event
from nri_numamem.engine.core.plan import Plan
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.record import Record
from nri_numamem.nri.configuration import Configuration
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.host_facts import Device, NoHostFacts
from nri_numamem.nri.plugin_service import METHODS, PluginService
from nri_numamem.numa import NodeSet
from nri_numamem.ttrpc import Code, Request, StatusError
from tests.fuzz.choices import Choices
from tests.fuzz.hosts import check_engine, check_records, draw_engine
from tests.fuzz.messages import fill
from tests.laboratory import api_pb2 as api

CALLS_MOST = 40
NAMES = tuple(METHODS)
_SERVICE = api.DESCRIPTOR.services_by_name["Plugin"]
_REPLIES = {method.name: getattr(api, method.output_type.name) for method in _SERVICE.methods}


class EngineHandler:
    """A handler with a real engine, which is checked after every event."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.records: list[Record] = []

    def configure(self, configuration: Configuration) -> None:
        """Accept any configuration."""
        assert configuration.survives_refusal in (False, True)

    def decide(self, event: Event) -> Plan:
        """Apply an event and collect its records."""
        applied = self.engine.apply(event)
        self.records += applied.records
        check_engine(self.engine)
        return applied.plan


class DrawnFacts(NoHostFacts):
    """Drawn hugepage limits, and a node for each device."""

    def __init__(self, limits: Mapping[int, int]) -> None:
        self._limits = limits

    def hugepage_limits(self, _cgroup_parent: str) -> Mapping[int, int]:
        """Return the limits of every pod."""
        return self._limits

    def device_nodes(self, _cgroup_parent: str, devices: Iterable[Device]) -> tuple[NodeSet, ...]:
        """Return a node by the number of the device."""
        return tuple(NodeSet([device.minor % 1024]) for device in devices)


def new_decoder(choices: Choices) -> Decoder:
    """Return a decoder with drawn facts."""
    limits = choices.pick(({}, {2 << 20: 8 << 20}, {2 << 20: 2 << 20, 1 << 30: 1 << 30}))
    return Decoder(DrawnFacts(limits))


def draw_payload(choices: Choices, name: str) -> bytes:
    """Return the payload of a call."""
    if choices.below(8) == 7:
        return choices.block()
    message = METHODS[name].request()
    fill(message, choices)
    return message.SerializeToString()


def _check_error(name: str, error: StatusError) -> None:
    is_refusal = error.code is Code.UNKNOWN and name == "CreateContainer"
    assert is_refusal or error.code is Code.INTERNAL
    assert error.message


def one_input(data: bytes) -> None:
    """Make the calls that the bytes encode."""
    choices = Choices(data)
    handler = EngineHandler(draw_engine(choices))
    methods = PluginService(handler, new_decoder(choices))
    for _ in range(CALLS_MOST):
        if not choices:
            break
        name = choices.pick(NAMES)
        payload = draw_payload(choices, name)
        try:
            reply = methods.serve(METHODS[name], Request("Plugin", name, payload))
        except StatusError as error:
            _check_error(name, error)
        else:
            _REPLIES[name].FromString(reply)
        check_records([*handler.records, *methods.records])
        handler.records.clear()
        methods.records.clear()
