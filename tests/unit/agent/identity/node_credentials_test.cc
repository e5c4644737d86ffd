// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/node_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "agent/identity/certificate_plan.h"
#include "agent/kube/codec.h"
#include "holdfast/base/base64.h"
#include "holdfast/base/strings.h"
#include "tests/fakes/fake_api.h"
#include "tests/unit/agent/identity/signer.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr seconds kNow{1'795'453'445};
constexpr char kRequests[] = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

class ShiftedClock final : public Clock {
 public:
  explicit ShiftedClock(const fakes::FakeApi& api) : api_(api) {}
  BootTime Boot() const override { return {hours(1) + api_.now}; }
  WallTime Wall() const override { return {kNow + api_.now + shift}; }
  std::chrono::nanoseconds shift{0};

 private:
  const fakes::FakeApi& api_;
};

class Events : public EventSink {
 public:
  void AddEvent(const EventSubject& subject, const EventNote& note) override {
    EXPECT_EQ(subject.kind + "/" + subject.name, "Node/n1");
    reasons.push_back(note.reason);
  }
  std::vector<std::string> reasons;
};

class NodeCredentialsTest : public testing::Test {
 protected:
  void SetUp() override {
    top_ = fs::temp_directory_path() / "identity-XXXXXX";
    ASSERT_NE(::mkdtemp(top_.data()), nullptr);
    WriteBootstrap("abcdef.0123456789abcdef");
  }
  void TearDown() override {
    identity_.reset();
    fs::remove_all(top_);
  }

  void WriteBootstrap(const std::string& token) {
    std::ofstream(top_ + "/bootstrap") << KubeConfigWith("token: " + token);
  }
  static std::string KubeConfigWith(const std::string& user) {
    return StrCat(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
        "clusters: [{name: k, cluster: {server: \"https://192.0.2.1:6443\", "
        "certificate-authority-data: ",
        EncodeBase64("authority"), "}}]\nusers:\n- name: u\n  user:\n    ", user, "\n");
  }

  Result<void> Open(bool bootstrap = true) {
    NodeCredentialsOptions options;
    options.node_name = "n1";
    options.kubeconfig = top_ + "/etc/kubeconfig";
    if (bootstrap) options.bootstrap_kubeconfig = top_ + "/bootstrap";
    options.certificate_directory = top_ + "/pki";
    options.serving = serving_;
    options.set_config = [this](Result<KubeConfig> config) { own_ = std::move(config); };
    options.run = [this](const ExecPlugin& plugin, const std::string& info) {
      runs_.push_back(StrCat(plugin.command, " ", info));
      return plugin_output_;
    };
    options.log = [this](const std::string& line) { lines_.push_back(line); };
    options.events = &events_;
    ASSIGN_OR_RETURN(identity_, NodeCredentials::Open(api_, clock_, std::move(options)));
    published_ = identity_->Current();
    return {};
  }
  void Start(bool bootstrap = true) {
    const auto opened = Open(bootstrap);
    ASSERT_TRUE(opened) << opened.error().message();
    identity_->Start([this](Result<KubeConfig> config) {
      published_ = std::move(config);
      ++publications_;
    });
    api_.RunPosted();
  }
  // As kill -9: nothing of it is told to anybody.
  void Kill() {
    identity_.reset();
    api_.sent.clear();
    api_.watches.clear();
  }

