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
  options.directory = parts.config.cluster.certificate_directory;
  options.cert_file = config.tls_cert_file;
  options.key_file = config.tls_private_key_file;
  options.names = {parts.config.instance.node_name};
  const auto addresses = parts.description()->host_ips;
  options.names.insert(options.names.end(), addresses.begin(), addresses.end());
  options.min_version = config.tls_min_version;
  options.cipher_suites = config.tls_cipher_suites;
  options.client_ca_file = config.client_ca_file;
  options.log = parts.log;
  return options;
}

api::MachineSpec MachineOf(const NodeDescription& node) {
  api::MachineSpec out;
  const auto amount = [&](const char* name) {
    const auto found = node.capacity.find(name);
    return found == node.capacity.end() ? kube::Amount() : found->second;
  };
  out.cores = amount("cpu").Milli() / 1000;
  out.memory_bytes = static_cast<uint64_t>(amount("memory").Units());
  out.swap_bytes = static_cast<uint64_t>(node.machine.swap_bytes);
  out.machine_id = node.machine.machine_id;
  out.system_uuid = node.machine.system_uuid;
  out.boot_id = node.machine.boot_id;
  out.kernel_version = node.machine.kernel_version;
  out.os_version = node.machine.os_image;
  out.version = node.version;
  return out;
}

}  // namespace

NodeServer::NodeServer(NodeServerParts parts)
    : parts_(std::move(parts)), streams_(parts_.operations, parts_.audit), refresh_(parts_.io) {}

NodeServer::~NodeServer() { streams_.ShutDown(); }

Result<std::unique_ptr<NodeServer>> NodeServer::Start(NodeServerParts parts) {
  std::unique_ptr<NodeServer> made(new NodeServer(std::move(parts)));
  const NodeServerParts& own = made->parts_;
  ASSIGN_OR_RETURN(made->certificate_, ServingCertificate::Open(CertificateWanted(own)));
  RETURN_IF_ERROR(made->streams_.Start());
  ASSIGN_OR_RETURN(made->api_, api::KubeletApi::Start(
                                   {.config = own.config,
                                    .pods = own.pods,
                                    .stats = own.stats,
                                    .api = own.api,
                                    .certificate = *made->certificate_,
                                    .clock = own.clock,
                                    .version = own.version,
                                    .machine = [&own] { return MachineOf(*own.description()); },
                                    .unhealthy_because = own.unhealthy_because,
                                    .sessions =
                                        [&streams = made->streams_](UpgradedConnection connection) {
                                          streams.Take(std::move(connection));
                                        },
                                    .probe_metrics = own.probe_metrics,
                                    .pod_metrics = own.pod_metrics,
                                    .collected_images = own.collected_images,
                                    .log = own.log}));
  RETURN_IF_ERROR(made->OpenHealthPort());
  made->RefreshLater();
  return made;
}

std::function<Result<void>(std::string, std::string)> NodeServer::CertificateTaker() const {
  return [certificate = certificate_](const std::string& chain_pem, const std::string& key_pem) {
    return certificate->Replace(chain_pem, key_pem);
  };
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
