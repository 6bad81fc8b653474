"""The messages against the published field numbers of NRI 0.12.5.

The tables are typed from the specification of the API and not from api/nri.proto: a mistake
in one of them is found. "?T" stands for the wrapper OptionalT, "[]" for repeated.
"""

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from tests.laboratory import api_pb2 as pb

POD = "1 pod PodSandbox"
BOTH = f"{POD}, 2 container Container"
UPDATES = "1 update []ContainerUpdate"
LABELS = "5 labels map<string,string>, 6 annotations map<string,string>"

MESSAGES = {
    "Empty": "",
    "RegisterPluginRequest": "1 plugin_name string, 2 plugin_idx string, 3 NRI_version string",
    "UpdateContainersRequest": f"{UPDATES}, 2 evict []ContainerEviction",
    "UpdateContainersResponse": "1 failed []ContainerUpdate",
    "LogRequest": "1 msg string, 2 level LogRequest.Level",
    "ConfigureRequest": "1 config string, 2 runtime_name string, 3 runtime_version string, "
    "4 registration_timeout int64, 5 request_timeout int64, 6 NRI_version string",
    "ConfigureResponse": "2 events int32, 3 failure_policy FailurePolicy",
    "FailurePolicy": "1 fail_request bool, 2 keep_connected bool",
    "SynchronizeRequest": "1 pods []PodSandbox, 2 containers []Container, 3 more bool",
    "SynchronizeResponse": f"{UPDATES}, 2 more bool",
    "CreateContainerRequest": BOTH,
    "CreateContainerResponse": "1 adjust ContainerAdjustment, 2 update []ContainerUpdate, "
    "3 evict []ContainerEviction",
    "UpdateContainerRequest": f"{BOTH}, 3 linux_resources LinuxResources",
    "UpdateContainerResponse": f"{UPDATES}, 2 evict []ContainerEviction",
    "StopContainerRequest": BOTH,
    "StopContainerResponse": UPDATES,
    "StateChangeEvent": "1 event Event, 2 pod PodSandbox, 3 container Container",
    "RunPodSandboxRequest": POD,
    "RunPodSandboxResponse": "",
    "StopPodSandboxRequest": POD,
    "StopPodSandboxResponse": "",
    "RemovePodSandboxRequest": POD,
    "RemovePodSandboxResponse": "",
    "PostUpdatePodSandboxRequest": POD,
    "PostUpdatePodSandboxResponse": "",
    "PostCreateContainerRequest": BOTH,
    "PostCreateContainerResponse": "",
    "StartContainerRequest": BOTH,
    "StartContainerResponse": "",
    "PostStartContainerRequest": BOTH,
    "PostStartContainerResponse": "",
    "PostUpdateContainerRequest": BOTH,
    "PostUpdateContainerResponse": "",
    "RemoveContainerRequest": BOTH,
    "RemoveContainerResponse": "",
    "UpdatePodSandboxRequest": f"{POD}, 2 overhead_linux_resources LinuxResources, "
    "3 linux_resources LinuxResources",
    "UpdatePodSandboxResponse": "",
    "ValidateContainerAdjustmentRequest": f"{BOTH}, 3 adjust ContainerAdjustment, "
    "4 update []ContainerUpdate, 5 owners OwningPlugins, 6 plugins []PluginInstance",
    "ValidateContainerAdjustmentResponse": "1 reject bool, 2 reason string",
    "PluginInstance": "1 name string, 2 index string",
    "PodSandbox": f"1 id string, 2 name string, 3 uid string, 4 namespace string, {LABELS}, "
    "7 runtime_handler string, 8 linux LinuxPodSandbox, 9 pid uint32, 10 ips []string",
    "LinuxPodSandbox": "1 pod_overhead LinuxResources, 2 pod_resources LinuxResources, "
    "3 cgroup_parent string, 4 cgroups_path string, 5 namespaces []LinuxNamespace, "
    "6 resources LinuxResources",
    "Container": "1 id string, 2 pod_sandbox_id string, 3 name string, 4 state ContainerState, "
    f"{LABELS}, 7 args []string, 8 env []string, 9 mounts []Mount, 10 hooks Hooks, "
    "11 linux LinuxContainer, 12 pid uint32, 13 rlimits []POSIXRlimit, 14 created_at int64, "
    "15 started_at int64, 16 finished_at int64, 17 exit_code int32, 18 status_reason string, "
    "19 status_message string, 20 CDI_devices []CDIDevice, 21 user User, 22 image Image",
    "CDIDevice": "1 name string",
    "User": "1 uid uint32, 2 gid uint32, 3 additional_gids []uint32",
    "Image": "1 name string, 2 digest string, 3 config_digest string",
    "LinuxContainer": "1 namespaces []LinuxNamespace, 2 devices []LinuxDevice, "
    "3 resources LinuxResources, 4 oom_score_adj ?Int, 5 cgroups_path string, "
    "6 io_priority LinuxIOPriority, 7 seccomp_profile SecurityProfile, "
    "8 seccomp_policy LinuxSeccomp, 9 sysctl map<string,string>, "
    "10 net_devices map<string,LinuxNetDevice>, 11 scheduler LinuxScheduler, 12 rdt LinuxRdt",
    "LinuxNamespace": "1 type string, 2 path string",
    "LinuxIOPriority": "1 class IOPrioClass, 2 priority int32",
    "LinuxResources": "1 memory LinuxMemory, 2 cpu LinuxCPU, 3 hugepage_limits []HugepageLimit, "
    "4 blockio_class ?String, 5 rdt_class ?String, 6 unified map<string,string>, "
    "7 devices []LinuxDeviceCgroup, 8 pids LinuxPids",
    "HugepageLimit": "1 page_size string, 2 limit uint64",
    "LinuxDeviceCgroup": "1 allow bool, 2 type string, 3 major ?Int64, 4 minor ?Int64, "
    "5 access string",
    "LinuxPids": "1 limit int64",
    "LinuxMemory": "1 limit ?Int64, 2 reservation ?Int64, 3 swap ?Int64, 4 kernel ?Int64, "
    "5 kernel_tcp ?Int64, 6 swappiness ?UInt64, 7 disable_oom_killer ?Bool, 8 use_hierarchy ?Bool",
    "LinuxCPU": "1 shares ?UInt64, 2 quota ?Int64, 3 period ?UInt64, 4 realtime_runtime ?Int64, "
    "5 realtime_period ?UInt64, 6 cpus string, 7 mems string",
    "Mount": "1 destination string, 2 type string, 3 source string, 4 options []string",
    "Hooks": "1 prestart []Hook, 2 create_runtime []Hook, 3 create_container []Hook, "
    "4 start_container []Hook, 5 poststart []Hook, 6 poststop []Hook",
    "Hook": "1 path string, 2 args []string, 3 env []string, 4 timeout ?Int",
    "LinuxDevice": "1 path string, 2 type string, 3 major int64, 4 minor int64, "
    "5 file_mode ?FileMode, 6 uid ?UInt32, 7 gid ?UInt32",
    "POSIXRlimit": "1 type string, 2 hard uint64, 3 soft uint64",
    "SecurityProfile": "1 profile_type SecurityProfile.ProfileType, 2 localhost_ref string",
    "LinuxSeccomp": "1 default_action string, 2 default_errno ?UInt32, 3 architectures []string, "
    "4 flags []string, 5 listener_path string, 6 listener_metadata string, "
    "7 syscalls []LinuxSyscall",
    "LinuxSyscall": "1 names []string, 2 action string, 3 errno_ret ?UInt32, "
    "4 args []LinuxSeccompArg",
    "LinuxSeccompArg": "1 index uint32, 2 value uint64, 3 value_two uint64, 4 op string",
    "LinuxNetDevice": "1 name string",
    "LinuxScheduler": "1 policy LinuxSchedulerPolicy, 2 nice int32, 3 priority int32, "
    "4 flags []LinuxSchedulerFlag, 5 runtime uint64, 6 deadline uint64, 7 period uint64",
    "ContainerAdjustment": "2 annotations map<string,string>, 3 mounts []Mount, 4 env []KeyValue, "
    "5 hooks Hooks, 6 linux LinuxContainerAdjustment, 7 rlimits []POSIXRlimit, "
    "8 CDI_devices []CDIDevice, 9 args []string",
    "KeyValue": "1 key string, 2 value string",
    "LinuxContainerAdjustment": "1 devices []LinuxDevice, 2 resources LinuxResources, "
    "3 cgroups_path string, 4 oom_score_adj ?Int, 5 io_priority LinuxIOPriority, "
    "6 seccomp_policy LinuxSeccomp, 7 namespaces []LinuxNamespace, 8 sysctl map<string,string>, "
    "9 net_devices map<string,LinuxNetDevice>, 10 scheduler LinuxScheduler, 11 rdt LinuxRdt, "
    "12 memory_policy LinuxMemoryPolicy",
    "LinuxRdt": "1 clos_id ?String, 2 schemata ?RepeatedString, 3 enable_monitoring ?Bool, "
    "4 remove bool",
    "LinuxMemoryPolicy": "1 mode MpolMode, 2 nodes string, 3 flags []MpolFlag",
    "ContainerUpdate": "1 container_id string, 2 linux LinuxContainerUpdate, 3 ignore_failure bool",
    "LinuxContainerUpdate": "1 resources LinuxResources",
    "ContainerEviction": "1 container_id string, 2 reason string",
    "OwningPlugins": "1 owners map<string,FieldOwners>",
    "FieldOwners": "1 simple map<int32,string>, 2 compound map<int32,CompoundFieldOwners>",
    "CompoundFieldOwners": "1 owners map<string,string>",
    "OptionalString": "1 value string",
    "OptionalRepeatedString": "1 value []string",
    "OptionalInt": "1 value int64",
    "OptionalInt32": "1 value int32",
    "OptionalUInt32": "1 value uint32",
    "OptionalInt64": "1 value int64",
    "OptionalUInt64": "1 value uint64",
    "OptionalBool": "1 value bool",
    "OptionalFileMode": "1 value uint32",
}

