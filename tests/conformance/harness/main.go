// Command harness is a container runtime without containers: NRI's own pkg/adaptation, driven over
// standard input and output by one JSON object per line.
//
// A command has an "id" and an "op"; its result is one line with that id. Messages are the base64 of
// their protobuf encoding, so that this program does not depend on their fields; fields that this NRI
// version does not have are dropped. Lines without an id are events: log lines of the adaptation,
// synchronizations, unsolicited updates.
//
// This file compiles with all NRI versions; the differences of their interfaces are in notify_*.go.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	nri "github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/log"
	"google.golang.org/protobuf/proto"
)

// A Synchronize of 16 MiB, in base64, with room to spare.
const maxLineBytes = 64 << 20

type command struct {
	ID        int    `json:"id"`
	Op        string `json:"op"`
	Pod       []byte `json:"pod"`
	Container []byte `json:"container"`
	Resources []byte `json:"resources"`
	Sync      []byte `json:"sync"`
	DelayMS   int    `json:"delay_ms"`
}

type outputLine struct {
	ID     int    `json:"id,omitempty"`
	Event  string `json:"event,omitempty"`
	Level  string `json:"level,omitempty"`
	Text   string `json:"text,omitempty"`
	Error  string `json:"error,omitempty"`
	Result []byte `json:"result,omitempty"`
	TookUS int64  `json:"took_us,omitempty"`
}

type harness struct {
	adaptation *nri.Adaptation
	output     sync.Mutex
	content    sync.Mutex
	pods       []*nri.PodSandbox
	containers []*nri.Container
	syncDelay  time.Duration
}

func main() {
	socket := flag.String("socket", "", "where to listen for plugins; empty: do not listen")
	plugins := flag.String("plugins", "", "directory of plugins to launch")
	configs := flag.String("configs", "", "directory of their configurations")
	name := flag.String("name", "containerd", "the runtime's name")
	version := flag.String("version", "v0.0.0", "the runtime's version")
	registration := flag.Duration("registration-timeout", 5*time.Second, "as the runtime's option")
	request := flag.Duration("request-timeout", 2*time.Second, "as the runtime's option")
	flag.Parse()

	h := &harness{}
	log.Set(h)
	nri.SetPluginRegistrationTimeout(*registration)
	nri.SetPluginRequestTimeout(*request)
	options := []nri.Option{nri.WithPluginPath(*plugins), nri.WithPluginConfigPath(*configs)}
	if *socket == "" {
		options = append(options, nri.WithDisabledExternalConnections())
	} else {
		options = append(options, nri.WithSocketPath(*socket))
	}
	adaptation, err := nri.New(*name, *version, h.synchronize, h.update, options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	h.adaptation = adaptation
	h.serve()
}

func (h *harness) serve() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 0, 1<<20), maxLineBytes)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		begin := time.Now()
		result, err := h.do(&c)
		a := outputLine{ID: c.ID, TookUS: time.Since(begin).Microseconds()}
		if err != nil {
			a.Error = err.Error()
		} else if result != nil {
			a.Result, err = proto.Marshal(result)
			if err != nil {
				a.Error = err.Error()
			}
		}
		h.print(&a)
	}
}

func (h *harness) do(c *command) (proto.Message, error) {
	ctx := context.Background()
	pod, container := &nri.PodSandbox{}, &nri.Container{}
	resources, content := &nri.LinuxResources{}, &api.SynchronizeRequest{}
	for _, part := range []struct {
		data    []byte
		message proto.Message
	}{{c.Pod, pod}, {c.Container, container}, {c.Resources, resources}, {c.Sync, content}} {
		options := proto.UnmarshalOptions{DiscardUnknown: true}
		if err := options.Unmarshal(part.data, part.message); err != nil {
			return nil, err
		}
	}
	switch c.Op {
	case "content":
		h.content.Lock()
		defer h.content.Unlock()
		h.pods, h.containers = content.Pods, content.Containers
		h.syncDelay = time.Duration(c.DelayMS) * time.Millisecond
		return nil, nil
	case "start":
		return nil, h.adaptation.Start()
	case "stop":
		h.adaptation.Stop()
		return nil, nil
	case "CreateContainer":
		// A nil result must not become a message that is not nil.
		r, err := h.adaptation.CreateContainer(
			ctx, &nri.CreateContainerRequest{Pod: pod, Container: container})
		if err != nil {
			return nil, err
		}
		return r, nil
	case "UpdateContainer":
		r, err := h.adaptation.UpdateContainer(ctx, &nri.UpdateContainerRequest{
			Pod: pod, Container: container, LinuxResources: resources})
		if err != nil {
			return nil, err
		}
		// The last element is that of the container itself, nil without changes by plugins.
		if n := len(r.Update); n > 0 && r.Update[n-1] == nil {
			r.Update = r.Update[:n-1]
		}
		return r, nil
	case "StopContainer":
		r, err := h.adaptation.StopContainer(
			ctx, &nri.StopContainerRequest{Pod: pod, Container: container})
		if err != nil {
			return nil, err
		}
		return r, nil
	}
	return nil, notify(ctx, h.adaptation, c.Op, pod, container)
}

// synchronize is the runtime's SyncFn: it sends the content of the last command "content".
func (h *harness) synchronize(ctx context.Context, send nri.SyncCB) error {
	h.content.Lock()
	pods, containers, delay := h.pods, h.containers, h.syncDelay
	h.content.Unlock()
	time.Sleep(delay)
	begin := time.Now()
	updates, err := send(ctx, pods, containers)
	a := outputLine{Event: "synchronized", TookUS: time.Since(begin).Microseconds()}
	if err != nil {
		a.Error = err.Error()
	}
	a.Result, _ = proto.Marshal(&api.SynchronizeResponse{Update: updates})
	h.print(&a)
	return err
}

// update is the runtime's UpdateFn; a call is reported and refused.
func (h *harness) update(
	_ context.Context, updates []*nri.ContainerUpdate,
) ([]*nri.ContainerUpdate, error) {
	data, _ := proto.Marshal(&api.UpdateContainersRequest{Update: updates})
	h.print(&outputLine{Event: "unsolicited", Result: data})
	return nil, errors.New("unsolicited updates are refused")
}

func (h *harness) print(a *outputLine) {
	line, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	h.output.Lock()
	defer h.output.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func (h *harness) log(level, format string, args []interface{}) {
	h.print(&outputLine{Event: "log", Level: level, Text: fmt.Sprintf(format, args...)})
}

// Debugf is part of NRI's logger.
func (h *harness) Debugf(_ context.Context, format string, args ...interface{}) {
	h.log("debug", format, args)
}

// Infof is part of NRI's logger.
func (h *harness) Infof(_ context.Context, format string, args ...interface{}) {
	h.log("info", format, args)
}

// Warnf is part of NRI's logger.
func (h *harness) Warnf(_ context.Context, format string, args ...interface{}) {
	h.log("warning", format, args)
}

// Errorf is part of NRI's logger.
func (h *harness) Errorf(_ context.Context, format string, args ...interface{}) {
	h.log("error", format, args)
}
