// SPDX-License-Identifier: Apache-2.0
// Figures of samples, and the peers that a benchmark measures beside ours. Single-threaded.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/start/contenders.h"

namespace holdfast::bench {

using Samples = std::vector<double>;

double Median(const Samples& samples);  // negative without any
// {"p50":…,"p99":…}, each less `less`.
std::string Figures(const Samples& samples, double less = 0);
// Keeps a good sample; a negative one is a failure, which is said on stderr.
void Add(Samples& samples, double value, const std::string& who);

// Lines of the file: NAME TAB EVERY TAB COMMAND TAB VERSION COMMAND [TAB CLEANUP COMMAND], words
// separated by blanks; EVERY: measured in each EVERY-th round. Without a cleanup command a sample
// is the time to the payload's main, with one it is the command's wall time.
class PeerSet {
 public:
  explicit PeerSet(const std::string& path);
  void Round(int round);
  bool empty() const { return peers_.empty(); }
  // Members of a JSON object: "NAME":{…},…; less_version: less the median time of the version command.
  std::string Rows(bool less_version) const;

 private:
  struct Peer {
    std::string name;
    int every = 1;
    std::unique_ptr<Contender> contender;
    std::vector<std::string> version;
    Samples samples;
    Samples version_samples;
  };
  std::vector<Peer> peers_;
};

}  // namespace holdfast::bench
