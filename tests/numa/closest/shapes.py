"""Distance matrices of machines: sockets on boards, a cube of sockets, random ones."""

from random import Random

Rows = list[list[int]]


def socket_rows(nodes: int, widths: tuple[int, ...], levels: tuple[int, ...]) -> Rows:
    """Return distances of nested sockets and boards: one level per width, and one beyond."""

    def between(a: int, b: int) -> int:
        if a == b:
            return 10
        for width, level in zip(widths, levels, strict=False):
            if a // width == b // width:
                return level
        return levels[-1]

    return [[between(a, b) for b in range(nodes)] for a in range(nodes)]


def cube_rows(nodes_per_socket: int) -> Rows:
    """Return distances of eight sockets that are joined like the corners of a cube."""

    def between(a: int, b: int) -> int:
        hops = ((a // nodes_per_socket) ^ (b // nodes_per_socket)).bit_count()
        return 10 if a == b else (12, 21, 31, 41)[hops]

    size = 8 * nodes_per_socket
    return [[between(a, b) for b in range(size)] for a in range(size)]


def random_rows(random: Random, nodes: int) -> Rows:
    shape = random.choice(("sockets", "boards", "cube", "noise", "one way", "links"))
    if shape == "sockets":
        return socket_rows(nodes, (random.choice((2, 3, 4)),), (12, 21))
    if shape == "boards":
        return socket_rows(nodes, (2, 4), (12, 21, 32))
    if shape == "cube":
        return cube_rows(2)
    if shape == "links":
        far = [random.choice((0, 0, 4)) for _ in range(nodes)]
        rows = socket_rows(nodes, (2, 4), (12, 21, 32))
        return [
            [rows[a][b] + (far[a] + far[b]) * (a != b) for b in range(nodes)] for a in range(nodes)
        ]
    levels = (11, 12, 21) if shape == "noise" else (11, 20)
    rows = [[10 if a == b else random.choice(levels) for b in range(nodes)] for a in range(nodes)]
    if shape == "noise":
        rows = [[rows[min(a, b)][max(a, b)] for b in range(nodes)] for a in range(nodes)]
    return rows
