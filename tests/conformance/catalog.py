"""The conformance scenarios by number, the NRI versions, and what is deliberately not staged.

Plain data. A test names the scenarios that it stages with ``@pytest.mark.scenario(...)``; every
number below is named by a test or stands in NOT_STAGED, and test_catalog checks that.
"""

GO_VERSIONS = ("nri-0.3.0", "nri-0.6.1", "nri-0.8.0", "nri-0.11.0", "nri-0.12.2")

# The column of what the Python peer stages: broken frames, silence, CRI-O's habits.
PEER = "peer"
COLUMNS = (*GO_VERSIONS, PEER)

SCENARIOS = {
    1: "registers after a second of computing at most: connection 2, stream 1, name and index",
    2: "Configure before the reply to RegisterPlugin is answered at once",
    3: "every frame is laid out so that Go can read it",
    4: "replies of 4.2 KB, 70 KB and 2 MiB arrive whole",
    5: "a reply over 4 MiB becomes a small error, the connection stays",
    6: "requests in 1-byte frames, one huge frame, with empty frames between",
    7: "a frame of an unknown connection id is ignored",
    8: "unknown service or method: code 12, the next request works",
    9: "garbage as payload: code 13 or 3, the next request works",
    10: "metadata, unknown envelope fields and flags do not matter",
    11: "messages of type 3 and 9 are ignored",
    12: "two requests back to back get two replies with the right stream ids",
    13: "a frame header above 64 MiB: closes, connects again, memory stays bounded",
    14: "the peer closes inside header, frame or body: clean reconnect",
    15: "a runtime that does not read: the plugin keeps reading",
    16: "a slow handler: neutral reply before timeout_nano, the late result is dropped",
    17: "launched with three variables only: registers on descriptor 3",
    18: "launched: configuration text is applied, empty is default, broken as specified",
    19: "NRI_PLUGIN_NAME with and without the index",
    20: "extra inherited descriptors are closed",
    21: "launched: end of file ends the process at once",
    22: "socket missing, refused, forbidden: tries again, slowly",
    23: "the runtime restarts: registers anew, books from Synchronize",
    24: "a refused registration is told and not hammered",
    25: "a late reply to RegisterPlugin is waited for",
    26: "Configure without timeouts and NRI version: defaults, mask within 0x7ff",
    27: "Configure with NRI version; runtime name v2",
    28: "the mask is accepted and not 0",
    29: "no Synchronize (launched, up to 0.6.1): the first event works",
    30: "a long pause between Configure and Synchronize",
    31: "Synchronize of nothing",
    32: "Synchronize: right mems no update, missing ones one update each",
    33: "Synchronize in parts: more echoed, updates only at the end",
    34: "Synchronize of 12 MB in one message: computed within the runtime's 2 s",
    35: "Synchronize of 2000 containers after a second of computing at most",
    36: "a second Synchronize replaces the state",
    37: "Synchronize with stopped pods and containers of odd states",
    38: "QoS class from every kind of cgroup parent",
    39: "mems that are set already are respected",
    40: "the reply to CreateContainer sets nothing but cpu.mems",
    41: "a second plugin claims mems: creation fails, ours releases",
    42: "creation undone (stop and remove without start): released once",
    43: "creation that nobody undoes: superseded by the next of that name",
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
    54: "the dedicated calls of 0.12 are never answered with code 12",
    55: "validation, UpdatePodSandbox and Shutdown succeed unsubscribed",
    56: "StopContainer in state UNKNOWN still releases",
    57: "pods without linux section, parent or labels, mems that cannot be read",
    58: "an exception in a handler: neutral reply, the process lives",
    59: "10,000 create/stop/remove cycles (before 0.12: 2,000): constant memory, p99 below 50 ms",
    60: "events while Synchronize is computed",
    61: "a second instance does not register",
    62: "no call on connection 2 but RegisterPlugin",
    63: "UpdateContainers only outside handlers, since 0.12.1",
    64: "stopped or hogged for seconds: the runtime goes on",
    65: "the runtime's request timeout is honoured",
    66: "closed right after Configure: connects again with growing pauses",
    67: "oom_score_adj -997 in a Burstable cgroup: the cgroup counts",
    68: "unified memory.min is the request",
    69: "after CRI-O's restart mems that were set while running are sent again",
    70: "replies are valid UTF-8 whatever the request's bytes",
}

NOT_STAGED = {
    63: "the plugin never calls UpdateContainers (scenario 62 asserts it)",
    68: "only for Burstable containers, which the plugin leaves alone; Guaranteed: request = limit",
}
