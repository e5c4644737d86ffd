// SPDX-License-Identifier: Apache-2.0
// A KubeletApi over TLS on loopback, beside an API server that reviews by rules of the test, pods that the test shows,
// and logs that it writes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "agent/api/kubelet/kubelet_api.h"
#include "agent/cluster/api_objects.h"
#include "agent/kube/codec.h"
#include "agent/stats/node_stats.h"
#include "k8s/authentication/v1/token.pb.h"
#include "k8s/authorization/v1/access_review.pb.h"
#include "tests/fakes/fake_pod_view.h"
#include "tests/support/tls_client.h"
#include "tests/support/tls_keys.h"

namespace holdfast::agent::api {

// Answers every review at once.
class ReviewingApi : public Api {
 public:
  // Tokens and whose they are; what users may, as "user verb subresource".
  std::map<std::string, std::string> tokens;
  std::set<std::string> rights;
  std::optional<ApiReply> fails;  // what is said instead
  std::vector<std::string> asked;
  std::mutex mutex;

  TicketPtr Send(ApiCall call, Done done) override {
    std::unique_lock lock(mutex);
    ApiReply reply;
    if (fails) {
      reply = *fails;
    } else {
      Review(call, reply);
    }
    lock.unlock();
    done(std::move(reply));
    return std::make_unique<Ticket>();
  }
  TicketPtr Watch(ApiCall, Frame, std::function<void(Result<void>)>,
                  std::function<void(ApiReply)>) override {
    return nullptr;
  }
  void Post(std::function<void()> work) override { work(); }
  TicketPtr After(std::chrono::milliseconds, std::function<void()>) override { return nullptr; }
  void CloseAll(const std::string&) override {}

 private:
  void Review(const ApiCall& call, ApiReply& reply) {
    auto object = kube::DecodeEnvelope(call.body);
    reply.code = 201;
    if (auto* token = dynamic_cast<k8s::io::api::authentication::v1::TokenReview*>(object->get())) {
      asked.push_back("token " + token->spec().token());
      const auto found = tokens.find(token->spec().token());
      if (found == tokens.end()) {
        token->mutable_status()->set_error("invalid bearer token");
      } else {
        token->mutable_status()->set_authenticated(true);
        token->mutable_status()->mutable_user()->set_username(found->second);
      }
    }
    using Access = k8s::io::api::authorization::v1::SubjectAccessReview;
    if (auto* access = dynamic_cast<Access*>(object->get())) {
      const auto& what = access->spec().resourceattributes();
      const std::string right =
          access->spec().user() + " " + what.verb() + " " + what.subresource();
      asked.push_back(right);
      access->mutable_status()->set_allowed(rights.contains(right) && what.name() == "node-1" &&
                                            what.resource() == "nodes" && what.version() == "v1");
    }
    reply.body = kube::EncodeEnvelope(**object);
  }
};

class KubeletApiTest : public ::testing::Test {
 protected:
  KubeletApiTest() {
    std::string name = "/tmp/holdfast-kubelet-XXXXXX";
    directory_ = ::mkdtemp(name.data());
    keys_ = std::make_unique<test_support::TlsKeys>(directory_, "IP:127.0.0.1");
    config_.instance.node_name = "node-1";
    config_.instance.pod_log_dir = directory_ + "/logs";
    config_.server.address = "127.0.0.1";
    config_.server.port = 0;
    config_.server.client_ca_file = keys_->Path("ca.crt");
    reviews_.rights = {"client get proxy", "client create proxy"};
  }
  ~KubeletApiTest() override {
    api_.reset();
    std::filesystem::remove_all(directory_);
  }

  void Start(bool in_cluster = true) {
    ServingCertificateOptions serving;
    serving.directory = directory_ + "/pki";
    serving.names = {"node-1"};
    serving.client_ca_file = config_.server.client_ca_file;
    auto certificate = ServingCertificate::Open(serving);
    ASSERT_TRUE(certificate) << certificate.error().message();
    certificate_ = std::move(*certificate);
    auto started = KubeletApi::Start({.config = config_,
                                      .pods = pods_,
                                      .stats = stats_,
                                      .api = in_cluster ? &reviews_ : nullptr,
                                      .certificate = *certificate_,
                                      .clock = clock_,
                                      .version = "0.1.0",
                                      .machine =
                                          [] {
                                            MachineSpec machine;
                                            machine.cores = 2;
                                            return machine;
                                          },
                                      .unhealthy_because = [this] { return trouble_; },
                                      .sessions = sessions_,
                                      .probe_metrics = probe_metrics_,
                                      .pod_metrics = pod_metrics_,
                                      .collected_images = {},
                                      .log = [](const std::string&) {}});
    ASSERT_TRUE(started) << started.error().message();
    api_ = std::move(*started);
  }

  std::unique_ptr<test_support::TlsClient> Connect(bool with_certificate = true) {
    using test_support::TlsClient;
    return std::make_unique<TlsClient>(
        api_->port(),
        with_certificate ? TlsClient::Identity{keys_->Path("client.crt"), keys_->Path("client.key")}
                         : TlsClient::Identity{});
  }
  // "200 the body"
  std::string Ask(const std::string& target, const std::string& headers = "",
                  bool with_certificate = true, const std::string& method = "GET") {
    const auto client = Connect(with_certificate);
    client->Send(method + " " + target + " HTTP/1.0\r\n" + headers + "\r\n");
    const std::string answer = client->ReadAll();
    const size_t split = answer.find("\r\n\r\n");
    if (split == std::string::npos) return answer;
    return answer.substr(9, 3) + " " + answer.substr(split + 4);
  }

  // Running, with one container "c".
  static k8s::io::api::core::v1::Pod MakePod(const std::string& name) {
    k8s::io::api::core::v1::Pod pod;
    pod.mutable_metadata()->set_name(name);
    pod.mutable_metadata()->set_namespace_("default");
    pod.mutable_metadata()->set_uid("uid-" + name);
    pod.mutable_spec()->add_containers()->set_name("c");
    pod.mutable_status()->set_phase("Running");
    auto& status = *pod.mutable_status()->add_containerstatuses();
    status.set_name("c");
    status.set_image("busybox:latest");
    status.mutable_state()->mutable_running();
    return pod;
  }
  void WriteLog(const std::string& pod, const std::string& file, const std::string& text,
                bool append = false) const {
    const std::string folder = directory_ + "/logs/default_" + pod + "_uid-" + pod + "/c";
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/" + file, append ? std::ios::app : std::ios::trunc) << text;
  }

  std::string directory_;
  std::unique_ptr<test_support::TlsKeys> keys_;
  AgentConfig config_;
  FakePodView pods_;
  ReviewingApi reviews_;
  SystemClock clock_;
  NodeStats stats_{{config_.instance, pods_, clock_}};
  std::string trouble_;
  std::function<void(UpgradedConnection)> sessions_;
  std::function<std::string()> probe_metrics_, pod_metrics_;
  std::unique_ptr<ServingCertificate> certificate_;
  std::unique_ptr<KubeletApi> api_;
};

}  // namespace holdfast::agent::api
