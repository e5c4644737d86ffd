// SPDX-License-Identifier: Apache-2.0
// What a probed program writes down of each probe: when it began, as the program saw it. A record is
// 16 bytes in the byte order of the machine; probes.py reads them.
#pragma once

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

namespace holdfast::bench {

struct Beat {
  int64_t monotonic_ns = 0;
  int64_t kind = 0;  // 'e', 'h', 't', 'g'
};

inline int64_t MonotonicNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// One write of an O_APPEND descriptor: records of several processes do not mix.
inline bool WriteBeat(int file, char kind) {
  const Beat beat{MonotonicNs(), kind};
  return ::write(file, &beat, sizeof beat) == sizeof beat;
}

inline int OpenBeats(const char* path) {
  return ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

}  // namespace holdfast::bench
