// SPDX-License-Identifier: Apache-2.0
// holdfast-keeper hold|launch|log --run-dir=DIR [--visible=DIR]…
// The holder is what is started by hand or by systemd; it starts the other two.
#include <unistd.h>

#include <exception>
#include <string>
#include <string_view>

#include "holdfast/base/printable.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/core_dump.h"
#include "holdfast/sys/files.h"
#include "runtime/keeper/hold/holder.h"
#include "runtime/keeper/launch/launcher.h"
#include "runtime/keeper/log/logger.h"
#include "runtime/keeper/process/options.h"

namespace holdfast::runtime::keeper {
namespace {

template <class Process>
Result<void> CreateAndRun(const Options& options) {
  ASSIGN_OR_RETURN(const auto process, Process::Create(options));
  return process->Run();
}

constexpr const char* kHelp =
    R"(holdfast-keeper: keeps the containers of this node while its agent comes and goes.

usage: holdfast-keeper hold --run-dir=DIR [--visible=DIR]...

  hold              keep descriptors, run and restart the two below, wait for orphans
  launch            parent of the containers; started by hold
  log               container output to log files; started by hold

  --run-dir=DIR     sockets, records and log spools; a tmpfs is mounted there
  --visible=DIR     a directory that containers are made from (images, pods); repeat for more
)";

bool WantsHelp(int argc, char** argv) {
  return argc == 2 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h");
}

Result<void> Main(int argc, char** argv) {
  RETURN_IF_ERROR(sys::HideMemory());
  if (WantsHelp(argc, argv)) return sys::WriteAll(STDOUT_FILENO, kHelp);
  ASSIGN_OR_RETURN(const Options options, ParseOptions(argc, argv));
  if (options.command == "launch") return CreateAndRun<Launcher>(options);
  if (options.command == "log") return CreateAndRun<Logger>(options);
  return CreateAndRun<Holder>(options);
}

int Report(const std::string& text) {
  const std::string line = StrCat("holdfast-keeper: ", Printable(text), "\n");
  (void)sys::WriteAll(STDERR_FILENO, line);  // nowhere left to complain
  return 1;
}

}  // namespace
}  // namespace holdfast::runtime::keeper

int main(int argc, char** argv) {
  using holdfast::runtime::keeper::Main;
  using holdfast::runtime::keeper::Report;
  try {
    const auto result = Main(argc, argv);
    return result ? 0 : Report(result.error().message());
  } catch (const std::exception& e) {
    return Report(e.what());
  }
}
