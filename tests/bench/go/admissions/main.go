// Command admissions times placement by full enumeration, in process. One JSON document on
// standard input says the machine, what is on the books and what is asked; standard output gets
// the time of each question in nanoseconds, and the nodes of the answers. Each question is put
// three times and the shortest time counts.
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
	Machine   map[int]map[string]uint64 `json:"machine"`
	Books     []held                    `json:"books"`
	Questions []map[string]uint64       `json:"questions"`
}

type held struct {
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
	for i, each := range t.Books {
		nodes, err := enumeration.ParseNodes(each.Nodes)
		if err != nil {
			return result{}, err
		}
		manager.Enter(fmt.Sprintf("held-%d", i), nodes, each.Request)
	}
	r := result{}
	for _, question := range t.Questions {
		shortest := time.Duration(1 << 62)
		var nodes enumeration.Nodes
		for range repetitions {
			begin := time.Now()
			nodes, _ = manager.Admit("new", question)
			shortest = min(shortest, time.Since(begin))
			manager.Release("new")
		}
		r.TookNS = append(r.TookNS, shortest.Nanoseconds())
		r.Nodes = append(r.Nodes, nodes.String())
	}
	return r, nil
}
