// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/authentication.h"

#include <openssl/evp.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <utility>

#include "agent/cluster/api_objects.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"
#include "k8s/authentication/v1/token.pb.h"

namespace holdfast::agent::api {
namespace {

namespace authenticationv1 = ::k8s::io::api::authentication::v1;

constexpr size_t kMostTokens = 4096;
constexpr std::chrono::milliseconds kTokenReviewLimit{10'000};
constexpr char kAuthenticated[] = "system:authenticated";

// What an answer is remembered by. Without memory there is none: two tokens must never share one.
std::optional<std::string> Sha256(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    return std::nullopt;
  }
  return std::string(reinterpret_cast<const char*>(digest.data()), size);
}

ApiCall TokenReviewCall(const std::string& token) {
  authenticationv1::TokenReview review;
  review.mutable_spec()->set_token(token);
  ApiCall call = PostOf("/apis/authentication.k8s.io/v1/tokenreviews", review);
  call.limit = kTokenReviewLimit;
  call.repeatable = true;  // nothing is made
  return call;
}

void AddGroup(NodeUser& user, const char* group) {
  if (std::find(user.groups.begin(), user.groups.end(), group) == user.groups.end()) {
    user.groups.emplace_back(group);
  }
}

NodeUser UserOf(const CertificateUser& certificate) {
  NodeUser user{certificate.name, certificate.uid, certificate.groups, {}};
  user.extra["authentication.kubernetes.io/credential-id"] = {certificate.credential_id};
  AddGroup(user, kAuthenticated);
  return user;
}

NodeUser UserOf(const authenticationv1::UserInfo& info) {
  NodeUser user{info.username(), info.uid(), {info.groups().begin(), info.groups().end()}, {}};
  for (const auto& [key, value] : info.extra()) {
    user.extra[key] = {value.items().begin(), value.items().end()};
  }
  AddGroup(user, kAuthenticated);
  return user;
}

// An error: the server has not said it either way.
Result<std::optional<NodeUser>> ReadTokenReview(const Result<ApiReply>& reply) {
  if (!reply) return reply.error();
  if (!reply->ok()) return ErrorOf(*reply, "POST tokenreviews");
  ASSIGN_OR_RETURN(const auto object,
                   DecodeObject(reply->body, {"authentication.k8s.io/v1", "TokenReview"}));
  const auto& status = dynamic_cast<const authenticationv1::TokenReview&>(*object).status();
  if (!status.authenticated()) return std::optional<NodeUser>();
  return std::optional(UserOf(status.user()));
}

}  // namespace

std::string BearerToken(std::string_view header) {
  const auto trim = [&] {
    while (!header.empty() && header.front() == ' ') header.remove_prefix(1);
  };
  trim();
  const size_t end = header.find(' ');
  if (end == std::string_view::npos) return "";
  if (ToLower(header.substr(0, end)) != "bearer") return "";
  header.remove_prefix(end);
  trim();
  return std::string(header.substr(0, header.find(' ')));
}

// A review under way, and who waits for it.
struct Authentication::Question {
  std::vector<Done> waiting;
  TicketPtr ticket;
};

Authentication::Authentication(AuthenticationOptions options)
    : options_(std::move(options)), known_(kMostTokens), alive_(std::make_shared<bool>(true)) {}

Authentication::~Authentication() { *alive_ = false; }

void Authentication::Authenticate(const ExchangePtr& exchange, Done done) {
  const auto& chain = exchange->certificates();
  bool refused = false;
  if (!chain.empty() && options_.clients.has_authorities()) {
    const auto user = options_.clients.Verify(chain);
    if (user) return done(UserOf(*user));
    refused = true;
    options_.log(StrCat(exchange->peer(), ": ", user.error().message()));
  }
  const auto header = exchange->request()[boost::beast::http::field::authorization];
  const std::string token = BearerToken({header.data(), header.size()});
  if (!token.empty()) {
    if (options_.api != nullptr) return Ask(exchange, token, std::move(done));
    refused = true;
  }
  // Who shows something that is not believed is not nobody.
  if (!options_.anonymous || refused) return done(std::nullopt);
  done(NodeUser{"system:anonymous", "", {"system:unauthenticated"}, {}});
}

void Authentication::Ask(const ExchangePtr& exchange, const std::string& token, Done done) {
  const std::optional<std::string> digest = Sha256(token);
  if (!digest) return done(std::nullopt);
  const std::string& key = *digest;
  if (const Answer* known = known_.Find(key, std::chrono::steady_clock::now())) {
    return done(Answer(*known));
  }
  auto& question = open_[key];
  const bool first = question == nullptr;
  if (first) question = std::make_unique<Question>();
  question->waiting.push_back(std::move(done));
  if (!first) return;
  question->ticket = options_.api->Send(
      TokenReviewCall(token), [this, alive = alive_, exchange, key](Result<ApiReply> reply) {
        exchange->Post([this, alive, key, reply = std::move(reply)] {
          if (*alive) OnReview(key, reply);
        });
      });
}

void Authentication::OnReview(const std::string& key, const Result<ApiReply>& reply) {
  auto node = open_.extract(key);
  if (node.empty()) return;
  const auto answer = ReadTokenReview(reply);
  if (answer) {
    known_.Put(key, *answer, std::chrono::steady_clock::now() + options_.cache_for);
  } else {
    options_.log(StrCat("unable to authenticate a request: ", answer.error().message()));
  }
  for (const Done& done : node.mapped()->waiting) done(answer ? *answer : std::nullopt);
}

}  // namespace holdfast::agent::api
