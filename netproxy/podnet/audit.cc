// SPDX-License-Identifier: Apache-2.0
// Audit: records and interfaces of ours that belong to no live pod, and rules that are not as
// wanted.
#include <set>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "netproxy/podnet/pod_net.h"

namespace holdfast::netproxy {

Result<std::vector<Leftover>> PodNet::Audit(const std::vector<PodUid>& live, bool repair) {
  const std::lock_guard lock(mutex_);
  const std::set<PodUid> wanted(live.begin(), live.end());

  std::vector<PodRecord> stale;
  for (const auto& [uid, record] : book_.records()) {
    if (!wanted.contains(uid)) stale.push_back(record);
  }
  std::vector<Leftover> found;
  for (const PodRecord& record : stale) {
    found.push_back({"record", record.uid.value,
                     StrCat("addresses kept for ", record.pod_namespace, "/", record.pod_name,
                            record.releasing ? ", torn down" : ", no live pod")});
    if (repair) RETURN_IF_ERROR(TeardownLocked(record.uid));
  }
  ASSIGN_OR_RETURN(const std::vector<sys::Link> links, links_.OfNobody(live));
  for (const sys::Link& link : links) {
    found.push_back({"interface", link.name, "no live pod has it"});
    if (!repair) continue;
    RETURN_IF_ERROR(rtnl_.DeleteLink(link.index));
    HOLDFAST_PAUSE_POINT("podnet.audit.interface_deleted");
  }
  ASSIGN_OR_RETURN(const bool in_place, rules_.AreInPlace());
  if (ensured_ && !in_place) {
    found.push_back({"rules", instance_.table_name, "differ from what the pods want"});
    if (repair) RETURN_IF_ERROR(rules_.Ensure());
  }
  if (!repair) return found;
  RETURN_IF_ERROR(ReleaseGone(releasing_.size()));
  RETURN_IF_ERROR(MarkOccupied());
  return found;
}

}  // namespace holdfast::netproxy
