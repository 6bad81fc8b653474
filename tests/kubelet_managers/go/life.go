package main

import (
	"encoding/json"
	"fmt"
	"sort"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

const mebibyte = 1 << 20

// Life is a machine, the kubelet's settings, pods by uid, and steps.
type Life struct {
	Nodes   []Node         `json:"nodes"`
	Policy  string         `json:"policy"`
	Scope   string         `json:"scope"`
	Closest bool           `json:"closest"`
	Pods    map[string]Pod `json:"pods"`
	Steps   []Step         `json:"steps"`
	// CPUs is a static CPU manager; without one the life has the hints of the other providers.
	CPUs *StaticCPUs `json:"cpus"`
	// Capacity limits the pods that are admitted; others have the reason "no room".
	Capacity *Capacity `json:"capacity"`
}

// Node is a NUMA node; Reserved is in its ReservedMemory.
type Node struct {
	ID        int               `json:"id"`
	Memory    uint64            `json:"memory"`
	Reserved  uint64            `json:"reserved"`
	Pages     map[string]uint64 `json:"pages"`
	Distances []uint64          `json:"distances"`
	// Socket and Cores, each with its CPUs, are only necessary for the CPU manager.
	Socket int     `json:"socket"`
	Cores  [][]int `json:"cores"`
}

// Pod has its containers in the kubelet's order, and pod-level resources if it has any.
type Pod struct {
	Containers []Container       `json:"containers"`
	Resources  map[string]uint64 `json:"resources"`
}

// Container has a kind: init, restartable-init or app.
type Container struct {
	Name     string            `json:"name"`
	Kind     string            `json:"kind"`
	Requests map[string]uint64 `json:"requests"`
	// Millicores are requested and the limit; 0 stands for one CPU.
	Millicores int64 `json:"millicores"`
	// Unlimited: the container has requests only, so its pod is Burstable.
	Unlimited bool `json:"unlimited"`
}

// Step has one of Admit, Start, Remove, Resize and Restart.
type Step struct {
	Admit string `json:"admit"`
	// Hints of the other providers: container name -> resource -> hints; "" is the pod as a whole.
	Hints map[string]map[string][]Hint `json:"hints"`
	// Start is a pod whose containers run, one after the other.
	Start  string `json:"start"`
	Remove string `json:"remove"`
	// Resize is a pod whose containers get other MiB of memory: the kubelet's resize operation.
	Resize string            `json:"resize"`
	Memory map[string]uint64 `json:"memory"`
	// Restart is a new kubelet on a machine with these nodes, with the state file of the old one.
	Restart []Node `json:"restart"`
}

// Hint is written as [[node ids], preferred].
type Hint struct {
	Nodes     []int
	Preferred bool
}

// UnmarshalJSON reads the pair.
func (h *Hint) UnmarshalJSON(text []byte) error {
	pair := []any{&h.Nodes, &h.Preferred}
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("a hint is [nodes, preferred], not %s", text)
	}
	return nil
}

func machineOf(nodes []Node) (*cadvisorapi.MachineInfo, error) {
	machine := &cadvisorapi.MachineInfo{}
	sockets := sets.New[int]()
	for _, node := range nodes {
		found := cadvisorapi.Node{
			Id: node.ID, Memory: node.Memory * mebibyte, Distances: node.Distances,
		}
		for size, pages := range node.Pages {
			quantity, err := resource.ParseQuantity(size)
			if err != nil {
				return nil, err
			}
			found.HugePages = append(found.HugePages, cadvisorapi.HugePagesInfo{
				PageSize: uint64(quantity.Value()) / 1024, NumPages: pages,
			})
		}
		for number, cpus := range node.Cores {
			found.Cores = append(found.Cores, cadvisorapi.Core{
				Id: number, SocketID: node.Socket, Threads: cpus,
			})
			machine.NumCores += len(cpus)
		}
		sockets.Insert(node.Socket)
		machine.Topology = append(machine.Topology, found)
		machine.MemoryCapacity += found.Memory
	}
	machine.NumSockets = sockets.Len()
	return machine, nil
}

// reservedOf returns the reserved memory of each node, and its sum for the kubelet's comparison.
func reservedOf(nodes []Node) ([]kubeletconfig.MemoryReservation, v1.ResourceList) {
	var reserved []kubeletconfig.MemoryReservation
	var sum uint64
	for _, node := range nodes {
		if node.Reserved > 0 {
			reserved = append(reserved, kubeletconfig.MemoryReservation{
				NumaNode: int32(node.ID), Limits: listOf(map[string]uint64{"memory": node.Reserved}),
			})
			sum += node.Reserved
		}
	}
	return reserved, listOf(map[string]uint64{"memory": sum})
}

func listOf(amounts map[string]uint64) v1.ResourceList {
	list := v1.ResourceList{}
	for name, amount := range amounts {
		list[v1.ResourceName(name)] = *resource.NewQuantity(int64(amount*mebibyte), resource.BinarySI)
	}
	return list
}

// podOf returns a pod, Guaranteed if all of its containers have limits.
func podOf(uid string, pod Pod) *v1.Pod {
	found := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "default", UID: types.UID(uid)}}
	if pod.Resources != nil {
		found.Spec.Resources = requirementsOf(pod.Resources)
	}
	for _, container := range pod.Containers {
		each := v1.Container{Name: container.Name}
		if container.Requests != nil {
			each.Resources = *requirementsOf(container.Requests)
		}
		if container.Millicores > 0 {
			cpus := *resource.NewMilliQuantity(container.Millicores, resource.DecimalSI)
			each.Resources.Requests[v1.ResourceCPU] = cpus
		}
		if container.Unlimited {
			each.Resources.Limits = nil
		}
		switch container.Kind {
		case "app":
			found.Spec.Containers = append(found.Spec.Containers, each)
			continue
		case "restartable-init":
			always := v1.ContainerRestartPolicyAlways
			each.RestartPolicy = &always
		}
		found.Spec.InitContainers = append(found.Spec.InitContainers, each)
	}
	return found
}

func requirementsOf(amounts map[string]uint64) *v1.ResourceRequirements {
	list := listOf(amounts)
	list[v1.ResourceCPU] = *resource.NewQuantity(1, resource.DecimalSI)
	return &v1.ResourceRequirements{Requests: list, Limits: list}
}

func hintsOf(found map[string][]Hint) map[string][]topologymanager.TopologyHint {
	if len(found) == 0 {
		return nil
	}
	hints := map[string][]topologymanager.TopologyHint{}
	for name, each := range found {
		hints[name] = []topologymanager.TopologyHint{}
		for _, hint := range each {
			mask, _ := bitmask.NewBitMask(hint.Nodes...)
			hints[name] = append(hints[name], topologymanager.TopologyHint{
				NUMANodeAffinity: mask, Preferred: hint.Preferred,
			})
		}
	}
	return hints
}

func containersOf(pod *v1.Pod) []*v1.Container {
	var containers []*v1.Container
	for i := range pod.Spec.InitContainers {
		containers = append(containers, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		containers = append(containers, &pod.Spec.Containers[i])
	}
	return containers
}

func sortedKeys[V any](found map[string]V) []string {
	keys := make([]string, 0, len(found))
	for key := range found {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
