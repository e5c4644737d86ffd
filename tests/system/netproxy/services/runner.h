// SPDX-License-Identifier: Apache-2.0
// A world with a back end in it: builds rows, applies changes, runs the table of expectations.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/system/netproxy/services/expectations.h"

namespace holdfast::netproxy {

class ServiceRunner : public ServiceWorld {
 protected:
  using Names = std::set<std::string>;

  model::ServiceChange ChangeOf(bool complete, std::vector<model::ServicePortRowPtr> rows,
                                std::vector<model::ServicePortKey> removed) {
    model::ServiceChange change;
    change.version = ++version_;
    change.complete = complete;
    change.settings = settings_;
    change.rows = std::move(rows);
    change.removed = std::move(removed);
    return change;
  }

  ServiceApplied Apply(bool complete, std::vector<model::ServicePortRowPtr> rows,
                       std::vector<model::ServicePortKey> removed = {}) {
    auto applied = back_end_->Apply(ChangeOf(complete, std::move(rows), std::move(removed)));
    EXPECT_OK(applied);
    return applied ? *applied : ServiceApplied{};
  }

  // The same; and every change leaves exactly what a fresh look wants.
  ServiceApplied ApplyExactly(bool complete, std::vector<model::ServicePortRowPtr> rows,
                              std::vector<model::ServicePortKey> removed) {
    ServiceApplied applied = ServiceRunner::Apply(complete, std::move(rows), std::move(removed));
    auto differences = back_end_->Repair();
    EXPECT_OK(differences);
    EXPECT_EQ(differences.value_or(999), 0u) << back_end_->Dump().value_or("");
    return applied;
  }

  std::shared_ptr<model::ServicePortRow> RowOf(const TestService& service, bool v6) const {
    auto row = std::make_shared<model::ServicePortRow>();
    row->key = {service.name, v6};
    row->protocol = service.protocol;
    row->cluster = Endpoints(service.endpoints, v6);
    for (const std::string& endpoint : service.endpoints) {
      if (endpoint != "c") row->local.push_back(EndpointOf(endpoint, v6));
    }
    std::sort(row->local.begin(), row->local.end());
    AddFrontends(service, v6, *row);
    return row;
  }

  std::shared_ptr<model::ServicePortRow> StickyRow(std::vector<std::string> endpoints,
                                                   std::chrono::seconds timeout, bool v6) const {
    auto row = RowOf({"t/sticky", model::L4Protocol::kTcp, std::move(endpoints), "vip:10", false,
                      false, 30080, "lb:20"},
                     v6);
    row->affinity = timeout;
    return row;
  }

