// SPDX-License-Identifier: Apache-2.0
// Notifications of a netlink socket as hints to look: has anything of interest happened?
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::sys {

// Whether a message matters; `message` begins with its nlmsghdr.
using IsNews = std::function<bool(uint16_t type, std::string_view message)>;

// Takes all that waits at `fd`, a netlink socket that does not block. True when a message is news,
// or when the kernel had to drop some. `what` is for the error: "address notifications". One thread
// at a time.
Result<bool> DrainNotifications(int fd, const IsNews& is_news, std::string_view what);

}  // namespace holdfast::sys
