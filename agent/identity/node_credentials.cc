// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/node_credentials.h"

#include <fcntl.h>

#include <mutex>
#include <optional>
#include <utility>

#include "agent/cluster/guarded.h"
#include "agent/identity/certificate_keeper.h"
#include "agent/identity/credential_feed.h"
#include "agent/identity/identity_step.h"
#include "agent/identity/kubeconfig_text.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kLookEvery{30};
constexpr mode_t kKubeconfigMode = 0600;
constexpr mode_t kKubeconfigDirectoryMode = 0755;
constexpr char kNodeUser[] = "system:node:";
// Whose credentials a request was made with (CertificateKeeper::Look).
constexpr char kByBootstrap[] = "";
constexpr char kByNode[] = "-renewal";

// Credentials of another node are refused here, before they do anything in its name.
Result<void> CheckName(const KubeConfig& config, const std::string& node_name) {
  if (config.certificate.text.empty()) return {};
  ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(config.certificate.text));
  const std::string& user = facts.subject.common_name;
  if (!user.starts_with(kNodeUser) || user == kNodeUser + node_name) return {};
  return InvalidArgument(StrCat("the client certificate is of \"", user, "\", this node is \"",
                                kNodeUser, node_name, "\""));
}

Result<KubeConfig> LoadForNode(const KubeConfig& config, const std::string& node_name) {
  ASSIGN_OR_RETURN(KubeConfig loaded, LoadFiles(config));
  RETURN_IF_ERROR(CheckName(loaded, node_name));
  return loaded;
}

Result<void> WriteFile(const std::string& path, const std::string& text) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  ASSIGN_OR_RETURN(const DirFd dir, sys::MakeDirs(AT_FDCWD, folder, kKubeconfigDirectoryMode));
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  return WithContext(sys::WriteFileAtomicAt(dir.get(), name, text, kKubeconfigMode), path);
}

}  // namespace

namespace corev1 = ::k8s::io::api::core::v1;

