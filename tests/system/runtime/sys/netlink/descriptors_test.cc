// SPDX-License-Identifier: Apache-2.0
// What a process without a descriptor left is told: libnl itself has no word for it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/genl.h"
#include "holdfast/sys/rtnl.h"

namespace holdfast::sys {
namespace {

// No descriptor can be opened while it is there.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const UniqueFd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    EXPECT_TRUE(next);
    const rlimit limit{static_cast<rlim_t>(next.get()), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  ~NoDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

TEST(NetlinkTest, WantOfDescriptorsIsToldAsSuch) {
  {
    const NoDescriptors none;
    const auto routing = Rtnl::Open();
    ASSERT_FALSE(routing);
    EXPECT_EQ(routing.error().code(), Code::kResourceExhausted) << routing.error().message();
    const auto generic = GenlSocket::Open("nlctrl", 1);
    ASSERT_FALSE(generic);
    EXPECT_EQ(generic.error().code(), Code::kResourceExhausted) << generic.error().message();
  }
  EXPECT_TRUE(Rtnl::Open());
}

}  // namespace
}  // namespace holdfast::sys
