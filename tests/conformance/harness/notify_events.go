// Up to NRI 0.11 a notification is a StateChangeEvent, whose event the adaptation sets.
package main

import (
	"context"
	"fmt"

	nri "github.com/containerd/nri/pkg/adaptation"
)

func notify(
	ctx context.Context, a *nri.Adaptation, op string, pod *nri.PodSandbox, container *nri.Container,
) error {
	event := &nri.StateChangeEvent{Pod: pod, Container: container}
	switch op {
	case "RunPodSandbox":
		return a.RunPodSandbox(ctx, &nri.StateChangeEvent{Pod: pod})
	case "StopPodSandbox":
		return a.StopPodSandbox(ctx, &nri.StateChangeEvent{Pod: pod})
	case "RemovePodSandbox":
		return a.RemovePodSandbox(ctx, &nri.StateChangeEvent{Pod: pod})
	case "PostCreateContainer":
		return a.PostCreateContainer(ctx, event)
	case "StartContainer":
		return a.StartContainer(ctx, event)
	case "PostStartContainer":
		return a.PostStartContainer(ctx, event)
	case "PostUpdateContainer":
		return a.PostUpdateContainer(ctx, event)
	case "RemoveContainer":
		return a.RemoveContainer(ctx, event)
	}
	return fmt.Errorf("no such command: %q", op)
}
