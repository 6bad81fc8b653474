package main

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"nri-numamem.test/bench/enumeration"
)

// plugin gives the containers of Guaranteed pods memory.
type plugin struct {
	mutex   sync.Mutex
	manager *enumeration.Manager
}

func newPlugin(machine string) (*plugin, error) {
	manager, err := enumeration.Read(machine)
	return &plugin{manager: manager}, err
}

// Synchronize is called by NRI's stub: what runs gets on the books where it is.
func (p *plugin) Synchronize(
	_ context.Context, _ []*api.PodSandbox, containers []*api.Container,
) ([]*api.ContainerUpdate, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, container := range containers {
		mems := container.GetLinux().GetResources().GetCpu().GetMems()
		asked := requestOf(container)
		if mems == "" || asked == nil {
			continue
		}
		if nodes, err := enumeration.ParseNodes(mems); err == nil {
			p.manager.Enter(container.GetId(), nodes, asked)
		}
	}
	return nil, nil
}

// CreateContainer is called by NRI's stub.
func (p *plugin) CreateContainer(
	_ context.Context, pod *api.PodSandbox, container *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	asked := requestOf(container)
	if !isGuaranteed(pod) || asked == nil {
		return nil, nil, nil
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	nodes, found := p.manager.Admit(container.GetId(), asked)
	if !found {
		return nil, nil, errors.New("no NUMA nodes with enough memory")
	}
	adjust := &api.ContainerAdjustment{}
	adjust.SetLinuxCPUSetMems(nodes.String())
	return adjust, nil, nil
}

// StopContainer is called by NRI's stub.
func (p *plugin) StopContainer(
	_ context.Context, _ *api.PodSandbox, container *api.Container,
) ([]*api.ContainerUpdate, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.manager.Release(container.GetId())
	return nil, nil
}

func isGuaranteed(pod *api.PodSandbox) bool {
	parent := pod.GetLinux().GetCgroupParent()
	return strings.Contains(parent, "kubepods") &&
		!strings.Contains(parent, "burstable") && !strings.Contains(parent, "besteffort")
}

// requestOf returns what a Guaranteed container asks for: its limits.
func requestOf(container *api.Container) map[string]uint64 {
	resources := container.GetLinux().GetResources()
	limit := resources.GetMemory().GetLimit().GetValue()
	if limit <= 0 {
		return nil
	}
	asked := map[string]uint64{enumeration.Memory: uint64(limit)}
	for _, pages := range resources.GetHugepageLimits() {
		if pages.GetLimit() > 0 {
			asked["hugepages-"+strings.TrimSuffix(pages.GetPageSize(), "B")] = pages.GetLimit()
		}
	}
	return asked
}
