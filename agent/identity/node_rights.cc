// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/node_rights.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "agent/cluster/api_objects.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace authorizationv1 = ::k8s::io::api::authorization::v1;
using Grant = NeededRight::Grant;

constexpr char kReviewPath[] = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const kube::TypeMeta kReviewType{"authorization.k8s.io/v1", "SelfSubjectAccessReview"};
constexpr char kAdvice[] =
    "The credentials must be of the user system:node:NAME in the group system:nodes, and the API "
    "server must run with --authorization-mode=Node,RBAC.";

constexpr char kProxierManifest[] = R"(apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: holdfast:node-proxier
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: system:node-proxier
subjects:
- apiGroup: rbac.authorization.k8s.io
  kind: Group
  name: system:nodes
)";

constexpr char kRenewalManifest[] = R"(apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: holdfast:node-autoapprove-certificate-rotation
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: system:certificates.k8s.io:certificatesigningrequests:selfnodeclient
subjects:
- apiGroup: rbac.authorization.k8s.io
  kind: Group
  name: system:nodes
)";

// `resource`: "nodes/status", "endpointslices.discovery.k8s.io".
NeededRight Right(const std::string& verb, const std::string& resource, const std::string& without,
                  Grant grant) {
  NeededRight right;
  right.without = without;
  right.grant = grant;
  const size_t dot = resource.find('.');
  const std::string plain = resource.substr(0, dot);
  const size_t slash = plain.find('/');
  right.attributes.set_verb(verb);
  right.attributes.set_resource(plain.substr(0, slash));
  if (slash != std::string::npos) right.attributes.set_subresource(plain.substr(slash + 1));
  if (dot != std::string::npos) right.attributes.set_group(resource.substr(dot + 1));
  return right;
}

std::string NameOf(const authorizationv1::ResourceAttributes& attributes) {
  return StrCat(attributes.resource(), attributes.subresource().empty() ? "" : "/",
                attributes.subresource(), attributes.group().empty() ? "" : ".",
                attributes.group());
}

void AddOwnObjects(const std::string& node_name, std::vector<NeededRight>& rights) {
  for (const char* verb : {"list", "watch"}) {
    NeededRight pods = Right(verb, "pods", "pods are not seen", Grant::kNodeAuthorizer);
    pods.attributes.mutable_fieldselector()->set_rawselector("spec.nodeName=" + node_name);
    rights.push_back(std::move(pods));
  }
  NeededRight status =
      Right("patch", "nodes/status", "the Node stays not ready", Grant::kNodeAuthorizer);
  status.attributes.set_name(node_name);
  rights.push_back(std::move(status));
  NeededRight lease = Right("update", "leases.coordination.k8s.io", "the node is taken for dead",
                            Grant::kNodeAuthorizer);
  lease.attributes.set_namespace_("kube-node-lease");
  lease.attributes.set_name(node_name);
  rights.push_back(std::move(lease));
  rights.push_back(Right("create", "events", "no events are seen", Grant::kNodeAuthorizer));
  for (const char* review :
       {"tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io"}) {
    rights.push_back(
        Right("create", review, "nobody is let in who calls the node", Grant::kNodeAuthorizer));
  }
}

// What answers are gathered in; outlives who waits for them.
struct Gathered {
  std::mutex mutex;
  std::condition_variable changed;
  size_t missing = 0;               // answers
  std::vector<NeededRight> denied;  // in the order of the answers
  std::string unknown;
};

// Whether it is allowed.
Result<bool> ReadAnswer(const Result<ApiReply>& reply) {
  if (!reply) return reply.error();
  if (!reply->ok()) return ErrorOf(*reply, StrCat("POST ", kReviewPath));
  ASSIGN_OR_RETURN(const auto object, DecodeObject(reply->body, kReviewType));
  return static_cast<const authorizationv1::SelfSubjectAccessReview&>(*object).status().allowed();
}

