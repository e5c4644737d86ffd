// SPDX-License-Identifier: Apache-2.0
// Attachments: pipes that get a copy of what leaves a container's pipe for the log. The kernel copies
// (tee(2)) before anything is taken, and nothing is taken that somebody did not get: who does not read
// makes the container wait, as a terminal's user does, and needs no memory of ours. Single-threaded.
// Source: tee(2), splice(2).
#pragma once

#include <cstddef>
#include <vector>

#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime::keeper {

class Attachments {
 public:
  static constexpr size_t kMost = 16;

  // What may be taken from the pipe next.
  struct Allowance {
    size_t bytes = 0;    // 0: nothing, for one of these reasons
    bool ended = false;  // the pipe's end
    int wait_for = -1;   // this one has no room (borrowed)
  };

  bool empty() const { return all_.empty(); }
  bool full() const { return all_.size() >= kMost; }
  void Add(UniqueFd to) { all_.push_back({std::move(to), 0}); }
  // Copies what `pipe` holds to everybody that has not got it. Who has gone holds nobody up; whoever
  // watches his pipe drops him.
  Allowance Copy(int pipe);
  // That much was taken from the pipe.
  void Taken(size_t bytes);
  // One of them has gone. (No bytes: nothing may come for him to be noticed by.)
  void Drop(int to);
  // Lets go of all: their readers see the end.
  std::vector<UniqueFd> Release();

 private:
  struct Reader {
    UniqueFd to;
    size_t ahead = 0;  // bytes at the pipe's front that it has already
  };
  std::vector<Reader> all_;
};

}  // namespace holdfast::runtime::keeper
