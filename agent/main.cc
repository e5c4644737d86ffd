// SPDX-License-Identifier: Apache-2.0
// holdfastd: the node agent. What its command line asks for, and the exit code.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/agent.h"
#include "agent/base/logging.h"
#include "agent/clean_up.h"
#include "agent/config/agent_config.h"
#include "agent/prepare_downgrade.h"
#include "agent/process_life.h"
#include "agent/version.h"
#include "holdfast/base/printable.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/core_dump.h"

namespace holdfast::agent {
namespace {

// The exit code.
int Run(Agent& agent) {
  if (const auto opened = agent.Open(); !opened) {
    // Threads, descriptors, memory, space.
    const bool passing = opened.error().code() == Code::kResourceExhausted;
    spdlog::error("{}{}", opened.error().message(),
                  passing ? StrCat(", trying again in ", kStartRetry.count(), " s") : "");
    if (!passing) return 1;
    BeginAnew();
  }
  agent.Serve();
  return 0;
}

Result<AgentConfig> ReadConfigAgain(int argc, char** argv) {
  CommandLine line = ReadCommandLine(argc, argv, kVersion);
  if (line.exit) return InvalidArgument(line.output);
  return std::move(line.config);
}

// Before there is a log.
void Complain(const Error& error) {
  std::fprintf(stderr, "holdfastd: %s\n", Printable(error.message()).c_str());
}

// None: the agent is to serve.
using Command = Result<void> (*)(const AgentConfig& config);
Command InsteadOfServing(const CommandLine& line) {
  if (line.cleanup) return CleanUp;
  if (line.cleanup_kube_proxy) return CleanUpKubeProxy;
  if (line.prepare_downgrade) return PrepareDowngrade;
  return nullptr;
}

int Main(int argc, char** argv) {
  const auto core_limit = sys::PreventCoreDumps();
  if (!core_limit) {
    Complain(core_limit.error());
    return 1;
  }
  CommandLine line = ReadCommandLine(argc, argv, kVersion);
  if (line.exit) {
    std::fputs(line.output.c_str(), line.exit_code == 0 ? stdout : stderr);
    return line.exit_code;
  }
  std::string executable(4096, '\0');
  const ssize_t n = ::readlink("/proc/self/exe", executable.data(), executable.size());
  executable.resize(n > 0 ? static_cast<size_t>(n) : 0);
  if (auto complete = CompleteConfig(line.config, executable); !complete) {
    Complain(complete.error());
    return 2;
  }
  if (const auto once = InsteadOfServing(line)) {
    const auto done = once(line.config);
    if (!done) Complain(done.error());
    return done ? 0 : 1;
  }
  SetUpLogging(line.config.log_level);
  ::umask(022);
  SetUpProcess(argv, *core_limit);
  Agent agent(
      std::move(line.config), [argc, argv] { return ReadConfigAgain(argc, argv); }, *core_limit);
  return Run(agent);
}

}  // namespace
}  // namespace holdfast::agent

int main(int argc, char** argv) {
  try {
    return holdfast::agent::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "holdfastd: unexpected: %s\n", error.what());
    return 70;
  }
}