class NodeCredentials::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Api& api, const Clock& clock, NodeCredentialsOptions options, CertificateFiles client,
       CertificateFiles serving)
      : api_(api),
        clock_(clock),
        options_(std::move(options)),
        client_(api, clock, std::move(client), ClientOptions()),
        serving_(api, clock, std::move(serving), ServingOptions()) {}

  // --- before it works ---

  Result<void> Open() {
    client_.Load();
    if (options_.serving) serving_.Load();
    auto config = ReadKubeConfig(options_.kubeconfig);
    const bool must = options_.bootstrap_kubeconfig.empty();
    if (!config) return must ? Result<void>(std::move(config.error())) : Result<void>();
    if (config->exec) return {};
    auto loaded = LoadForNode(*config, options_.node_name);
    if (!loaded && must) return std::move(loaded.error());
    published_ = std::move(loaded);
    return {};
  }
  Result<KubeConfig> Current() const { return published_; }

  void Start(Publish publish) {
    publish_ = std::move(publish);
    api_.Post(Guarded(weak_from_this(), &Impl::Look));
  }
  void Stop() {
    stopped_ = true;
    timer_.reset();
    client_.Rest();
    serving_.Rest();
    node_feed_.reset();
    bootstrap_feed_.reset();
  }
  bool stopped() const { return stopped_; }

  // --- hints; on the Api's thread ---

  void Refused() {
    if (node_feed_) node_feed_->Refused();
  }
  void SetAddresses(std::function<std::vector<std::string>()> host_ips) {
    host_ips_ = std::move(host_ips);
    LookAtServing();
  }
  void DeliverAnew() {
    delivered_ = false;
    DeliverNow();
  }
  template <class Work>
  void Post(Work work) {
    api_.Post([weak = weak_from_this(), work = std::move(work)] {
      const auto self = weak.lock();
      if (self && !self->stopped()) work(*self);
    });
  }

  // --- any thread ---

  void SetDeliver(Deliver deliver) {
    const std::lock_guard lock(deliver_mutex_);
    deliver_ = std::move(deliver);
  }

  std::vector<corev1::NodeCondition> Conditions(WallTime now) const {
    const std::lock_guard lock(mutex_);
    std::vector<corev1::NodeCondition> conditions;
    if (client_shown_) {
      conditions.push_back(ShowCertificate("ClientCertificate", *client_shown_, now));
    }
    if (options_.serving) {
      conditions.push_back(ShowCertificate("ServingCertificate", serving_shown_, now));
    }
    return conditions;
  }

 private:
  enum class Requests : uint8_t { kNobodys, kNodes, kBootstraps };

  CertificateKeeperOptions ClientOptions() {
    CertificateKeeperOptions keeper;
    keeper.name = "client certificate";
    keeper.renew = options_.rotate;
    keeper.plan = [this] { return ClientPlan(options_.node_name); };
    keeper.changed = [this](const CertificatePair&) {
      api_.Post(Guarded(weak_from_this(), &Impl::ClientChanged));
    };
    Tell(keeper);
    return keeper;
  }
  CertificateKeeperOptions ServingOptions() {
    CertificateKeeperOptions keeper;
    keeper.name = "serving certificate";
    keeper.plan = [this]() -> std::optional<CertificatePlan> {
      if (!options_.serving || !host_ips_) return std::nullopt;
      return ServingPlan(options_.node_name, host_ips_());
    };
    keeper.changed = [this](const CertificatePair&) { DeliverAnew(); };
    Tell(keeper);
    return keeper;
  }
  void Tell(CertificateKeeperOptions& keeper) {
    keeper.told = [this] { Show(); };
    keeper.log = options_.log;
    keeper.event = [this](bool warning, const std::string& reason, const std::string& message) {
      AddEvent(warning, reason, message);
    };
  }

  // --- the turn ---

  void Look() {
    timer_ = api_.After(kLookEvery, Guarded(weak_from_this(), &Impl::Look));
    ReadNodeFile();
    if (DecideIdentity(Facts()) == IdentityStep::kWriteKubeconfig) {
      auto written = WriteKubeconfig();
      SetTrouble(bootstrap_trouble_, written ? "" : written.error().message());
      ReadNodeFile();
    }
    switch (DecideIdentity(Facts())) {
      case IdentityStep::kUse:
        Use();
        break;
      case IdentityStep::kBootstrap:
        Bootstrap();
        break;
      case IdentityStep::kWriteKubeconfig:  // it could not be; the next turn tries again
      case IdentityStep::kNothing:
        break;
    }
    LookAtServing();
    TellExpiry();
    Show();
    const bool asks = client_.IsAsking() || serving_.IsAsking();
    if (std::exchange(asks_, asks) && !asks) api_.CloseAll("there is nothing to ask for");
  }

  IdentityFacts Facts() const {
    IdentityFacts facts;
    facts.has_bootstrap = MayBootstrap();
    facts.certificate_usable = client_.IsUsable();
    if (!kubeconfig_) return facts;
    facts.kubeconfig = IsOurs() ? KubeConfigKind::kOurs : KubeConfigKind::kOthers;
    const auto theirs = OthersCertificate();
    facts.others_expired = theirs && clock_.Wall() >= theirs->not_after;
    return facts;
  }

  bool MayBootstrap() const { return !options_.bootstrap_kubeconfig.empty(); }
  bool IsOurs() const { return kubeconfig_ && kubeconfig_->certificate.file == client_.path(); }

  std::optional<CertificateFacts> OthersCertificate() const {
    if (IsOurs() || !node_feed_ || !node_feed_->current()) return std::nullopt;
    const std::string& text = node_feed_->current()->certificate.text;
    if (text.empty()) return std::nullopt;
    const auto facts = ReadCertificate(text);
    return facts ? std::optional(*facts) : std::nullopt;
  }

  // What is there stays until there is something better to read.
  void ReadNodeFile() {
    auto text = sys::ReadFileAt(AT_FDCWD, options_.kubeconfig, kKubeconfigLimit);
    if (text && kubeconfig_ && *text == kubeconfig_text_) return;
    auto config = text ? ParseKubeConfig(*text, options_.kubeconfig) : std::move(text.error());
    if (!config) {
      const bool awaited = config.error().code() == Code::kNotFound && MayBootstrap();
      return SetTrouble(file_trouble_, awaited ? "" : config.error().message());
    }
    SetTrouble(file_trouble_, "");
    kubeconfig_text_ = std::move(*text);
    kubeconfig_ = *config;
    node_feed_ = MakeFeed(std::move(*config), &Impl::TakeNodes);
    node_feed_->Refresh();
  }

  std::unique_ptr<CredentialFeed> MakeFeed(KubeConfig config,
                                           void (Impl::*take)(Result<KubeConfig>)) {
    CredentialFeedOptions feed;
    feed.config = std::move(config);
    feed.run = options_.run;
    feed.log = options_.log;
    feed.told = [this] { Show(); };
    feed.publish = [this, take](Result<KubeConfig> made) { (this->*take)(std::move(made)); };
    return std::make_unique<CredentialFeed>(api_, clock_, std::move(feed));
  }

  void TakeNodes(Result<KubeConfig> made) {
    if (made) {
      if (auto checked = CheckName(*made, options_.node_name); !checked) {
        options_.log(StrCat(options_.kubeconfig, ": ", checked.error().message()));
        made = std::move(checked.error());
      }
    }
    if (!made && published_) return;  // the former ones are better than none
    published_ = std::move(made);
    if (publish_) publish_(published_);
    if (requests_ == Requests::kNodes) options_.set_config(published_);
  }

  void TakeBootstraps(Result<KubeConfig> made) {
    if (requests_ == Requests::kBootstraps) options_.set_config(std::move(made));
  }

  void Use() {
    bootstrap_feed_.reset();
    if (requests_ != Requests::kNodes) {
      requests_ = Requests::kNodes;
      options_.set_config(published_);
    }
    if (IsOurs() && published_) return client_.Look(kByNode);
    client_.Rest();
  }

  // The file may be put there, or get another token, at any time.
  void Bootstrap() {
    requests_ = Requests::kBootstraps;
    auto text = sys::ReadFileAt(AT_FDCWD, options_.bootstrap_kubeconfig, kKubeconfigLimit);
    if (!bootstrap_feed_ || !text || *text != bootstrap_text_) {
      auto config =
          text ? ParseKubeConfig(*text, options_.bootstrap_kubeconfig) : std::move(text.error());
      SetTrouble(bootstrap_trouble_,
                 config ? "" : StrCat("bootstrapKubeconfig: ", config.error().message()));
      if (!config) return;
      bootstrap_text_ = std::move(*text);
      bootstrap_feed_ = MakeFeed(std::move(*config), &Impl::TakeBootstraps);
      bootstrap_feed_->Refresh();
    }
    client_.Look(kByBootstrap);
  }

  // The link leads elsewhere now.
  void ClientChanged() {
    Look();
    if (IsOurs() && node_feed_) node_feed_->Refresh();
  }

  Result<void> WriteKubeconfig() {
    ASSIGN_OR_RETURN(
        const KubeConfig bootstrap,
        WithContext(ReadKubeConfig(options_.bootstrap_kubeconfig), "bootstrapKubeconfig"));
    RETURN_IF_ERROR(WriteFile(options_.kubeconfig, KubeConfigText(bootstrap, client_.path())));
    HOLDFAST_PAUSE_POINT("identity.kubeconfig_written");
    options_.log(StrCat("kubeconfig ", options_.kubeconfig, " is written"));
    return {};
  }

  // --- the certificate of the node's own server ---

  void LookAtServing() {
    if (!options_.serving) return;
    const bool may_ask = requests_ == Requests::kNodes && published_;
    if (may_ask) serving_.Look(kByNode);
    DeliverNow();
  }

  void DeliverNow() {
    const std::lock_guard lock(deliver_mutex_);
    if (delivered_ || !deliver_ || !serving_.current()) return;
    const CertificatePair& pair = *serving_.current();
    auto taken = deliver_(pair.chain_pem, pair.key_pem);
    if (!taken) return options_.log(StrCat("serving certificate: ", taken.error().message()));
    delivered_ = true;
  }

  // --- what people see ---

  std::optional<CertificateStatus> ClientStatus() const {
    CertificateStatus status = client_.status();
    if (kubeconfig_ && !IsOurs() && requests_ != Requests::kBootstraps) {
      status = {};
      if (const auto theirs = OthersCertificate()) {
        status.not_before = theirs->not_before;
        status.not_after = theirs->not_after;
      }
      status.trouble = node_feed_ ? node_feed_->trouble() : "";
      if (!status.not_after && status.trouble.empty()) return std::nullopt;  // a token
    }
    if (bootstrap_feed_ && status.trouble.empty()) status.trouble = bootstrap_feed_->trouble();
    for (const std::string* more : {&bootstrap_trouble_, &file_trouble_}) {
      if (status.trouble.empty()) status.trouble = *more;
    }
    return status;
  }

  void Show() {
    auto client = ClientStatus();
    const std::string waits = client ? ShowCertificate("", *client, clock_.Wall()).message() : "";
    {
      const std::lock_guard lock(mutex_);
      client_shown_ = std::move(client);
      serving_shown_ = serving_.status();
    }
    if (!published_ && publish_ && waits != waits_) {
      waits_ = waits;
      published_ = Unavailable(StrCat("no credentials yet: ", waits));
      publish_(published_);
    }
  }

  void SetTrouble(std::string& trouble, const std::string& what) {
    if (what != trouble && !what.empty()) options_.log(what);
    trouble = what;
  }

  void TellExpiry() {
    const auto client = ClientStatus();
    const bool over = client && client->not_after && clock_.Wall() >= *client->not_after;
    if (over == std::exchange(expired_, over) || !over) return;
    const std::string message = ShowCertificate("", *client, clock_.Wall()).message();
    options_.log(StrCat("client certificate: ", message));
    AddEvent(true, "CertificateExpired", StrCat("The client certificate has ", message));
  }

  void AddEvent(bool warning, const std::string& reason, const std::string& message) {
    if (options_.events == nullptr) return;
    EventNote note;
    note.warning = warning;
    note.reason = reason;
    note.message = message;
    // As a kubelet's: the UID is the name.
    options_.events->AddEvent(NodeSubject(options_.node_name), note);
  }

  Api& api_;
  const Clock& clock_;
  const NodeCredentialsOptions options_;
  Publish publish_;
  std::mutex deliver_mutex_;  // held while it is delivered
  Deliver deliver_;           // guarded by deliver_mutex_
  bool delivered_ = true;
  bool stopped_ = false;
  bool expired_ = false;
  bool asks_ = false;  // for a certificate, at the end of the last turn
  std::function<std::vector<std::string>()> host_ips_;
  Requests requests_ = Requests::kNobodys;  // whose credentials our own Api has
  std::optional<KubeConfig> kubeconfig_;    // as it was read last
  std::string kubeconfig_text_, bootstrap_text_;
  std::string file_trouble_, bootstrap_trouble_;  // with reading the one and with the other
  Result<KubeConfig> published_ = Unavailable("no credentials yet");
  std::string waits_;  // why, as it was published
  CertificateKeeper client_, serving_;
  std::unique_ptr<CredentialFeed> node_feed_, bootstrap_feed_;
  TicketPtr timer_;

  mutable std::mutex mutex_;  // guards what follows
  std::optional<CertificateStatus> client_shown_;
  CertificateStatus serving_shown_;
};