  fakes::FakeApi::Call* Posted() {
    const auto open = fakes::FakeApi::Open(api_.sent);
    return open.empty() ? nullptr : open.back().get();
  }
  certificatesv1::CertificateSigningRequest Asked() {
    EXPECT_NE(Posted(), nullptr);
    EXPECT_EQ(Posted()->call.path, kRequests);
    const auto object = kube::DecodeEnvelope(Posted()->call.body);
    EXPECT_TRUE(object);
    return dynamic_cast<const certificatesv1::CertificateSigningRequest&>(**object);
  }
  // The server takes the request; returns it as it is there.
  certificatesv1::CertificateSigningRequest Take(int code = 201) {
    auto request = Asked();
    ApiReply reply;
    reply.code = code;
    api_.Answer(*Posted(), reply);
    return request;
  }
  void Show(certificatesv1::CertificateSigningRequest request, const std::string& version = "1") {
    request.mutable_metadata()->set_resourceversion(version);
    request.mutable_metadata()->set_uid("u" + request.metadata().name());
    const auto watches = fakes::FakeApi::Open(api_.watches);
    ASSERT_FALSE(watches.empty());
    EXPECT_THAT(watches.back()->call.path,
                HasSubstr("metadata.name%3D" + request.metadata().name()));
    api_.Send(*watches.back(), "ADDED", kube::EncodeEnvelope(request));
  }
  void Issue(certificatesv1::CertificateSigningRequest request, seconds life = hours(1000)) {
    auto& condition = *request.mutable_status()->add_conditions();
    condition.set_type("Approved");
    condition.set_status("True");
    request.mutable_status()->set_certificate(
        signer_.Sign(request.spec().request(), clock_.Wall(), clock_.Wall() + life));
    Show(request, "2");
  }
  void Deny(certificatesv1::CertificateSigningRequest request, const char* type = "Denied") {
    auto& condition = *request.mutable_status()->add_conditions();
    condition.set_type(type);
    condition.set_status("True");
    condition.set_reason("NoThanks");
    Show(request, "2");
  }
  std::string Reason(const std::string& type = "ClientCertificate") {
    for (const auto& condition : identity_->Conditions(clock_.Wall())) {
      if (condition.type() != type) continue;
      message_ = condition.message();
      return condition.reason();
    }
    return "";
  }
  bool HasCertificate() { return published_ && !published_->certificate.text.empty(); }

  std::string top_, message_;
  bool serving_ = false;
  fakes::FakeApi api_;
  ShiftedClock clock_{api_};
  Events events_;
  test::Signer signer_;
  std::vector<std::string> lines_, runs_;
  Result<std::string> plugin_output_ = Unavailable("not set");
  Result<KubeConfig> own_ = Unavailable("never set");
  Result<KubeConfig> published_ = Unavailable("never set");
  int publications_ = 0;
  std::unique_ptr<NodeCredentials> identity_;
};

