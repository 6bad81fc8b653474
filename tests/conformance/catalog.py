"""The conformance scenarios by number, and the NRI versions.

A test lists the numbers of its scenarios in ``@pytest.mark.scenario(...)``. test_catalog checks
that every number has a test or a reason in NOT_TESTED.
"""

GO_VERSIONS = ("nri-0.3.0", "nri-0.6.1", "nri-0.8.0", "nri-0.11.0", "nri-0.12.2")

# The column of the Python peers: invalid frames, timeouts, the behaviour of CRI-O.
PEER = "peer"
COLUMNS = (*GO_VERSIONS, PEER)

SCENARIOS = {
    1: "registers within one second of processor time: connection 2, stream 1, name and index",
    2: "Configure before the reply to RegisterPlugin gets an immediate reply",
    3: "Go can read the layout of every frame",
    4: "replies of 4.2 KB, 70 KB and 2 MiB arrive whole",
    5: "a reply over 4 MiB becomes a small error, the connection stays",
    6: "requests in 1-byte frames, one huge frame, with empty frames between",
    7: "a frame of an unknown connection id is ignored",
    8: "unknown service or method: code 12, the next request works",
    9: "invalid payload: code 13 or 3, the next request works",
    10: "metadata, unknown envelope fields and flags do not matter",
    11: "messages of type 3 and 9 are ignored",
    12: "two requests back to back get two replies with the right stream ids",
    13: "a frame header above 64 MiB: closes, reconnects, memory stays bounded",
    14: "the peer closes inside header, frame or body: clean reconnect",
    15: "a runtime that does not read: the plugin keeps reading",
    16: "a slow handler: empty response before timeout_nano, the late result is dropped",
    17: "launched with three variables only: registers on descriptor 3",
    18: "launched: configuration text is applied, empty is default, broken as specified",
    19: "NRI_PLUGIN_NAME with and without the index",
    20: "extra inherited descriptors are closed",
    21: "launched: end of file ends the process immediately",
    22: "socket missing, refused, forbidden: retries with pauses",
    23: "the runtime restarts: registers again, accounting from Synchronize",
    24: "a refused registration is logged and not retried immediately",
    25: "a late reply to RegisterPlugin is accepted",
    26: "Configure without timeouts and NRI version: defaults, mask within 0x7ff",
    27: "Configure with NRI version; runtime name v2",
    28: "the mask is accepted and not 0",
    29: "no Synchronize (launched, up to 0.6.1): the first event works",
    30: "a long pause between Configure and Synchronize",
    31: "an empty Synchronize",
    32: "Synchronize: right mems no update, missing ones one update each",
    33: "Synchronize in parts: more echoed, updates only at the end",
    34: "Synchronize of 12 MB in one message: computed within the runtime's 2 s",
    35: "Synchronize of 2000 containers within one second of processor time",
    36: "a second Synchronize replaces the state",
    37: "Synchronize with stopped pods and containers of odd states",
    38: "QoS class from every kind of cgroup parent",
    39: "existing cpuset.mems are respected",
    40: "the reply to CreateContainer sets only cpu.mems",
    41: "a second plugin claims mems: creation fails, ours releases",
    42: "creation undone (stop and remove without start): released once",
    43: "creation that is not undone: replaced by the next container of that name",
    44: "released at stop, removal changes nothing",
    45: "remove without stop, stop of an unknown id, stop twice",
    46: "StopContainer after StopPodSandbox and RemovePodSandbox",
    47: "the successor is created before its predecessor stops",
    48: "StopContainer's reply: at most one update per id, none for itself",
    49: "CreateContainer's reply never updates the container being created",
    50: "UpdateContainer with CPUs and zeros only: zeros are no limits",
    51: "UpdateContainer with a new memory limit is accounted",
    52: "UpdateContainer of an unknown container: empty reply",
    53: "StateChange of every kind, and kind 99, like the dedicated calls",
    54: "the dedicated calls of 0.12 never get code 12",
    55: "validation, UpdatePodSandbox and Shutdown succeed unsubscribed",
    56: "StopContainer in state UNKNOWN still releases",
    57: "pods without linux section, parent or labels, invalid mems",
    58: "an exception in a handler: empty response, the process continues",
    59: "10,000 create/stop/remove cycles (before 0.12: 2,000): constant memory, p99 below 50 ms",
    60: "events while Synchronize is computed",
    61: "a second instance does not register",
    62: "no call on connection 2 but RegisterPlugin",
    63: "UpdateContainers only outside handlers, since 0.12.1",
    64: "the plugin does not run for seconds: the runtime continues",
    65: "the runtime's request timeout is honoured",
    66: "closed right after Configure: reconnects with growing pauses",
    67: "oom_score_adj -997 in a Burstable cgroup: the cgroup counts",
    68: "unified memory.min is the request",
    69: "after CRI-O's restart the mems of earlier updates are sent again",
    70: "replies are valid UTF-8 for any bytes in the request",
}

NOT_TESTED = {
    63: "the plugin never calls UpdateContainers (scenario 62 asserts it)",
    68: "only for Burstable containers, which are not managed; Guaranteed: request = limit",
}
