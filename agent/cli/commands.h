// SPDX-License-Identifier: Apache-2.0
// The commands of holdctl. Each Add function declares a command's flags on `app` and, when that
// command is the one called, sets `invocation.action`, which returns the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "agent/cli/session.h"

namespace holdfast::agent::cli {

struct Invocation {
  GlobalOptions global;
  std::vector<std::string> after_dashes;  // what stood behind "--"
  bool has_dashes = false;
  std::function<int()> action;
};

void AddGet(CLI::App& app, Invocation& invocation);
void AddDescribe(CLI::App& app, Invocation& invocation);
void AddLogs(CLI::App& app, Invocation& invocation);
void AddExec(CLI::App& app, Invocation& invocation);
void AddAttach(CLI::App& app, Invocation& invocation);
void AddPortForward(CLI::App& app, Invocation& invocation);
void AddCopy(CLI::App& app, Invocation& invocation);
void AddDebug(CLI::App& app, Invocation& invocation);
void AddApply(CLI::App& app, Invocation& invocation);
void AddDelete(CLI::App& app, Invocation& invocation);
void AddExplain(CLI::App& app, Invocation& invocation);
void AddProxy(CLI::App& app, Invocation& invocation);
void AddImage(CLI::App& app, Invocation& invocation);
void AddHelp(CLI::App& app, Invocation& invocation);
void AddCheck(CLI::App& app, Invocation& invocation);
void AddWait(CLI::App& app, Invocation& invocation);
void AddTop(CLI::App& app, Invocation& invocation);
void AddVersion(CLI::App& app, Invocation& invocation);
void AddCompletion(CLI::App& app, Invocation& invocation);

// The whole program: parses, runs, returns the exit code.
int Main(int argc, const char* const* argv);

// --since, --timeout: "90s", "1h30m". Throws CLI::ValidationError, as CLI11's own checks do.
std::chrono::nanoseconds DurationFlag(const std::string& flag, const std::string& text);

// -f and -R.
void AddFileFlags(CLI::App& command, std::vector<std::string>& files, bool& recursive);

// Connects and runs `work`; reports a failed connection.
int WithSession(const GlobalOptions& options, const std::function<int(Session&)>& work);

}  // namespace holdfast::agent::cli
