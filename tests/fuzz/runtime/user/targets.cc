// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/runtime/user/targets.h"

#include <algorithm>
#include <set>
#include <string>

#include "runtime/plan/user.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {

void FuzzUserFiles(std::string_view input) {
  auto take = [rest = input]() mutable {
    const std::string_view part = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    return part;
  };
  model::UserSpec spec;
  spec.image_user = take();
  const std::string_view passwd = take();
  const std::string_view group = take();
  for (const bool non_root : {false, true}) {
    spec.run_as_non_root = non_root;
    const auto user = runtime::ResolveUser(spec, passwd, group, "pod");
    if (!user) continue;
    Require(!non_root || user->uid != 0, "who must not be root is not", input);
    Require(!user->groups.empty() && user->groups.front() == user->gid,
            "the primary group is first", input);
    const std::set<uint32_t> once(user->groups.begin(), user->groups.end());
    Require(once.size() == user->groups.size(), "each group is there once", input);
    Require(std::ranges::none_of(user->home, [](unsigned char c) { return c < 0x20 || c == 0x7f; }),
            "a home breaks no line", input);
  }
}

}  // namespace holdfast::fuzz
