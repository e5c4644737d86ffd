// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/start/peer_set.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "holdfast/base/strings.h"

namespace holdfast::bench {
namespace {

double Quantile(Samples samples, size_t percent) {
  if (samples.empty()) return -1;
  std::sort(samples.begin(), samples.end());
  return samples[std::min(samples.size() - 1, samples.size() * percent / 100)];
}

std::vector<std::string> Words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

}  // namespace

double Median(const Samples& samples) { return Quantile(samples, 50); }

std::string Figures(const Samples& samples, double less) {
  return StrCat("{\"p50\":", Quantile(samples, 50) - less,
                ",\"p99\":", Quantile(samples, 99) - less, "}");
}

void Add(Samples& samples, double value, const std::string& who) {
  if (value > 0) {
    samples.push_back(value);
  } else {
    std::fprintf(stderr, "bench: %s failed once\n", who.c_str());
  }
}

PeerSet::PeerSet(const std::string& path) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string name, every, command, version, cleanup;
    std::getline(fields, name, '\t');
    std::getline(fields, every, '\t');
    std::getline(fields, command, '\t');
    std::getline(fields, version, '\t');
    std::getline(fields, cleanup, '\t');
    peers_.push_back({name,
                      std::max(1, std::atoi(every.c_str())),
                      MakeCommand(Words(command), Words(cleanup)),
                      Words(version),
                      {},
                      {}});
  }
}

void PeerSet::Round(int round) {
  for (Peer& peer : peers_) {
    if (round % peer.every != 0) continue;
    Add(peer.samples, peer.contender->StartOnce(), peer.name);
    Add(peer.version_samples, RunOnce(peer.version), peer.name + " version");
  }
}

std::string PeerSet::Rows(bool less_version) const {
  std::string rows;
  for (const Peer& peer : peers_) {
    if (peer.samples.empty()) continue;
    const double less = less_version ? Quantile(peer.version_samples, 50) : 0;
    rows += StrCat(rows.empty() ? "" : ",", "\"", peer.name, "\":", Figures(peer.samples, less));
  }
  return rows;
}

}  // namespace holdfast::bench
