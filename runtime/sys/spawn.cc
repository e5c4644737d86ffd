// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/spawn.h"

#include <spawn.h>
#include <unistd.h>

#include <csignal>
#include <string_view>

#include "holdfast/base/strings.h"

namespace holdfast::sys {
namespace {

struct Settings {
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
  Settings() {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
  }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;
  ~Settings() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }
};

void SetAttributes(posix_spawnattr_t& attributes, bool own_group) {
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
  if (own_group) flags |= POSIX_SPAWN_SETPGROUP;  // 0, as it stands: the child's own
  ::posix_spawnattr_setflags(&attributes, static_cast<short>(flags));
}

}  // namespace

Result<pid_t> Spawn(std::vector<std::string> argv, const ChildFds& fds, char* const* environment) {
  std::vector<char*> words;
  for (std::string& word : argv) words.push_back(word.data());
  words.push_back(nullptr);
  Settings settings;
  ::posix_spawn_file_actions_adddup2(&settings.files, fds.in, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&settings.files, fds.out, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&settings.files, fds.err, STDERR_FILENO);
  // Last, since one of the others may have this number.
  if (fds.further >= 0) {
    ::posix_spawn_file_actions_adddup2(&settings.files, fds.further, STDERR_FILENO + 1);
  }
  // Libraries open descriptors that stay open on exec; the port of this process would outlive it in the child.
  const int first_unused = fds.further >= 0 ? STDERR_FILENO + 2 : STDERR_FILENO + 1;
  ::posix_spawn_file_actions_addclosefrom_np(&settings.files, first_unused);
  SetAttributes(settings.attributes, fds.own_group);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, words[0], &settings.files, &settings.attributes,
                                   words.data(), environment);
  if (error != 0) return Error::FromErrno(error, StrCat("start ", argv[0]));
  return pid;
}

std::vector<char*> OwnProgramEnvironment() {
  std::vector<char*> kept;
#ifdef HOLDFAST_PAUSE_POINTS
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::string_view(*entry).starts_with("HOLDFAST_PAUSE_")) kept.push_back(*entry);
  }
#endif
  kept.push_back(nullptr);
  return kept;
}

}  // namespace holdfast::sys
