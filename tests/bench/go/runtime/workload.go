package main

import (
	"bytes"
	"fmt"
	"strconv"

	nri "github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// What a plugin must do with the containers of a workload.
const (
	expectPlaced     = "placed"
	expectNotManaged = "not_managed"
)

// workload copies a pod and its container. Each copy has a new pod uid, name, sandbox id and container
// id of the same length, wherever they occur in the messages.
type workload struct {
	expect    string
	pod       []byte
	container []byte
	own       identity
}

type identity struct {
	uid, name, sandbox, container string
}

type content struct {
	pods       []*nri.PodSandbox
	containers []*nri.Container
}

// made counts the pods of this process, so that ids are unique over all workloads.
var made int

func newWorkload(pod, container []byte, expect string) (workload, error) {
	p, c := &nri.PodSandbox{}, &nri.Container{}
	if err := parse(pod, p); err != nil {
		return workload{}, err
	}
	if err := parse(container, c); err != nil {
		return workload{}, err
	}
	return workload{expect, pod, container, identity{p.Uid, p.Name, p.Id, c.Id}}, nil
}

func (w *workload) next() (*nri.PodSandbox, *nri.Container, error) {
	made++
	other := identity{
		uid:       fmt.Sprintf("%08x-0000-4000-8000-%012x", made, made),
		name:      fmt.Sprintf("pod-%08d", made),
		sandbox:   fmt.Sprintf("5%063x", made),
		container: fmt.Sprintf("c%063x", made),
	}
	pod, container := &nri.PodSandbox{}, &nri.Container{}
	if err := parse(w.replace(w.pod, other), pod); err != nil {
		return nil, nil, err
	}
	return pod, container, parse(w.replace(w.container, other), container)
}

func (w *workload) replace(data []byte, other identity) []byte {
	for _, pair := range [][2]string{
		{w.own.uid, other.uid},
		{w.own.name, other.name},
		{w.own.sandbox, other.sandbox},
		{w.own.container, other.container},
	} {
		data = bytes.ReplaceAll(data, []byte(pair[0]), []byte(pair[1]))
	}
	return data
}

// content returns pods with running containers, each on one of the machine's nodes in turn.
func (w *workload) content(count, nodes int) (content, error) {
	c := content{}
	for n := range count {
		pod, container, err := w.next()
		if err != nil {
			return content{}, err
		}
		container.State = api.ContainerState_CONTAINER_RUNNING
		container.Linux.Resources.Cpu.Mems = strconv.Itoa(n % nodes)
		c.pods = append(c.pods, pod)
		c.containers = append(c.containers, container)
	}
	return c, nil
}

// check returns an error when the plugin did not do what the workload expects.
func (w *workload) check(mems string) error {
	if w.expect == expectPlaced && mems == "" || w.expect == expectNotManaged && mems != "" {
		return fmt.Errorf("expected %s, the plugin set cpuset.mems to %q", w.expect, mems)
	}
	return nil
}

// parse reads a message without the fields that this NRI version does not have.
func parse(data []byte, message proto.Message) error {
	return proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, message)
}