# Names in the order of their numbers, which start at 0 and have no gaps.
ENUMS = {
    "Event": "UNKNOWN RUN_POD_SANDBOX STOP_POD_SANDBOX REMOVE_POD_SANDBOX CREATE_CONTAINER "
    "POST_CREATE_CONTAINER START_CONTAINER POST_START_CONTAINER UPDATE_CONTAINER "
    "POST_UPDATE_CONTAINER STOP_CONTAINER REMOVE_CONTAINER UPDATE_POD_SANDBOX "
    "POST_UPDATE_POD_SANDBOX VALIDATE_CONTAINER_ADJUSTMENT LAST",
    "ContainerState": "CONTAINER_UNKNOWN CONTAINER_CREATED CONTAINER_PAUSED CONTAINER_RUNNING "
    "CONTAINER_STOPPED",
    "IOPrioClass": "IOPRIO_CLASS_NONE IOPRIO_CLASS_RT IOPRIO_CLASS_BE IOPRIO_CLASS_IDLE",
    "LinuxSchedulerPolicy": "SCHED_NONE SCHED_OTHER SCHED_FIFO SCHED_RR SCHED_BATCH SCHED_ISO "
    "SCHED_IDLE SCHED_DEADLINE",
    "LinuxSchedulerFlag": "SCHED_FLAG_RESET_ON_FORK SCHED_FLAG_RECLAIM SCHED_FLAG_DL_OVERRUN "
    "SCHED_FLAG_KEEP_POLICY SCHED_FLAG_KEEP_PARAMS SCHED_FLAG_UTIL_CLAMP_MIN "
    "SCHED_FLAG_UTIL_CLAMP_MAX",
    "MpolMode": "MPOL_DEFAULT MPOL_PREFERRED MPOL_BIND MPOL_INTERLEAVE MPOL_LOCAL "
    "MPOL_PREFERRED_MANY MPOL_WEIGHTED_INTERLEAVE",
    "MpolFlag": "MPOL_F_STATIC_NODES MPOL_F_RELATIVE_NODES MPOL_F_NUMA_BALANCING",
    "Field": "None Annotations Mounts OciHooks Devices CdiDevices Env Args MemLimit MemReservation "
    "MemSwapLimit MemKernelLimit MemTCPLimit MemSwappiness MemDisableOomKiller MemUseHierarchy "
    "CPUShares CPUQuota CPUPeriod CPURealtimeRuntime CPURealtimePeriod CPUSetCPUs CPUSetMems "
    "PidsLimit HugepageLimits BlockioClass RdtClass CgroupsUnified CgroupsPath OomScoreAdj Rlimits "
    "IoPriority SeccompPolicy Namespace Sysctl LinuxNetDevices LinuxSched RdtClosID RdtSchemata "
    "RdtEnableMonitoring MemoryPolicy",
    "LogRequest.Level": "LEVEL_UNSPECIFIED LEVEL_DEBUG LEVEL_INFO LEVEL_WARN LEVEL_ERROR",
    "SecurityProfile.ProfileType": "RUNTIME_DEFAULT UNCONFINED LOCALHOST",
}

