// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/nft/adopt.h"

#include "netproxy/nft/observe.h"

namespace holdfast::netproxy::nft {
namespace {

using model::EndpointList;

}  // namespace

Result<SlotReader> SlotReader::Read(sys::NfSocket& socket, Family family,
                                    const std::string& table) {
  SlotReader out;
  out.v6_ = family == Family::kIp6;
  ASSIGN_OR_RETURN(const bool there, KernelHasTable(socket, family, table));
  if (!there) return out;
  for (const auto& [id, size] : FixedSets()) {
    if (id.kind != SetId::Kind::kEndpoints) continue;
    auto elements = ObserveElements(socket, family, table, NameOf(id));
    if (!elements && elements.error().code() == Code::kNotFound) continue;
    if (!elements) return std::move(elements.error());
    for (const Element& element : *elements) out.slots_[id][element.key] = element.value;
  }
  return out;
}

ServiceEntry SlotReader::Entry(const model::ServicePortRowPtr& row) const {
  return {row, Reslot(SlotsOf(*row, EndpointList::kCluster), row->cluster),
          Reslot(SlotsOf(*row, EndpointList::kLocal), row->local)};
}

// As the first frontend has them that chooses from `list`.
std::vector<model::Endpoint> SlotReader::SlotsOf(const model::ServicePortRow& row,
                                                 EndpointList list) const {
  std::vector<model::Endpoint> out;
  for (const model::Frontend& frontend : row.frontends) {
    if (frontend.inside != list && frontend.outside != list) continue;
    const bool second = frontend.inside != list;
    const auto map = slots_.find({SetId::Kind::kEndpoints, DomainOf(frontend),
                                  second ? SetId::Side::kOutside : SetId::Side::kBoth, 0, 0});
    if (map == slots_.end()) continue;
    const Bytes frontend_key = FrontendBytes(row.protocol, frontend);
    const size_t address = v6_ ? 16 : 4;
    for (uint32_t slot = 0;; ++slot) {
      Bytes key = frontend_key;
      key += PackNumber(slot);
      const auto found = map->second.find(key);
      if (found == map->second.end() || found->second.view().size() < address + 2) break;
      const std::string_view value = found->second.view();
      const auto byte = [&](size_t i) {
        return static_cast<uint16_t>(static_cast<unsigned char>(value[address + i]));
      };
      out.push_back(
          {IpAddress::FromBytes(v6_, value.data()), static_cast<uint16_t>(byte(0) << 8 | byte(1))});
    }
    if (!out.empty()) break;
  }
  return out;
}

}  // namespace holdfast::netproxy::nft
