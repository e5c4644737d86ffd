// SPDX-License-Identifier: Apache-2.0
#include "agent/operate/pod_directories.h"

#include <fcntl.h>

#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {

void AuditPodDirectories(const std::string& pods, const std::function<std::set<PodUid>()>& known,
                         const std::function<Result<void>(const std::string&)>& remove,
                         std::vector<Leftover>& found) {
  const auto names = sys::ListDirAt(AT_FDCWD, pods);
  if (!names) return;  // no pod ever ran
  const std::set<PodUid> living = known();
  for (const std::string& name : *names) {
    if (living.contains(PodUid(name))) continue;
    std::string reason = "belongs to no pod";
    std::string directory = StrCat(pods, "/", name);
    if (remove) {
      // The same manifest may be back, with the same uid.
      if (known().contains(PodUid(name))) continue;
      const auto removed = remove(directory);
      if (!removed) reason += ": " + removed.error().message();
    }
    found.push_back({"directory", std::move(directory), reason});
  }
}

}  // namespace holdfast::agent
