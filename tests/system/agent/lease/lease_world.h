// SPDX-License-Identifier: Apache-2.0
// SegmentWorld with an API server in the hub: each node has a second interface, by which it reaches
// 192.0.2.254 there. The server is the fake one, or etcd and kube-apiserver when the environment
// names them: HOLDFAST_ETCD, HOLDFAST_KUBE_APISERVER (tests/kube/programs/build builds them).
#pragma once

#include "agent/cluster/api_client.h"
#include "agent/lease/lease_requests.h"
#include "tests/fakes/fake_api_server.h"
#include "tests/system/netproxy/announce/segment_world.h"

namespace holdfast::netproxy::announce {

class LeaseWorld : public SegmentWorld {
 protected:
  static constexpr char kServer[] = "192.0.2.254";

  void SetUp() override {
    SegmentWorld::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    In(hub_.get(), StrCat("ip link set lo up; ip link add br1 type bridge; ip link set br1 up; "
                          "ip address add ",
                          kServer, "/24 dev br1"));
    for (const int machine : {1, 2}) Connect(machine);
    const char* etcd = std::getenv("HOLDFAST_ETCD");
    const char* apiserver = std::getenv("HOLDFAST_KUBE_APISERVER");
    if (etcd != nullptr && apiserver != nullptr) {
      StartRealServer(etcd, apiserver);
    } else {
      StartFakeServer();
    }
    node_environment_ = {"ANNOUNCE_KUBECONFIG=" + kubeconfig_};
  }

  void TearDown() override {
    if (real_ > 0) {
      input_.Reset();
      ::waitpid(real_, nullptr, 0);
    }
    SegmentWorld::TearDown();
    fake_.reset();
  }

  // The way between a node and the API server: packets vanish, nobody is told.
  void Cut(int machine) { In(hub_.get(), StrCat("ip link set m", machine, " nomaster")); }
  void Mend(int machine) { In(hub_.get(), StrCat("ip link set m", machine, " master br1")); }

  LeaseRecord LeaseOf(const std::string& address) {
    Result<LeaseRecord> record = Internal("not asked");
    EXPECT_OK(sys::RunInNetworkNamespace(hub_.get(), [&]() -> Result<void> {
      boost::asio::io_context io;
      ASSIGN_OR_RETURN(const agent::KubeConfig config, agent::ReadKubeConfig(kubeconfig_));
      ASSIGN_OR_RETURN(auto client, agent::ApiClient::Make(io, config, milliseconds(5000)));
      const auto request = agent::ToApiRequest(Ip(address), {LeaseRequest::Kind::kGet, {}});
      client->Send(request, [&](const Result<agent::ApiAnswer>& answer) {
        record = answer ? agent::ReadLease(*answer, request) : Result<LeaseRecord>(answer.error());
      });
      io.run();
      return {};
    }));
    EXPECT_OK(record);
    return record ? *record : LeaseRecord{};
  }

 private:
  void Connect(int machine) {
    auto hub = sys::Rtnl::OpenIn(hub_.get());
    ASSERT_OK(hub);
    const auto last = static_cast<uint8_t>(machine);
    ASSERT_OK(hub->AddVeth({.name = StrCat("m", machine),
                            .mac = {2, 0, 0, 0, 3, last},
                            .mtu = 1500,
                            .peer_netns = machines_[machine].get(),
                            .peer_name = "eth1",
                            .peer_mac = {2, 0, 0, 0, 4, last}}));
    In(hub_.get(), StrCat("ip link set m", machine, " master br1 up"));
    In(machines_[machine].get(),
       StrCat("ip link set eth1 up; ip address add 192.0.2.", machine, "/24 dev eth1"));
  }

  void StartFakeServer() {
    const test_support::TlsKeys keys(directory_, StrCat("IP:", kServer));
    ASSERT_OK(sys::RunInNetworkNamespace(hub_.get(), [&]() -> Result<void> {
      fake_ = std::make_unique<test_support::FakeApiServer>(keys, kServer);
      return {};
    }));
    kubeconfig_ = directory_ + "/kubeconfig";
    std::ofstream(kubeconfig_) << "current-context: test\n"
                               << "contexts: [{name: test, context: {cluster: test, user: test}}]\n"
                               << "clusters: [{name: test, cluster: {server: \"https://" << kServer
                               << ":" << fake_->port() << "\", certificate-authority: ca.crt}}]\n"
                               << "users: [{name: test, user: {client-certificate: client.crt, "
                                  "client-key: client.key}}]\n";
  }

  void StartRealServer(const char* etcd, const char* apiserver) {
    const std::string folder = directory_ + "/control-plane";
    UniqueFd output;
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    ASSERT_EQ(::pipe2(in.data(), O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
    ASSERT_OK(sys::RunInNetworkNamespace(hub_.get(), [&]() -> Result<void> {
      real_ = ::fork();
      if (real_ != 0) return {};
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      ::execlp("python3", "python3", REAL_API_SERVER, etcd, apiserver, folder.c_str(), kServer,
               nullptr);
      ::_exit(127);
    }));
    input_ = UniqueFd(in[1]);
    output = UniqueFd(out[0]);
    ::close(in[0]);
    ::close(out[1]);
    for (char c = 0; ::read(output.get(), &c, 1) == 1 && c != '\n';) kubeconfig_ += c;
    ASSERT_FALSE(kubeconfig_.empty()) << "no API server";
  }

  std::unique_ptr<test_support::FakeApiServer> fake_;
  pid_t real_ = -1;
  UniqueFd input_;  // of the real one: ends with it
  std::string kubeconfig_;
};

}  // namespace holdfast::netproxy::announce
