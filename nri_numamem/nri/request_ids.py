"""Short ids of requests: "3-17" is request 17 of connection 3 since the start of the process."""

from dataclasses import dataclass


@dataclass(slots=True)
class RequestIds:
    """The ids of one connection."""

    connection: int = 1
    number: int = 0
    """Number of the request that began last; 0 before the first one."""

    @property
    def current(self) -> str:
        """The id of the request that began last; "" before the first one."""
        return f"{self.connection}-{self.number}" if self.number else ""