# The methods whose messages are not named <method>Request and <method>Response.
IRREGULAR = {
    "RegisterPlugin": ("RegisterPluginRequest", "Empty"),
    "Shutdown": ("Empty", "Empty"),
    "StateChange": ("StateChangeEvent", "Empty"),
    "Log": ("LogRequest", "Empty"),
}
SERVICES = {
    "Runtime": "RegisterPlugin UpdateContainers",
    "Plugin": "Configure Synchronize Shutdown RunPodSandbox UpdatePodSandbox PostUpdatePodSandbox "
    "StopPodSandbox RemovePodSandbox CreateContainer PostCreateContainer StartContainer "
    "PostStartContainer UpdateContainer PostUpdateContainer StopContainer RemoveContainer "
    "StateChange ValidateContainerAdjustment",
    "HostFunctions": "Log",
}


@pytest.fixture(scope="module")
def api() -> FileDescriptorProto:
    file = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    return file


def _short(type_name: str) -> str:
    return type_name.removeprefix(".nri.pkg.api.v1alpha1.")


def _spell(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    """Return the type of a field as the table spells it."""
    kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    name = _short(field.type_name) or kind
    for nested in message.nested_type:
        if name == f"{message.name}.{nested.name}" and nested.options.map_entry:
            return f"map<{','.join(_spell(nested, part) for part in nested.field)}>"
    if name.startswith("Optional"):
        name = name.replace("Optional", "?", 1)
    return f"[]{name}" if field.label == FieldDescriptorProto.LABEL_REPEATED else name


def test_file(api: FileDescriptorProto) -> None:
    assert api.package == "nri.pkg.api.v1alpha1"
    assert api.name == "tests/laboratory/api.proto"
    assert api.syntax == "proto3"  # repeated numbers are packed, scalars have no presence


def test_messages_and_fields(api: FileDescriptorProto) -> None:
    found = {
        message.name: ", ".join(
            f"{field.number} {field.name} {_spell(message, field)}" for field in message.field
        )
        for message in api.message_type
    }
    assert found == MESSAGES


def test_enums(api: FileDescriptorProto) -> None:
    enums = {enum.name: enum for enum in api.enum_type}
    for message in api.message_type:
        enums |= {f"{message.name}.{enum.name}": enum for enum in message.enum_type}
    found = {name: [(v.name, v.number) for v in enum.value] for name, enum in enums.items()}
    assert found == {
        name: [(value, number) for number, value in enumerate(values.split())]
        for name, values in ENUMS.items()
    }


def test_services(api: FileDescriptorProto) -> None:
    found = {
        service.name: [
            (method.name, _short(method.input_type), _short(method.output_type))
            for method in service.method
        ]
        for service in api.service
    }
    assert found == {
        service: [
            (name, *IRREGULAR.get(name, (f"{name}Request", f"{name}Response")))
            for name in methods.split()
        ]
        for service, methods in SERVICES.items()
    }


@pytest.mark.parametrize("name", MESSAGES)
def test_every_message_has_a_class(name: str) -> None:
    message = getattr(pb, name)()
    assert message.DESCRIPTOR.full_name == f"nri.pkg.api.v1alpha1.{name}"
    assert message.SerializeToString() == b""