  std::vector<model::ServicePortRowPtr> AllRows(bool v6) const {
    std::vector<model::ServicePortRowPtr> out;
    for (const TestService& service : TestServices()) out.push_back(RowOf(service, v6));
    std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a->key < b->key; });
    return out;
  }

  Names Reached(const std::string& client, const std::string& address, uint16_t port,
                int tries = 30) {
    Names out;
    for (int i = 0; i < tries; ++i) out.insert(Try(client, address, port).endpoint);
    return out;
  }

  // Endpoints change as fast as the kernel takes it, one of them is always there, and a client
  // makes so many connections one after the other: each meets one. How many changes there were.
  template <class RowOfEndpoints>
  int FlipEndpoints(const std::string& address, RowOfEndpoints row_of, int connections) {
    const std::vector<std::vector<std::string>> shapes = {
        {"a", "b", "c"}, {"c", "a"}, {"a", "b"}, {"b"}, {"b", "c", "a"}, {"c"}};
    std::atomic<bool> done{false};
    std::map<std::string, int> bad;
    std::thread client([&] {
      for (int i = 0; i < connections; ++i) {
        const Met met = Try("client", address, 80);
        if (met.source.empty()) ++bad[met.endpoint];
      }
      done = true;
    });
    int changes = 0;
    for (; !done; ++changes) {
      ServiceRunner::Apply(false, {row_of(shapes[static_cast<size_t>(changes) % shapes.size()])});
    }
    client.join();
    EXPECT_TRUE(bad.empty()) << bad.begin()->first << " " << bad.begin()->second << " of "
                             << connections << " with " << changes << " changes";
    return changes;
  }

  // What $HOLDFAST_FLIP_CONNECTIONS says, or `usual`: 100000 take a minute with nftables.
  static int FlipConnections(int usual) {
    const char* asked = ::getenv("HOLDFAST_FLIP_CONNECTIONS");
    return asked == nullptr ? usual : std::atoi(asked);
  }

  // Every row of the table for one family.
  void RunExpectations(const std::string& back_end, bool v6) {
    for (const Expectation& e : Expectations()) {
      std::string meets = e.meets;
      std::string source = e.source;
      for (const Exception& exception : e.exceptions) {
        const std::string one_family = StrCat(back_end, v6 ? "6" : "4");
        if (exception.back_end != back_end && exception.back_end != one_family) continue;
        meets = exception.meets;
        source = exception.source;
      }
      if (meets == "-") continue;
      Check(e, meets, source, v6);
    }
  }

  std::unique_ptr<ServiceBackEnd> back_end_;
  std::shared_ptr<model::ServiceSettings> settings_ = Settings();
  uint64_t version_ = 0;

 private:
  static void AddFrontends(const TestService& service, bool v6, model::ServicePortRow& row) {
    using enum model::FrontendKind;
    const uint16_t port = service.protocol == model::L4Protocol::kTcp ? 80 : 53;
    const auto add = [&](model::FrontendKind kind, const std::string& address, uint16_t at) {
      model::Frontend frontend;
      frontend.kind = kind;
      frontend.address = address.empty() ? Ip(v6 ? "::" : "0.0.0.0") : Ip(AddressOf(address, v6));
      frontend.port = at;
      if (kind == kClusterIp) {
        frontend.masquerade = model::kFromNode | model::kFromOutside;
        if (service.internal_local)
          frontend.inside = frontend.outside = model::EndpointList::kLocal;
      } else if (service.external_local) {
        frontend.outside = model::EndpointList::kLocal;
        frontend.masquerade = model::kFromNode;
      } else {
        frontend.masquerade = model::kFromPod | model::kFromNode | model::kFromOutside;
      }
      if (service.masquerade_all)
        frontend.masquerade = model::kFromPod | model::kFromNode | model::kFromOutside;
      if (kind == kLoadBalancerIp && service.restricted) {
        frontend.restricted = true;
        for (const char* range : service.ranges) {
          const Cidr cidr = *Cidr::Parse(range);
          if (cidr.network.v6 == v6) frontend.source_ranges.push_back(cidr);
        }
        std::sort(frontend.source_ranges.begin(), frontend.source_ranges.end());
      }
      row.frontends.push_back(std::move(frontend));
    };
    add(kClusterIp, service.cluster_ip, port);
    if (service.external != nullptr) add(kExternalIp, service.external, port);
    if (service.load_balancer != nullptr) add(kLoadBalancerIp, service.load_balancer, port);
    if (service.node_port != 0) add(kNodePort, "", service.node_port);
  }

  void Check(const Expectation& e, const std::string& meets, const std::string& source, bool v6) {
    const std::string name = e.address;
    const std::string address =
        name.starts_with("pod:") ? addresses_.at(name.substr(4))[v6 ? 1 : 0] : AddressOf(name, v6);
    const auto protocol =
        std::string_view(e.protocol) == "tcp" ? model::L4Protocol::kTcp : model::L4Protocol::kUdp;
    const std::string from =
        std::string_view(e.client) == "c" ? addresses_.at("c")[v6 ? 1 : 0] : "";
    Names wanted;
    for (size_t at = 0; at <= meets.size();) {
      const size_t comma = std::min(meets.find(',', at), meets.size());
      wanted.insert(meets.substr(at, comma - at));
      at = comma + 1;
    }
    Names met;
    const std::string what = StrCat(e.client, " to ", name, " (", address, ") port ", e.port, " ",
                                    e.protocol, v6 ? " IPv6" : " IPv4");
    for (int i = 0; i < 100 && (i < 2 || met.size() < wanted.size()); ++i) {
      const Met got = Try(e.client, address, e.port, protocol, from);
      met.insert(got.endpoint);
      if (!got.source.empty() && source != "-") {
        EXPECT_EQ(WhoIs(got.source, e.client), source) << what << " at " << got.endpoint;
      }
      if (!wanted.contains(got.endpoint) || got.source.empty()) break;
    }
    EXPECT_EQ(met, wanted) << what;
  }
};

}  // namespace holdfast::netproxy
