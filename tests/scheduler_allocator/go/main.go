// Allocates resource claims on one host with the allocator of the Kubernetes scheduler.
//
// Standard input has one JSON value per line, standard output one JSON line for each:
//
//	{"slices": [ResourceSlice], "classes": [DeviceClass]}  publishes; {} is the answer
//	{"allocate": ResourceClaim}   the answer is its allocation, {} if the host has no room
//	{"free": uid of a claim}      {} is the answer
//
// Objects are complete: the API server's defaults are not applied. The allocator is that of the
// unmodified module k8s.io/dynamic-resource-allocation, with the features that are on by default.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
)

const longestLine = 16 << 20

var features = structured.Features{
	AdminAccess: true, ConsumableCapacity: true, DeviceTaints: true,
	PartitionableDevices: true, PrioritizedList: true,
}

// Command is a line of the input.
type Command struct {
	Slices   []*resourceapi.ResourceSlice `json:"slices"`
	Classes  []*resourceapi.DeviceClass   `json:"classes"`
	Allocate *resourceapi.ResourceClaim   `json:"allocate"`
	Free     string                       `json:"free"`
}

// Host is what the scheduler knows of a host.
type Host struct {
	node      *v1.Node
	slices    []*resourceapi.ResourceSlice
	classes   Classes
	allocated map[string]*resourceapi.AllocationResult
	cache     *cel.Cache
}

// Classes are the cluster's device classes by name.
type Classes map[string]*resourceapi.DeviceClass

// List returns all classes.
func (c Classes) List() ([]*resourceapi.DeviceClass, error) {
	var all []*resourceapi.DeviceClass
	for _, class := range c {
		all = append(all, class)
	}
	return all, nil
}

// Get returns a class, or an error if there is none of that name.
func (c Classes) Get(name string) (*resourceapi.DeviceClass, error) {
	class, found := c[name]
	if !found {
		return nil, fmt.Errorf("there is no DeviceClass %s", name)
	}
	return class, nil
}

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longestLine)
	encoder := json.NewEncoder(out)
	host := &Host{cache: cel.NewCache(100, cel.Features{EnableConsumableCapacity: true})}
	for lines.Scan() {
		var command Command
		if err := json.Unmarshal(lines.Bytes(), &command); err != nil {
			return fmt.Errorf("command: %w", err)
		}
		result, err := host.do(command)
		if err != nil {
			return err
		}
		if err := encoder.Encode(result); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (h *Host) do(command Command) (*resourceapi.AllocationResult, error) {
	switch {
	case command.Allocate != nil:
		return h.allocate(command.Allocate)
	case command.Free != "":
		if _, found := h.allocated[command.Free]; !found {
			return nil, fmt.Errorf("claim %s is not allocated", command.Free)
		}
		delete(h.allocated, command.Free)
	default:
		h.publish(command)
	}
	return &resourceapi.AllocationResult{}, nil
}

// publish replaces all slices. Claims stay allocated unless the host is another one.
func (h *Host) publish(command Command) {
	name := *command.Slices[0].Spec.NodeName
	if h.node == nil || h.node.Name != name {
		h.node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		h.allocated = map[string]*resourceapi.AllocationResult{}
	}
	h.slices = command.Slices
	h.classes = Classes{}
	for _, class := range command.Classes {
		h.classes[class.Name] = class
	}
}

func (h *Host) allocate(claim *resourceapi.ResourceClaim) (*resourceapi.AllocationResult, error) {
	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx, features, h.state(), h.classes, h.slices, h.cache)
	if err != nil {
		return nil, err
	}
	results, err := allocator.Allocate(ctx, h.node, []*resourceapi.ResourceClaim{claim})
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", claim.Name, err)
	}
	if len(results) == 0 {
		return &resourceapi.AllocationResult{}, nil
	}
	h.allocated[string(claim.UID)] = &results[0]
	return &results[0], nil
}

// state returns what the scheduler's plugin gathers from the allocations of all claims.
func (h *Host) state() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, allocation := range h.allocated {
		for _, result := range allocation.Devices.Results {
			device := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			if result.ShareID == nil {
				state.AllocatedDevices.Insert(device)
				continue
			}
			shared := structured.MakeSharedDeviceID(device, result.ShareID)
			state.AllocatedSharedDeviceIDs.Insert(shared)
			state.AggregatedCapacity.Insert(
				structured.NewDeviceConsumedCapacity(device, result.ConsumedCapacity))
		}
	}
	return state
}
