// SPDX-License-Identifier: Apache-2.0
// Localhost profiles: OCI seccomp JSON -> BPF, by libseccomp. Only in the agent's process.
#include "runtime/gather/seccomp.h"

#include <fcntl.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/json/json_read.h"
#include "runtime/plan/capabilities.h"
#include "runtime/plan/seccomp.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kMaxProfileBytes = 4u << 20;
constexpr size_t kMaxProgramBytes = 4096 * sizeof(model::BpfInstruction);  // BPF_MAXINSNS

struct FilterDeleter {
  void operator()(void* filter) const { ::seccomp_release(filter); }
};
using Filter = std::unique_ptr<void, FilterDeleter>;

Result<uint32_t> ParseAction(std::string_view name, uint64_t errno_value) {
  static const std::map<std::string_view, uint32_t> kActions = {
      {"SCMP_ACT_KILL", SCMP_ACT_KILL},
      {"SCMP_ACT_KILL_THREAD", SCMP_ACT_KILL_THREAD},
      {"SCMP_ACT_KILL_PROCESS", SCMP_ACT_KILL_PROCESS},
      {"SCMP_ACT_TRAP", SCMP_ACT_TRAP},
      {"SCMP_ACT_ALLOW", SCMP_ACT_ALLOW},
      {"SCMP_ACT_LOG", SCMP_ACT_LOG}};
  if (name == "SCMP_ACT_ERRNO") return SCMP_ACT_ERRNO(static_cast<uint32_t>(errno_value & 0xffff));
  if (name == "SCMP_ACT_TRACE") return SCMP_ACT_TRACE(static_cast<uint32_t>(errno_value & 0xffff));
  const auto found = kActions.find(name);
  if (found == kActions.end()) return InvalidArgument(StrCat("unknown action \"", name, "\""));
  return found->second;
}

