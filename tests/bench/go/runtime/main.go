// Command runtime is a container runtime without containers that takes measurements: NRI's own
// pkg/adaptation, controlled by one JSON object per line on standard input, each with a reply of one
// line on standard output.
//
// All loops over requests are in this process, so a measured time, taken from the monotonic clock
// around a call, contains the adaptation and the plugin and nothing of the controlling process.
// Requests are copies of messages received once; only ids and names differ.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	nri "github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/log"
)

// Commands contain messages of 6 kB in base64.
const maxLineBytes = 1 << 20

// How long to wait for a plugin to register and synchronize.
const connectTimeout = 20 * time.Second

type command struct {
	Op        string `json:"op"`
	Pod       []byte `json:"pod"`
	Container []byte `json:"container"`
	Expect    string `json:"expect"`
	Count     int    `json:"count"`
	Nodes     int    `json:"nodes"`
	GapUS     int    `json:"gap_us"`
}

type answer struct {
	Error string `json:"error,omitempty"`
	// How long each call took, in nanoseconds.
	TookNS []int64 `json:"took_ns,omitempty"`
	// When the plugin was registered, and when it was ready to serve: nanoseconds since 1970.
	RegisteredNS int64 `json:"registered_ns,omitempty"`
	ReadyNS      int64 `json:"ready_ns,omitempty"`
}

type registration struct {
	registered, ready time.Time
	synchronize       time.Duration
}

type bench struct {
	adaptation *nri.Adaptation
	workload   workload
	mutex      sync.Mutex
	content    content
	next       registration
	registered chan registration
}

func main() {
	socket := flag.String("socket", "", "where to listen for plugins; empty: do not listen")
	plugins := flag.String("plugins", "", "directory of plugins to launch")
	configs := flag.String("configs", "", "directory of their configurations")
	flag.Parse()

	b := &bench{registered: make(chan registration, 16)}
	log.Set(b)
	// A plugin that needs more than the default of 2 s for 5,000 containers is measured too.
	nri.SetPluginRequestTimeout(connectTimeout)
	options := []nri.Option{nri.WithPluginPath(*plugins), nri.WithPluginConfigPath(*configs)}
	if *socket == "" {
		options = append(options, nri.WithDisabledExternalConnections())
	} else {
		options = append(options, nri.WithSocketPath(*socket))
	}
	adaptation, err := nri.New("containerd", "v0.0.0", b.synchronize, refuse, options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	b.adaptation = adaptation
	b.serve()
}

func (b *bench) serve() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxLineBytes)
	output := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var c command
		a := &answer{}
		err := json.Unmarshal(lines.Bytes(), &c)
		if err == nil {
			err = b.do(&c, a)
		}
		if err != nil {
			a.Error = err.Error()
		}
		if err := output.Encode(a); err != nil {
			panic(err)
		}
	}
}

func (b *bench) do(c *command, a *answer) (err error) {
	switch c.Op {
	case "workload": // the pod and container that the following commands copy
		b.workload, err = newWorkload(c.Pod, c.Container, c.Expect)
	case "content": // the content of the next plugin's Synchronize
		var next content
		next, err = b.workload.content(c.Count, c.Nodes)
		b.mutex.Lock()
		b.content = next
		b.mutex.Unlock()
	case "start":
		err = b.adaptation.Start()
	case "wait":
		select {
		case plugin := <-b.registered:
			a.RegisteredNS, a.ReadyNS = plugin.registered.UnixNano(), plugin.ready.UnixNano()
			a.TookNS = []int64{plugin.synchronize.Nanoseconds()}
		case <-time.After(connectTimeout):
			err = errors.New("no plugin registered")
		}
	case "fill":
		err = b.fill(c.Count)
	case "measure":
		a.TookNS, err = b.measure(c.Count, time.Duration(c.GapUS)*time.Microsecond)
	default:
		err = fmt.Errorf("no such command: %q", c.Op)
	}
	return err
}

// fill creates pods of one container each, which keep running.
func (b *bench) fill(count int) error {
	for range count {
		pod, container, err := b.run()
		if err != nil {
			return err
		}
		if _, err := b.create(pod, container); err != nil {
			return err
		}
	}
	return nil
}

// measure creates and removes pods of one container each, and times each CreateContainer.
//
// A gap before each timed call lets the plugin finish its work after the last reply; a host that
// starts containers has milliseconds of other work there.
func (b *bench) measure(count int, gap time.Duration) ([]int64, error) {
	took := make([]int64, 0, count)
	for range count {
		pod, container, err := b.run()
		if err != nil {
			return nil, err
		}
		if gap > 0 {
			time.Sleep(gap)
		}
		duration, err := b.create(pod, container)
		if err != nil {
			return nil, err
		}
		took = append(took, duration.Nanoseconds())
		if err := b.end(pod, container); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// run starts a pod's sandbox and returns it with a container to create in it.
func (b *bench) run() (*nri.PodSandbox, *nri.Container, error) {
	pod, container, err := b.workload.next()
	if err == nil {
		err = notify(context.Background(), b.adaptation, "RunPodSandbox", pod, nil)
	}
	return pod, container, err
}

func (b *bench) create(pod *nri.PodSandbox, container *nri.Container) (time.Duration, error) {
	request := &nri.CreateContainerRequest{Pod: pod, Container: container}
	begin := time.Now()
	response, err := b.adaptation.CreateContainer(context.Background(), request)
	took := time.Since(begin)
	if err != nil {
		return 0, err
	}
	// A plugin that places nothing would be fast, so the result is checked.
	mems := response.GetAdjust().GetLinux().GetResources().GetCpu().GetMems()
	return took, b.workload.check(mems)
}

func (b *bench) end(pod *nri.PodSandbox, container *nri.Container) error {
	_, err := b.adaptation.StopContainer(
		context.Background(), &nri.StopContainerRequest{Pod: pod, Container: container})
	for _, op := range []string{"RemoveContainer", "StopPodSandbox", "RemovePodSandbox"} {
		if err == nil {
			err = notify(context.Background(), b.adaptation, op, pod, container)
		}
	}
	return err
}

// synchronize is the runtime's SyncFn.
func (b *bench) synchronize(ctx context.Context, send nri.SyncCB) error {
	b.mutex.Lock()
	c := b.content
	b.mutex.Unlock()
	begin := time.Now()
	_, err := send(ctx, c.pods, c.containers)
	b.mutex.Lock()
	b.next.synchronize = time.Since(begin)
	b.mutex.Unlock()
	return err
}

func refuse(context.Context, []*nri.ContainerUpdate) ([]*nri.ContainerUpdate, error) {
	return nil, errors.New("unsolicited updates are not supported")
}

// Debugf is part of NRI's logger.
func (b *bench) Debugf(context.Context, string, ...interface{}) {}

// Infof is part of NRI's logger, the only place that shows a plugin's registration.
func (b *bench) Infof(_ context.Context, format string, _ ...interface{}) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	switch {
	case strings.Contains(format, "registered as"):
		b.next.registered = time.Now()
	case strings.Contains(format, "connected and synchronized"):
		b.next.ready = time.Now()
		b.registered <- b.next
	}
}

// Warnf is part of NRI's logger.
func (b *bench) Warnf(_ context.Context, format string, args ...interface{}) {
	fmt.Fprintf(os.Stderr, "warning: "+format+"\n", args...)
}

// Errorf is part of NRI's logger.
func (b *bench) Errorf(_ context.Context, format string, args ...interface{}) {
	fmt.Fprintf(os.Stderr, "error: "+format+"\n", args...)
}
