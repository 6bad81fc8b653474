// Command placing is a plugin on NRI's Go stub that places memory as the kubelet does, by full
// enumeration.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/stub"
)

func main() {
	socket := flag.String("socket", "", "the runtime's socket")
	machine := flag.String("machine", "", "JSON file with the machine")
	flag.Parse()
	if err := run(*socket, *machine); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(socket, machine string) error {
	plugin, err := newPlugin(machine)
	if err != nil {
		return err
	}
	connection, err := stub.New(plugin, stub.WithPluginName("placing"), stub.WithPluginIdx("10"),
		stub.WithSocketPath(socket))
	if err != nil {
		return err
	}
	return connection.Run(context.Background())
}
