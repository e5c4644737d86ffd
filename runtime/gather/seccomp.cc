// SPDX-License-Identifier: Apache-2.0
// Localhost profiles: OCI seccomp JSON -> BPF, by libseccomp. Only in the agent's process.
#include "runtime/gather/seccomp.h"

#include <fcntl.h>
#include <seccomp.h>
#include <simdjson.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/plan/capabilities.h"
#include "runtime/plan/seccomp.h"

namespace holdfast::runtime {
namespace {

namespace json = simdjson::dom;

constexpr size_t kMaxProfileBytes = 4u << 20;
constexpr size_t kMaxProgramBytes = 4096 * sizeof(model::BpfInstruction);  // BPF_MAXINSNS

struct FilterDeleter {
  void operator()(void* filter) const { ::seccomp_release(filter); }
};
using Filter = std::unique_ptr<void, FilterDeleter>;

// nullopt for what is absent. What is there and of another kind is refused: passed over, it would be a condition or a
// refusal less.
template <class T>
Result<std::optional<T>> Field(const json::object& object, const char* key, const char* kind) {
  json::element element;
  if (object[key].get(element) != simdjson::SUCCESS || element.is_null()) return std::nullopt;
  T value;
  if (element.get(value) != simdjson::SUCCESS) return InvalidArgument(StrCat(key, ": not ", kind));
  return value;
}

Result<std::string_view> Text(const json::object& object, const char* key) {
  ASSIGN_OR_RETURN(const auto text, Field<std::string_view>(object, key, "text"));
  return text.value_or("");
}

Result<uint64_t> Number(const json::object& object, const char* key, uint64_t absent) {
  ASSIGN_OR_RETURN(const auto number, Field<uint64_t>(object, key, "a whole number from 0"));
  return number.value_or(absent);
}

template <class T>
Result<std::vector<T>> List(const json::object& object, const char* key, const char* kind) {
  ASSIGN_OR_RETURN(const auto array, Field<json::array>(object, key, kind));
  std::vector<T> values;
  if (!array) return values;
  for (const json::element element : *array) {
    T value;
    if (element.get(value) != simdjson::SUCCESS) {
      return InvalidArgument(StrCat(key, ": not ", kind));
    }
    values.push_back(value);
  }
  return values;
}

Result<std::vector<std::string_view>> Texts(const json::object& object, const char* key) {
  return List<std::string_view>(object, key, "a list of texts");
}

Result<std::vector<json::object>> Objects(const json::object& object, const char* key) {
  return List<json::object>(object, key, "a list of objects");
}

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

  Result<Filter> Compile(const json::object& profile) {
    ASSIGN_OR_RETURN(default_action_, ActionOf(profile, "defaultAction", "defaultErrnoRet"));
    Filter filter(::seccomp_init(default_action_));
    if (!filter) return Internal("seccomp_init: failed");
    RETURN_IF_ERROR(AddArchitectures(filter.get(), profile));
    ASSIGN_OR_RETURN(const auto groups, Objects(profile, "syscalls"));
    for (const json::object& group : groups) RETURN_IF_ERROR(AddGroup(filter.get(), group));
    return filter;
  }

 private:
  static Result<uint32_t> ActionOf(const json::object& object, const char* key,
                                   const char* errno_key) {
    ASSIGN_OR_RETURN(const std::string_view name, Text(object, key));
    ASSIGN_OR_RETURN(const uint64_t errno_value, Number(object, errno_key, EPERM));
    return ParseAction(name, errno_value);
  }

  static Result<void> AddArchitecture(void* filter, std::string_view name) {
    ASSIGN_OR_RETURN(const uint32_t token, ParseArchitecture(name));
    const int rc = ::seccomp_arch_add(filter, token);
    if (rc != 0 && rc != -EEXIST) return SeccompError(rc, StrCat("seccomp_arch_add ", name));
    return {};
  }

  static Result<void> AddArchitectures(void* filter, const json::object& profile) {
    ASSIGN_OR_RETURN(const auto names, Texts(profile, "architectures"));
    for (const std::string_view name : names) RETURN_IF_ERROR(AddArchitecture(filter, name));
    const uint32_t native = ::seccomp_arch_native();
    ASSIGN_OR_RETURN(const auto entries, Objects(profile, "archMap"));
    for (const json::object& entry : entries) {
      ASSIGN_OR_RETURN(const std::string_view architecture, Text(entry, "architecture"));
      ASSIGN_OR_RETURN(const uint32_t token, ParseArchitecture(architecture));
      if (token != native) continue;
      ASSIGN_OR_RETURN(const auto others, Texts(entry, "subArchitectures"));
      for (const std::string_view name : others) RETURN_IF_ERROR(AddArchitecture(filter, name));
    }
    return {};
  }

