// SPDX-License-Identifier: Apache-2.0

// Program oracle answers what a Kubernetes API server would say to the creation of an object. It is
// the API server's own code from the request's body on: strict decoding, defaults, conversion, the
// registry's store with its strategies and allocators, in a dry run over an empty storage. Left out are
// HTTP, admission plugins and the field manager; ask_server.py asks a whole server too.
//
// Standard input: one JSON object with a "text" a line. Standard output: the same objects with "code":201,
// or with "code", "message" and "causes":[{"field":…,"message":…}].
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/capabilities"
)

const longestLine = 16 << 20

// Of fields that an API server drops unless told otherwise, and that the agent reads.
const gates = "ContainerStopSignals=true,ClusterTrustBundle=true,ClusterTrustBundleProjection=true," +
	"PodCertificateRequest=true"

type cause struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// What every kind of request goes through.
type server struct {
	decoders map[string]runtime.Decoder
	stores   map[string]rest.Creater
}

func newServer() (*server, error) {
	capabilities.Setup(true, 0) // privileged containers are allowed, as on most clusters
	if err := utilfeature.DefaultMutableFeatureGate.Set(gates); err != nil {
		return nil, err
	}
	pods, services, err := newStores()
	if err != nil {
		return nil, err
	}
	s := &server{
		decoders: map[string]runtime.Decoder{},
		stores:   map[string]rest.Creater{"Pod": pods, "Service": services},
	}
	for _, info := range legacyscheme.Codecs.SupportedMediaTypes() {
		if info.StrictSerializer != nil {
			s.decoders[info.MediaType] = toInternal(legacyscheme.Codecs, info.StrictSerializer)
		}
	}
	return s, nil
}

func toInternal(codecs serializer.CodecFactory, from runtime.Decoder) runtime.Decoder {
	internal := schema.GroupVersion{Group: core.GroupName, Version: runtime.APIVersionInternal}
	return codecs.DecoderToVersion(from, internal)
}

// The steps of the API server's create handler, in its order.
func (s *server) create(text string) error {
	mediaType := runtime.ContentTypeYAML
	if strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		mediaType = runtime.ContentTypeJSON
	}
	object, gvk, err := s.decoders[mediaType].Decode([]byte(text), nil, nil)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	store, known := s.stores[gvk.Kind]
	if !known {
		return apierrors.NewBadRequest("no store for " + gvk.Kind)
	}
	metadata, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	namespace := metadata.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	rest.WipeObjectMetaSystemFields(metadata)
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(namespace, metadata); err != nil {
		return err
	}
	metadata.SetManagedFields(nil) // the field manager writes its own, whatever came
	ctx := genericrequest.WithNamespace(context.Background(), namespace)
	_, err = store.Create(ctx, object, rest.ValidateAllObjectFunc,
		&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// Adds the answer to the case.
func (s *server) answer(one map[string]any) {
	text, _ := one["text"].(string)
	err := s.create(text)
	if err == nil {
		one["code"] = 201
		return
	}
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		one["code"], one["message"] = 500, err.Error()
		return
	}
	one["code"], one["message"] = status.Status().Code, status.Status().Message
	if details := status.Status().Details; details != nil && len(details.Causes) > 0 {
		causes := []cause{}
		for _, c := range details.Causes {
			causes = append(causes, cause{Field: c.Field, Message: c.Message})
		}
		one["causes"] = causes
	}
}

func run() error {
	s, err := newServer()
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, longestLine)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for in.Scan() {
		line := json.NewDecoder(bytes.NewReader(in.Bytes()))
		line.UseNumber() // the edits stay as they are
		var one map[string]any
		if err := line.Decode(&one); err != nil {
			return fmt.Errorf("line %q: %w", in.Text(), err)
		}
		s.answer(one)
		if err := encoder.Encode(one); err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil {
		return err
	}
	return out.Flush()
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}
