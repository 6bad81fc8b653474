// Checks NodeResourceTopology objects with the types and helpers that the scheduler plugin uses.
//
// Each line of standard input is a JSON object {"document", "pods"}; the result of each is a line:
// "ok", or what is wrong. Fields that the types do not have are errors.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2/helper"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2/helper/attribute"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2/helper/numanode"
	"github.com/k8stopologyawareschedwg/podfingerprint"
)

type input struct {
	Document json.RawMessage `json:"document"`
	// Namespace and name of each pod; null if the object has no fingerprint.
	Pods [][2]string `json:"pods"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if err := check(lines.Bytes()); err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("ok")
		}
	}
}

func check(line []byte) error {
	var in input
	if err := json.Unmarshal(line, &in); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(in.Document))
	decoder.DisallowUnknownFields()
	var nrt v1alpha2.NodeResourceTopology
	if err := decoder.Decode(&nrt); err != nil {
		return err
	}
	if nrt.GroupVersionKind() != v1alpha2.SchemeGroupVersion.WithKind("NodeResourceTopology") {
		return fmt.Errorf("it is a %s", nrt.GroupVersionKind())
	}
	for _, zone := range nrt.Zones {
		if err := checkZone(zone); err != nil {
			return err
		}
	}
	return checkFingerprint(nrt, in.Pods)
}

func checkZone(zone v1alpha2.Zone) error {
	if zone.Type != helper.ZoneTypeNUMANode {
		return fmt.Errorf("%s is a zone of type %s", zone.Name, zone.Type)
	}
	if _, err := numanode.NameToID(zone.Name); err != nil {
		return err
	}
	for _, cost := range zone.Costs {
		if _, err := numanode.NameToID(cost.Name); err != nil {
			return err
		}
	}
	for _, r := range zone.Resources {
		if r.Available.Sign() < 0 || r.Available.Cmp(r.Allocatable) > 0 || r.Allocatable.Cmp(r.Capacity) > 0 {
			return fmt.Errorf("%s of %s: available %s, allocatable %s, capacity %s", r.Name, zone.Name,
				r.Available.String(), r.Allocatable.String(), r.Capacity.String())
		}
	}
	return nil
}

func checkFingerprint(nrt v1alpha2.NodeResourceTopology, pods [][2]string) error {
	signature, found := attribute.Get(nrt.Attributes, podfingerprint.Attribute)
	if found != (pods != nil) {
		return fmt.Errorf("fingerprint %q of %d pods", signature.Value, len(pods))
	}
	if !found {
		return nil
	}
	method, _ := attribute.Get(nrt.Attributes, podfingerprint.AttributeMethod)
	if method.Value != podfingerprint.MethodAll {
		return fmt.Errorf("the method is %q", method.Value)
	}
	if nrt.Annotations[podfingerprint.Annotation] != signature.Value {
		return fmt.Errorf("annotation and attribute differ")
	}
	fingerprint := podfingerprint.NewFingerprint(len(pods))
	for _, pod := range pods {
		if err := fingerprint.Add(pod[0], pod[1]); err != nil {
			return err
		}
	}
	return fingerprint.Check(signature.Value)
}
