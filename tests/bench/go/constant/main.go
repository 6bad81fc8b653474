// Command constant is the smallest plugin that there can be on NRI's Go stub: it gives every
// container the same NUMA node, and knows nothing else.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

type plugin struct{}

// CreateContainer is called by NRI's stub.
func (plugin) CreateContainer(
	_ context.Context, _ *api.PodSandbox, _ *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	adjust := &api.ContainerAdjustment{}
	adjust.SetLinuxCPUSetMems("0")
	return adjust, nil, nil
}

func main() {
	socket := flag.String("socket", "", "where the runtime listens")
	flag.Parse()
	connection, err := stub.New(plugin{}, stub.WithPluginName("constant"), stub.WithPluginIdx("10"),
		stub.WithSocketPath(*socket))
	if err == nil {
		err = connection.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
