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
        return self.of(self.number)

    def of(self, number: int) -> str:
        """Return the id of a request of this connection; "" for number 0."""
        return f"{self.connection}-{number}" if number else ""