Result<scmp_compare> ParseOperator(std::string_view name) {
  static const std::map<std::string_view, scmp_compare> kOperators = {
      {"SCMP_CMP_NE", SCMP_CMP_NE},
      {"SCMP_CMP_LT", SCMP_CMP_LT},
      {"SCMP_CMP_LE", SCMP_CMP_LE},
      {"SCMP_CMP_EQ", SCMP_CMP_EQ},
      {"SCMP_CMP_GE", SCMP_CMP_GE},
      {"SCMP_CMP_GT", SCMP_CMP_GT},
      {"SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ}};
  const auto found = kOperators.find(name);
  if (found == kOperators.end()) return InvalidArgument(StrCat("unknown operator \"", name, "\""));
  return found->second;
}

// "SCMP_ARCH_X86_64" -> libseccomp's number.
Result<uint32_t> ParseArchitecture(std::string_view name) {
  constexpr std::string_view kPrefix = "SCMP_ARCH_";
  if (name.starts_with(kPrefix)) {
    const std::string architecture = ToLower(name.substr(kPrefix.size()));
    const uint32_t token = ::seccomp_arch_resolve_name(architecture.c_str());
    if (token != 0) return token;
  }
  return InvalidArgument(StrCat("unknown architecture \"", name, "\""));
}

Error SeccompError(int rc, const std::string& what) { return Error::FromErrno(-rc, what); }

class ProfileCompiler {
 public:
  explicit ProfileCompiler(uint64_t capabilities) : capabilities_(capabilities) {}

  Result<Filter> Compile(const json::Object& profile) {
    ASSIGN_OR_RETURN(default_action_, ActionOf(profile, "defaultAction", "defaultErrnoRet"));
    Filter filter(::seccomp_init(default_action_));
    if (!filter) return Internal("seccomp_init: failed");
    RETURN_IF_ERROR(AddArchitectures(filter.get(), profile));
    ASSIGN_OR_RETURN(const auto groups, json::Objects(profile, "syscalls"));
    for (const json::Object& group : groups) RETURN_IF_ERROR(AddGroup(filter.get(), group));
    return filter;
  }

 private:
  static Result<uint32_t> ActionOf(const json::Object& object, const char* key,
                                   const char* errno_key) {
    ASSIGN_OR_RETURN(const std::string name, json::String(object, key));
    ASSIGN_OR_RETURN(const uint64_t errno_value, json::Number(object, errno_key, EPERM));
    return ParseAction(name, errno_value);
  }

  static Result<void> AddArchitecture(void* filter, std::string_view name) {
    ASSIGN_OR_RETURN(const uint32_t token, ParseArchitecture(name));
    const int rc = ::seccomp_arch_add(filter, token);
    if (rc != 0 && rc != -EEXIST) return SeccompError(rc, StrCat("seccomp_arch_add ", name));
    return {};
  }

  static Result<void> AddArchitectures(void* filter, const json::Object& profile) {
    ASSIGN_OR_RETURN(const auto names, json::Strings(profile, "architectures"));
    for (const std::string& name : names) RETURN_IF_ERROR(AddArchitecture(filter, name));
    const uint32_t native = ::seccomp_arch_native();
    ASSIGN_OR_RETURN(const auto entries, json::Objects(profile, "archMap"));
    for (const json::Object& entry : entries) {
      ASSIGN_OR_RETURN(const std::string architecture, json::String(entry, "architecture"));
      ASSIGN_OR_RETURN(const uint32_t token, ParseArchitecture(architecture));
      if (token != native) continue;
      ASSIGN_OR_RETURN(const auto others, json::Strings(entry, "subArchitectures"));
      for (const std::string_view name : others) RETURN_IF_ERROR(AddArchitecture(filter, name));
    }
    return {};
  }

  // "includes"/"excludes" of profiles in Docker's dialect; only capabilities are known.
  Result<bool> Applies(const json::Object& group) const {
    ASSIGN_OR_RETURN(const auto includes, json::Inner(group, "includes"));
    if (includes) {
      ASSIGN_OR_RETURN(const auto names, json::Strings(*includes, "caps"));
      ASSIGN_OR_RETURN(const int held, CountHeld(names));
      if (held == 0 && !names.empty()) return false;
    }
    ASSIGN_OR_RETURN(const auto excludes, json::Inner(group, "excludes"));
    if (excludes) {
      ASSIGN_OR_RETURN(const auto names, json::Strings(*excludes, "caps"));
      ASSIGN_OR_RETURN(const int held, CountHeld(names));
      if (held > 0) return false;
    }
    return true;
  }

  Result<int> CountHeld(const std::vector<std::string>& names) const {
    int held = 0;
    for (const std::string& name : names) {
      const int number = CapabilityNumber(name);
      if (number < 0) return InvalidArgument(StrCat("unknown capability \"", name, "\""));
      if ((capabilities_ >> number & 1) != 0) ++held;
    }
    return held;
  }

  static Result<std::vector<scmp_arg_cmp>> ParseArguments(const json::Object& group) {
    std::vector<scmp_arg_cmp> comparisons;
    ASSIGN_OR_RETURN(const auto arguments, json::Objects(group, "args"));
    for (const json::Object& argument : arguments) {
      ASSIGN_OR_RETURN(const uint64_t index, json::Number(argument, "index", 6));
      if (index > 5) return InvalidArgument("args: index out of range");
      ASSIGN_OR_RETURN(const std::string op, json::String(argument, "op"));
      ASSIGN_OR_RETURN(const scmp_compare compare, ParseOperator(op));
      ASSIGN_OR_RETURN(const uint64_t value, json::Number(argument, "value", 0));
      ASSIGN_OR_RETURN(const uint64_t second, json::Number(argument, "valueTwo", 0));
      comparisons.push_back({static_cast<unsigned>(index), compare, value, second});
    }
    return comparisons;
  }

  // Conditions on one argument more than once mean "or" in OCI profiles, a rule each.
  static bool RepeatsAnArgument(const std::vector<scmp_arg_cmp>& comparisons) {
    unsigned seen = 0;
    for (const scmp_arg_cmp& comparison : comparisons) {
      if ((seen >> comparison.arg & 1) != 0) return true;
      seen |= 1u << comparison.arg;
    }
    return false;
  }

  Result<void> AddRule(void* filter, uint32_t action, std::string_view name,
                       const std::vector<scmp_arg_cmp>& comparisons) const {
    const int number = ::seccomp_syscall_resolve_name(std::string(name).c_str());
    if (number == __NR_SCMP_ERROR) {
      // Left out, an allowed call is refused: safe. A refused one would be allowed: not safe.
      if (action == SCMP_ACT_ALLOW || action == SCMP_ACT_LOG) return {};
      return InvalidArgument(StrCat("unknown system call \"", name, "\""));
    }
    auto add = [&](const scmp_arg_cmp* first, size_t count) -> Result<void> {
      const int rc =
          ::seccomp_rule_add_array(filter, action, number, static_cast<unsigned>(count), first);
      if (rc != 0 && rc != -EEXIST) return SeccompError(rc, StrCat("seccomp_rule_add ", name));
      return {};
    };
    if (!RepeatsAnArgument(comparisons)) return add(comparisons.data(), comparisons.size());
    for (const scmp_arg_cmp& comparison : comparisons) RETURN_IF_ERROR(add(&comparison, 1));
    return {};
  }

  Result<void> AddGroup(void* filter, const json::Object& group) const {
    ASSIGN_OR_RETURN(const uint32_t action, ActionOf(group, "action", "errnoRet"));
    ASSIGN_OR_RETURN(const bool applies, Applies(group));
    // libseccomp refuses a rule that says what the default says.
    if (!applies || action == default_action_) return {};
    ASSIGN_OR_RETURN(const auto comparisons, ParseArguments(group));
    ASSIGN_OR_RETURN(const std::string single, json::String(group, "name"));
    if (!single.empty()) RETURN_IF_ERROR(AddRule(filter, action, single, comparisons));
    ASSIGN_OR_RETURN(const auto names, json::Strings(group, "names"));
    for (const std::string& name : names) {
      RETURN_IF_ERROR(AddRule(filter, action, name, comparisons));
    }
    return {};
  }

  uint64_t capabilities_;
  uint32_t default_action_ = 0;
};

Result<std::vector<model::BpfInstruction>> Export(void* filter) {
  const UniqueFd file(::memfd_create("seccomp", MFD_CLOEXEC));
  if (!file) return Error::FromErrno(errno, "memfd_create");
  if (const int rc = ::seccomp_export_bpf(filter, file.get()); rc != 0) {
    return SeccompError(rc, "seccomp_export_bpf");
  }
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return Error::FromErrno(errno, "lseek");
  ASSIGN_OR_RETURN(const std::string bytes, sys::ReadFd(file.get(), kMaxProgramBytes));
  std::vector<model::BpfInstruction> program(bytes.size() / sizeof(model::BpfInstruction));
  std::memcpy(program.data(), bytes.data(), program.size() * sizeof(model::BpfInstruction));
  if (program.empty()) return Internal("seccomp_export_bpf: empty program");
  return program;
}

Result<std::string> ReadProfile(const std::string& path) {
  if (!path.starts_with('/') || path.find("/../") != std::string::npos || path.ends_with("/..")) {
    return InvalidArgument("not an absolute path without \"..\"");
  }
  ASSIGN_OR_RETURN(const UniqueFd file, sys::OpenAt(AT_FDCWD, path, O_RDONLY | O_NONBLOCK));
  struct stat st{};
  if (::fstat(file.get(), &st) != 0) return Error::FromErrno(errno, "fstat");
  if (!S_ISREG(st.st_mode)) return InvalidArgument("not a regular file");
  return sys::ReadFd(file.get(), kMaxProfileBytes);
}

// How the program is loaded; what is not said stays as it is, as with runc.
Result<void> ReadFlags(const json::Object& profile, model::SeccompPlan& plan) {
  ASSIGN_OR_RETURN(const auto names, json::Strings(profile, "flags"));
  if (!names.empty()) plan.spec_allow = false;
  for (const std::string& name : names) {
    if (name == "SECCOMP_FILTER_FLAG_LOG") {
      plan.log = true;
    } else if (name == "SECCOMP_FILTER_FLAG_SPEC_ALLOW") {
      plan.spec_allow = true;
    } else if (name != "SECCOMP_FILTER_FLAG_TSYNC") {  // there is one thread
      return InvalidArgument(StrCat("unknown flag \"", name, "\""));
    }
  }
  return {};
}

Result<model::SeccompPlan> Load(const std::string& path, uint64_t capabilities) {
  ASSIGN_OR_RETURN(const std::string text, ReadProfile(path));
  simdjson::dom::parser parser;
  ASSIGN_OR_RETURN(const json::Object profile,
                   json::ParseObject(parser, text, "not a JSON object"));
  ASSIGN_OR_RETURN(const Filter filter, ProfileCompiler(capabilities).Compile(profile));
  model::SeccompPlan plan;
  ASSIGN_OR_RETURN(plan.program, Export(filter.get()));
  RETURN_IF_ERROR(ReadFlags(profile, plan));
  return plan;
}

// Nearly all containers have the same few sets; writing the program takes longer than copying it.
std::vector<model::BpfInstruction> KnownDefaultProgram(uint64_t capabilities) {
  static std::mutex mutex;
  static std::map<uint64_t, std::vector<model::BpfInstruction>> written;
  constexpr size_t kMaxWritten = 64;
  const std::lock_guard lock(mutex);
  if (const auto known = written.find(capabilities); known != written.end()) return known->second;
  if (written.size() >= kMaxWritten) written.clear();
  return written[capabilities] = DefaultSeccompProgram(capabilities);
}

}  // namespace

Result<model::SeccompPlan> LoadSeccompProfile(const std::string& path, uint64_t capabilities) {
  return WithContext(Load(path, capabilities), StrCat("seccomp profile \"", path, "\""));
}

Result<model::SeccompPlan> SeccompOf(const model::SecuritySpec& security, uint64_t capabilities) {
  model::SeccompPlan plan;
  if (security.privileged) return plan;
  switch (security.seccomp) {
    case model::SecuritySpec::Seccomp::kUnconfined:
      return plan;
    case model::SecuritySpec::Seccomp::kLocalhost:
      return LoadSeccompProfile(security.seccomp_profile, capabilities);
    case model::SecuritySpec::Seccomp::kRuntimeDefault:
      break;
  }
  plan.program = KnownDefaultProgram(capabilities);
  return plan;
}

}  // namespace holdfast::runtime
