// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/services/report.h"

#include <cstdio>

#include "tests/bench/measure.h"

namespace holdfast::bench {
namespace {

std::string Show(const std::string& row, const std::string& who, const std::string& unit,
                 const std::vector<double>& samples) {
  const Percentiles p = Of(samples);
  std::printf("%-44s %-24s p50 %12.1f  p99 %12.1f %s, n %zu\n", row.c_str(), who.c_str(), p.p50,
              p.p99, unit.c_str(), samples.size());
  std::fflush(stdout);
  return Figures(p);
}

void AddPeer(std::string& peers, const std::string& name, const std::string& value) {
  peers += StrCat(peers.empty() ? "" : ",", "\"", name, "\":", value);
}

}  // namespace

Report::Row& Report::Find(const std::string& row) {
  for (Row& known : rows_) {
    if (known.name == row) return known;
  }
  Die(StrCat("no row ", row));
}

void Report::Ours(const std::string& row, const std::string& unit, const Samples& samples,
                  const std::string& aim) {
  rows_.push_back({row, unit, Show(row, "ours", unit, samples), "", "", aim, samples.size()});
}

void Report::Limit(const std::string& row, const Samples& samples) {
  Row& known = Find(row);
  known.limit = Show(row, "limit", known.unit, samples);
}

void Report::Peer(const std::string& row, const std::string& peer, const Samples& samples) {
  Row& known = Find(row);
  AddPeer(known.peers, peer, Show(row, peer, known.unit, samples));
}

void Report::WithoutPeer(const std::string& row, const std::string& peer, const std::string& why) {
  AddPeer(Find(row).peers, peer, StrCat("\"", why, "\""));
}

std::string Report::Json() const {
  std::string out;
  for (const Row& row : rows_) {
    out += StrCat("{\"row\":\"", row.name, "\",\"unit\":\"", row.unit, "\",\"n\":", row.n,
                  ",\"ours\":", row.ours);
    if (!row.limit.empty()) out += StrCat(",\"limit\":", row.limit);
    if (!row.peers.empty()) out += StrCat(",\"peers\":{", row.peers, "}");
    out += StrCat(",\"aim\":\"", row.aim, "\"}\n");
  }
  return out;
}

}  // namespace holdfast::bench
