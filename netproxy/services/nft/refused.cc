// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/nft/refused.h"

#include <array>
#include <functional>
#include <utility>

#include "netproxy/nft/commit.h"
#include "netproxy/nft/transaction.h"
#include "netproxy/services/nft/book.h"
#include "netproxy/services/nft/compile.h"

namespace holdfast::netproxy::nft {
namespace {

using Rows = std::vector<model::ServicePortRowPtr>;

Result<void> TryOut(sys::NfSocket& socket, const std::string& table_name,
                    const model::ServiceSettings& settings, const Rows& rows) {
  const std::string table = table_name + "-try";
  std::array<ServiceBook, 2> books;
  for (const model::ServicePortRowPtr& row : rows) {
    ServiceBook::Delta ignored;
    ServiceBook& book = books[row->key.v6 ? 1 : 0];
    book.Swap(row->key.name, book.Next(row), ignored);
  }
  Transaction transaction;
  for (const Family family : {Family::kIp, Family::kIp6}) {
    ServiceBook& book = books[family == Family::kIp6 ? 1 : 0];
    if (book.entries().empty()) continue;
    const ServiceLayout layout{family, table, book.TakeLayout(false)};
    transaction.Append(nft::Remove(family, table));
    Table hidden = BuildServiceTable(layout, settings);
    std::erase_if(hidden.chains, [](const Chain& chain) { return chain.hook.has_value(); });
    for (Transaction& part : LoadInParts(hidden, layout, book.AllElements(), SIZE_MAX)) {
      transaction.Append(std::move(part));
    }
    transaction.Append(nft::Remove(family, table));
  }
  return Commit(socket, transaction);
}

}  // namespace

std::vector<RefusedServicePort> FindRefused(sys::NfSocket& socket, const std::string& table_name,
                                            const model::ServiceSettings& settings,
                                            const Rows& rows) {
  std::vector<RefusedServicePort> refused;
  Rows accepted;
  // Takes [begin, end) into `accepted` as far as the kernel takes it beside what is there already.
  const std::function<void(size_t, size_t)> look = [&](size_t begin, size_t end) {
    const size_t before = accepted.size();
    for (size_t i = begin; i < end; ++i) accepted.push_back(rows[i]);
    const auto tried = TryOut(socket, table_name, settings, accepted);
    if (tried) return;
    accepted.resize(before);
    if (end - begin == 1) {
      refused.push_back({rows[begin]->key, tried.error().message()});
      return;
    }
    const size_t middle = begin + (end - begin) / 2;
    look(begin, middle);
    look(middle, end);
  };
  if (!rows.empty()) look(0, rows.size());
  return refused;
}

}  // namespace holdfast::netproxy::nft
