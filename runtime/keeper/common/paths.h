// SPDX-License-Identifier: Apache-2.0
// Where the keeper keeps things. All of it lies in the run directory, a tmpfs: gone after a reboot,
// like everything it describes. Every name is relative to the run directory's fd.
//
//   <run_dir>/
//     keeper.sock               holder
//     launch.<generation>.sock  launcher; clients use the highest generation that answers
//     retired.<generation>.sock the same, of one that keeps descriptors until its successor has them
//     log.sock                  logger
//     keeper/
//       holder.lock             flock of the one holder
//       logger.lock             flock of the one logger; a successor waits for it
//       starts/<id>             one per launched process, written before it may run
//       begun/<id>              one byte per launch in progress: whether its program has begun
//       exits/<id>              one per ended process, written before it is reaped
//       logs/<id>/spec          where the lines of this container go; its presence is "registered"
//       logs/<id>/journal       commit record, memory-mapped by the logger
//       logs/<id>/1.spool       bytes taken out of stdout's pipe (2.spool: stderr)
//
// Ids are 1..128 characters of [A-Za-z0-9._-], not starting with a dot.
#pragma once

#include <string>
#include <string_view>

namespace holdfast::runtime::keeper {

inline constexpr char kHolderSocket[] = "keeper.sock";
inline constexpr char kLoggerSocket[] = "log.sock";
inline constexpr char kRecordDir[] = "keeper";
inline constexpr char kStartsDir[] = "keeper/starts";
inline constexpr char kBegunDir[] = "keeper/begun";
inline constexpr char kExitsDir[] = "keeper/exits";
inline constexpr char kLogsDir[] = "keeper/logs";
inline constexpr char kHolderLock[] = "keeper/holder.lock";
inline constexpr char kLoggerLock[] = "keeper/logger.lock";

// "launch.7.sock"
std::string LauncherSocketName(unsigned generation);
// 0 for a name that is no launcher's socket; generations begin at 1.
unsigned GenerationOfSocketName(std::string_view name);
// The same of one that is retired: "retired.7.sock".
std::string RetiredSocketName(unsigned generation);
unsigned GenerationOfRetired(std::string_view name);

bool IsValidId(std::string_view id);

}  // namespace holdfast::runtime::keeper
