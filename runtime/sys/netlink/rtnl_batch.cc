// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/rtnl_batch.h"

#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "holdfast/base/strings.h"
#include "runtime/sys/netlink/rtnl_request_internal.h"

namespace holdfast::sys {
namespace {

// One answer; what a link is told as takes some 2 KiB. Of an error the beginning is enough.
constexpr size_t kAnswerBytes = size_t{16} * 1024;

// Only the last one asks for an answer in any case; a failure is answered always.
std::string Joined(std::span<const RtnlRequest> requests) {
  std::string out;
  for (size_t i = 0; i < requests.size(); ++i) {
    nlmsghdr* header = ::nlmsg_hdr(requests[i].message.get());
    header->nlmsg_flags |= NLM_F_REQUEST;
    if (i + 1 == requests.size()) header->nlmsg_flags |= NLM_F_ACK;
    header->nlmsg_seq = static_cast<uint32_t>(i + 1);
    out.append(reinterpret_cast<const char*>(header), header->nlmsg_len);
    out.resize(NLMSG_ALIGN(out.size()));
  }
  return out;
}

Result<void> Send(int socket, const std::string& bytes) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  ssize_t sent = 0;
  do {
    sent = ::sendto(socket, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&kernel),
                    sizeof kernel);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return Error::FromErrno(errno, "send to routing netlink");
  return {};
}

void FillAll(std::vector<Result<void>>& results, std::span<const RtnlRequest> requests,
             const Error& error) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i]) results[i] = Error(error).Wrap(requests[i].what);
  }
}

// IFLA_AF_SPEC; false without memory.
bool PutParameters(nl_msg* message, const LinkParameters& parameters) {
  const std::pair<int, const std::optional<uint32_t>&> ipv4[] = {
      {IPV4_DEVCONF_RP_FILTER, parameters.rp_filter},
      {IPV4_DEVCONF_ACCEPT_REDIRECTS, parameters.accept_redirects},
      {IPV4_DEVCONF_ROUTE_LOCALNET, parameters.route_localnet}};
  bool good = true;
  const auto nest = [&](int type) {
    nlattr* const begun = ::nla_nest_start(message, type);
    good = good && begun != nullptr;
    return begun;
  };
  nlattr* const families = nest(IFLA_AF_SPEC);
  nlattr* const inet = nest(AF_INET);
  nlattr* const values = nest(IFLA_INET_CONF);
  for (const auto& [id, value] : ipv4) {
    if (value) good = good && ::nla_put_u32(message, id, *value) == 0;
  }
  if (!good) return false;
  ::nla_nest_end(message, values);
  ::nla_nest_end(message, inet);
  if (parameters.ipv6_addr_gen_mode) {
    nlattr* const inet6 = nest(AF_INET6);
    if (!good ||
        ::nla_put_u8(message, IFLA_INET6_ADDR_GEN_MODE, *parameters.ipv6_addr_gen_mode) != 0)
      return false;
    ::nla_nest_end(message, inet6);
  }
  ::nla_nest_end(message, families);
  return true;
}

}  // namespace

std::vector<Result<void>> Exchange(nl_sock* socket, std::span<const RtnlRequest> requests,
                                   const std::function<void(const nlmsghdr&)>& told) {
  std::vector<Result<void>> results(requests.size());
  if (requests.empty()) return results;
  const int fd = ::nl_socket_get_fd(socket);
  if (auto sent = Send(fd, Joined(requests)); !sent) {
    FillAll(results, requests, sent.error());
    return results;
  }
  // The kernel works on requests while they are sent: all answers are here, and none comes later.
  alignas(nlmsghdr) std::array<char, kAnswerBytes> answer;
  for (;;) {
    const ssize_t size = ::recv(fd, answer.data(), answer.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < static_cast<ssize_t>(sizeof(nlmsghdr))) {
      FillAll(results, requests, Internal("no answer of routing netlink"));
      return results;
    }
    const auto* header = reinterpret_cast<const nlmsghdr*>(answer.data());
    if (header->nlmsg_type != NLMSG_ERROR) {
      if (told && header->nlmsg_len <= static_cast<size_t>(size)) told(*header);
      continue;
    }
    const size_t number = header->nlmsg_seq;
    if (number == 0 || number > requests.size()) continue;
    nlmsgerr outcome;
    std::memcpy(&outcome, answer.data() + NLMSG_HDRLEN, sizeof outcome);
    if (outcome.error != 0) {
      results[number - 1] = Error::FromErrno(-outcome.error, requests[number - 1].what);
    }
    if (number == requests.size()) return results;
  }
}

