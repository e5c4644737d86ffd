// SPDX-License-Identifier: Apache-2.0
// What Rtnl's verbs ask the kernel for, as requests that are made apart from being sent. For .cc files of
// this folder.
#pragma once

#include <linux/netlink.h>
#include <netlink/msg.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/sys/rtnl_batch.h"
#include "runtime/sys/netlink/nl_internal.h"

namespace holdfast::sys {

template <>
struct NlDeleter<nl_msg> {
  void operator()(nl_msg* p) const { ::nlmsg_free(p); }
};

struct RtnlRequest {
  NlPtr<nl_msg> message;
  std::string what;  // the verb and its object, for errors
};

struct RtnlBatch::Requests {
  std::vector<RtnlRequest> all;
};

// For a request that is written attribute by attribute and takes less than 512 bytes (libnl's own choice is a page, of which a
// batch would have a dozen); null without memory.
NlPtr<nl_msg> NewMessage(uint16_t type, int flags = 0);

Result<RtnlRequest> RequestLinkUp(int link, const std::string& alias);
// Asks for one link, by `name` unless that is "": its own or an added one. What it has counted is left out.
Result<RtnlRequest> RequestLook(int link, const std::string& name);
Result<RtnlRequest> RequestName(int link, const std::string& name);
Result<RtnlRequest> RequestParameters(int link, const LinkParameters& parameters);
Result<RtnlRequest> RequestAddress(const Address& address);
Result<RtnlRequest> RequestNeighbour(const Neighbour& neighbour);
Result<RtnlRequest> RequestSolicitNobody(int link, bool v6);
// `flags`: NLM_F_EXCL or NLM_F_REPLACE
Result<RtnlRequest> RequestRoute(const Route& route, int flags);
Result<RtnlRequest> RequestVeth(const VethSpec& spec);

// Sends all of them in one call and takes what each came to, in their order. `told` gets what else the
// kernel answers (NLM_F_ECHO). Nothing else may be under way on the socket.
std::vector<Result<void>> Exchange(nl_sock* socket, std::span<const RtnlRequest> requests,
                                   const std::function<void(const nlmsghdr&)>& told = {});

}  // namespace holdfast::sys
