// SPDX-License-Identifier: Apache-2.0
// Kubernetes' types by name only, and short names for their packages, so that headers need no
// generated code. Include "k8s/core/v1/pod.pb.h" and its siblings where fields are used.
#pragma once

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace k8s::io::api::core::v1 {
class ConfigMap;
class Container;
class Event;
class Node;
class Pod;
class PodSpec;
class PodTemplateSpec;
class ResourceRequirements;
class Secret;
class Service;
}  // namespace k8s::io::api::core::v1

namespace k8s::io::apimachinery::pkg::apis::meta::v1 {
class ObjectMeta;
class Time;
class MicroTime;
}  // namespace k8s::io::apimachinery::pkg::apis::meta::v1

namespace k8s::io::api::apps::v1 {
class Deployment;
}  // namespace k8s::io::api::apps::v1

namespace k8s::io::api::discovery::v1 {
class EndpointSlice;
}  // namespace k8s::io::api::discovery::v1

namespace holdfast::agent {
namespace corev1 = ::k8s::io::api::core::v1;
namespace metav1 = ::k8s::io::apimachinery::pkg::apis::meta::v1;
namespace appsv1 = ::k8s::io::api::apps::v1;
namespace discoveryv1 = ::k8s::io::api::discovery::v1;
}  // namespace holdfast::agent
