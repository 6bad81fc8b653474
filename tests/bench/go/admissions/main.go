// Command admissions times placement by full enumeration, in process. Standard input has one JSON
// document with the machine, the present assignments and the requests; standard output gets the
// nodes of each request and its time in nanoseconds, the shortest of three.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"nri-numamem.test/bench/enumeration"
)

const repetitions = 3

type task struct {
	Machine     map[int]map[string]uint64 `json:"machine"`
	Assignments []assignment              `json:"assignments"`
	Requests    []map[string]uint64       `json:"requests"`
}

type assignment struct {
	Nodes   string            `json:"nodes"`
	Request map[string]uint64 `json:"request"`
}

type result struct {
	TookNS []int64  `json:"took_ns"`
	Nodes  []string `json:"nodes"`
}

func main() {
	var t task
	err := json.NewDecoder(os.Stdin).Decode(&t)
	if err == nil {
		var r result
		if r, err = do(&t); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(r)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func do(t *task) (result, error) {
	manager := enumeration.New(t.Machine)
	for i, each := range t.Assignments {
		nodes, err := enumeration.ParseNodes(each.Nodes)
		if err != nil {
			return result{}, err
		}
		manager.Enter(fmt.Sprintf("present-%d", i), nodes, each.Request)
	}
	r := result{}
	for _, request := range t.Requests {
		shortest := time.Duration(1 << 62)
		var nodes enumeration.Nodes
		for range repetitions {
			begin := time.Now()
			nodes, _ = manager.Admit("new", request)
			shortest = min(shortest, time.Since(begin))
			manager.Release("new")
		}
		r.TookNS = append(r.TookNS, shortest.Nanoseconds())
		r.Nodes = append(r.Nodes, nodes.String())
	}
	return r, nil
}
