// SPDX-License-Identifier: Apache-2.0
// The last steps. Messages about the command have the form that users know from other runtimes:
//   exec: "foo": executable file not found in $PATH
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <vector>

#include "holdfast/base/strings.h"
#include "runtime/launch/protocol.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {
namespace {

static_assert(sizeof(model::BpfInstruction) == sizeof(sock_filter));

Error CommandError(const std::string& name, int err, const std::string& why) {
  return {CodeFromErrno(err), err, StrCat("exec: \"", name, "\": ", why)};
}

Error CommandUnreachable(const std::string& name, int err) {
  return CommandError(name, err, Error::FromErrno(err, StrCat("stat ", name)).message());
}

// 0, or the errno that says why `path` cannot be the command.
int CheckExecutable(const std::string& path) {
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) return errno;
  if (S_ISDIR(st.st_mode)) return EISDIR;
  if ((st.st_mode & 0111) == 0) return EACCES;
  return 0;
}

std::string_view PathOf(const std::vector<std::string>& env) {
  std::string_view path;
  for (const std::string& entry : env) {
    if (entry.starts_with("PATH=")) path = std::string_view(entry).substr(5);
  }
  return path;
}

Result<std::string> FindInPath(const std::string& name, std::string_view path) {
  while (!path.empty()) {
    const size_t end = path.find(':');
    std::string_view directory = path.substr(0, end);
    path = end == std::string_view::npos ? std::string_view() : path.substr(end + 1);
    if (directory.empty()) directory = ".";
    std::string candidate = StrCat(directory, "/", name);
    if (CheckExecutable(candidate) == 0) return candidate;
  }
  return CommandError(name, ENOENT, "executable file not found in $PATH");
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Result<void> FindCommand(Child& child, const model::ProcessPlan& plan) {
  const std::string& name = plan.argv[0];
  if (name.find('/') == std::string::npos) {
    ASSIGN_OR_RETURN(child.command, FindInPath(name, PathOf(plan.env)));
    return {};
  }
  const int err = CheckExecutable(name);
  if (err == EISDIR) return CommandError(name, err, "is a directory");
  if (err == EACCES) return CommandError(name, err, "permission denied");
  child.command_missing = err == ENOENT && child.born_late;
  if (err != 0 && !child.command_missing) return CommandUnreachable(name, err);
  child.command = name;
  return {};
}

Result<void> LoadSeccomp(Child& child, const model::ProcessPlan& plan) {
  // The last report: behind the filter nothing but execve is called (and one more report if that
  // fails, should the filter let it through). Who was born late has told it by being born.
  if (!child.born_late) ReportPlain(child.socket(), ReportKind::kExecuting);
  if (child.filter_loaded || plan.seccomp.program.empty()) return {};
  RETURN_IF_ERROR(RaiseForSeccomp(child));
  // The kernel copies the program and never writes to it.
  const model::SeccompPlan& seccomp = plan.seccomp;
  auto* program = const_cast<model::BpfInstruction*>(seccomp.program.data());
  const sock_fprog filter{static_cast<unsigned short>(seccomp.program.size()),
                          reinterpret_cast<sock_filter*>(program)};
  const unsigned flags = (seccomp.log ? SECCOMP_FILTER_FLAG_LOG : 0) |
                         (seccomp.spec_allow ? SECCOMP_FILTER_FLAG_SPEC_ALLOW : 0);
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter) != 0) {
    return Error::FromErrno(errno, "seccomp");
  }
  child.filter_loaded = true;
  return LowerAfterSeccomp(child, plan);
}

Result<void> Execute(Child& child, const model::ProcessPlan& plan) {
  const std::vector<char*> argv = Pointers(plan.argv);
  const std::vector<char*> env = Pointers(plan.env);
  child.SetBegun(true);
  ::execve(child.command.c_str(), argv.data(), env.data());
  child.SetBegun(false);
  if (child.command_missing && errno == ENOENT) return CommandUnreachable(child.command, ENOENT);
  const int error = errno;
  std::string what = StrCat("exec ", child.command);
  if (error == EACCES && !plan.selinux.empty()) {
    // What the policy refuses is in the kernel's log only.
    what += StrCat(" under SELinux label ", plan.selinux);
  }
  return Error::FromErrno(error, what);
}

}  // namespace holdfast::runtime
