// Since NRI 0.12 each notification has its own request.
package main

import (
	"context"
	"fmt"

	nri "github.com/containerd/nri/pkg/adaptation"
)

func notify(
	ctx context.Context, a *nri.Adaptation, op string, pod *nri.PodSandbox, container *nri.Container,
) error {
	switch op {
	case "RunPodSandbox":
		return a.RunPodSandbox(ctx, &nri.RunPodSandboxRequest{Pod: pod})
	case "StopPodSandbox":
		return a.StopPodSandbox(ctx, &nri.StopPodSandboxRequest{Pod: pod})
	case "RemovePodSandbox":
		return a.RemovePodSandbox(ctx, &nri.RemovePodSandboxRequest{Pod: pod})
	case "PostCreateContainer":
		return a.PostCreateContainer(
			ctx, &nri.PostCreateContainerRequest{Pod: pod, Container: container})
	case "StartContainer":
		return a.StartContainer(ctx, &nri.StartContainerRequest{Pod: pod, Container: container})
	case "PostStartContainer":
		return a.PostStartContainer(
			ctx, &nri.PostStartContainerRequest{Pod: pod, Container: container})
	case "PostUpdateContainer":
		return a.PostUpdateContainer(
			ctx, &nri.PostUpdateContainerRequest{Pod: pod, Container: container})
	case "RemoveContainer":
		return a.RemoveContainer(ctx, &nri.RemoveContainerRequest{Pod: pod, Container: container})
	}
	return fmt.Errorf("no such command: %q", op)
}
