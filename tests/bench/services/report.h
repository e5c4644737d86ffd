// SPDX-License-Identifier: Apache-2.0
// The rows of the benchmark: ours, limit and peers of one row may be measured far apart.
#pragma once

#include <string>
#include <vector>

namespace holdfast::bench {

class Report {
 public:
  using Samples = std::vector<double>;

  // Shown at once; a row begins with ours.
  void Ours(const std::string& row, const std::string& unit, const Samples& samples,
            const std::string& aim = "");
  void Limit(const std::string& row, const Samples& samples);
  void Peer(const std::string& row, const std::string& peer, const Samples& samples);
  void WithoutPeer(const std::string& row, const std::string& peer, const std::string& why);

  // One JSON object per line, as tests/bench/run wants it.
  std::string Json() const;

 private:
  struct Row {
    std::string name, unit, ours, limit, peers, aim;
    size_t n = 0;
  };
  Row& Find(const std::string& row);

  std::vector<Row> rows_;
};

}  // namespace holdfast::bench
