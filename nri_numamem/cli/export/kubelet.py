"""CPUs and devices as the kubelet manages them: from its PodResources socket, else from its files.

The files list no devices, and only those reserved CPUs that the configuration names. The socket
lists the CPUs that the static CPU manager reserves, also if the configuration has only an amount.
"""

import argparse
from pathlib import Path
from typing import Final

from nri_numamem.config.documents import load_document, read_file
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.core.context import Context
from nri_numamem.export.amounts import CpuUse
from nri_numamem.export.conditions import Input, Problem
from nri_numamem.kubelet.config_file import KubeletConfigError, read_kubelet_config
from nri_numamem.kubelet.cpu_state import FILE_NAME, CpuState, CpuStateError, parse_cpu_state
from nri_numamem.kubelet.host_resources import KubeletResources
from nri_numamem.numa import CpuSet
from nri_numamem.observe.files import read_regular, reason_of

_CPU_STATE_LIMIT_BYTES = 4 << 20
# Below the kubelet's directory.
_SOCKET = Path("pod-resources/kubelet.sock")
# The limit for each of two calls; the exporter waits meanwhile.
_CALL_S: Final = 2.0


def socket_of(args: argparse.Namespace) -> Path:
    """Return the kubelet's PodResources socket, which may not exist."""
    named: Path | None = args.podresources_socket
    return named or args.kubelet_root / _SOCKET


def read_kubelet(
    args: argparse.Namespace,
    config: Path,
    context: Context,
    reserved_cpus: CpuSet | None,
    problems: list[Problem],
) -> tuple[CpuUse, KubeletResources]:
    """Return what the kubelet manages; `reserved_cpus` is None to take those of the kubelet.

    The CPUs are without requests, which the kubelet does not list; the resources are empty without
    its socket. Raises UsageError if the kubelet's configuration cannot be used.
    """
    resources = _resources(args, problems)
    every = CpuSet(cpu for node in context.machine.nodes for cpu in node.cpus)
    if resources is not None and resources.has_static_cpu_manager:
        reserved = every - resources.allocatable_cpus if reserved_cpus is None else reserved_cpus
        return CpuUse({}, reserved, resources.exclusive_cpus), resources
    reserved = _reserved_cpus(config, problems) if reserved_cpus is None else reserved_cpus
    if resources is not None:
        return CpuUse({}, reserved), resources
    cpu_state = _cpu_state(args.kubelet_root / FILE_NAME, problems)
    exclusive = None
    if cpu_state is not None and cpu_state.is_static:
        exclusive = every - cpu_state.shared
    return CpuUse({}, reserved, exclusive), KubeletResources()


def _resources(args: argparse.Namespace, problems: list[Problem]) -> KubeletResources | None:
    """Return what the socket lists; None without a socket, or if the kubelet does not reply."""
    path = socket_of(args)
    if args.podresources_socket is None and _is_missing(path):
        return None
    # These need protobuf and h2.
    from nri_numamem.grpc import StatusError, call  # noqa: PLC0415
    from nri_numamem.kubelet import podresources as api  # noqa: PLC0415

    try:
        of_list = call(path, api.LIST, timeout_s=_CALL_S)
        of_allocatable = call(path, api.GET_ALLOCATABLE_RESOURCES, timeout_s=_CALL_S)
        return api.read_resources(of_list, of_allocatable)
    except (StatusError, api.PodResourcesError) as error:
        text = (
            f"no devices, and CPUs only from the kubelet's files: {path}: {error}; start the "
            "kubelet, or name its socket with --podresources-socket"
        )
        problems.append(Problem(Input.PODRESOURCES, text))
        return None


def _is_missing(path: Path) -> bool:
    try:
        return not path.exists()
    except OSError:  # the call shows why
        return False


def _reserved_cpus(path: Path, problems: list[Problem]) -> CpuSet:
    """Return the reservedSystemCPUs of the kubelet's configuration; raise UsageError."""
    if not path.exists():
        text = (
            f"no reserved CPUs: {path} does not exist; name the kubelet's directory with "
            "--kubelet-root, or the CPUs with --reserved-cpus"
        )
        problems.append(Problem(Input.RESERVED_CPUS, text))
        return CpuSet()
    try:
        config = read_kubelet_config(load_document(read_file(path), str(path)))
        return CpuSet.parse(config.reserved_system_cpus)
    except KubeletConfigError as error:
        raise UsageError(f"{path}: {error}") from error
    except ValueError as error:
        remedy = "correct it, or name the CPUs with --reserved-cpus"
        raise UsageError(f"{path}: reservedSystemCPUs: {error}; {remedy}") from error


def _cpu_state(path: Path, problems: list[Problem]) -> CpuState | None:
    try:
        return parse_cpu_state(read_regular(path, _CPU_STATE_LIMIT_BYTES))
    except (OSError, CpuStateError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        text = (
            f"exclusive CPUs are unknown and count as available: {path}: {reason}; name the "
            "kubelet's directory with --kubelet-root"
        )
        problems.append(Problem(Input.EXCLUSIVE_CPUS, text))
        return None
