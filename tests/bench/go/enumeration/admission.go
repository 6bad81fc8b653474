package enumeration

type hint struct {
	affinity  Nodes
	preferred bool
}

// Admit assigns the request to the best set of nodes and returns the set; false when no set fits.
// It merges hints as the kubelet does under best-effort with this as the only provider.
func (m *Manager) Admit(container string, request map[string]uint64) (Nodes, bool) {
	hints := m.hints(request)
	if len(hints) == 0 {
		return 0, false
	}
	lists := make([][]hint, 0, len(request))
	for range request {
		lists = append(lists, hints)
	}
	best := m.merge(lists)
	m.Enter(container, best.affinity, request)
	return best.affinity, true
}

// hints returns all sets of nodes with enough free resources. A set is preferred when it has as few
// nodes as the request would need on an empty machine.
func (m *Manager) hints(request map[string]uint64) []hint {
	fewest := len(m.ids)
	hints := []hint{}
	m.eachSet(func(set Nodes) {
		ids := set.ids()
		if !m.suffices(ids, request, func(t *table) uint64 { return t.allocatable }) {
			return
		}
		fewest = min(fewest, len(ids))
		if m.mayJoin(set, ids) &&
			m.suffices(ids, request, func(t *table) uint64 { return t.free }) {
			hints = append(hints, hint{affinity: set})
		}
	})
	for i := range hints {
		hints[i].preferred = hints[i].affinity.count() == fewest
	}
	return hints
}

// eachSet visits all sets of nodes, the smallest first, those of one size in lexicographic order.
func (m *Manager) eachSet(visit func(Nodes)) {
	var extend func(set Nodes, from, missing int)
	extend = func(set Nodes, from, missing int) {
		if missing == 0 {
			visit(set)
			return
		}
		for i := from; i <= len(m.ids)-missing; i++ {
			extend(set|1<<m.ids[i], i+1, missing-1)
		}
	}
	for size := 1; size <= len(m.ids); size++ {
		extend(0, 0, size)
	}
}

func (m *Manager) suffices(
	ids []int, request map[string]uint64, amount func(*table) uint64,
) bool {
	for resource, size := range request {
		var sum uint64
		for _, id := range ids {
			if t := m.nodes[id].tables[resource]; t != nil {
				sum += amount(t)
			}
		}
		if sum < size {
			return false
		}
	}
	return true
}

// mayJoin returns whether the groups allow an assignment to the set.
func (m *Manager) mayJoin(set Nodes, ids []int) bool {
	if len(ids) == 1 {
		return m.nodes[ids[0]].cells.count() == 1
	}
	for _, id := range ids {
		if n := m.nodes[id]; n.assignments > 0 && n.cells != set {
			return false
		}
	}
	return true
}

// merge returns the best of all combinations of one hint of each list.
func (m *Manager) merge(lists [][]hint) hint {
	var all Nodes
	for _, id := range m.ids {
		all |= 1 << id
	}
	narrowest := narrowestOf(lists[0])
	best, found := hint{affinity: all}, false
	var combine func(i int, chosen []hint)
	combine = func(i int, chosen []hint) {
		if i < len(lists) {
			for _, next := range lists[i] {
				combine(i+1, append(chosen, next))
			}
			return
		}
		candidate := hint{all, true}
		for _, each := range chosen {
			candidate.affinity &= each.affinity
			candidate.preferred = candidate.preferred && each.preferred &&
				each.affinity == chosen[0].affinity
		}
		if candidate.affinity != 0 && (!found || isBetter(candidate, best, narrowest)) {
			best, found = candidate, true
		}
	}
	combine(0, make([]hint, 0, len(lists)))
	return best
}

// narrowestOf returns the size of the narrowest hint, which is the same for all lists here.
func narrowestOf(hints []hint) int {
	narrowest := hints[0].affinity.count()
	for _, each := range hints {
		narrowest = min(narrowest, each.affinity.count())
	}
	return narrowest
}

// isBetter returns whether the candidate replaces the current best hint. Of hints that are not
// preferred, those of the narrowest hint's size come first, then larger ones.
func isBetter(candidate, current hint, narrowest int) bool {
	if candidate.preferred != current.preferred {
		return candidate.preferred
	}
	c, d := current.affinity.count(), candidate.affinity.count()
	if candidate.preferred || c > narrowest || c == d {
		return d < c || d == c && candidate.affinity < current.affinity
	}
	if c == narrowest {
		return false
	}
	return d <= narrowest && d > c
}
