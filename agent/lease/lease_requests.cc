// SPDX-License-Identifier: Apache-2.0
#include "agent/lease/lease_requests.h"

#include <algorithm>

#include "agent/cluster/api_objects.h"
#include "agent/kube/codec.h"
#include "agent/kube/diagnostic.h"
#include "agent/kube/parse.h"
#include "agent/kube/times.h"
#include "holdfast/base/strings.h"
#include "k8s/coordination/v1/lease.pb.h"

namespace holdfast::agent {
namespace {

using netproxy::announce::kLeaseNamespace;
using netproxy::announce::LeaseName;
using netproxy::announce::LeaseRecord;
using netproxy::announce::LeaseRequest;
using Lease = k8s::io::api::coordination::v1::Lease;

constexpr char kApiVersion[] = "coordination.k8s.io/v1";

std::string BodyOf(const IpAddress& address, const LeaseRecord& record) {
  Lease lease;
  auto* meta = lease.mutable_metadata();
  meta->set_name(LeaseName(address));
  meta->set_namespace_(kLeaseNamespace);
  if (!record.version.empty()) meta->set_resourceversion(record.version);
  (*meta->mutable_labels())["app.kubernetes.io/managed-by"] = "holdfast";
  (*meta->mutable_annotations())["holdfast.dev/address"] = address.ToString();
  auto* spec = lease.mutable_spec();
  spec->set_holderidentity(record.holder);
  spec->set_leasedurationseconds(static_cast<int32_t>(record.duration.count()));
  spec->set_leasetransitions(static_cast<int32_t>(record.transitions));
  if (!record.acquired.IsZero()) kube::SetTime(record.acquired, spec->mutable_acquiretime());
  if (!record.renewed.IsZero()) kube::SetTime(record.renewed, spec->mutable_renewtime());
  return kube::EncodeJson(lease);
}

// "reason" and "message" of a Status; the body itself when it is none.
struct Refusal {
  std::string reason;
  std::string message;
};

Refusal ReadRefusal(const ApiAnswer& answer) {
  Refusal out;
  const kube::ParsedText parsed = kube::ParseJson(answer.body);
  if (parsed.errors.empty() && parsed.documents.size() == 1) {
    const kube::Node& status = parsed.documents.front();
    if (const kube::Node* reason = status.Find("reason")) out.reason = reason->text;
    if (const kube::Node* message = status.Find("message")) out.message = message->text;
  }
  if (out.message.empty()) out.message = answer.body;
  return out;
}

Error ErrorOf(const ApiAnswer& answer, const std::string& what) {
  const Refusal refusal = ReadRefusal(answer);
  const std::string text = StrCat(what, ": the API server says ", answer.status, " ",
                                  kube::Quoted(refusal.message, kMostOfAMessage));
  if (answer.status == 404) return NotFound(text);
  if (answer.status == 409) {
    return Error(refusal.reason == "AlreadyExists" ? Code::kAlreadyExists : Code::kConflict, text);
  }
  return Unavailable(text);
}

LeaseRecord ToRecord(const Lease& lease) {
  LeaseRecord record;
  const auto& spec = lease.spec();
  record.holder = spec.holderidentity();
  record.duration = std::chrono::seconds(spec.leasedurationseconds());
  record.acquired = kube::ToWallTime(spec.acquiretime());
  record.renewed = kube::ToWallTime(spec.renewtime());
  record.transitions = spec.leasetransitions();
  record.version = lease.metadata().resourceversion();
  return record;
}

const char* Verb(ApiMethod method) {
  switch (method) {
    case ApiMethod::kPost:
      return "create ";
    case ApiMethod::kPut:
      return "update ";
    case ApiMethod::kGet:
      break;
  }
  return "get ";
}

}  // namespace

ApiRequest ToApiRequest(const IpAddress& address, const LeaseRequest& request) {
  const std::string leases =
      StrCat("/apis/", kApiVersion, "/namespaces/", kLeaseNamespace, "/leases");
  switch (request.kind) {
    case LeaseRequest::Kind::kCreate: {
      LeaseRecord record = request.record;
      record.version.clear();  // the server gives the first one
      return {ApiMethod::kPost, leases, BodyOf(address, record)};
    }
    case LeaseRequest::Kind::kUpdate:
      return {ApiMethod::kPut, StrCat(leases, "/", LeaseName(address)),
              BodyOf(address, request.record)};
    case LeaseRequest::Kind::kGet:
      break;
  }
  return {ApiMethod::kGet, StrCat(leases, "/", LeaseName(address)), ""};
}

Result<LeaseRecord> ReadLease(const ApiAnswer& answer, const ApiRequest& request) {
  const std::string what = StrCat(Verb(request.method), request.path);
  if (answer.status < 200 || answer.status >= 300) return ErrorOf(answer, what);
  const auto object = kube::DecodeJson(answer.body, {kApiVersion, "Lease"});
  if (!object) return Unavailable(StrCat(what, ": ", object.error().message()));
  const auto* lease = dynamic_cast<const Lease*>(object->get());
  if (lease == nullptr || lease->metadata().resourceversion().empty()) {
    return Unavailable(StrCat(what, ": the answer is no Lease of an API server"));
  }
  return ToRecord(*lease);
}

}  // namespace holdfast::agent
