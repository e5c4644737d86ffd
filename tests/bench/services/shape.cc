// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/services/shape.h"

#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::bench {

std::string Shape::name() const {
  return StrCat(load_balancer ? "lb4" : "clusterip", ".", services, "x", endpoints);
}

std::vector<Shape> Shapes(std::vector<size_t> sizes, bool all) {
  if (sizes.empty() && !all) {
    return {{1000, 2, false},  {5000, 2, false}, {10000, 2, false}, {30000, 2, false},
            {10000, 5, false}, {1000, 2, true},  {10000, 2, true}};
  }
  if (sizes.empty()) sizes = {1000, 5000, 10000, 30000};
  std::vector<Shape> shapes;
  for (const bool load_balancer : {false, true}) {
    for (const size_t endpoints : {2, 5}) {
      for (const size_t services : sizes) shapes.push_back({services, endpoints, load_balancer});
    }
  }
  return shapes;
}

IpAddress Ip4(uint32_t number) {
  const uint8_t bytes[] = {static_cast<uint8_t>(number >> 24), static_cast<uint8_t>(number >> 16),
                           static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)};
  return IpAddress::FromBytes(false, bytes);
}

IpAddress ClusterIpOf(size_t i) { return Ip4(0x0a600000u + static_cast<uint32_t>(i)); }

IpAddress EndpointOf(const Shape& shape, size_t i, size_t endpoint) {
  return Ip4(0x0a800000u + static_cast<uint32_t>(i * shape.endpoints + endpoint));
}

std::shared_ptr<model::ServicePortRow> Row(const Shape& shape, size_t i) {
  using enum model::FrontendKind;
  auto row = std::make_shared<model::ServicePortRow>();
  row->key = {StrCat("bench/", 1000000 + i), false};
  const auto number = static_cast<uint32_t>(i);
  for (size_t e = 0; e < shape.endpoints; ++e) {
    row->cluster.push_back({EndpointOf(shape, i, e), 8080});
  }
  const auto add = [&](model::FrontendKind kind, IpAddress address, uint16_t port) {
    model::Frontend frontend;
    frontend.kind = kind;
    frontend.address = address;
    frontend.port = port;
    frontend.masquerade = kind == kClusterIp ? 6 : 7;
    row->frontends.push_back(std::move(frontend));
  };
  add(kClusterIp, ClusterIpOf(i), 80);
  if (shape.load_balancer) {
    add(kLoadBalancerIp, Ip4(0xc6330000u + number), 80);
    add(kLoadBalancerIp, Ip4(0xc7000000u + number), 80);
    add(kNodePort, IpAddress{}, static_cast<uint16_t>(1 + i));
  }
  return row;
}

}  // namespace holdfast::bench
