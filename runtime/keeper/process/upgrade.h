// SPDX-License-Identifier: Apache-2.0
// In-place upgrade: the same process goes on with another binary, so parenthood, descriptors and
// flocks are kept. The binary is a sealed memfd, because the launcher's mount namespace holds no
// files. State travels in a memfd; CLOEXEC is cleared on the descriptors of the hand-over and on
// nothing else. Single-threaded.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime::keeper {

struct Handover {
  // Duplicates get numbers from `lowest_fd` on.
  explicit Handover(int lowest = 3) : lowest_fd(lowest) {}

  int lowest_fd;
  std::map<std::string, std::string> values;
  std::map<std::string, std::vector<UniqueFd>> fds;

  // Adds a duplicate, so that a process whose exec fails goes on with its own; -1 is left out. A
  // hand-over that lacks one descriptor would lose it without a word: refuse the upgrade.
  Result<void> Give(const std::string& key, int fd);
  std::string Value(const std::string& key) const;
  long Number(const std::string& key) const;  // 0 when absent
  // The single descriptor under `key`, taken out; invalid when absent.
  UniqueFd TakeFd(const std::string& key);
};

// A sealed copy of an ELF binary (of the calling program: fd of /proc/self/exe).
Result<UniqueFd> CopyBinary(int binary);
Result<UniqueFd> CopyOwnBinary();

// Runs `binary` with `args` (args[0] is the program's name) and "--resume=<fd>" appended. Returns
// only on failure; then nothing has changed.
Error ReExecute(int binary, std::vector<std::string> args, const Handover& handover);

// What ReExecute packed; takes ownership of every descriptor and sets CLOEXEC again.
Result<Handover> TakeHandover(int memfd);

}  // namespace holdfast::runtime::keeper