  // "includes"/"excludes" of profiles in Docker's dialect; only capabilities are known.
  Result<bool> Applies(const json::object& group) const {
    ASSIGN_OR_RETURN(const auto includes, Field<json::object>(group, "includes", "an object"));
    if (includes) {
      ASSIGN_OR_RETURN(const auto names, Texts(*includes, "caps"));
      ASSIGN_OR_RETURN(const int held, CountHeld(names));
      if (held == 0 && !names.empty()) return false;
    }
    ASSIGN_OR_RETURN(const auto excludes, Field<json::object>(group, "excludes", "an object"));
    if (excludes) {
      ASSIGN_OR_RETURN(const auto names, Texts(*excludes, "caps"));
      ASSIGN_OR_RETURN(const int held, CountHeld(names));
      if (held > 0) return false;
    }
    return true;
  }

  Result<int> CountHeld(const std::vector<std::string_view>& names) const {
    int held = 0;
    for (const std::string_view name : names) {
      const int number = CapabilityNumber(name);
      if (number < 0) return InvalidArgument(StrCat("unknown capability \"", name, "\""));
      if ((capabilities_ >> number & 1) != 0) ++held;
    }
    return held;
  }

  static Result<std::vector<scmp_arg_cmp>> ParseArguments(const json::object& group) {
    std::vector<scmp_arg_cmp> comparisons;
    ASSIGN_OR_RETURN(const auto arguments, Objects(group, "args"));
    for (const json::object& argument : arguments) {
      ASSIGN_OR_RETURN(const uint64_t index, Number(argument, "index", 6));
      if (index > 5) return InvalidArgument("args: index out of range");
      ASSIGN_OR_RETURN(const std::string_view op, Text(argument, "op"));
      ASSIGN_OR_RETURN(const scmp_compare compare, ParseOperator(op));
      ASSIGN_OR_RETURN(const uint64_t value, Number(argument, "value", 0));
      ASSIGN_OR_RETURN(const uint64_t second, Number(argument, "valueTwo", 0));
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

  Result<void> AddGroup(void* filter, const json::object& group) const {
    ASSIGN_OR_RETURN(const uint32_t action, ActionOf(group, "action", "errnoRet"));
    ASSIGN_OR_RETURN(const bool applies, Applies(group));
    // libseccomp refuses a rule that says what the default says.
    if (!applies || action == default_action_) return {};
    ASSIGN_OR_RETURN(const auto comparisons, ParseArguments(group));
    ASSIGN_OR_RETURN(const std::string_view single, Text(group, "name"));
    if (!single.empty()) RETURN_IF_ERROR(AddRule(filter, action, single, comparisons));
    ASSIGN_OR_RETURN(const auto names, Texts(group, "names"));
    for (const std::string_view name : names) {
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

Result<std::vector<model::BpfInstruction>> Load(const std::string& path, uint64_t capabilities) {
  ASSIGN_OR_RETURN(const std::string text, ReadProfile(path));
  json::parser parser;
  json::object profile;
  if (const auto error = parser.parse(text).get(profile); error != simdjson::SUCCESS) {
    return InvalidArgument(StrCat("not a JSON object: ", simdjson::error_message(error)));
  }
  ASSIGN_OR_RETURN(const Filter filter, ProfileCompiler(capabilities).Compile(profile));
  return Export(filter.get());
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

Result<std::vector<model::BpfInstruction>> LoadSeccompProfile(const std::string& path,
                                                              uint64_t capabilities) {
  return WithContext(Load(path, capabilities), StrCat("seccomp profile \"", path, "\""));
}

Result<std::vector<model::BpfInstruction>> SeccompProgram(const model::SecuritySpec& security,
                                                          uint64_t capabilities) {
  if (security.privileged) return std::vector<model::BpfInstruction>();
  switch (security.seccomp) {
    case model::SecuritySpec::Seccomp::kUnconfined:
      return std::vector<model::BpfInstruction>();
    case model::SecuritySpec::Seccomp::kLocalhost:
      return LoadSeccompProfile(security.seccomp_profile, capabilities);
    case model::SecuritySpec::Seccomp::kRuntimeDefault:
      break;
  }
  return KnownDefaultProgram(capabilities);
}

}  // namespace holdfast::runtime
