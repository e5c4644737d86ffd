// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/link_files.h"

#include <initializer_list>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy {
namespace {

struct Setting {
  const char* name;
  const char* value;
};

// `prefix`: "" or "INTERFACE/".
void Tune(const sys::SysctlDir& dir, const std::string& prefix,
          std::initializer_list<Setting> settings, std::vector<std::string>& warnings) {
  for (const Setting& s : settings) {
    auto done = dir.Write(prefix + s.name, s.value);
    if (!done) warnings.push_back(done.error().message());
  }
}

}  // namespace

void TuneNodeEnd(const NodeSysctls& sysctls, const std::string& interface, bool v6,
                 std::vector<std::string>& warnings) {
  if (!v6) return;
  Tune(sysctls.ipv6, interface + "/", {{"accept_ra", "0"}, {"accept_redirects", "0"}}, warnings);
}

void TunePodEnd(bool v6, const MountFd& procfs, std::vector<std::string>& warnings) {
  const std::string ipv6 = StrCat("net/ipv6/conf/", kPodInterface);
  if (v6) {
    Tune(sys::SysctlDir(ipv6, procfs), "",
         {{"accept_ra", "0"}, {"accept_redirects", "0"}, {"accept_dad", "0"}}, warnings);
  } else if (sys::ReadSysctl(ipv6 + "/disable_ipv6")) {
    Tune(sys::SysctlDir(ipv6, procfs), "", {{"disable_ipv6", "1"}}, warnings);
  }
}

}  // namespace holdfast::netproxy
