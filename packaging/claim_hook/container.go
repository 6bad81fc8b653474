package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A state, and a configuration, has the annotations of a pod several times; all annotations of a pod
// together have at most 256 KiB, each byte of which can become several in JSON.
const maxBytes = 16 << 20

// A claim is the part of one request, as the plugin writes it into the arguments of the hook.
type claim struct {
	name  string // NAMESPACE/NAME
	nodes nodeSet
}

// state is what the hook reads of the state by the OCI runtime specification.
type state struct {
	Pid    int    `json:"pid"`
	Bundle string `json:"bundle"`
}

type hook struct {
	Path string   `json:"path"`
	Args []string `json:"args"`
}

// claimOf returns the claim in the arguments of a hook.
func claimOf(args []string) (claim, error) {
	if len(args) != 6 || args[0] != "claim-hook" || args[5] == "" {
		return claim{}, fmt.Errorf("the hook's arguments are %q, not "+
			"claim-hook UID REQUEST NODES AMOUNTS NAMESPACE/NAME", args)
	}
	nodes, err := parseNodes(args[3])
	if err != nil {
		return claim{}, fmt.Errorf("the hook's arguments: %w", err)
	}
	return claim{name: args[5], nodes: nodes}, nil
}

func union(claims []claim) nodeSet {
	var all nodeSet
	for _, each := range claims {
		all = all.union(each.nodes)
	}
	return all
}

func readState(stdin io.Reader) (state, error) {
	var found state
	if err := decode(stdin, &found); err != nil {
		return found, fmt.Errorf("standard input has no state of a container: %w", err)
	}
	if found.Pid <= 0 {
		return found, fmt.Errorf("the container's state has the pid %d", found.Pid)
	}
	if !filepath.IsAbs(found.Bundle) {
		return found, fmt.Errorf("the container's state has the bundle %q", found.Bundle)
	}
	return found, nil
}

// claimsOf returns the claims of a container: those of all its hooks that run this program.
//
// Only hooks count. Environment, annotations and arguments of the process are the pod's own text.
// The path of this program is that of the hook with the arguments of this process: the link
// /proc/self/exe is another path where a part of the path is a link.
func claimsOf(bundle string, args []string) ([]claim, error) {
	var config struct {
		Hooks struct {
			CreateRuntime []hook `json:"createRuntime"`
		} `json:"hooks"`
	}
	file := filepath.Join(bundle, "config.json")
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	if err := decode(opened, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	hooks := config.Hooks.CreateRuntime
	own := slices.IndexFunc(hooks, func(one hook) bool { return slices.Equal(one.Args, args) })
	if own < 0 {
		return nil, fmt.Errorf("%s: no createRuntime hook has the arguments of this process", file)
	}
	var claims []claim
	for _, one := range hooks {
		if one.Path != hooks[own].Path {
			continue
		}
		found, err := claimOf(one.Args)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		claims = append(claims, found)
	}
	return claims, nil
}

// memsAllowed returns the NUMA nodes that a process may use; the file is the same with cgroup v1 and v2.
func memsAllowed(pid int) (nodeSet, error) {
	file := fmt.Sprintf("/proc/%d/status", pid)
	opened, err := os.Open(file)
	if err != nil {
		return nodeSet{}, err
	}
	defer opened.Close()
	lines := bufio.NewScanner(io.LimitReader(opened, maxBytes))
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), "Mems_allowed_list:"); found {
			nodes, err := parseNodes(strings.TrimSpace(text))
			if err != nil {
				return nodeSet{}, fmt.Errorf("%s: Mems_allowed_list: %w", file, err)
			}
			return nodes, nil
		}
	}
	if err := lines.Err(); err != nil {
		return nodeSet{}, fmt.Errorf("%s: %w", file, err)
	}
	return nodeSet{}, fmt.Errorf("%s: no Mems_allowed_list", file)
}

// decode reads one document of JSON.
func decode(reader io.Reader, document any) error {
	data, err := io.ReadAll(io.LimitReader(reader, maxBytes+1))
	if err != nil {
		return err
	}
	if len(data) > maxBytes {
		return errors.New("more than 16 MiB")
	}
	return json.Unmarshal(data, document)
}
