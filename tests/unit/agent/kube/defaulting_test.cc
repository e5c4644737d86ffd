// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/defaulting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/kube/codec.h"
#include "agent/kube/manifest_reader.h"
#include "agent/kube/pod_identity.h"
#include "k8s/apps/v1/deployment.pb.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"

namespace holdfast::agent::kube {
namespace {

template <class T>
std::unique_ptr<T> Read(const std::string& text) {
  Manifest manifest = ReadManifest("a.yaml", text);
  EXPECT_TRUE(manifest.ok()) << ToString(manifest.diagnostics);
  auto object = manifest.objects.at(0).Take<T>();
  SetDefaults(object.get());
  return object;
}

// As a pod comes back from a real API server (1.36), but for status and what admission adds.
TEST(DefaultingTest, FillsInAPodAsTheApiServerDoes) {
  const auto pod = Read<corev1::Pod>(R"(apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  volumes:
  - {name: nothing}
  - {name: c, configMap: {name: m}}
  - {name: h, hostPath: {path: /x}}
  containers:
  - name: c
    image: nginx
    env: [{name: "N", valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    ports: [{containerPort: 80}]
    resources: {limits: {cpu: 500m}, requests: {memory: 1Gi}}
    livenessProbe: {httpGet: {port: 80}}
)");
  EXPECT_EQ(PrintYaml(*pod), R"(apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: default
spec:
  containers:
  - env:
    - name: "N"
      valueFrom:
        fieldRef:
          apiVersion: v1
          fieldPath: metadata.name
    image: nginx
    imagePullPolicy: Always
    livenessProbe:
      failureThreshold: 3
      httpGet:
        path: /
        port: 80
        scheme: HTTP
      periodSeconds: 10
      successThreshold: 1
      timeoutSeconds: 1
    name: c
    ports:
    - containerPort: 80
      protocol: TCP
    resources:
      limits:
        cpu: 500m
      requests:
        cpu: 500m
        memory: 1Gi
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
  dnsPolicy: ClusterFirst
  enableServiceLinks: true
  restartPolicy: Always
  schedulerName: default-scheduler
  securityContext: {}
  terminationGracePeriodSeconds: 30
  volumes:
  - emptyDir: {}
    name: nothing
  - configMap:
      defaultMode: 420
      name: m
    name: c
  - hostPath:
      path: /x
      type: ""
    name: h
status: {}
)");
  const std::string once = EncodeJson(*pod);
  SetPodDefaults(pod.get());
  EXPECT_EQ(EncodeJson(*pod), once);
}

TEST(DefaultingTest, KeepsWhatIsSet) {
  const auto pod = Read<corev1::Pod>(R"(apiVersion: v1
kind: Pod
metadata: {name: web, namespace: other}
spec:
  hostNetwork: true
  enableServiceLinks: false
  terminationGracePeriodSeconds: 0
  restartPolicy: Never
  containers:
  - {name: c, image: nginx, imagePullPolicy: Never, ports: [{containerPort: 80}]}
)");
  EXPECT_EQ(pod->metadata().namespace_(), "other");
  EXPECT_FALSE(pod->spec().enableservicelinks());
  EXPECT_EQ(pod->spec().terminationgraceperiodseconds(), 0);
  EXPECT_EQ(pod->spec().restartpolicy(), "Never");
  EXPECT_EQ(pod->spec().containers(0).imagepullpolicy(), "Never");
  EXPECT_EQ(pod->spec().containers(0).ports(0).hostport(), 80);
}

TEST(DefaultingTest, PodLevelRequestsComeFromContainersThenFromLimits) {
  const auto pod = Read<corev1::Pod>(R"(apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  resources: {limits: {cpu: 2, memory: 1Gi}}
  containers:
  - {name: a, image: i, resources: {requests: {cpu: 100m}}}
  - {name: b, image: i, resources: {requests: {cpu: 200m}}}
)");
  EXPECT_EQ(pod->spec().resources().requests().at("cpu").string(), "300m");
  EXPECT_EQ(pod->spec().resources().requests().at("memory").string(), "1Gi");
}

TEST(DefaultingTest, PullPolicyFollowsTheTag) {
  EXPECT_EQ(DefaultPullPolicy("nginx"), "Always");
  EXPECT_EQ(DefaultPullPolicy("nginx:latest"), "Always");
  EXPECT_EQ(DefaultPullPolicy("nginx:1.25"), "IfNotPresent");
  EXPECT_EQ(DefaultPullPolicy("registry:5000/nginx"), "Always");
  EXPECT_EQ(DefaultPullPolicy("registry:5000/nginx:1"), "IfNotPresent");
  EXPECT_EQ(DefaultPullPolicy("nginx@sha256:00"), "IfNotPresent");
  EXPECT_EQ(DefaultPullPolicy("nginx:latest@sha256:00"), "Always");
}

TEST(DefaultingTest, FillsInServicesAndDeployments) {
  const auto service = Read<corev1::Service>(
      "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  type: NodePort\n"
      "  sessionAffinity: ClientIP\n  ports: [{port: 80}]\n");
  EXPECT_EQ(service->spec().ports(0).targetport().intval(), 80);
  EXPECT_EQ(service->spec().ports(0).protocol(), "TCP");
  EXPECT_EQ(service->spec().sessionaffinityconfig().clientip().timeoutseconds(), 10800);
  EXPECT_EQ(service->spec().externaltrafficpolicy(), "Cluster");
  EXPECT_EQ(service->spec().internaltrafficpolicy(), "Cluster");
  const auto deployment = Read<appsv1::Deployment>(
      "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n"
      "  template: {spec: {containers: [{name: c, image: i:1, resources: {limits: {cpu: 1}}}]}}\n");
  EXPECT_EQ(deployment->spec().replicas(), 1);
  EXPECT_EQ(deployment->spec().strategy().rollingupdate().maxsurge().strval(), "25%");
  const auto& container = deployment->spec().template_().spec().containers(0);
  EXPECT_EQ(container.imagepullpolicy(), "IfNotPresent");
  EXPECT_EQ(container.resources().requests_size(), 0);
}

TEST(PodIdentityTest, HashesAsPublished) {
  EXPECT_EQ(HashFnv128a(""), "6c62272e07bb014262b821756295c58d");
  EXPECT_EQ(HashFnv128a("a"), "d228cb696f1a8caf78912b704e4a8964");
  EXPECT_EQ(HashFnv128a("foobar"), "343e1662793c64bf6f0d3597ba446f18");
}

TEST(PodIdentityTest, MakesAStaticPod) {
  const auto original = Read<corev1::Pod>(
      "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: "
      "i}]}\n");
  corev1::Pod pod = *original;
  MakeStaticPod(&pod, "Node1", "/m/web.yaml");
  EXPECT_EQ(pod.metadata().name(), "web-node1");
  EXPECT_EQ(pod.metadata().namespace_(), "default");
  EXPECT_EQ(pod.spec().nodename(), "Node1");
  EXPECT_EQ(pod.metadata().uid(), PodUidHash(*original, "Node1", "file:/m/web.yaml"));
  EXPECT_EQ(pod.metadata().uid().size(), 32u);
  EXPECT_EQ(pod.metadata().annotations().at(kConfigHashAnnotation), pod.metadata().uid());
  EXPECT_EQ(pod.metadata().annotations().at(kConfigSourceAnnotation), "file");
  EXPECT_EQ(pod.spec().tolerations(0).operator_(), "Exists");
  EXPECT_EQ(pod.spec().tolerations(0).effect(), "NoExecute");
  EXPECT_NE(PodUidHash(*original, "Node1", "file:/m/other.yaml"), pod.metadata().uid());
  EXPECT_NE(PodUidHash(*original, "Node2", "file:/m/web.yaml"), pod.metadata().uid());
}

}  // namespace
}  // namespace holdfast::agent::kube
