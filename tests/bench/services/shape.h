// SPDX-License-Identifier: Apache-2.0
// What the benchmark loads: so many Services with so many endpoints, and rows of them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/model/service_table.h"

namespace holdfast::bench {

struct Shape {
  size_t services = 0;
  size_t endpoints = 0;
  bool load_balancer = false;  // four frontends: cluster IP, node port, two load balancer addresses
  std::string name() const;
};

// Growth with the number of Services, and more endpoints and frontends at one size; with `all`, or
// with sizes given, every combination.
std::vector<Shape> Shapes(std::vector<size_t> sizes, bool all);

IpAddress Ip4(uint32_t number);
IpAddress ClusterIpOf(size_t i);
IpAddress EndpointOf(const Shape& shape, size_t i, size_t endpoint);

std::shared_ptr<model::ServicePortRow> Row(const Shape& shape, size_t i);

}  // namespace holdfast::bench
