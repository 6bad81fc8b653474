// Plays lives of a host on the kubelet's own Topology Manager and Memory Manager, and writes what
// they decided.
//
// Standard input has one life per line, as JSON; lives.py describes the format. Standard output has
// one JSON line per life: its answers, one per step. Amounts are MiB. The packages of the module
// k8s.io/kubernetes are unmodified, and feature gates have their defaults. A life with "cpus" has the
// static CPU manager too; in others a provider with hints of the life replaces the CPU and device
// managers.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

// Lives of eight nodes with many hints are long lines.
const longestLine = 16 << 20

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longestLine)
	written := bufio.NewWriter(out)
	encoder := json.NewEncoder(written)
	for lines.Scan() {
		var life Life
		if err := json.Unmarshal(lines.Bytes(), &life); err != nil {
			return fmt.Errorf("life: %w", err)
		}
		answers, err := play(life)
		if err != nil {
			return err
		}
		if err := encoder.Encode(answers); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return written.Flush()
}
