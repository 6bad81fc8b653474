package main

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"nri-numamem.test/bench/enumeration"
)

// plugin places the memory of Guaranteed pods' containers.
type plugin struct {
	mutex   sync.Mutex
	manager *enumeration.Manager
}

func newPlugin(machine string) (*plugin, error) {
	manager, err := enumeration.Read(machine)
	return &plugin{manager: manager}, err
}

// Synchronize is called by NRI's stub: running containers are entered on their nodes.
func (p *plugin) Synchronize(
	_ context.Context, _ []*api.PodSandbox, containers []*api.Container,
) ([]*api.ContainerUpdate, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, container := range containers {
		mems := container.GetLinux().GetResources().GetCpu().GetMems()
		request := requestOf(container)
		if mems == "" || request == nil {
			continue
		}
		if nodes, err := enumeration.ParseNodes(mems); err == nil {
			p.manager.Enter(container.GetId(), nodes, request)
		}
	}
	return nil, nil
}

// CreateContainer is called by NRI's stub.
func (p *plugin) CreateContainer(
	_ context.Context, pod *api.PodSandbox, container *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	request := requestOf(container)
	if !isGuaranteed(pod) || request == nil {
		return nil, nil, nil
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	nodes, found := p.manager.Admit(container.GetId(), request)
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

// requestOf returns the request of a Guaranteed container, which equals its limits.
func requestOf(container *api.Container) map[string]uint64 {
	resources := container.GetLinux().GetResources()
	limit := resources.GetMemory().GetLimit().GetValue()
	if limit <= 0 {
		return nil
	}
	request := map[string]uint64{enumeration.Memory: uint64(limit)}
	for _, pages := range resources.GetHugepageLimits() {
		if pages.GetLimit() > 0 {
			request["hugepages-"+strings.TrimSuffix(pages.GetPageSize(), "B")] = pages.GetLimit()
		}
	}
	return request
}
