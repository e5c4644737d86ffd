// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	podstorage "k8s.io/kubernetes/pkg/registry/core/pod/storage"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
	servicestorage "k8s.io/kubernetes/pkg/registry/core/service/storage"

	corev1 "k8s.io/api/core/v1"
)

// The ranges of the instances that tests/kube starts; see also docs/services.md.
const (
	rangeIPv4   = "10.96.0.0/16"
	rangeIPv6   = "fd00:10:96::/112"
	portsOfNode = "30000-32767"
)

// A storage in which nothing is. A dry run asks it no more than whether the name is taken.
type emptyStorage struct{ storage.Interface }

func (emptyStorage) Get(_ context.Context, key string, _ storage.GetOptions, _ runtime.Object) error {
	return storage.NewKeyNotFoundError(key, 0)
}

func restOptions() generic.RESTOptions {
	decorator := func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error),
		func() runtime.Object, func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs,
		*cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		return emptyStorage{}, func() {}, nil
	}
	codec := legacyscheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion)
	return generic.RESTOptions{
		StorageConfig:  &storagebackend.ConfigForResource{Config: storagebackend.Config{Codec: codec}},
		Decorator:      decorator,
		ResourcePrefix: "empty",
	}
}

func newAllocators() (map[core.IPFamily]ipallocator.Interface, portallocator.Interface, error) {
	ranges := map[core.IPFamily]ipallocator.Interface{}
	for _, text := range []string{rangeIPv4, rangeIPv6} {
		_, cidr, err := net.ParseCIDR(text)
		if err != nil {
			return nil, nil, err
		}
		allocator, err := ipallocator.NewInMemory(cidr)
		if err != nil {
			return nil, nil, err
		}
		ranges[core.IPFamily(allocator.IPFamily())] = allocator
	}
	ports, err := utilnet.ParsePortRange(portsOfNode)
	if err != nil {
		return nil, nil, err
	}
	allocator, err := portallocator.NewInMemory(*ports)
	return ranges, allocator, err
}

func newStores() (pods, services rest.Creater, err error) {
	podStores, err := podstorage.NewStorage(restOptions(), nil, nil, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	ranges, ports, err := newAllocators()
	if err != nil {
		return nil, nil, err
	}
	serviceStore, _, _, err := servicestorage.NewREST(restOptions(), core.IPv4Protocol, ranges, ports,
		nil, podStores.Pod, nil)
	return podStores.Pod, serviceStore, err
}
