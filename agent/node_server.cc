// SPDX-License-Identifier: Apache-2.0
#include "agent/node_server.h"

#include <chrono>

#include "agent/api/kubelet/healthz.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kRefresh{10};

ServingCertificateOptions CertificateWanted(const NodeServerParts& parts) {
  const NodeServerConfig& config = parts.config.server;
  ServingCertificateOptions options;
  options.directory = config.certificate_dir;
  options.cert_file = config.tls_cert_file;
  options.key_file = config.tls_private_key_file;
  options.names = {parts.config.instance.node_name};
  options.names.insert(options.names.end(), parts.addresses.begin(), parts.addresses.end());
  options.min_version = config.tls_min_version;
  options.cipher_suites = config.tls_cipher_suites;
  options.client_ca_file = config.client_ca_file;
  options.log = parts.log;
  return options;
}

}  // namespace

NodeServer::NodeServer(NodeServerParts parts) : parts_(std::move(parts)), refresh_(parts_.io) {}

Result<std::unique_ptr<NodeServer>> NodeServer::Start(NodeServerParts parts) {
  std::unique_ptr<NodeServer> made(new NodeServer(std::move(parts)));
  const NodeServerParts& own = made->parts_;
  ASSIGN_OR_RETURN(made->certificate_, ServingCertificate::Open(CertificateWanted(own)));
  ASSIGN_OR_RETURN(made->api_, api::KubeletApi::Start(
                                   {own.config, own.pods, own.api, *made->certificate_, own.clock,
                                    own.version, own.unhealthy_because, own.sessions, own.log}));
  RETURN_IF_ERROR(made->OpenHealthPort());
  made->RefreshLater();
  return made;
}

Result<void> NodeServer::OpenHealthPort() {
  ASSIGN_OR_RETURN(const auto endpoint,
                   ParseBindAddress(parts_.config.server.healthz_bind_address));
  if (!endpoint) return {};
  ASSIGN_OR_RETURN(health_, HealthServer::Start());
  const auto answer = [this](const std::string& path) {
    const HttpAnswer made = path == "/healthz" || path.starts_with("/healthz/")
                                ? api::HealthzAnswer(path, false, parts_.unhealthy_because())
                                : HttpAnswer{404, "404 page not found\n"};
    return netproxy::HttpReply{
        static_cast<int>(made.status),
        {{"Content-Type", made.content_type}, {"X-Content-Type-Options", "nosniff"}},
        made.body};
  };
  health_->Listen({{*endpoint, answer}}, parts_.log);
  return {};
}

void NodeServer::RefreshLater() {
  refresh_.expires_after(kRefresh);
  refresh_.async_wait([this](const boost::system::error_code& stopped) {
    if (stopped) return;
    api_->RefreshFiles();
    RefreshLater();
  });
}

}  // namespace holdfast::agent
