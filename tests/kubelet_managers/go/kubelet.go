package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"sort"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// Answer is what a step did. Of the state it has what the step changed.
type Answer struct {
	// Reason and Message of a pod that was not admitted, or of a kubelet that does not start.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Held are the nodes of the containers that were allocated before the pod was refused.
	Held map[string][]int `json:"held,omitempty"`
	// CPUs: container name -> CPUs, of an admitted pod and only with a CPU manager.
	CPUs map[string]CPUs `json:"cpus,omitempty"`
	// Blocks: pod uid -> container name -> blocks; an empty pod has none any more.
	Blocks map[string]map[string][]Block `json:"blocks,omitempty"`
	// Maps: node id -> node.
	Maps map[string]NodeMap `json:"maps,omitempty"`
}

// Block is written as [[node ids], resource, MiB].
type Block [3]any

// NodeMap is written as [number of assignments, [node ids of its group], {resource: free MiB}].
type NodeMap [3]any

type kubelet struct {
	ctx      context.Context
	logger   klog.Logger
	life     Life
	folder   string
	topology topologymanager.Manager
	memory   memorymanager.Manager
	cpus     cpumanager.Manager
	running  containermap.ContainerMap
	lock     sync.Mutex // the CPU manager reads `active` in a goroutine
	active   map[string]*v1.Pod
	others   *otherProviders
	blocks   map[string]map[string][]Block
	maps     map[string]NodeMap
}

// play returns the answers of a life; the first one is that of the kubelet's start.
func play(life Life) ([]Answer, error) {
	folder, err := os.MkdirTemp("", "kubelet-managers-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	logger := klog.Logger(logr.Discard())
	k := &kubelet{
		ctx: klog.NewContext(context.Background(), logger), logger: logger,
		life: life, folder: folder, active: map[string]*v1.Pod{},
	}
	answers := []Answer{k.step(func() Answer { return k.start(life.Nodes) })}
	for _, step := range life.Steps {
		if last := answers[len(answers)-1]; last.Reason == crashed || last.Reason == notStarted {
			break
		}
		answers = append(answers, k.step(func() Answer { return k.do(step) }))
	}
	return answers, nil
}

const (
	crashed    = "panic"
	notStarted = "not started"
)

// step adds the changes of the state to the answer; a crash of the kubelet is an answer too.
func (k *kubelet) step(act func() Answer) (answer Answer) {
	defer func() {
		if problem := recover(); problem != nil {
			answer = Answer{Reason: crashed, Message: fmt.Sprint(problem)}
		}
	}()
	answer = act()
	if answer.Reason != notStarted {
		k.addChanges(&answer)
	}
	return answer
}

func (k *kubelet) start(nodes []Node) Answer {
	machine, err := machineOf(nodes)
	if err != nil {
		return refused(err)
	}
	options := map[string]string{}
	if k.life.Closest {
		options[topologymanager.PreferClosestNUMANodes] = "true"
	}
	k.topology, err = topologymanager.NewManager(
		k.logger, machine.Topology, k.life.Policy, k.life.Scope, options)
	if err != nil {
		return refused(err)
	}
	reserved, sum := reservedOf(nodes)
	k.memory, err = memorymanager.NewManager(
		k.logger, "Static", machine, sum, reserved, k.folder, k.topology)
	if err != nil {
		return refused(err)
	}
	k.running = containermap.NewContainerMap()
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return true })
	err = k.memory.Start(k.ctx, k.activePods, ready, noStatus{}, noRuntime{}, k.running)
	if err != nil {
		return refused(err)
	}
	if k.life.CPUs != nil {
		if err = k.startCPUs(machine, ready); err != nil {
			return refused(err)
		}
	}
	k.others = &otherProviders{}
	k.topology.AddHintProvider(k.logger, k.firstProvider())
	k.topology.AddHintProvider(k.logger, k.memory)
	return Answer{}
}

func refused(err error) Answer { return Answer{Reason: notStarted, Message: err.Error()} }

func (k *kubelet) do(step Step) Answer {
	switch {
	case step.Admit != "":
		return k.admit(step)
	case step.Start != "":
		pod := k.active[step.Start]
		if pod != nil {
			for _, container := range containersOf(pod) {
				k.memory.AddContainer(k.logger, pod, container, step.Start+"/"+container.Name)
			}
		}
	case step.Remove != "":
		k.remove(step.Remove)
	case step.Resize != "":
		pod := podOf(step.Resize, k.life.Pods[step.Resize])
		for _, container := range containersOf(pod) {
			if memory, ok := step.Memory[container.Name]; ok {
				container.Resources = *requirementsOf(map[string]uint64{"memory": memory})
			}
			err := k.memory.Allocate(k.ctx, pod, container, lifecycle.ResizeOperation)
			if err != nil {
				return Answer{Reason: "error", Message: err.Error()}
			}
		}
	case step.Restart != nil:
		return k.start(step.Restart)
	}
	return Answer{}
}

