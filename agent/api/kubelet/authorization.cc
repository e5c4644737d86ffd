// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/authorization.h"

#include <utility>

#include "agent/cluster/api_objects.h"
#include "agent/kube/codec.h"
#include "k8s/authorization/v1/access_review.pb.h"

namespace holdfast::agent::api {
namespace {

namespace authorizationv1 = ::k8s::io::api::authorization::v1;

constexpr size_t kMostDecisions = 8192;
constexpr std::chrono::milliseconds kAccessReviewLimit{10'000};

authorizationv1::SubjectAccessReview ReviewOf(const NodeUser& user, const std::string& verb,
                                              const std::string& subresource,
                                              const std::string& node) {
  authorizationv1::SubjectAccessReview review;
  auto& spec = *review.mutable_spec();
  spec.set_user(user.name);
  spec.set_uid(user.uid);
  for (const std::string& group : user.groups) spec.add_groups(group);
  for (const auto& [key, values] : user.extra) {
    for (const std::string& value : values) (*spec.mutable_extra())[key].add_items(value);
  }
  auto& resource = *spec.mutable_resourceattributes();
  resource.set_verb(verb);
  resource.set_version("v1");
  resource.set_resource("nodes");
  resource.set_subresource(subresource);
  resource.set_name(node);
  return review;
}

ApiCall AccessReviewCall(const authorizationv1::SubjectAccessReview& review) {
  ApiCall call = PostOf("/apis/authorization.k8s.io/v1/subjectaccessreviews", review);
  call.limit = kAccessReviewLimit;
  call.repeatable = true;  // nothing is made
  return call;
}

Result<bool> ReadAccessReview(const Result<ApiReply>& reply) {
  if (!reply) return reply.error();
  if (!reply->ok()) return ErrorOf(*reply, "POST subjectaccessreviews");
  ASSIGN_OR_RETURN(const auto object,
                   DecodeObject(reply->body, {"authorization.k8s.io/v1", "SubjectAccessReview"}));
  const auto& status = dynamic_cast<const authorizationv1::SubjectAccessReview&>(*object).status();
  return status.allowed() && !status.denied();
}

}  // namespace

struct Authorization::Question {
  ExchangePtr exchange;
  NodeUser user;
  std::string verb;
  std::vector<std::string> left;  // the next one last
  Done done;
  uint64_t id;
};

Authorization::Authorization(AuthorizationOptions options)
    : options_(std::move(options)), known_(kMostDecisions), alive_(std::make_shared<bool>(true)) {}

Authorization::~Authorization() { *alive_ = false; }

void Authorization::Authorize(const ExchangePtr& exchange, const NodeUser& user,
                              const std::string& verb, std::vector<std::string> subresources,
                              Done done) {
  if (options_.api == nullptr) return done(true);
  std::vector<std::string> left(subresources.rbegin(), subresources.rend());
  AskNext(std::make_shared<Question>(
      Question{exchange, user, verb, std::move(left), std::move(done), ++next_}));
}

void Authorization::AskNext(const std::shared_ptr<Question>& question) {
  while (!question->left.empty()) {
    const auto review =
        ReviewOf(question->user, question->verb, question->left.back(), options_.node_name);
    question->left.pop_back();
    const std::string key = kube::EncodeJson(review);
    const bool* const known = known_.Find(key, std::chrono::steady_clock::now());
    if (known == nullptr) {
      open_[question->id] = options_.api->Send(
          AccessReviewCall(review), [this, alive = alive_, question, key](Result<ApiReply> reply) {
            question->exchange->Post([this, alive, question, key, reply = std::move(reply)] {
              if (*alive) OnReview(question, key, reply);
            });
          });
      return;
    }
    if (*known) return question->done(true);
  }
  question->done(false);
}

void Authorization::OnReview(const std::shared_ptr<Question>& question, const std::string& key,
                             const Result<ApiReply>& reply) {
  const auto answered = open_.extract(question->id);
  const auto allowed = ReadAccessReview(reply);
  if (!allowed) return question->done(allowed.error());
  const auto lasts = *allowed ? options_.cache_allowed_for : options_.cache_denied_for;
  known_.Put(key, *allowed, std::chrono::steady_clock::now() + lasts);
  *allowed ? question->done(true) : AskNext(question);
}

}  // namespace holdfast::agent::api
