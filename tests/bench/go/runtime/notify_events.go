//go:build nri_events

// Up to NRI 0.11 a notification is a StateChangeEvent, whose kind the adaptation fills in.
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
		return a.RunPodSandbox(ctx, &nri.StateChangeEvent{Pod: pod})
	case "StopPodSandbox":
		return a.StopPodSandbox(ctx, &nri.StateChangeEvent{Pod: pod})
	case "RemovePodSandbox":
		return a.RemovePodSandbox(ctx, &nri.StateChangeEvent{Pod: pod})
	case "RemoveContainer":
		return a.RemoveContainer(ctx, &nri.StateChangeEvent{Pod: pod, Container: container})
	}
	return fmt.Errorf("no such notification: %q", op)
}
