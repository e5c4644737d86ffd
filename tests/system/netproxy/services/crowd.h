// SPDX-License-Identifier: Apache-2.0
// Many Services, where their number is what matters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/model/service_table.h"

namespace holdfast::netproxy {

// `count` services with two endpoints each that nobody connects to.
inline std::vector<model::ServicePortRowPtr> Crowd(size_t count, bool v6) {
  std::vector<model::ServicePortRowPtr> out;
  for (size_t i = 0; i < count; ++i) {
    auto row = std::make_shared<model::ServicePortRow>();
    row->key = {StrCat("crowd/", 100000 + i), v6};
    model::Frontend frontend;
    frontend.address = *IpAddress::Parse(v6 ? StrCat("fd00:96::1:", i % 9000)
                                            : StrCat("10.96.", 1 + i / 200, ".", 1 + i % 200));
    frontend.port = static_cast<uint16_t>(v6 ? 1 + i / 9000 : 80);
    frontend.masquerade = model::kFromNode | model::kFromOutside;
    row->frontends = {frontend};
    for (const char* endpoint : {"1", "2"}) {
      const std::string ip = StrCat(v6 ? "fd00:89::1:" : "10.89.1.", endpoint);
      row->cluster.push_back({*IpAddress::Parse(ip), static_cast<uint16_t>(1 + i % 60000)});
    }
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace holdfast::netproxy