// Written here attribute by attribute, as libnl has no way to set only these without a whole link of its own.
Result<RtnlRequest> RequestParameters(int link, const LinkParameters& parameters) {
  RtnlRequest out{NewMessage(RTM_NEWLINK), StrCat("set parameters of link ", link)};
  nl_msg* const message = out.message.get();
  ifinfomsg which{};
  which.ifi_index = link;
  if (message == nullptr || ::nlmsg_append(message, &which, sizeof which, NLMSG_ALIGNTO) != 0 ||
      (!parameters.alias.empty() &&
       ::nla_put_string(message, IFLA_IFALIAS, parameters.alias.c_str()) != 0) ||
      !PutParameters(message, parameters)) {
    return OutOfMemory(out.what);
  }
  return out;
}

RtnlBatch::RtnlBatch() : requests_(std::make_unique<Requests>()) {}
RtnlBatch::RtnlBatch(RtnlBatch&&) noexcept = default;
RtnlBatch& RtnlBatch::operator=(RtnlBatch&&) noexcept = default;
RtnlBatch::~RtnlBatch() = default;

size_t RtnlBatch::size() const { return requests_->all.size(); }

Result<void> RtnlBatch::SetParameters(int link, const LinkParameters& parameters) {
  ASSIGN_OR_RETURN(RtnlRequest request, RequestParameters(link, parameters));
  requests_->all.push_back(std::move(request));
  return {};
}

Result<void> RtnlBatch::SetLinkUp(int link) {
  ASSIGN_OR_RETURN(RtnlRequest request, RequestLinkUp(link, ""));
  requests_->all.push_back(std::move(request));
  return {};
}

Result<void> RtnlBatch::AddName(int link, const std::string& name) {
  ASSIGN_OR_RETURN(RtnlRequest request, RequestName(link, name));
  requests_->all.push_back(std::move(request));
  return {};
}

Result<void> RtnlBatch::EnsureAddress(const Address& address) {
  ASSIGN_OR_RETURN(RtnlRequest request, RequestAddress(address));
  requests_->all.push_back(std::move(request));
  return {};
}

Result<void> RtnlBatch::EnsureNeighbour(const Neighbour& neighbour) {
  ASSIGN_OR_RETURN(RtnlRequest request, RequestNeighbour(neighbour));
  requests_->all.push_back(std::move(request));
  return {};
}

Result<void> RtnlBatch::SolicitNobody(int link, bool v6) {
  ASSIGN_OR_RETURN(RtnlRequest request, RequestSolicitNobody(link, v6));
  requests_->all.push_back(std::move(request));
  return {};
}

Result<void> RtnlBatch::AddRoute(const Route& route) {
  ASSIGN_OR_RETURN(RtnlRequest request, RequestRoute(route, NLM_F_EXCL));
  requests_->all.push_back(std::move(request));
  return {};
}

Result<void> RtnlBatch::ReplaceRoute(const Route& route) {
  ASSIGN_OR_RETURN(RtnlRequest request, RequestRoute(route, NLM_F_REPLACE));
  requests_->all.push_back(std::move(request));
  return {};
}

std::vector<Result<void>> Rtnl::Do(const RtnlBatch& batch) {
  return Exchange(socket_.get(), batch.requests_->all);
}

}  // namespace holdfast::sys