TEST_F(NodeCredentialsTest, ANodeWithATokenBecomesOneWithACertificate) {
  Start();
  ASSERT_TRUE(own_);
  EXPECT_EQ(own_->token, "abcdef.0123456789abcdef") << "asks with the token";
  EXPECT_FALSE(published_) << "and nobody else does anything with it";
  const auto request = Take();
  EXPECT_EQ(request.spec().signername(), "kubernetes.io/kube-apiserver-client-kubelet");
  EXPECT_TRUE(fs::exists(top_ + "/pki/kubelet-client.key.tmp"));
  Show(request);
  EXPECT_EQ(Reason(), "Pending");
  EXPECT_THAT(message_, HasSubstr("kubectl certificate approve " + request.metadata().name()));
  EXPECT_THAT(published_.error().message(), HasSubstr(request.metadata().name()));
  EXPECT_FALSE(fs::exists(top_ + "/etc/kubeconfig"));
  Issue(request);
  ASSERT_TRUE(HasCertificate());
  EXPECT_THAT(published_->key.text, HasSubstr("PRIVATE KEY"));
  EXPECT_EQ(published_->host, "192.0.2.1");
  EXPECT_EQ(published_->authority.text, "authority");
  EXPECT_EQ(published_->token, "");
  EXPECT_TRUE(own_ && !own_->certificate.text.empty()) << "renewals are asked for by the node";
  EXPECT_EQ(Reason(), "Valid");
  EXPECT_THAT(events_.reasons, ElementsAre("CertificateIssued"));
  EXPECT_FALSE(fs::exists(top_ + "/pki/kubelet-client.key.tmp"));
  const auto written = ReadKubeConfig(top_ + "/etc/kubeconfig");
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_EQ(written->certificate.file, top_ + "/pki/kubelet-client-current.pem");
  EXPECT_EQ(written->key.file, written->certificate.file);
  EXPECT_EQ(fs::status(top_ + "/etc/kubeconfig").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(Posted(), nullptr);
}

TEST_F(NodeCredentialsTest, WhoIsKilledWhileItWaitsFindsItsOwnRequest) {
  Start();
  const auto request = Take();
  Show(request);
  Kill();
  Start();
  const auto again = Take(409);
  EXPECT_EQ(again.metadata().name(), request.metadata().name()) << "the same key, so the same name";
  Issue(request);  // the one that is there has another signature
  EXPECT_TRUE(HasCertificate());
}

TEST_F(NodeCredentialsTest, WhoIsKilledBeforeTheKubeconfigAsksForNothingMore) {
  Start();
  Issue(Take());
  ASSERT_TRUE(HasCertificate());
  fs::remove(top_ + "/etc/kubeconfig");
  Kill();
  Start();
  EXPECT_EQ(Posted(), nullptr);
  EXPECT_TRUE(HasCertificate());
  EXPECT_TRUE(fs::exists(top_ + "/etc/kubeconfig"));
}

TEST_F(NodeCredentialsTest, AKeyThatHasItsCertificateIsNotUsedAgain) {
  Start();
  fs::copy(top_ + "/pki/kubelet-client.key.tmp", top_ + "/kept");
  const auto first = Take();
  Issue(first, hours(10));
  Kill();
  // Killed before the key went; and now a renewal is due.
  fs::copy(top_ + "/kept", top_ + "/pki/kubelet-client-renewal.key.tmp");
  clock_.shift = hours(9) + minutes(30);
  Start();
  EXPECT_NE(Asked().metadata().name(), first.metadata().name());
}

TEST_F(NodeCredentialsTest, TheCertificateIsRenewedBeforeItEndsByTheNodeItself) {
  Start();
  Issue(Take(), hours(100));
  const std::string first = published_->certificate.text;
  api_.Advance(hours(69));
  EXPECT_EQ(Posted(), nullptr);
  api_.Advance(hours(22));
  const auto renewal = Take();
  EXPECT_EQ(own_->token, "");
  EXPECT_EQ(own_->certificate.text, first);
  EXPECT_TRUE(fs::exists(top_ + "/pki/kubelet-client-renewal.key.tmp"));
  Show(renewal);
  EXPECT_EQ(Reason(), "Renewing");
  Issue(renewal, hours(100));
  EXPECT_NE(published_->certificate.text, first);
  EXPECT_EQ(Reason(), "Valid");
  EXPECT_THAT(lines_, Contains(HasSubstr("issued by CSR")));
}

TEST_F(NodeCredentialsTest, ACertificateThatEndedWhileAwayIsAskedForByTheBootstrapAgain) {
  Start();
  Issue(Take(), hours(10));
  Kill();
  clock_.shift = hours(11);
  Start();
  EXPECT_TRUE(HasCertificate()) << "the server may think otherwise";
  EXPECT_EQ(Reason(), "Expired");
  EXPECT_THAT(events_.reasons, Contains("CertificateExpired"));
  EXPECT_EQ(own_->token, "abcdef.0123456789abcdef");
  const std::string before = published_->certificate.text;
  Issue(Take());
  EXPECT_EQ(Reason(), "Valid");
  EXPECT_NE(published_->certificate.text, before);
}

TEST_F(NodeCredentialsTest, ARefusalIsToldAndAnotherRequestComesAfterAWhile) {
  Start();
  const auto first = Take();
  Deny(first);
  EXPECT_EQ(Reason(), "Refused");
  EXPECT_THAT(message_, HasSubstr("denied (NoThanks)"));
  EXPECT_THAT(events_.reasons, ElementsAre("CertificateRequestDenied"));
  api_.Advance(minutes(4));
  EXPECT_EQ(Posted(), nullptr);
  api_.Advance(minutes(2));
  const auto second = Take();
  EXPECT_NE(second.metadata().name(), first.metadata().name()) << "a refused one stays there";
  Deny(second, "Failed");
  EXPECT_THAT(events_.reasons, Contains("CertificateRequestFailed"));
  api_.Advance(minutes(9));
  EXPECT_EQ(Posted(), nullptr);
  api_.Advance(minutes(2));
  Issue(Take());
  EXPECT_EQ(Reason(), "Valid");
}

TEST_F(NodeCredentialsTest, ACertificateForAnotherKeyOrNameIsRefused) {
  Start();
  auto request = Take();
  auto foreign = request;
  const auto key = NewPrivateKey();
  foreign.mutable_spec()->set_request(*MakeCertificateRequest(*key, ClientPlan("n1").subject));
  Issue(foreign);
  EXPECT_EQ(Reason(), "Refused");
  EXPECT_FALSE(HasCertificate());
  EXPECT_FALSE(fs::exists(top_ + "/pki/kubelet-client-current.pem"));
}

TEST_F(NodeCredentialsTest, AServerThatDoesNotAnswerIsAskedAgainAndAgain) {
  Start();
  for (const int wait : {2, 4, 8, 16, 32, 32}) {
    ASSERT_NE(Posted(), nullptr) << wait;
    api_.Answer(*Posted(), Unavailable("connect: refused"));
    EXPECT_EQ(Reason(), "Failing");
    EXPECT_EQ(message_, "connect: refused");
    api_.Advance(seconds(wait));
  }
  Issue(Take());
  EXPECT_EQ(Reason(), "Valid");
}

TEST_F(NodeCredentialsTest, ARequestThatIsRemovedIsMadeAgain) {
  Start();
  const auto request = Take();
  Show(request);
  auto gone = request;
  gone.mutable_metadata()->set_resourceversion("9");
  gone.mutable_metadata()->set_uid("u" + request.metadata().name());
  api_.Send(*fakes::FakeApi::Open(api_.watches).back(), "DELETED", kube::EncodeEnvelope(gone));
  api_.Advance(seconds(2));
  EXPECT_EQ(Take().metadata().name(), request.metadata().name());
  Issue(request);
  EXPECT_TRUE(HasCertificate());
}

TEST_F(NodeCredentialsTest, AnotherTokenInTheBootstrapFileIsTaken) {
  fs::remove(top_ + "/bootstrap");
  Start();
  EXPECT_EQ(Reason(), "Failing");
  EXPECT_THAT(message_, HasSubstr("bootstrapKubeconfig"));
  WriteBootstrap("aaaaaa.0123456789abcdef");
  api_.Advance(seconds(30));
  EXPECT_EQ(own_->token, "aaaaaa.0123456789abcdef");
  WriteBootstrap("bbbbbb.0123456789abcdef");
  api_.Advance(seconds(30));
  EXPECT_EQ(own_->token, "bbbbbb.0123456789abcdef");
}

TEST_F(NodeCredentialsTest, ACopiedNodesCertificateIsNotUsed) {
  Start();
  Issue(Take());
  Kill();
  const auto key = NewPrivateKey();
  const auto request = MakeCertificateRequest(*key, ClientPlan("n2").subject);
  std::ofstream(top_ + "/pki/kubelet-client-current.pem")
      << signer_.Sign(*request, {kNow}, {kNow + hours(1)}) << *key;
  Start();
  EXPECT_FALSE(HasCertificate());
  EXPECT_THAT(lines_, Contains(HasSubstr("is of \"system:node:n2\", this node is")));
  Issue(Take());
  EXPECT_TRUE(HasCertificate());
}

TEST_F(NodeCredentialsTest, WithoutABootstrapAFileThatCannotBeUsedIsAnErrorAtTheStart) {
  const auto opened = Open(false);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message(), HasSubstr("kubeconfig"));
}

