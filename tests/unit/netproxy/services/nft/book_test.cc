// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/nft/book.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "netproxy/services/nft/compile.h"
#include "tests/support/ip.h"

namespace holdfast::netproxy::nft {
namespace {

using test_support::Ip;

model::Endpoint E(int n) { return {Ip("10.88.0." + std::to_string(n)), 80}; }
std::vector<model::Endpoint> Es(const std::vector<int>& numbers) {
  std::vector<model::Endpoint> out;
  for (const int n : numbers) out.push_back(E(n));
  return out;
}

TEST(ReslotTest, MovesAsLittleAsPossible) {
  EXPECT_EQ(Reslot({}, Es({1, 2, 3})), Es({1, 2, 3}));
  EXPECT_EQ(Reslot(Es({3, 1, 2}), Es({1, 2, 3})), Es({3, 1, 2})) << "nothing changed";
  EXPECT_EQ(Reslot(Es({3, 1}), Es({1, 2, 3})), Es({3, 1, 2})) << "a new one goes to the end";
  EXPECT_EQ(Reslot(Es({1, 2, 3, 4}), Es({1, 3, 4})), Es({1, 4, 3})) << "the last fills the gap";
  EXPECT_EQ(Reslot(Es({1, 2, 3}), Es({1, 2})), Es({1, 2}));
  EXPECT_EQ(Reslot(Es({1, 2, 3}), Es({1, 3, 4})), Es({1, 4, 3})) << "a new one fills the gap";
  EXPECT_EQ(Reslot(Es({1, 2, 3}), Es({})), Es({}));
  EXPECT_EQ(Reslot(Es({1, 2, 3, 4}), Es({2})), Es({2}));
}

model::ServicePortRowPtr Row(int number, const std::vector<int>& endpoints, int shape) {
  auto row = std::make_shared<model::ServicePortRow>();
  row->key = {"ns/s" + std::to_string(number), false};
  row->cluster = Es(endpoints);
  for (const int n : endpoints) {
    if (n % 2 == 0) row->local.push_back(E(n));
  }
  model::Frontend cluster_ip;
  cluster_ip.address = Ip("10.96.0." + std::to_string(1 + number / 2));
  cluster_ip.port = static_cast<uint16_t>(80 + number % 2);
  cluster_ip.masquerade = 6;
  row->frontends.push_back(cluster_ip);
  if (shape % 2 == 1) {
    model::Frontend node_port;
    node_port.kind = model::FrontendKind::kNodePort;
    node_port.port = static_cast<uint16_t>(30000 + number);
    node_port.outside = model::EndpointList::kLocal;
    node_port.masquerade = 2;
    row->frontends.push_back(node_port);
  }
  if (shape % 3 == 2) row->affinity = std::chrono::seconds(60 + shape);
  return row;
}

// A set as the kernel would have it: a second one of the same key, or a deletion of nothing, fails.
using Kernel = std::map<std::pair<std::string, Bytes>, Element>;

void ApplyTo(Kernel& kernel, const ServiceBook::Delta& delta) {
  for (const SetElement& e : delta.gone) {
    EXPECT_EQ(kernel.erase({NameOf(e.set), e.element.key}), 1u) << NameOf(e.set);
  }
  for (const SetElement& e : delta.added) {
    EXPECT_TRUE(kernel.insert({{NameOf(e.set), e.element.key}, e.element}).second) << NameOf(e.set);
  }
}

Kernel Everything(const ServiceBook& book) {
  Kernel out;
  for (const auto& [id, elements] : book.AllElements()) {
    for (const Element& element : elements) out[{NameOf(id), element.key}] = element;
  }
  return out;
}

TEST(ServiceBookTest, ChangesAddUpToTheWholeAndUndoTakesThemBack) {
  std::mt19937 random(1);
  ServiceBook book;
  Kernel kernel;
  for (int i = 0; i < 3000; ++i) {
    const int number = static_cast<int>(random() % 12);
    std::set<int> endpoints;
    for (size_t n = random() % 6; n > 0; --n) endpoints.insert(static_cast<int>(1 + random() % 9));
    std::optional<ServiceEntry> next;
    const auto row =
        Row(number, {endpoints.begin(), endpoints.end()}, static_cast<int>(random() % 6));
    if (random() % 5 != 0) next = book.Next(row);
    ServiceBook::Delta delta;
    auto before = book.Swap(row->key.name, std::move(next), delta);
    if (random() % 4 == 0) {
      ServiceBook::Delta ignored;
      book.Swap(row->key.name, std::move(before), ignored);
    } else {
      ApplyTo(kernel, delta);
    }
    ASSERT_EQ(kernel, Everything(book)) << "step " << i;
    if (book.NeedsNewLayout()) book.TakeLayout(true);
  }
  size_t used = 0;
  for (const auto& [id, usage] : book.sets()) {
    used += usage.used;
    EXPECT_LE(usage.used * 4, usage.size * 3u) << NameOf(id);
  }
  EXPECT_EQ(used, kernel.size());
}

TEST(ServiceLayoutTest, ServicesAloneAddNoChains) {
  ServiceBook book;
  ServiceBook::Delta ignored;
  model::ServiceSettings settings;
  const auto chains = [&] {
    return BuildServiceTable({Family::kIp, "t", book.TakeLayout(true)}, settings).chains.size();
  };
  for (int i = 0; i < 3; ++i)
    book.Swap(Row(i, {1, 2}, 0)->key.name, book.Next(Row(i, {1, 2}, 0)), ignored);
  const size_t few = chains();
  for (int i = 3; i < 200; ++i) {
    book.Swap(Row(i, {1, 2}, 0)->key.name, book.Next(Row(i, {1, 2}, 0)), ignored);
  }
  EXPECT_EQ(chains(), few);
}

TEST(ServiceLayoutTest, NamesOfServicesBecomeNamesThatNftReads) {
  SetId id{SetId::Kind::kMembers, SetId::Domain::kAddress, SetId::Side::kBoth, 0, 1};
  id.service = "default/web:http";
  EXPECT_EQ(NameOf(id), "members-local-default/web.http");
  id.service = "default/we b\"";
  EXPECT_EQ(NameOf(id), "members-local-default/we_20b_22");
}

TEST(ServiceLayoutTest, ALayoutChangeWritesOnlyTheChainsThatDiffer) {
  ServiceBook book;
  ServiceBook::Delta ignored;
  const model::ServiceSettings settings;
  book.Swap("ns/s0", book.Next(Row(0, {1, 2}, 0)), ignored);
  const ServiceLayout first{Family::kIp, "t", book.TakeLayout(true)};
  ServiceBook::Delta delta;
  book.Swap("ns/s1", book.Next(Row(1, {1, 2, 3}, 0)), delta);
  ASSERT_TRUE(book.NeedsNewLayout());
  const ServiceLayout second{Family::kIp, "t", book.TakeLayout(true)};
  const Table wanted = BuildServiceTable(second, settings);
  const Existing existing = ExistingOf(BuildServiceTable(first, settings), wanted);
  std::string flushed;
  for (const Operation& o : ChangeLayout({existing, wanted, second, {}, delta}).operations) {
    if (const auto* flush = std::get_if<FlushChain>(&o.change)) flushed += flush->name + " ";
  }
  EXPECT_EQ(flushed, "services ");
}

}  // namespace
}  // namespace holdfast::netproxy::nft
