package main

import (
	"fmt"
	"strconv"
	"strings"
)

// The largest number of NUMA nodes that Linux can be built for (NODES_SHIFT is at most 10).
const maxNodes = 1024

// A nodeSet is a set of NUMA nodes; sets are equal by ==.
type nodeSet [maxNodes]bool

// parseNodes parses the kernel's list format, such as "0-1,3". Source: bitmap_print_to_pagebuf.
func parseNodes(text string) (nodeSet, error) {
	var nodes nodeSet
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err := nodeOf(low)
		if err != nil {
			return nodes, fmt.Errorf("%q is no list of NUMA nodes", text)
		}
		last, err := nodeOf(high)
		if err != nil || first > last {
			return nodes, fmt.Errorf("%q is no list of NUMA nodes", text)
		}
		for node := first; node <= last; node++ {
			nodes[node] = true
		}
	}
	return nodes, nil
}

// nodeOf parses digits; strconv alone accepts a sign.
func nodeOf(text string) (int, error) {
	if strings.Trim(text, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	node, err := strconv.Atoi(text)
	if err == nil && node >= maxNodes {
		err = strconv.ErrRange
	}
	return node, err
}

func (nodes nodeSet) union(other nodeSet) nodeSet {
	for node, isIn := range other {
		nodes[node] = nodes[node] || isIn
	}
	return nodes
}

// String returns the set in the kernel's list format.
func (nodes nodeSet) String() string {
	var parts []string
	for node := 0; node < maxNodes; node++ {
		if !nodes[node] {
			continue
		}
		first := node
		for node+1 < maxNodes && nodes[node+1] {
			node++
		}
		part := strconv.Itoa(first)
		if node > first {
			part += "-" + strconv.Itoa(node)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}
