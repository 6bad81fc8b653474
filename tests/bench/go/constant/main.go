// Command constant is the smallest useful plugin on NRI's Go stub: it sets the same cpuset.mems for
// every container and does nothing else.
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
	socket := flag.String("socket", "", "the runtime's socket")
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
