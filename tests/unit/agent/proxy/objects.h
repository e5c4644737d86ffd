// SPDX-License-Identifier: Apache-2.0
// Services, EndpointSlices and pods out of YAML, with their defaults.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "agent/kube/defaulting.h"
#include "agent/kube/manifest_reader.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"
#include "tests/support/eventually.h"

namespace holdfast::agent {

using test_support::Eventually;

template <class Object>
Object ReadObject(const std::string& text) {
  kube::Manifest manifest = kube::ReadManifest("test.yaml", text);
  EXPECT_TRUE(manifest.ok()) << kube::ToString(manifest.diagnostics);
  if (manifest.objects.size() != 1) return Object();
  const std::unique_ptr<Object> object = manifest.objects[0].Take<Object>();
  if (object->metadata().namespace_().empty())
    object->mutable_metadata()->set_namespace_("default");
  kube::SetDefaults(object.get());
  return *object;
}

// `spec` in YAML's flow style: "ports: [{port: 80}]".
inline corev1::Service ServiceOf(const std::string& spec, const std::string& name = "web",
                                 const std::string& meta = "") {
  return ReadObject<corev1::Service>("apiVersion: v1\nkind: Service\nmetadata: {name: " + name +
                                     (meta.empty() ? "" : ", " + meta) + "}\nspec: {" + spec +
                                     "}\n");
}

inline discoveryv1::EndpointSlice SliceOf(const std::string& body,
                                          const std::string& name = "web-1",
                                          const std::string& service = "web") {
  return ReadObject<discoveryv1::EndpointSlice>(
      "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: " + name +
      ", labels: {kubernetes.io/service-name: " + service + "}}\n" + body);
}

// Running, with an address and a port named http (8080) and one named dns (53, UDP).
inline corev1::Pod PodOf(const std::string& name, const std::string& ip, bool ready = true,
                         const std::string& labels = "app: web") {
  corev1::Pod pod = ReadObject<corev1::Pod>(
      "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", uid: uid-" + name + ", labels: {" +
      labels +
      "}}\nspec: {containers: [{name: c, image: i, ports: [{name: http, containerPort: 8080}, "
      "{name: dns, containerPort: 53, protocol: UDP}]}]}\n");
  pod.mutable_status()->set_phase("Running");
  pod.mutable_status()->set_podip(ip);
  pod.mutable_status()->add_podips()->set_ip(ip);
  auto* condition = pod.mutable_status()->add_conditions();
  condition->set_type("Ready");
  condition->set_status(ready ? "True" : "False");
  return pod;
}

}  // namespace holdfast::agent
