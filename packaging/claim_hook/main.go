// claim-hook is a createRuntime hook of the OCI runtime specification. It lets a container with a
// resource claim start only if the container's process may use exactly the NUMA nodes of its claims.
//
// The plugin sets cpuset.mems when the container is created. If it did not run then, nothing else
// keeps the container from starting without its NUMA nodes. So every doubt is a failure: exit status
// 1, and one line on standard error and in the system log.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode"
)

// Set by the build.
var version = "unknown"

const syslogPriority = 3<<3 | 3 // LOG_DAEMON, LOG_ERR

const usage = `claim-hook %s, a part of nri-numamem

An OCI runtime runs this program before it starts a container with a resource claim. The program
compares the NUMA nodes that the container's process may use (Mems_allowed_list) with those of the
container's claims. If they differ, or if it cannot compare them, it exits with status 1, and the
container does not start.

Usage: claim-hook UID REQUEST NODES AMOUNTS NAMESPACE/NAME < STATE
STATE is the container's state by the OCI runtime specification.
`

func main() {
	if len(os.Args) == 2 && (os.Args[1] == "--version" || os.Args[1] == "--help") {
		fmt.Printf(usage, version)
		return
	}
	if len(os.Args) < 2 {
		fmt.Fprintf(os.Stderr, usage, version)
		os.Exit(1)
	}
	if err := check(os.Args, os.Stdin); err != nil {
		line := "numamem: " + oneLine(err.Error())
		fmt.Fprintln(os.Stderr, line)
		writeToSystemLog(line)
		os.Exit(1)
	}
}

// check returns why the container of a state must not start.
func check(args []string, stdin io.Reader) error {
	allowed, claims, err := compared(args, stdin)
	if err != nil {
		return fmt.Errorf("the NUMA nodes of claim %s cannot be compared with cpuset.mems: %w; "+
			"the container was not started; run nri-numamem doctor", args[len(args)-1], err)
	}
	if wanted := union(claims); allowed != wanted {
		return fmt.Errorf("cpuset.mems is %s, but %s NUMA node%s %s: the plugin nri-numamem did not "+
			"adjust the container; check that it runs (nri-numamem doctor)",
			allowed, subject(claims), plural(wanted), wanted)
	}
	return nil
}

// compared returns the NUMA nodes that a container may use, and its claims.
func compared(args []string, stdin io.Reader) (nodeSet, []claim, error) {
	if _, err := claimOf(args); err != nil {
		return nodeSet{}, nil, err
	}
	state, err := readState(stdin)
	if err != nil {
		return nodeSet{}, nil, err
	}
	claims, err := claimsOf(state.Bundle, args)
	if err != nil {
		return nodeSet{}, nil, err
	}
	allowed, err := memsAllowed(state.Pid)
	return allowed, claims, err
}

// subject returns the names of the claims with the verb that follows.
func subject(claims []claim) string {
	var names []string
	for _, each := range claims {
		if !slices.Contains(names, each.name) {
			names = append(names, each.name)
		}
	}
	if len(names) == 1 {
		return "claim " + names[0] + " has"
	}
	return "claims " + strings.Join(names, ", ") + " have"
}

// writeToSystemLog sends a line to syslog or journald, if one listens: crun shows no output of hooks.
func writeToSystemLog(line string) {
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	message := fmt.Sprintf("<%d>claim-hook[%d]: %s", syslogPriority, os.Getpid(), line)
	// Without waiting for a log that is full; the runtime has the exit status.
	_ = syscall.Sendto(socket, []byte(message), syscall.MSG_DONTWAIT, &syscall.SockaddrUnix{Name: "/dev/log"})
}

func plural(nodes nodeSet) string {
	if strings.ContainsAny(nodes.String(), ",-") {
		return "s"
	}
	return ""
}

// oneLine replaces what would end a line, or control a terminal.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}
