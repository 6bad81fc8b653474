package main

import (
	"bytes"
	"fmt"
	"strconv"

	nri "github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// What a plugin does to the containers of a workload.
const (
	expectPlaced    = "placed"
	expectLeftAlone = "left alone"
)

// workload makes pods of one container each out of two messages: copies in which the pod's uid,
// name and sandbox id and the container's id are others of the same length, wherever they occur.
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

// made counts the pods of this process: no two have the same ids, of whichever workload they are.
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

// content returns pods whose containers run, each on one of the machine's nodes.
func (w *workload) content(count, nodes int) (content, error) {
	told := content{}
	for n := range count {
		pod, container, err := w.next()
		if err != nil {
			return content{}, err
		}
		container.State = api.ContainerState_CONTAINER_RUNNING
		container.Linux.Resources.Cpu.Mems = strconv.Itoa(n % nodes)
		told.pods = append(told.pods, pod)
		told.containers = append(told.containers, container)
	}
	return told, nil
}

// check returns an error when a plugin did not do what the workload is for.
func (w *workload) check(mems string) error {
	if w.expect == expectPlaced && mems == "" || w.expect == expectLeftAlone && mems != "" {
		return fmt.Errorf("a container that is to be %s got the cpuset.mems %q", w.expect, mems)
	}
	return nil
}

// parse reads a message; what this NRI version does not know, a runtime of its time cannot tell.
func parse(data []byte, message proto.Message) error {
	return proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, message)
}
