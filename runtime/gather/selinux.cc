// SPDX-License-Identifier: Apache-2.0
#include "runtime/gather/selinux.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/selinux.h"
#include "holdfast/sys/shared_tree.h"
#include "holdfast/sys/tree.h"
#include "runtime/plan/selinux.h"

namespace holdfast::runtime {
namespace {

// A distribution's own for containers, before the policy's.
constexpr char kContainerContexts[] = "/usr/share/containers/selinux/contexts";
constexpr char kConfig[] = "/etc/selinux/config";
constexpr size_t kMaxBytes = 64 << 10;

Result<void> LabelOne(int object, const std::string& label, const std::string& what) {
  ASSIGN_OR_RETURN(const std::string current, sys::FileLabelOf(object));
  if (current == label) return {};
  return WithContext(sys::SetFileLabel(object, label), what);
}

Result<void> LabelTree(int top, const std::string& label) {
  struct stat st{};
  if (::fstat(top, &st) != 0) return Error::FromErrno(errno, "stat volume");
  if (S_ISDIR(st.st_mode)) {
    RETURN_IF_ERROR(
        sys::VisitTree(top, [&](int object, const struct stat&, const std::string& name) {
          return LabelOne(object, label, name);
        }));
    HOLDFAST_PAUSE_POINT("gather.volume_labelled_below");
  }
  // The top last: its label says that everything below has it.
  return LabelOne(top, label, "volume");
}

std::string ContextsFile() {
  if (auto text = sys::ReadFileAt(AT_FDCWD, kContainerContexts, kMaxBytes); text) return *text;
  const auto config = sys::ReadFileAt(AT_FDCWD, kConfig, kMaxBytes);
  const std::string type = ParseSelinuxType(config.value_or(std::string()));
  return sys::ReadFileAt(AT_FDCWD, StrCat("/etc/selinux/", type, "/contexts/lxc_contexts"),
                         kMaxBytes)
      .value_or(std::string());
}

}  // namespace

std::optional<model::SelinuxContexts> ReadSelinuxContexts() {
  if (!sys::HasSelinux()) return std::nullopt;
  model::SelinuxContexts contexts = ParseSelinuxContexts(ContextsFile());
  // Debian 12 names labels of a module that its policy lacks: it has none then.
  for (const std::string* label : {&contexts.process, &contexts.file}) {
    if (label->empty() || !sys::CheckSelinuxLabel(*label)) return model::SelinuxContexts();
  }
  return contexts;
}

Result<model::SelinuxLabels> FindSelinuxLabels(const model::SelinuxOptions& asked,
                                               const std::string& level, bool privileged) {
  const auto node = ReadSelinuxContexts();
  if (!node) return model::SelinuxLabels();
  ASSIGN_OR_RETURN(model::SelinuxLabels labels,
                   CompileSelinuxLabels(*node, asked, level, privileged));
  for (const std::string* label : {&labels.process, &labels.mount}) {
    if (!label->empty()) RETURN_IF_ERROR(sys::CheckSelinuxLabel(*label));
  }
  return labels;
}

Result<void> Relabel(int top, const std::string& label) {
  if (label.empty()) return {};
  ASSIGN_OR_RETURN(const std::string current, sys::FileLabelOf(top));
  if (current == label) return {};
  auto labelled = LabelTree(top, label);
  if (!labelled && labelled.error().code() == Code::kUnsupported) return {};
  return labelled;
}

Result<void> RelabelVolume(const model::MountSpec& mount, const std::string& label) {
  if (label.empty()) return {};
  ASSIGN_OR_RETURN(const UniqueFd volume, sys::OpenRooted(mount.source_root, mount.source));
  return WithContext(Relabel(volume.get(), label), mount.source);
}

}  // namespace holdfast::runtime