TEST_F(NodeCredentialsTest, FilesOfOthersAreReadAgainWhenTheyAreRenewed) {
  const auto key = NewPrivateKey();
  const auto request = MakeCertificateRequest(*key, ClientPlan("n1").subject);
  const auto write = [&](hours life) {
    std::ofstream(top_ + "/n1.crt") << signer_.Sign(*request, {kNow}, {kNow + life});
    std::ofstream(top_ + "/n1.key") << *key;
  };
  write(hours(1));
  fs::create_directory(top_ + "/etc");
  std::ofstream(top_ + "/etc/kubeconfig") << KubeConfigWith(
      StrCat("client-certificate: ", top_, "/n1.crt\n    client-key: ", top_, "/n1.key"));
  Start(false);
  ASSERT_TRUE(HasCertificate());
  const std::string first = published_->certificate.text;
  EXPECT_EQ(Reason(), "Valid");
  std::ofstream(top_ + "/n1.key") << "half a ke";
  api_.Advance(minutes(1));
  EXPECT_EQ(published_->certificate.text, first) << "the former pair stays";
  EXPECT_THAT(lines_, Contains(HasSubstr("private key")));
  write(hours(2));
  api_.Advance(minutes(1));
  EXPECT_NE(published_->certificate.text, first);
  EXPECT_EQ(Posted(), nullptr) << "who gave it renews it";
}