func (k *kubelet) admit(step Step) Answer {
	uid := step.Admit
	pod := podOf(uid, k.life.Pods[uid])
	if !k.hasRoom(pod) {
		return Answer{Reason: noRoom}
	}
	// The kubelet lists a pod as active while it is admitted.
	k.setActive(uid, pod)
	k.others.hints = step.Hints
	result := k.topology.Admit(k.ctx, &lifecycle.PodAdmitAttributes{
		Pod: pod, Operation: lifecycle.AddOperation,
	})
	if result.Admit {
		return Answer{CPUs: k.cpusOf(pod)}
	}
	answer := Answer{Reason: result.Reason, Message: result.Message, Held: map[string][]int{}}
	for name, blocks := range k.memory.State().GetMemoryAssignments()[uid] {
		answer.Held[name] = blocks[0].NUMAAffinity
	}
	k.remove(uid)
	return answer
}

// remove ends a pod. The kubelet notices it at the next admission and removes the containers in
// random order; here it does so at once, in the order of the pod's containers.
func (k *kubelet) remove(uid string) {
	pod := k.active[uid]
	if pod == nil {
		return
	}
	for _, container := range containersOf(pod) {
		id := uid + "/" + container.Name
		k.running.Add(uid, container.Name, id)
		_ = k.memory.RemoveContainer(k.logger, id)
		if k.cpus != nil {
			k.cpus.AddContainer(k.logger, pod, container, id)
			_ = k.cpus.RemoveContainer(k.logger, id)
		}
		_ = k.topology.RemoveContainer(k.logger, id)
	}
	k.setActive(uid, nil)
}

func (k *kubelet) setActive(uid string, pod *v1.Pod) {
	k.lock.Lock()
	defer k.lock.Unlock()
	if pod == nil {
		delete(k.active, uid)
	} else {
		k.active[uid] = pod
	}
}

func (k *kubelet) activePods() []*v1.Pod {
	k.lock.Lock()
	defer k.lock.Unlock()
	pods := []*v1.Pod{}
	for _, uid := range sortedKeys(k.active) {
		pods = append(pods, k.active[uid])
	}
	return pods
}

func (k *kubelet) addChanges(answer *Answer) {
	blocks := map[string]map[string][]Block{}
	for uid, containers := range k.memory.State().GetMemoryAssignments() {
		blocks[uid] = map[string][]Block{}
		for name, found := range containers {
			blocks[uid][name] = blocksOf(found)
		}
	}
	maps := map[string]NodeMap{}
	for id, node := range k.memory.State().GetMachineState() {
		free := map[string]uint64{}
		for name, table := range node.MemoryMap {
			free[string(name)] = table.Free / mebibyte
		}
		maps[fmt.Sprint(id)] = NodeMap{node.NumberOfAssignments, node.Cells, free}
	}
	answer.Blocks = map[string]map[string][]Block{}
	for uid := range k.blocks {
		if blocks[uid] == nil {
			answer.Blocks[uid] = map[string][]Block{}
		}
	}
	for uid, containers := range blocks {
		if !reflect.DeepEqual(containers, k.blocks[uid]) {
			answer.Blocks[uid] = containers
		}
	}
	answer.Maps = map[string]NodeMap{}
	for id, node := range maps {
		if !reflect.DeepEqual(node, k.maps[id]) {
			answer.Maps[id] = node
		}
	}
	k.blocks, k.maps = blocks, maps
}

// blocksOf returns the blocks in the order of their resources; the kubelet's is random.
func blocksOf(found []state.Block) []Block {
	sort.Slice(found, func(i, j int) bool { return found[i].Type < found[j].Type })
	blocks := []Block{}
	for _, block := range found {
		blocks = append(blocks, Block{block.NUMAAffinity, string(block.Type), block.Size / mebibyte})
	}
	return blocks
}

type noStatus struct{}

func (noStatus) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

type noRuntime struct{}

func (noRuntime) UpdateContainerResources(
	context.Context, string, *runtimeapi.ContainerResources,
) error {
	return nil
}

// otherProviders stands for the CPU and the device manager; its hints are those of the life.
type otherProviders struct {
	hints map[string]map[string][]Hint
}

func (p *otherProviders) GetTopologyHints(
	_ klog.Logger, _ *v1.Pod, container *v1.Container, _ lifecycle.Operation,
) map[string][]topologymanager.TopologyHint {
	return hintsOf(p.hints[container.Name])
}

func (p *otherProviders) GetPodTopologyHints(
	klog.Logger, *v1.Pod, lifecycle.Operation,
) map[string][]topologymanager.TopologyHint {
	return hintsOf(p.hints[""])
}

func (p *otherProviders) Allocate(
	context.Context, *v1.Pod, *v1.Container, lifecycle.Operation,
) error {
	return nil
}

func (p *otherProviders) AllocatePod(klog.Logger, *v1.Pod, lifecycle.Operation) error { return nil }
