// SPDX-License-Identifier: Apache-2.0
// SlotReader: the order that a table in the kernel gives each row's endpoints, so that a restarted
// agent goes on from there and changes nothing that is right.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/sys/nfnl.h"
#include "netproxy/services/nft/book.h"

namespace holdfast::netproxy::nft {

class SlotReader {
 public:
  // A table that is not there has no slots.
  static Result<SlotReader> Read(sys::NfSocket& socket, Family family, const std::string& table);

  ServiceEntry Entry(const model::ServicePortRowPtr& row) const;

 private:
  std::vector<model::Endpoint> SlotsOf(const model::ServicePortRow& row,
                                       model::EndpointList list) const;

  bool v6_ = false;
  // By map of endpoints: frontend . slot -> endpoint.
  std::map<SetId, std::map<Bytes, Bytes>> slots_;
};

}  // namespace holdfast::netproxy::nft