Result<std::unique_ptr<NodeCredentials>> NodeCredentials::Open(Api& api, const Clock& clock,
                                                               NodeCredentialsOptions options) {
  const std::string& directory = options.certificate_directory;
  ASSIGN_OR_RETURN(auto client, CertificateFiles::Open(directory, "kubelet-client"));
  ASSIGN_OR_RETURN(auto serving, CertificateFiles::Open(directory, "kubelet-server"));
  auto impl =
      std::make_shared<Impl>(api, clock, std::move(options), std::move(client), std::move(serving));
  RETURN_IF_ERROR(impl->Open());
  return std::unique_ptr<NodeCredentials>(new NodeCredentials(std::move(impl)));
}

NodeCredentials::NodeCredentials(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
NodeCredentials::~NodeCredentials() { impl_->Stop(); }

Result<KubeConfig> NodeCredentials::Current() const { return impl_->Current(); }
void NodeCredentials::Start(Publish publish) { impl_->Start(std::move(publish)); }
void NodeCredentials::Refused() {
  impl_->Post([](Impl& impl) { impl.Refused(); });
}
void NodeCredentials::DeliverServing(Deliver deliver) {
  impl_->SetDeliver(std::move(deliver));
  impl_->Post([](Impl& impl) { impl.DeliverAnew(); });
}
void NodeCredentials::SetAddresses(std::function<std::vector<std::string>()> host_ips) {
  impl_->Post([host_ips = std::move(host_ips)](Impl& impl) { impl.SetAddresses(host_ips); });
}
std::vector<corev1::NodeCondition> NodeCredentials::Conditions(WallTime now) const {
  return impl_->Conditions(now);
}

}  // namespace holdfast::agent
