// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/user.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <unordered_set>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

constexpr int64_t kMaxId = std::numeric_limits<int32_t>::max();  // Kubernetes' own bound

// Calls visit(fields) for each line of colon-separated fields until it returns true.
template <size_t N, class Visit>
bool FindLine(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    std::array<std::string_view, N> fields{};
    for (size_t i = 0; i < N; ++i) {
      const size_t colon = line.find(':');
      fields[i] = line.substr(0, colon);
      if (colon == std::string_view::npos) break;
      line = line.substr(colon + 1);
    }
    if (!fields[0].empty() && visit(fields)) return true;
  }
  return false;
}

// Digits only: "+0", " 0" and "0x0" are names, whatever a passwd file says about them.
bool IsNumber(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<uint32_t> ParseId(std::string_view text) {
  if (!IsNumber(text)) return std::nullopt;
  int64_t id = 0;
  const auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (err != std::errc() || end != text.data() + text.size() || id > kMaxId) return std::nullopt;
  return static_cast<uint32_t>(id);
}

struct Account {
  std::string name;
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::string home;
};

// name:password:uid:gid:comment:home:shell
template <class Match>
std::optional<Account> FindAccount(std::string_view passwd, Match match) {
  std::optional<Account> found;
  FindLine<7>(passwd, [&](const std::array<std::string_view, 7>& f) {
    const auto uid = ParseId(f[2]);
    const auto gid = ParseId(f[3]);
    if (!uid || !gid || !match(f[0], *uid)) return false;
    found = Account{std::string(f[0]), *uid, *gid, std::string(f[5])};
    return true;
  });
  return found;
}

// name:password:gid:member,member
std::optional<uint32_t> FindGroup(std::string_view group, std::string_view name) {
  std::optional<uint32_t> found;
  FindLine<4>(group, [&](const std::array<std::string_view, 4>& f) {
    const auto gid = ParseId(f[2]);
    if (!gid || f[0] != name) return false;
    found = gid;
    return true;
  });
  return found;
}

bool HasMember(std::string_view members, std::string_view name) {
  while (!members.empty()) {
    const size_t comma = members.find(',');
    if (members.substr(0, comma) == name) return true;
    members = comma == std::string_view::npos ? std::string_view() : members.substr(comma + 1);
  }
  return false;
}

std::vector<uint32_t> GroupsOf(std::string_view group, std::string_view user) {
  std::vector<uint32_t> groups;
  FindLine<4>(group, [&](const std::array<std::string_view, 4>& f) {
    const auto gid = ParseId(f[2]);
    if (gid && HasMember(f[3], user)) groups.push_back(*gid);
    return groups.size() >= 65536;  // NGROUPS_MAX
  });
  return groups;
}

Result<uint32_t> CheckId(int64_t id, std::string_view what) {
  if (id < 0 || id > kMaxId) return InvalidArgument(StrCat(what, " ", id, ": out of range"));
  return static_cast<uint32_t>(id);
}

// Kubernetes' checks, in its words; nullopt when all is well.
std::optional<Error> CheckNonRoot(const model::UserSpec& spec, std::string_view user,
                                  const std::string& who) {
  if (!spec.run_as_non_root) return std::nullopt;
  if (spec.run_as_user) {
    if (*spec.run_as_user != 0) return std::nullopt;
    return InvalidArgument(StrCat("container's runAsUser breaks non-root policy (", who, ")"));
  }
  if (!user.empty() && !IsNumber(user)) {
    return InvalidArgument(StrCat("container has runAsNonRoot and image has non-numeric user (",
                                  user, "), cannot verify user is non-root (", who, ")"));
  }
  if (user.empty() || user.find_first_not_of('0') == std::string_view::npos) {
    return InvalidArgument(
        StrCat("container has runAsNonRoot and image will run as root (", who, ")"));
  }
  return std::nullopt;
}

struct Identity {
  ResolvedUser user;
  std::string name;  // of the account, when the image has one
};

void TakeAccount(Identity& identity, const Account& account) {
  identity.name = account.name;
  identity.user.gid = account.gid;
  // A home that would break the environment's lines is no home.
  const bool clean = std::ranges::none_of(
      account.home, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (!account.home.empty() && clean) identity.user.home = account.home;
}

Result<Identity> ResolveUid(const model::UserSpec& spec, std::string_view user,
                            std::string_view passwd) {
  Identity identity;
  std::optional<Account> account;
  if (spec.run_as_user || user.empty() || IsNumber(user)) {
    if (spec.run_as_user) {
      ASSIGN_OR_RETURN(identity.user.uid, CheckId(*spec.run_as_user, "runAsUser"));
    } else if (!user.empty()) {
      const auto id = ParseId(user);
      if (!id) return InvalidArgument(StrCat("image user \"", user, "\": out of range"));
      identity.user.uid = *id;
    }
    account = FindAccount(passwd,
                          [&](std::string_view, uint32_t uid) { return uid == identity.user.uid; });
  } else {
    account = FindAccount(passwd, [&](std::string_view name, uint32_t) { return name == user; });
    if (!account) {
      return NotFound(StrCat("unable to find user ", user, ": no matching entries in passwd file"));
    }
    identity.user.uid = account->uid;
  }
  if (account) TakeAccount(identity, *account);
  return identity;
}

Result<uint32_t> ResolveGid(const model::UserSpec& spec, std::string_view image_group,
                            std::string_view group, uint32_t of_account) {
  if (spec.run_as_group) return CheckId(*spec.run_as_group, "runAsGroup");
  if (image_group.empty() || spec.run_as_user) return of_account;
  if (IsNumber(image_group)) {
    const auto id = ParseId(image_group);
    if (!id) return InvalidArgument(StrCat("image group \"", image_group, "\": out of range"));
    return *id;
  }
  if (const auto id = FindGroup(group, image_group)) return *id;
  return NotFound(
      StrCat("unable to find group ", image_group, ": no matching entries in group file"));
}

Result<ResolvedUser> Resolve(const model::UserSpec& spec, std::string_view passwd,
                             std::string_view group) {
  const std::string_view image_user = spec.image_user;
  const size_t colon = image_user.find(':');
  const std::string_view user = image_user.substr(0, colon);
  const std::string_view image_group =
      colon == std::string_view::npos ? std::string_view() : image_user.substr(colon + 1);
  ASSIGN_OR_RETURN(Identity identity, ResolveUid(spec, user, passwd));
  ASSIGN_OR_RETURN(identity.user.gid, ResolveGid(spec, image_group, group, identity.user.gid));

  std::unordered_set<uint32_t> seen;
  auto add = [&](uint32_t gid) {
    if (seen.insert(gid).second) identity.user.groups.push_back(gid);
  };
  // The primary group is a member too: without it a file that denies the group could be read.
  add(identity.user.gid);
  if (!spec.strict_groups && !identity.name.empty()) {
    for (uint32_t gid : GroupsOf(group, identity.name)) add(gid);
  }
  for (int64_t wanted : spec.supplemental_groups) {
    ASSIGN_OR_RETURN(const uint32_t gid, CheckId(wanted, "supplementalGroups"));
    add(gid);
  }
  return std::move(identity.user);
}

}  // namespace

std::expected<ResolvedUser, StartFailure> ResolveUser(const model::UserSpec& spec,
                                                      std::string_view passwd,
                                                      std::string_view group,
                                                      const std::string& who) {
  const std::string_view user =
      std::string_view(spec.image_user).substr(0, spec.image_user.find(':'));
  if (auto broken = CheckNonRoot(spec, user, who)) {
    return std::unexpected(StartFailure{StartFailure::Phase::kConfig, std::move(*broken)});
  }
  auto resolved = Resolve(spec, passwd, group);
  if (!resolved) {
    return std::unexpected(StartFailure{StartFailure::Phase::kCreate, std::move(resolved.error())});
  }
  return std::move(*resolved);
}

}  // namespace holdfast::runtime
