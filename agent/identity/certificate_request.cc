// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/certificate_request.h"

#include <memory>
#include <utility>

#include "agent/cluster/api_objects.h"
#include "agent/cluster/guarded.h"
#include "agent/cluster/reflector.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

constexpr char kRequestsPath[] = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
constexpr int kAlreadyExists = 409;
const kube::TypeMeta kType{"certificates.k8s.io/v1", "CertificateSigningRequest"};

class Asking : public ObjectHandler, public std::enable_shared_from_this<Asking> {
 public:
  Asking(Api& api, certificatesv1::CertificateSigningRequest request, RequestCallbacks callbacks)
      : api_(api), request_(std::move(request)), callbacks_(std::move(callbacks)) {}

  void Post() {
    wait_.reset();
    ApiCall call = PostOf(kRequestsPath, request_);
    call.lane = ApiLane::kPods;
    call_ = api_.Send(std::move(call), Guarded(weak_from_this(), &Asking::Posted));
  }

  void Stop() {
    stopped_ = true;
    for (TicketPtr* ticket : {&call_, &wait_, &reflector_}) ticket->reset();
  }
  bool stopped() const { return stopped_; }

  // --- of the reflector ---

  void ListBegins() override { seen_ = false; }
  void Put(kube::ObjectPtr object) override {
    seen_ = true;
    Look(static_cast<const certificatesv1::CertificateSigningRequest&>(*object));
  }
  void Gone(kube::ObjectPtr) override { Again(); }
  void ListEnds() override {
    if (!seen_) Again();
  }
  void Trouble(const Error& error) override {
    const auto self = shared_from_this();  // who is told may end this
    callbacks_.trouble(error);
  }

 private:
  // Who was killed after the POST finds its own request.
  void Posted(Result<ApiReply> reply) {
    call_.reset();
    if (reply && (reply->ok() || reply->code == kAlreadyExists)) {
      HOLDFAST_PAUSE_POINT("identity.request_posted");
      failures_ = 0;
      return Follow();
    }
    PostLater();
    callbacks_.trouble(reply ? ErrorOf(*reply, StrCat("POST ", kRequestsPath)) : reply.error());
  }

  void PostLater() {
    wait_ = api_.After(RetryDelay(++failures_), Guarded(weak_from_this(), &Asking::Post));
  }

  void Follow() {
    ReflectorOptions own;
    own.path = kRequestsPath;
    own.selectors = StrCat("fieldSelector=metadata.name%3D", request_.metadata().name());
    own.type = kType;
    own.lane = ApiLane::kPods;
    reflector_ = Reflect(api_, std::move(own), *this);
  }

  // Somebody removed it, maybe the controllers, after a day.
  void Again() {
    if (wait_ || call_) return;
    PostLater();
    reflector_.reset();
  }

  void Look(const certificatesv1::CertificateSigningRequest& found) {
    RequestState state = StateOfRequest(found);
    const auto theirs = PublicKeyOfRequest(found.spec().request());
    const auto ours = PublicKeyOfRequest(request_.spec().request());
    if (!theirs || !ours || *theirs != *ours) {
      state = {RequestVerdict::kFailed, "a request of that name has another key"};
    }
    const auto self = shared_from_this();  // who is told may end this
    callbacks_.state(state, found.status().certificate());
  }

  Api& api_;
  const certificatesv1::CertificateSigningRequest request_;
  const RequestCallbacks callbacks_;
  bool stopped_ = false;
  bool seen_ = false;  // of the list that is under way
  int failures_ = 0;
  TicketPtr call_, wait_, reflector_;
};

struct AskingTicket : Ticket {
  explicit AskingTicket(std::shared_ptr<Asking> of) : asking(std::move(of)) {}
  ~AskingTicket() override { asking->Stop(); }
  const std::shared_ptr<Asking> asking;
};

}  // namespace

TicketPtr AskForCertificate(Api& api, certificatesv1::CertificateSigningRequest request,
                            RequestCallbacks callbacks) {
  auto asking = std::make_shared<Asking>(api, std::move(request), std::move(callbacks));
  asking->Post();
  return std::make_unique<AskingTicket>(std::move(asking));
}

}  // namespace holdfast::agent
