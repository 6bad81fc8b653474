//go:build !nri_events

// Since NRI 0.12 each notification has a request of its own.
package main

import (
	"context"
	"fmt"

	nri "github.com/containerd/nri/pkg/adaptation"
)

func notify(a *nri.Adaptation, op string, pod *nri.PodSandbox, container *nri.Container) error {
	ctx := context.Background()
	switch op {
	case "RunPodSandbox":
		return a.RunPodSandbox(ctx, &nri.RunPodSandboxRequest{Pod: pod})
	case "StopPodSandbox":
		return a.StopPodSandbox(ctx, &nri.StopPodSandboxRequest{Pod: pod})
	case "RemovePodSandbox":
		return a.RemovePodSandbox(ctx, &nri.RemovePodSandboxRequest{Pod: pod})
	case "RemoveContainer":
		return a.RemoveContainer(ctx, &nri.RemoveContainerRequest{Pod: pod, Container: container})
	}
	return fmt.Errorf("no such notification: %q", op)
}
