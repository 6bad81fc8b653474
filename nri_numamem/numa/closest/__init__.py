"""The k closest nodes that hold a request.

The problem. Each node holds amounts (free bytes of memory, of 2Mi hugepages, ...). A set of nodes
covers the need if its sums reach it in every dimension. The cost of a set is the sum of the
distances of all its ordered pairs, each node with itself included. Wanted are the smallest size
of a set that covers, and among the sets of that size the one with the lowest cost; if two have
the same cost, the one with the lower ids. Modules:

- ``cover``             the smallest size, and the entry point for the best set of a size
- ``numa.distances``    all sets of up to 8 nodes, sorted once by cost
- ``search``            which of the following methods is used on which larger machine, and the
                        closest k nodes whatever they hold
- ``hierarchy``         modular decomposition of the distance matrix
- ``partial_sets``      dynamic programme over the modules, with Pareto pruning
- ``branch_and_bound``  search over the children of a prime module

The theory. Without distances, the largest nodes are a smallest set in one dimension; several
dimensions make it a covering problem, which is small because machines have few kinds of nodes.
Distances are a quadratic cost: in general, to choose the closest k of N nodes is NP-hard (it
contains the clique problem). Real distance matrices have structure: sockets and boards are modules,
whose nodes have equal distances to each node outside. In the tree of modules the cost depends only
on the number of nodes per child, and a dynamic programme over these numbers is exact and fast.
The need adds a second criterion, so several partial sets of one size remain: those that are Pareto
optimal in cost and amounts. Where the matrix has no such structure, branch and bound tries the
numbers of nodes per child, and a limit on its work keeps it fast.

An example. Four nodes in two sockets, with distances and free GiB; 10 GiB are needed:

    node   0   1   2   3   free
    0     10  12  21  21      2
    1     12  10  21  21      6
    2     21  21  10  12      4
    3     21  21  12  10      5

1. Smallest size: the largest node holds 6, the two largest hold 11. So the size is 2.
2. Enumeration (a machine of 4 nodes needs nothing else): the six sets of two nodes are 0-1 and
   2-3 (cost 10 + 10 + 12 + 12 = 44), then 0,2 and 1-2 and 0,3 and 1,3 (cost 62). They hold 8, 9,
   6, 10, 7 and 11 GiB. The first that covers is 1-2.
3. Modular decomposition: the modules are 0-1 and 2-3, each with the pair distance 12 + 12 = 24,
   and the root with the pair distance 21 + 21 = 42.
4. Without the need: the closest two nodes are 0-1, cost 44. They hold 8 GiB, which is too little.
5. Dynamic programme. With one more node to come, 4 GiB are the least that a partial set must
   hold, because no node adds more than 6; and 8 GiB are enough, because any node adds 2. The
   first pass makes only sets of cost 44 or less. It finds none that covers; the lowest cost
   that it pruned is 62, the limit of the second pass. There, socket 0-1 has one partial set of
   one node, {1} with 6 GiB ({0} holds less than 4), and socket 2-3 has two: {2} with 4 GiB, and
   {3}, which costs the same but holds more. Joined across the sockets they give 1-2 and 1,3, both
   with cost 10 + 10 + 42 = 62 and at least 10 GiB. The lower ids win: 1-2, as by enumeration.
"""
