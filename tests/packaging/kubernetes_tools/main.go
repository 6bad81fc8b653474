// Judges Kubernetes manifests and image archives, and prints the seccomp profile RuntimeDefault of containerd, for tests.
//
//	kubernetes-tools validate SWAGGER <MANIFESTS
//	kubernetes-tools seccomp
//	kubernetes-tools import FOLDER <ARCHIVE
//
// import reads an image archive as `ctr images import` does, with containerd's own code, into a new folder; it prints
// the names of the images.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/containerd/containerd/content/local"
	"github.com/containerd/containerd/contrib/seccomp"
	"github.com/containerd/containerd/images"
	"github.com/containerd/containerd/images/archive"
	"github.com/containerd/containerd/platforms"
	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"github.com/opencontainers/runtime-spec/specs-go"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientset "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubectl/pkg/util/openapi"
	"k8s.io/kubectl/pkg/validation"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 2 && arguments[0] == "validate":
		return validate(arguments[1], os.Stdin)
	case len(arguments) == 1 && arguments[0] == "seccomp":
		spec := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}}
		return json.NewEncoder(os.Stdout).Encode(seccomp.DefaultProfile(spec))
	case len(arguments) == 2 && arguments[0] == "import":
		return importImages(arguments[1], os.Stdin)
	}
	return errors.New("usage: validate SWAGGER <MANIFESTS, seccomp, or import FOLDER <ARCHIVE")
}

func importImages(folder string, archived io.Reader) error {
	ctx := context.Background()
	store, err := local.NewStore(folder)
	if err != nil {
		return err
	}
	index, err := archive.ImportIndex(ctx, store, archived)
	if err != nil {
		return err
	}
	content, err := images.Manifest(ctx, store, index, platforms.Default())
	if err != nil {
		return err
	}
	for _, layer := range content.Layers {
		if _, err := store.Info(ctx, layer.Digest); err != nil {
			return err
		}
	}
	listed, err := images.Children(ctx, store, index)
	if err != nil {
		return err
	}
	for _, image := range listed {
		fmt.Println(image.Annotations[images.AnnotationImageName], image.Digest)
	}
	return nil
}

// validate checks each document twice: against the OpenAPI document, as kubectl does, and by decoding
// it into the API's types, which allows no unknown and no repeated field. The types of the Prometheus
// operator are not in the OpenAPI document. It prints kind and name of each document.
func validate(swagger string, manifests io.Reader) error {
	schema, err := readSchema(swagger)
	if err != nil {
		return err
	}
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientset.AddToScheme, monitoringv1.AddToScheme} {
		if err := add(types); err != nil {
			return err
		}
	}
	decoder := serializer.NewSerializerWithOptions(
		serializer.DefaultMetaFactory, types, types, serializer.SerializerOptions{Yaml: true, Strict: true})
	all, err := io.ReadAll(manifests)
	if err != nil {
		return err
	}
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(all)))
	for {
		document := make([]byte, len(all)+1)
		size, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := validateDocument(schema, decoder, document[:size]); err != nil {
			return err
		}
	}
}

func validateDocument(schema validation.Schema, decoder runtime.Decoder, document []byte) error {
	if len(bytes.TrimSpace(document)) == 0 {
		return nil
	}
	object, kind, err := decoder.Decode(document, nil, nil)
	if err != nil {
		return fmt.Errorf("%w in\n%s", err, document)
	}
	if kind.Group != monitoringv1.SchemeGroupVersion.Group {
		if err := schema.ValidateBytes(document); err != nil {
			return fmt.Errorf("%w in\n%s", err, document)
		}
	}
	name := object.(interface{ GetName() string }).GetName()
	fmt.Println(kind.Kind, name)
	return nil
}

func readSchema(path string) (validation.Schema, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	document, err := openapi_v2.ParseDocument(text)
	if err != nil {
		return nil, err
	}
	resources, err := openapi.NewOpenAPIData(document)
	if err != nil {
		return nil, err
	}
	return validation.NewSchemaValidation(getter{resources}), nil
}

type getter struct{ openapi.Resources }

func (g getter) OpenAPISchema() (openapi.Resources, error) { return g.Resources, nil }
