// Package enumeration places memory on NUMA nodes as the kubelet's Memory Manager does with its
// policy Static: it visits every set of nodes. It is a plausible alternative to our plugin, neither
// slowed down nor tuned.
//
// It omits what the measured requests do not have: init containers, pods that share memory, other
// hint providers, and a state file.
package enumeration

import (
	"encoding/json"
	"math/bits"
	"os"
	"sort"
	"strconv"
	"strings"
)

// Memory is the resource name of ordinary memory; the others are hugepages-<size>.
const Memory = "memory"

// Nodes is a set of node ids as bits.
type Nodes uint64

// table is what one node has of one resource, in bytes.
type table struct {
	allocatable, reserved, free uint64
}

type node struct {
	assignments int
	tables      map[string]*table
	// cells is the group that the node's assignments share.
	cells Nodes
}

type block struct {
	affinity Nodes
	resource string
	size     uint64
}

// Manager is the accounting of one machine.
type Manager struct {
	ids   []int
	nodes map[int]*node
	// blocks are the assignments by container id.
	blocks map[string][]block
}

// New returns the empty accounting of a machine: node id -> resource -> allocatable bytes.
func New(machine map[int]map[string]uint64) *Manager {
	m := &Manager{nodes: map[int]*node{}, blocks: map[string][]block{}}
	for id, resources := range machine {
		tables := map[string]*table{}
		for resource, size := range resources {
			tables[resource] = &table{allocatable: size, free: size}
		}
		m.ids = append(m.ids, id)
		m.nodes[id] = &node{tables: tables, cells: 1 << id}
	}
	sort.Ints(m.ids)
	return m
}

// Read returns the empty accounting of a machine in a JSON file.
func Read(path string) (*Manager, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	machine := map[int]map[string]uint64{}
	if err := json.Unmarshal(data, &machine); err != nil {
		return nil, err
	}
	return New(machine), nil
}

// Enter assigns a request to nodes; amounts that do not fit are omitted.
func (m *Manager) Enter(container string, affinity Nodes, request map[string]uint64) {
	for resource, size := range request {
		left := size
		for _, id := range affinity.ids() {
			n := m.nodes[id]
			n.assignments++
			n.cells = affinity
			if t := n.tables[resource]; t != nil {
				taken := min(left, t.free)
				t.reserved += taken
				t.free -= taken
				left -= taken
			}
		}
		m.blocks[container] = append(m.blocks[container], block{affinity, resource, size})
	}
}

// Release frees a container's assignments.
func (m *Manager) Release(container string) {
	for _, b := range m.blocks[container] {
		left := b.size
		for _, id := range b.affinity.ids() {
			n := m.nodes[id]
			n.assignments--
			if n.assignments == 0 {
				n.cells = 1 << id
			}
			if t := n.tables[b.resource]; t != nil {
				given := min(left, t.reserved)
				t.reserved -= given
				t.free += given
				left -= given
			}
		}
	}
	delete(m.blocks, container)
}

func (n Nodes) count() int {
	return bits.OnesCount64(uint64(n))
}

func (n Nodes) ids() []int {
	ids := make([]int, 0, n.count())
	for rest := uint64(n); rest != 0; rest &= rest - 1 {
		ids = append(ids, bits.TrailingZeros64(rest))
	}
	return ids
}

// String returns the list as the kernel takes it: "0,1,3".
func (n Nodes) String() string {
	words := []string{}
	for _, id := range n.ids() {
		words = append(words, strconv.Itoa(id))
	}
	return strings.Join(words, ",")
}

// ParseNodes reads such a list, ranges included.
func ParseNodes(list string) (Nodes, error) {
	var nodes Nodes
	for _, part := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, err := strconv.ParseUint(first, 10, 6)
		if err != nil {
			return 0, err
		}
		high, err := strconv.ParseUint(last, 10, 6)
		if err != nil {
			return 0, err
		}
		for id := low; id <= high; id++ {
			nodes |= 1 << id
		}
	}
	return nodes, nil
}
