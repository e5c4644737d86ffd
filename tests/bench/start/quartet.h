// SPDX-License-Identifier: Apache-2.0
// Ours and the limit program, each without and with a sandbox that lies ready, by turns. Single-threaded.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "holdfast/base/strings.h"
#include "tests/bench/start/contenders.h"
#include "tests/bench/start/peer_set.h"

namespace holdfast::bench {

class Quartet {
 public:
  struct Voice {
    const char* name;
    std::unique_ptr<Contender> contender;
    Samples samples{};  // milliseconds
  };

  Quartet(std::unique_ptr<Contender> our_own, std::unique_ptr<Contender> our_pooled,
          std::unique_ptr<Contender> bare, std::unique_ptr<Contender> bare_pooled)
      : ours{"ours", std::move(our_own)},
        pooled{"ours from the pool", std::move(our_pooled)},
        limit{"limit", std::move(bare)},
        pooled_limit{"limit with a pool", std::move(bare_pooled)} {}

  // `calm` before each start; `after` each round, with its number. The first rounds warm caches, for all alike.
  void TakeTurns(int rounds, const std::function<void()>& calm,
                 const std::function<void(int)>& after) {
    constexpr int kWarmUps = 5;
    for (int round = -kWarmUps; round < rounds; ++round) {
      for (Voice* voice : {&ours, &pooled, &limit, &pooled_limit}) {
        calm();
        const double took = voice->contender->StartOnce();
        if (round >= 0) Add(voice->samples, took, voice->name);
      }
      if (round >= 0) after(round);
    }
  }

  // Members of the row of the pooled ones.
  std::string BesidePooled() const {
    return StrCat(",\"peers\":{\"ours without a pool\":", Figures(ours.samples),
                  ",\"limit without a pool\":", Figures(limit.samples),
                  "},\"limit\":", Figures(pooled_limit.samples));
  }

  Voice ours, pooled, limit, pooled_limit;
};

}  // namespace holdfast::bench
