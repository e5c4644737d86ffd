// SPDX-License-Identifier: Apache-2.0
// Flags, and what the machine fills in.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "agent/config/agent_config.h"
#include "agent/config/fields.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

constexpr size_t kConfigLimit = 1 << 20;
constexpr int kUsageError = 2;

CommandLine EndWith(int code, std::string output) {
  CommandLine line;
  line.exit = true;
  line.exit_code = code;
  line.output = std::move(output);
  return line;
}

Result<void> ReadConfigFile(const std::string& path, AgentConfig& config) {
  ASSIGN_OR_RETURN(const std::string text, sys::ReadFileAt(AT_FDCWD, path, kConfigLimit));
  return ReadConfigText(text, path, config);
}

bool IsDnsName(const std::string& name) {
  const auto alnum = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= 253 && alnum(name.front()) && alnum(name.back()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return alnum(c) || c == '-' || c == '.'; });
}

}  // namespace

CommandLine ReadCommandLine(int argc, char** argv, std::string_view version) {
  CLI::App app("Holdfast node agent: runs the pods of a manifest directory and their Services.",
               "holdfastd");
  std::string config_file;
  bool show_version = false;
  app.add_option("--config", config_file, "configuration file (AgentConfiguration)")
      ->type_name("FILE");
  app.add_flag("--version", show_version, "print the version and exit");
  CommandLine line;
  app.add_flag("--cleanup", line.cleanup,
               "take rules and cgroups of the node away and exit; for an uninstall, when no pod is "
               "left");
  app.add_flag("--cleanup-kube-proxy", line.cleanup_kube_proxy,
               "take away what a kube-proxy left on the node, in any of its modes, and exit");
  app.add_flag(
      "--prepare-downgrade", line.prepare_downgrade,
      "leave what is known of pods and addresses as releases without pods.journal keep it, "
      "and exit; before one of them is installed");
  std::map<std::string, std::vector<std::string>> given;
  for (const config::Field& field : config::Fields()) {
    CLI::Option* option = app.add_option(field.Flag(), given[field.name], field.help);
    option->type_name(field.value);
    if (field.is_list) {
      option->delimiter(',');
    } else {
      option->expected(1);
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return EndWith(0, app.help());
  } catch (const CLI::ParseError& error) {
    return EndWith(kUsageError, StrCat("holdfastd: ", error.what(), "\nRun holdfastd --help.\n"));
  }
  if (show_version) return EndWith(0, StrCat("holdfastd ", version, "\n"));

  if (!config_file.empty()) {
    if (auto read = ReadConfigFile(config_file, line.config); !read) {
      return EndWith(kUsageError, StrCat(read.error().message(), "\n"));
    }
  }
  for (const config::Field& field : config::Fields()) {
    if (app.count(field.Flag()) == 0) continue;
    if (auto set = field.access.set(line.config, given[field.name]); !set) {
      return EndWith(kUsageError,
                     StrCat("holdfastd: ", field.Flag(), ": ", set.error().message(), "\n"));
    }
  }
  return line;
}

namespace {

// In a cluster the Node says which; what is configured counts as long as it does not. CNI plugins have their own, and
// what is configured here only tells Services which addresses are local pods'.
Result<void> CompletePodRanges(AgentConfig& config) {
  std::vector<std::string>& ranges = config.instance.pod_cidrs;
  const bool alone = config.cluster.kubeconfig.empty();
  const bool plugins_say = config.pod_network.IsCni();
  if ((!alone || plugins_say) && ranges == model::Instance().pod_cidrs) ranges.clear();
  if (alone && ranges.empty() && !plugins_say) {
    return InvalidArgument("podCIDRs: a node that stands alone (without a kubeconfig) needs one");
  }
  return {};
}

Result<void> CheckServer(const AgentConfig& config) {
  const NodeServerConfig& server = config.server;
  if (server.tls_cert_file.empty() != server.tls_private_key_file.empty()) {
    return InvalidArgument("tlsCertFile and tlsPrivateKeyFile: one without the other");
  }
  const bool alone = config.cluster.kubeconfig.empty();
  if (alone && server.IsOn(false) && server.authorization_mode == "Webhook") {
    return InvalidArgument(
        "authorizationMode Webhook asks an API server, which needs a kubeconfig; with AlwaysAllow "
        "everybody with a client certificate of clientCAFile may everything");
  }
  return {};
}

// A kubelet's rules, in its words.
Result<void> CheckImageGc(const ImageGcConfig& gc) {
  if (gc.low_percent >= gc.high_percent) {
    return InvalidArgument(StrCat("imageGCLowThresholdPercent ", gc.low_percent,
                                  " must be less than imageGCHighThresholdPercent ",
                                  gc.high_percent));
  }
  if (gc.maximum_age.count() != 0 && gc.maximum_age <= gc.minimum_age) {
    return InvalidArgument(StrCat("imageMaximumGCAge ", gc.maximum_age.count(),
                                  "s must be greater than imageMinimumGCAge ",
                                  gc.minimum_age.count(), "s"));
  }
  return {};
}

Result<void> CheckImages(const AgentConfig& config) {
  const ImagePullConfig& pull = config.image_pull;
  if (pull.serialize && pull.max_parallel > 1) {
    return InvalidArgument(
        StrCat("maxParallelImagePulls ", pull.max_parallel,
               ": needs serializeImagePulls: false, since pulls are done one after the other"));
  }
  if (pull.provider_config.empty() != pull.provider_programs.empty()) {
    return InvalidArgument(
        "imageCredentialProviderConfig and imageCredentialProviderBinDir: one needs the other");
  }
  if (!pull.short_names_path.empty() && !pull.short_names_path.starts_with('/')) {
    return InvalidArgument(
        StrCat("shortNamesPath \"", pull.short_names_path, "\" is no absolute path"));
  }
  if (!pull.signature_policy_path.empty() && !pull.signature_policy_path.starts_with('/')) {
    return InvalidArgument(
        StrCat("signaturePolicyPath \"", pull.signature_policy_path, "\" is no absolute path"));
  }
  if (!pull.archive_directory.empty() && !pull.archive_directory.starts_with('/')) {
    return InvalidArgument(StrCat("imageDir \"", pull.archive_directory, "\" is no absolute path"));
  }
  return CheckImageGc(config.image_gc);
}

// A kubelet's rules, in its words.
Result<void> CheckEviction(const EvictionConfig& eviction) {
  for (const auto& [signal, least] : eviction.soft) {
    if (eviction.soft_grace.contains(signal)) continue;
    return InvalidArgument(
        StrCat("evictionSoft: grace period must be specified for the soft "
               "eviction threshold ",
               NameOf(signal), " (evictionSoftGracePeriod)"));
  }
  for (const auto& [signal, grace] : eviction.soft_grace) {
    if (eviction.soft.contains(signal)) continue;
    return InvalidArgument(StrCat("evictionSoftGracePeriod: ", NameOf(signal),
                                  " has no evictionSoft that it could be for"));
  }
  return {};
}

// One address, or one of each family, as kubelet's --node-ip.
Result<void> CheckNodeIps(const std::vector<std::string>& ips) {
  std::vector<IpAddress> parsed;
  for (const std::string& text : ips) {
    auto ip = IpAddress::Parse(text);
    if (!ip) return std::move(ip.error()).Wrap("nodeIP");
    const bool usable = !ip->IsUnspecified() && !text.starts_with("127.") && text != "::1" &&
                        !text.starts_with("169.254.") && !text.starts_with("fe80:");
    if (!usable) {
      return InvalidArgument(StrCat("nodeIP \"", text, "\" is no address that others reach"));
    }
    parsed.push_back(*ip);
  }
  if (parsed.size() > 2 || (parsed.size() == 2 && parsed[0].family() == parsed[1].family())) {
    return InvalidArgument("nodeIP names more than one address of a family");
  }
  return {};
}

Result<void> CompletePodNetwork(AgentConfig& config) {
  PodNetworkConfig& network = config.pod_network;
  if (network.cni_cache_directory.empty()) {
    network.cni_cache_directory = config.instance.root_dir + "/cni";
  }
  if (!network.cni_cache_directory.starts_with('/')) {
    return InvalidArgument(
        StrCat("cniCacheDir \"", network.cni_cache_directory, "\" is no absolute path"));
  }
  if (network.cni_plugin_directories.empty()) {
    return InvalidArgument("cniBinDir: at least one directory is needed");
  }
  for (const std::string& directory : network.cni_plugin_directories) {
    // They are told to plugins as a list with colons.
    if (directory.starts_with('/') && directory.find(':') == std::string::npos) continue;
    return InvalidArgument(
        StrCat("cniBinDir \"", directory, "\" is no absolute path without a colon"));
  }
  return {};
}

// Where a bootstrap leaves what it got.
Result<void> CompleteIdentity(AgentConfig& config) {
  ClusterConfig& cluster = config.cluster;
  const std::string& root = config.instance.root_dir;
  if (!cluster.bootstrap_kubeconfig.empty() && cluster.kubeconfig.empty()) {
    cluster.kubeconfig = root + "/kubeconfig";
  }
  if (cluster.certificate_directory.empty()) cluster.certificate_directory = root + "/pki";
  if (!cluster.certificate_directory.starts_with('/')) {
    return InvalidArgument(
        StrCat("certDirectory \"", cluster.certificate_directory, "\" is no absolute path"));
  }
  if (cluster.server_tls_bootstrap && cluster.kubeconfig.empty()) {
    return InvalidArgument("serverTLSBootstrap: there is no cluster to ask (kubeconfig)");
  }
  return {};
}

}  // namespace

Result<void> CompleteConfig(AgentConfig& config, const std::string& executable) {
  model::Instance& instance = config.instance;
  if (instance.node_name.empty()) {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) {
      return Error::FromErrno(errno, "gethostname");
    }
    instance.node_name = ToLower(name.data());
  }
  if (!IsDnsName(instance.node_name)) {
    return InvalidArgument(StrCat("nodeName \"", instance.node_name,
                                  "\" is no DNS name (lower case letters, digits, '-' and '.')"));
  }
  RETURN_IF_ERROR(CompleteIdentity(config));
  RETURN_IF_ERROR(CompletePodNetwork(config));
  RETURN_IF_ERROR(CompletePodRanges(config));
  RETURN_IF_ERROR(CheckServer(config));
  RETURN_IF_ERROR(CheckImages(config));
  RETURN_IF_ERROR(CheckEviction(config.node.eviction));
  RETURN_IF_ERROR(CheckNodeIps(config.node.ips));
  if (config.node.memory_reservation != "None" && !config.node.memory_qos) {
    return InvalidArgument(
        StrCat("memoryReservationPolicy ", config.node.memory_reservation, " needs memoryQos"));
  }
  const std::string beside = executable.substr(0, executable.rfind('/') + 1);
  const auto sibling = [&](std::string& path, const char* name) {
    if (path.empty()) path = beside + name;
  };
  // Under systemd the keeper has a unit of its own; nobody else may start it then.
  if (config.programs.keeper.empty() && ::getenv("NOTIFY_SOCKET") == nullptr) {
    config.programs.keeper = beside + "holdfast-keeper";
  }
  sibling(config.programs.init, "holdfast-init");
  sibling(config.programs.unpack, "holdfast-unpack");
  sibling(config.programs.fetch, "holdfast-fetch");
  if (config.seccomp_dir.empty()) config.seccomp_dir = instance.root_dir + "/seccomp";
  return {};
}

}  // namespace holdfast::agent