TEST_F(NodeCredentialsTest, AProgramsTokenIsMadeAgainBeforeItEndsAndWhenItIsRefused) {
  fs::create_directory(top_ + "/etc");
  std::ofstream(top_ + "/etc/kubeconfig") << KubeConfigWith(
      "exec: {apiVersion: client.authentication.k8s.io/v1, command: get-token, "
      "interactiveMode: Never, provideClusterInfo: true}");
  const auto answer = [&](const std::string& token, const std::string& until) {
    plugin_output_ = StrCat(R"({"kind":"ExecCredential","apiVersion":)",
                            R"("client.authentication.k8s.io/v1","status":{"token":")", token,
                            R"(","expirationTimestamp":")", until, R"("}})");
  };
  answer("first", "2026-11-23T17:14:05Z");  // ten minutes
  Start(false);
  ASSERT_TRUE(published_);
  EXPECT_EQ(published_->token, "first");
  EXPECT_THAT(runs_,
              ElementsAre(HasSubstr(R"("spec":{"cluster":{"server":"https://192.0.2.1:6443")")));
  answer("second", "2026-11-23T17:34:05Z");
  api_.Advance(minutes(8));
  EXPECT_EQ(published_->token, "first");
  api_.Advance(minutes(1));
  EXPECT_EQ(published_->token, "second");
  answer("third", "2026-11-23T17:34:05Z");
  identity_->Refused();
  api_.Advance(seconds(10));
  EXPECT_EQ(published_->token, "third");
  plugin_output_ = Unavailable("exec plugin get-token: failed with exit code 1: no network");
  identity_->Refused();
  api_.Advance(seconds(10));
  EXPECT_EQ(published_->token, "third") << "better than none";
  EXPECT_EQ(Reason(), "Failing");
}

TEST_F(NodeCredentialsTest, TheServersCertificateFollowsTheNodesAddresses) {
  serving_ = true;
  std::vector<std::string> addresses;
  std::vector<std::string> delivered;
  bool taken = false;
  Start();
  identity_->SetAddresses([&] { return addresses; });
  identity_->DeliverServing([&](std::string chain, std::string key) -> Result<void> {
    if (!CheckPair({chain, key})) return InvalidArgument("no pair");
    if (!taken) return Unavailable("not now");
    delivered.push_back(chain);
    return {};
  });
  api_.RunPosted();
  Issue(Take());
  EXPECT_EQ(Posted(), nullptr) << "there is no address";
  addresses = {"192.0.2.7"};
  api_.Advance(seconds(30));
  const auto request = Take();
  EXPECT_EQ(request.spec().signername(), "kubernetes.io/kubelet-serving");
  Show(request);
  EXPECT_EQ(Reason("ServingCertificate"), "Pending");
  Issue(request);
  EXPECT_TRUE(fs::exists(top_ + "/pki/kubelet-server-current.pem"));
  EXPECT_TRUE(delivered.empty());
  taken = true;
  api_.Advance(seconds(30));
  ASSERT_EQ(delivered.size(), 1u);
  addresses = {"192.0.2.7", "2001:db8::7"};
  api_.Advance(seconds(30));
  Issue(Take());
  ASSERT_EQ(delivered.size(), 2u);
  EXPECT_THAT(ReadCertificate(delivered.back())->subject.ip_addresses,
              ElementsAre("192.0.2.7", "2001:db8::7"));
  Kill();
  Start();
  identity_->DeliverServing([&](std::string chain, std::string) -> Result<void> {
    delivered.push_back(chain);
    return {};
  });
  api_.RunPosted();
  ASSERT_EQ(delivered.size(), 3u) << "from the disk, at once";
}

TEST_F(NodeCredentialsTest, AClockThatIsSetMakesNoNeedlessRequests) {
  Start();
  Issue(Take(), hours(100));
  clock_.shift = -hours(24 * 365 * 10);
  api_.Advance(minutes(1));
  EXPECT_EQ(Reason(), "NotYetValid");
  EXPECT_TRUE(HasCertificate());
  EXPECT_EQ(own_->token, "") << "and nobody bootstraps for that";
  clock_.shift = hours(0);
  api_.Advance(minutes(1));
  EXPECT_EQ(Reason(), "Valid");
  EXPECT_EQ(Posted(), nullptr);
}

}  // namespace
}  // namespace holdfast::agent
