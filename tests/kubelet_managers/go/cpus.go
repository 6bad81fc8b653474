package main

import (
	"math"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/utils/cpuset"
)

// StaticCPUs are the settings of the static CPU manager.
type StaticCPUs struct {
	// Reserved is reservedSystemCPUs, as a CPU list.
	Reserved string `json:"reserved"`
}

// CPUs of a container are written as [CPU list, whether they are exclusive].
type CPUs [2]any

// Capacity is what the scheduler gives to pods.
type Capacity struct {
	Millicores int64  `json:"millicores"`
	Memory     uint64 `json:"memory"`
}

const noRoom = "no room"

// startCPUs starts the CPU manager of a life that has one; without one its place is taken by
// hints of the life.
func (k *kubelet) startCPUs(machine *cadvisorapi.MachineInfo, ready config.SourcesReady) error {
	reserved, err := cpuset.Parse(k.life.CPUs.Reserved)
	if err != nil {
		return err
	}
	amount := v1.ResourceList{
		v1.ResourceCPU: *resource.NewQuantity(int64(reserved.Size()), resource.DecimalSI),
	}
	// It compares running containers with its state once per period; none are shown to it.
	k.cpus, err = cpumanager.NewManager(
		k.logger, string(cpumanager.PolicyStatic), nil, time.Duration(math.MaxInt64), machine,
		reserved, amount, k.folder, k.topology)
	if err != nil {
		return err
	}
	return k.cpus.Start(
		k.ctx, k.activePods, ready, noStatus{}, noRuntime{}, containermap.NewContainerMap())
}

// firstProvider precedes the Memory Manager.
func (k *kubelet) firstProvider() topologymanager.HintProvider {
	if k.cpus != nil {
		return k.cpus
	}
	return k.others
}

// cpusOf returns the CPUs of an admitted pod's containers.
func (k *kubelet) cpusOf(pod *v1.Pod) map[string]CPUs {
	if k.cpus == nil {
		return nil
	}
	found := map[string]CPUs{}
	uid := string(pod.UID)
	for _, container := range containersOf(pod) {
		isExclusive := !k.cpus.GetExclusiveCPUs(uid, container.Name).IsEmpty()
		found[container.Name] = CPUs{k.cpus.GetCPUAffinity(uid, container.Name).String(), isExclusive}
	}
	return found
}

// hasRoom returns whether the scheduler would send the pod: the requests of all pods fit.
func (k *kubelet) hasRoom(pod *v1.Pod) bool {
	capacity := k.life.Capacity
	if capacity == nil {
		return true
	}
	var millicores, memory int64
	for _, each := range append(k.activePods(), pod) {
		for _, container := range containersOf(each) {
			requests := container.Resources.Requests
			millicores += requests.Cpu().MilliValue()
			memory += requests.Memory().Value() / mebibyte
		}
	}
	return millicores <= capacity.Millicores && memory <= int64(capacity.Memory)
}
