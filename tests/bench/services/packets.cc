// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/services/packets.h"

#include <utility>

#include "netproxy/table/service_tracker.h"
#include "tests/bench/measure.h"
#include "tests/bench/services/probe.h"

namespace holdfast::bench {
namespace {

model::ServiceName NameOf(size_t i) { return {"bench", StrCat(1000000 + i)}; }

model::Service ServiceOf(size_t i) {
  model::Service service;
  service.name = NameOf(i);
  service.cluster_ips = {ClusterIpOf(i)};
  service.ports = {{"", model::L4Protocol::kTcp, 80, 0}};
  return service;
}

model::EndpointSlice SliceOf(size_t i, const std::vector<IpAddress>& addresses) {
  model::EndpointSlice slice;
  slice.service = NameOf(i);
  slice.name = slice.service.name + "-1";
  slice.ports = {{"", model::L4Protocol::kTcp, Probe::kPort}};
  for (const IpAddress& address : addresses) {
    slice.endpoints.push_back({address, model::kEndpointReady | model::kEndpointServing, 0});
  }
  return slice;
}

}  // namespace

Packets MeasurePackets(const Shape& shape, ServiceBackEnd& back_end, size_t connections,
                       size_t changes) {
  Probe probe;
  netproxy::ServiceTracker tracker;
  const size_t middle = shape.services / 2;
  for (size_t i = 0; i < shape.services; ++i) {
    tracker.SetService(ServiceOf(i));
    std::vector<IpAddress> endpoints;
    for (size_t e = 0; e < shape.endpoints; ++e) endpoints.push_back(EndpointOf(shape, i, e));
    if (i == middle) endpoints = {Probe::Endpoint(0), Probe::Endpoint(1)};
    tracker.SetSlice(SliceOf(i, endpoints));
  }
  OrDie(back_end.Apply(tracker.Commit().change));
  Packets out;
  const IpAddress address = ClusterIpOf(middle);
  out.direct = probe.Connect(Probe::Endpoint(0), Probe::kPort, connections);
  out.connect = probe.Connect(address, 80, connections);
  out.change_to_answer = probe.ChangeToAnswer(address, 80, changes, [&](size_t endpoint) {
    tracker.SetSlice(SliceOf(middle, {Probe::Endpoint(endpoint)}));
    OrDie(back_end.Apply(tracker.Commit().change));
  });
  return out;
}

}  // namespace holdfast::bench
