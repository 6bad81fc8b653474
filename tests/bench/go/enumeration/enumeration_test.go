package enumeration

import "testing"

func machine(nodes int) map[int]map[string]uint64 {
	found := map[int]map[string]uint64{}
	for id := range nodes {
		found[id] = map[string]uint64{Memory: 4, "hugepages-2Mi": 2}
	}
	return found
}

func TestTheFewestAndLowestNodesAreTaken(t *testing.T) {
	m := New(machine(3))
	for _, step := range []struct {
		container string
		size      uint64
		nodes     string
	}{{"a", 3, "0"}, {"b", 5, "1,2"}, {"c", 2, "1,2"}, {"d", 1, "0"}} {
		nodes, found := m.Admit(step.container, map[string]uint64{Memory: step.size})
		if !found || nodes.String() != step.nodes {
			t.Fatalf("%s: %s, want %s", step.container, nodes, step.nodes)
		}
	}
	if _, found := m.Admit("e", map[string]uint64{Memory: 3}); found {
		t.Fatal("it must not fit")
	}
}

func TestWhatIsReleasedIsFreeAgain(t *testing.T) {
	m := New(machine(2))
	m.Admit("a", map[string]uint64{Memory: 6, "hugepages-2Mi": 3})
	m.Release("a")
	for id, n := range m.nodes {
		if n.assignments != 0 || n.cells != 1<<id || n.tables[Memory].free != 4 {
			t.Fatalf("node %d: %+v", id, n)
		}
	}
	if nodes, _ := m.Admit("b", map[string]uint64{Memory: 1}); nodes.String() != "0" {
		t.Fatal(nodes)
	}
}

func TestListsOfNodes(t *testing.T) {
	nodes, err := ParseNodes("0-2,5")
	if err != nil || nodes.String() != "0,1,2,5" {
		t.Fatal(nodes, err)
	}
	if _, err := ParseNodes("x"); err == nil {
		t.Fatal("not a list")
	}
}