void TakeAnswer(Gathered& gathered, const NeededRight& right, const Result<ApiReply>& reply) {
  const auto allowed = ReadAnswer(reply);
  const std::lock_guard lock(gathered.mutex);
  if (!allowed) gathered.unknown = allowed.error().message();
  if (allowed && !*allowed) gathered.denied.push_back(right);
  --gathered.missing;
  gathered.changed.notify_all();
}

ApiCall CallOf(const NeededRight& right, std::chrono::milliseconds limit) {
  authorizationv1::SelfSubjectAccessReview review;
  *review.mutable_spec()->mutable_resourceattributes() = right.attributes;
  ApiCall call = PostOf(kReviewPath, review);
  call.limit = limit;
  call.repeatable = true;
  return call;
}

}  // namespace

std::string ProxierManifest() { return kProxierManifest; }
std::string RenewalManifest() { return kRenewalManifest; }

std::vector<NeededRight> RightsOfNode(const std::string& node_name, bool renews_certificate) {
  std::vector<NeededRight> rights;
  for (const char* verb : {"list", "watch"}) {
    rights.push_back(Right(verb, "services", "Services are not answered for", Grant::kProxier));
    rights.push_back(Right(verb, "endpointslices.discovery.k8s.io", "Services are not answered for",
                           Grant::kProxier));
    rights.push_back(
        Right(verb, "nodes", "there are no routes to pods of other nodes", Grant::kProxier));
  }
  AddOwnObjects(node_name, rights);
  if (!renews_certificate) return rights;
  rights.push_back(Right("create", "certificatesigningrequests.certificates.k8s.io",
                         "certificates are not renewed", Grant::kNodeAuthorizer));
  rights.push_back(Right("create", "certificatesigningrequests/selfnodeclient.certificates.k8s.io",
                         "renewals of the client certificate wait for somebody to approve them",
                         Grant::kRenewal));
  return rights;
}

RightsReview Summarize(const std::vector<NeededRight>& denied, const std::string& unknown) {
  RightsReview review;
  review.unknown = unknown;
  const auto lacks = [&](Grant grant) {
    return std::any_of(denied.begin(), denied.end(),
                       [&](const NeededRight& right) { return right.grant == grant; });
  };
  for (const NeededRight& right : denied) {
    review.missing.push_back({right.attributes.verb(), NameOf(right.attributes), right.without});
  }
  if (lacks(Grant::kProxier)) review.manifest += kProxierManifest;
  if (lacks(Grant::kRenewal)) {
    review.manifest += StrCat(review.manifest.empty() ? "" : "---\n", kRenewalManifest);
  }
  if (lacks(Grant::kNodeAuthorizer)) review.advice = kAdvice;
  return review;
}

RightsReview ReviewRights(Api& api, const std::vector<NeededRight>& rights,
                          std::chrono::milliseconds limit) {
  const auto gathered = std::make_shared<Gathered>();
  gathered->missing = rights.size();
  std::vector<TicketPtr> tickets;
  for (const NeededRight& right : rights) {
    tickets.push_back(api.Send(CallOf(right, limit), [gathered, right](const Result<ApiReply>& r) {
      TakeAnswer(*gathered, right, r);
    }));
  }
  std::unique_lock lock(gathered->mutex);
  const bool all = gathered->changed.wait_for(lock, limit + std::chrono::seconds(1),
                                              [&] { return gathered->missing == 0; });
  if (!all) gathered->unknown = "no answer in time";
  std::vector<NeededRight> denied = gathered->denied;
  const auto by_order = [&](const NeededRight& right) {
    return std::find_if(rights.begin(), rights.end(), [&](const NeededRight& one) {
      return NameOf(one.attributes) == NameOf(right.attributes) &&
             one.attributes.verb() == right.attributes.verb();
    });
  };
  std::sort(denied.begin(), denied.end(),
            [&](const NeededRight& a, const NeededRight& b) { return by_order(a) < by_order(b); });
  return Summarize(denied, gathered->unknown);
}

}  // namespace holdfast::agent
