"""The setting `claims`: resource claims choose NUMA nodes."""

from dataclasses import dataclass

from nri_numamem.config.setting import BOOLEAN, Group, Setting, absolute_path, integer

HOOK_PROGRAM = "/usr/libexec/nri-numamem/claim-hook"
CDI_DIRECTORY = "/var/run/cdi"


@dataclass(frozen=True, slots=True)
class ClaimSettings:
    """Whether claims are used, and the files for them."""

    enabled: bool = False
    hook_program: str = HOOK_PROGRAM
    """Absolute path on the host of the program that OCI hooks run."""
    cdi_directory: str = CDI_DIRECTORY
    """Absolute path of the directory for CDI specifications."""
    share_percent: int = 0
    """Of each NUMA node's allocatable memory and hugepages; 0: claims use what is left."""


_KEYS = (
    Setting(
        "enabled",
        "enabled",
        BOOLEAN,
        "With `true`, a container that uses a ResourceClaim of the driver numamem.io gets the NUMA "
        "nodes that the scheduler chose. `nri-numamem agent --claims` has to run on the host, and "
        "the runtime must support CDI. [claims.md](claims.md) describes claims and requirements.",
    ),
    Setting(
        "hookProgram",
        "hook_program",
        absolute_path(HOOK_PROGRAM),
        "The program that the OCI runtime runs before it starts a container with claims. It fails "
        "the start if the container does not have the NUMA nodes of its claims. It must be on a "
        "file system of the host that is not mounted noexec.",
        is_shown=lambda claims: claims.enabled or claims.hook_program != HOOK_PROGRAM,
    ),
    Setting(
        "cdiDirectory",
        "cdi_directory",
        absolute_path(CDI_DIRECTORY),
        "Where the plugin writes CDI specifications. The runtime has to read them from there.",
        is_shown=lambda claims: claims.enabled or claims.cdi_directory != CDI_DIRECTORY,
    ),
    Setting(
        "sharePercent",
        "share_percent",
        integer(0, 90),
        "Percentage of each NUMA node's allocatable memory and hugepages for resource claims. Pods "
        "without claims cannot use it, and claims cannot use more. With 0, claims can use what "
        "pods without claims leave. Above 0, pods without claims are placed on single NUMA nodes "
        "only ([figures](claims.md#beside-pods-without-claims)).",
        is_shown=lambda claims: claims.enabled or bool(claims.share_percent),
    ),
)

CLAIMS = Group("claims", _KEYS, "claims", ClaimSettings)
