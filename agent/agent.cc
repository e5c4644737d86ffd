// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.h"

#include <fcntl.h>

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>

#include <spdlog/spdlog.h>

#include "agent/access/audit.h"
#include "agent/api/grpc/server.h"
#include "agent/base/periodic_reader.h"
#include "agent/cluster_node.h"
#include "agent/config/agent_config.h"
#include "agent/csi/claim_usage.h"
#include "agent/csi/node_csi_mounter.h"
#include "agent/csi/plugin_watcher.h"
#include "agent/evict/pressure_watch.h"
#include "agent/evict/storage_watch.h"
#include "agent/health/health.h"
#include "agent/health/service_manager.h"
#include "agent/image_service.h"
#include "agent/images/pod_pulls.h"
#include "agent/leftovers/leftover_sweeper.h"
#include "agent/library_threads.h"
#include "agent/node/memory_policy.h"
#include "agent/node/node_images.h"
#include "agent/node/node_limits.h"
#include "agent/node/node_reader.h"
#include "agent/node_server.h"
#include "agent/objects/file_pod_inputs.h"
#include "agent/objects/static_pod_inputs.h"
#include "agent/open_network.h"
#include "agent/operate/local_node_operations.h"
#include "agent/pod/admit/node_admission.h"
#include "agent/pod/execute/pod_table.h"
#include "agent/pod/operate/pod_metrics.h"
#include "agent/pod/spec/files.h"
#include "agent/probe/prober.h"
#include "agent/process_life.h"
#include "agent/proxy/pod_rules_guard.h"
#include "agent/proxy/service_events.h"
#include "agent/proxy/service_proxy.h"
#include "agent/report/claim_patch.h"
#include "agent/root_lock.h"
#include "agent/runtime_options.h"
#include "agent/source/fault_events.h"
#include "agent/source/file_pods.h"
#include "agent/source/manifest_directory.h"
#include "agent/source/manifest_editor.h"
#include "agent/source/source_faults.h"
#include "agent/stats/node_stats.h"
#include "agent/version.h"
#include "agent/volume/nfs_mounter.h"
#include "agent/volume/pod_files.h"
#include "agent/volume/tmpfs.h"
#include "agent/volume/written_volumes.h"
#include "holdfast/base/rollback.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/program_pages.h"
#include "k8s/core/v1/service.pb.h"
#include "netproxy/podnet/pod_net.h"
#include "runtime/cgroup/layout.h"
#include "runtime/containers/options.h"

namespace holdfast::agent {

// Pods that were running are taken over by then, and most of the program is of no use any more.
constexpr std::chrono::seconds kStartIsOver{10};

// Everything in the order in which it is made; members are destroyed the other way round.
struct AgentParts {
  AgentParts(AgentConfig c, std::function<Result<AgentConfig>()> reader)
      : config(std::move(c)),
        read_config(std::move(reader)),
        signals(io),
        hangup(io, SIGHUP),
        registry(IsInCluster() ? std::set{PodOrigin::kFile, PodOrigin::kApi}
                               : std::set{PodOrigin::kFile}) {}
  bool IsInCluster() const { return !config.cluster.kubeconfig.empty(); }

  AgentConfig config;
  std::function<Result<AgentConfig>()> read_config;  // the same flags and file once more
  SystemClock clock;
  WallTime started = clock.Wall();
  rlimit core_limit{};  // that we were started with
  UniqueFd lock;
  boost::asio::io_context io{1};
  boost::asio::signal_set signals;
  boost::asio::signal_set hangup;

  OpenedNetwork network;
  std::unique_ptr<ContainerRuntime> runtime;       // its pool of sandboxes uses the network
  std::unique_ptr<PodRulesGuard> pod_rules_guard;  // of the built-in network
  std::unique_ptr<PodStateStore> state;
  std::unique_ptr<PeriodicReader<NodeReading>> node;
  NodeAdmission admission{[this] { return node->Last()->offer; }};
  std::unique_ptr<PodViewStore> view;
  std::unique_ptr<NodeStats> stats;
  std::unique_ptr<ImageService> images;
  std::unique_ptr<ManifestEditor> editor;
  std::unique_ptr<ManifestDirectory> source;
  std::unique_ptr<SourceFaults> faults;
  std::unique_ptr<ServiceProxy> proxy;
  std::unique_ptr<FilePodInputs> file_inputs;  // none in a cluster: its files hold pods only
  PodRegistry registry;
  std::unique_ptr<ClusterNode> cluster;            // none when the node stands alone
  std::unique_ptr<StaticPodInputs> static_inputs;  // of the cluster
  Rollback listeners;                              // that tell these something end before they do
  CsiDrivers csi_drivers;
  ClaimUsage claim_usage{config.instance, csi_drivers};
  std::unique_ptr<NodeCsiMounter> csi_mounter;
  std::unique_ptr<NfsMounter> nfs_mounter;
  std::unique_ptr<PluginWatcher> plugins;  // none when the node stands alone
  std::unique_ptr<Prober> prober;
  PodMetrics pod_metrics;
  PodPulls pulls;
  std::unique_ptr<PodServices> services;
  std::unique_ptr<PodTable> table;
  std::unique_ptr<FilePods> file_pods;
  std::unique_ptr<ImageArchives> archives;  // null: there is no imageDir
  std::unique_ptr<StorageWatch> storage_watch;
  std::unique_ptr<PressureWatch> pressure_watch;
  std::unique_ptr<LeftoverSweeper> leftovers;
  std::unique_ptr<ServiceManager> manager;
  std::unique_ptr<LocalNodeOperations> operations;
  access::AuditLog audit{config.instance.AuditLog(), access::kAuditFileBytes, access::kAuditFiles,
                         clock};
  std::unique_ptr<ApiServer> api;
  std::unique_ptr<NodeServer> server;  // none when it is switched off
};

namespace {

// Of the node's resolv.conf a kubelet reads no more.
constexpr size_t kMostResolvConf = 10 << 20;
constexpr size_t kMostSwaps = 1 << 20;  // 32 lines at most

Result<void> OpenRuntime(AgentParts& agent) {
  ASSIGN_OR_RETURN(runtime::RuntimeOptions options, OptionsOfRuntime(agent.config));
  options.keeper_core_limit = agent.core_limit;
  // It wants sandboxes ready once there is a network.
  options.make_network_ready = [&agent](int network_namespace) {
    const auto& network = agent.network.built_in;
    return network ? network->MakeReady(network_namespace) : Result<void>();
  };
  RaiseSharedCounts(options.allocatable);
  ASSIGN_OR_RETURN(agent.runtime, runtime::MakeContainerRuntime(std::move(options)));
  return {};
}

// As the pods' addresses are to be, before the node was read too.
bool PrefersV6(const AgentParts& agent) {
  if (!agent.node) return false;
  const auto& ips = agent.node->Last()->description->host_ips;
  return !ips.empty() && ips.front().find(':') != std::string::npos;
}

Result<void> OpenNetwork(AgentParts& agent) {
  ASSIGN_OR_RETURN(agent.network,
                   OpenPodNetwork({agent.config, [&agent] { return PrefersV6(agent); },
                                   [](const std::string& line) { spdlog::warn("{}", line); }}));
  if (!agent.network.built_in) return {};
  ASSIGN_OR_RETURN(agent.pod_rules_guard,
                   PodRulesGuard::Start(*agent.network.built_in, agent.config.instance.table_name,
                                        [](const std::string& line) { spdlog::warn("{}", line); }));
  return {};
}

Result<void> OpenImages(AgentParts& agent) {
  ASSIGN_OR_RETURN(agent.images, ImageService::Open({agent.config, *agent.view, agent.clock,
                                                     [&agent] { agent.table->ImagesChanged(); }}));
  return {};
}

// Plugins are waited for, and one that hangs holds up its own pod only.
constexpr size_t kAttachmentsAtATime = 64;

Result<void> OpenSource(AgentParts& agent) {
  const model::Instance& instance = agent.config.instance;
  agent.editor = std::make_unique<ManifestEditor>(instance.manifest_dir, instance.node_name);
  if (auto recovered = agent.editor->Recover(); !recovered) {
    spdlog::warn("what a killed edit left in {}: {}, ignoring", instance.manifest_dir,
                 recovered.error().message());
  }
  ManifestDirectoryOptions options;
  options.path = instance.manifest_dir;
  options.node_name = instance.node_name;
  options.multiple_documents = !agent.IsInCluster();
  options.warn = [](const std::string& line) { spdlog::warn("manifests in {}", line); };
  ASSIGN_OR_RETURN(agent.source,
                   ManifestDirectory::Start(options, std::make_shared<const SystemClock>()));
  SourceFaultsCallbacks tell;
  tell.warn = [](const std::string& line) { spdlog::warn("manifest {}", line); };
  tell.info = [](const std::string& line) { spdlog::info("manifest {}", line); };
  tell.event = [&agent](const FaultEvent& event) { AddFault(*agent.view, event); };
  agent.faults = std::make_unique<SourceFaults>(instance.node_name, agent.started, std::move(tell));
  return {};
}

Result<void> OpenCluster(AgentParts& agent) {
  if (!agent.IsInCluster()) return {};
  ASSIGN_OR_RETURN(
      agent.cluster,
      ClusterNode::Open({agent.config, kVersion, agent.clock, agent.registry, *agent.view,
                         [&agent](const PodUid& uid) { return agent.state->LoadInputs(uid); },
                         [](const std::string& line) { spdlog::warn("{}", line); }}));
  agent.static_inputs = std::make_unique<StaticPodInputs>(agent.cluster->inputs());
  agent.images->UseAccounts(agent.cluster->accounts());
  return {};
}

Result<void> OpenServices(AgentParts& agent) {
  ServiceCallbacks callbacks;
  callbacks.log = [](const std::string& line) { spdlog::warn("{}", line); };
  callbacks.trouble = [&agent](const corev1::Service& service, const ServiceTrouble& trouble) {
    const auto& meta = service.metadata();
    spdlog::warn("service {}/{}: {}", meta.namespace_(), meta.name(), trouble.message);
    AddTrouble(*agent.view, service, trouble);
  };
  const auto announced = [&agent](const corev1::Service& service, const AddressHeld& address) {
    AddAddressHeld(*agent.view, service, address);
  };
  ASSIGN_OR_RETURN(agent.proxy,
                   ServiceProxy::Start(agent.config,
                                       {*agent.source, *agent.view,
                                        agent.cluster ? &agent.cluster->api() : nullptr},
                                       agent.clock, std::move(callbacks), announced));
  LocalServices* const local = agent.proxy->local();
  if (local == nullptr) return {};
  agent.file_inputs = std::make_unique<FilePodInputs>(
      ServicesOfFiles{[&agent] { return agent.source->Snapshot()->generation; },
                      [local](const std::string& of_namespace, bool links, uint64_t of_generation) {
                        return local->Variables(of_namespace, links, of_generation);
                      }});
  local->SetListener([&agent] { agent.file_inputs->ServicesChanged(); });
  agent.listeners.Add([local] { local->SetListener({}); });
  return {};
}

// Before the pods, so that they find what comes with them.
void TakeWhatPodsAreMadeFrom(AgentParts& agent, const PodSnapshot& snapshot) {
  agent.proxy->SourceChanged();
  if (!agent.file_inputs) return;
  std::vector<ConfigObjectPtr> objects;
  objects.reserve(snapshot.configs.size());
  for (const DesiredConfig& config : snapshot.configs) objects.push_back(config.object);
  agent.file_inputs->SetObjects(std::move(objects));
}

// Until the API server has told its own: those that it is going to be given.
std::map<std::string, std::string> NodeLabels(const AgentParts& agent) {
  auto labels = agent.cluster ? agent.cluster->labels() : std::map<std::string, std::string>();
  return labels.empty() ? agent.node->Last()->offer->labels : labels;
}

// Claims, and the objects that say how plugins are to be used, are an API server's.
Result<void> OpenPlugins(AgentParts& agent) {
  if (!agent.IsInCluster()) return {};
  const std::string& root = agent.config.instance.root_dir;
  agent.csi_mounter = std::make_unique<NodeCsiMounter>(
      root, agent.csi_drivers, [&agent](const corev1::Pod& pod, const EventNote& note) {
        agent.view->AddEvents(pod, {note});
      });
  PluginWatcherOptions options;
  options.root_dir = root;
  options.log = [](const std::string& line) { spdlog::info("{}", line); };
  ASSIGN_OR_RETURN(agent.plugins, PluginWatcher::Start(std::move(options), agent.csi_drivers));
  return {};
}

PodInputs* InputsOfFiles(AgentParts& agent) {
  if (agent.static_inputs) return agent.static_inputs.get();
  return agent.file_inputs.get();
}

Result<void> OpenNode(AgentParts& agent) {
  auto app_armor =
      std::make_unique<DefaultAppArmor>([](const std::string& line) { spdlog::warn("{}", line); });
  auto reader = std::make_shared<NodeReader>(agent.config, kVersion, std::move(app_armor));
  ASSIGN_OR_RETURN(agent.node, PeriodicReader<NodeReading>::Start("node-reader", [reader] {
                     return reader->Read(SystemClock().Boot());
                   }));
  return {};
}

// What the pods' operations work with.
Result<void> OpenPodServices(AgentParts& agent) {
  ASSIGN_OR_RETURN(agent.prober,
                   Prober::Start(*agent.runtime, agent.clock,
                                 {[&agent](const corev1::Pod& pod, const EventNote& note) {
                                   agent.view->AddEvents(pod, {note});
                                 }}));
  NfsPrograms programs;
  programs.owner = "nfs " + agent.config.instance.root_dir;
  ASSIGN_OR_RETURN(agent.nfs_mounter, NfsMounter::Make(std::move(programs)));
  agent.services = std::unique_ptr<PodServices>(
      new PodServices{.runtime = *agent.runtime,
                      .images = agent.images->store(),
                      .network = *agent.network,
                      .state = *agent.state,
                      .view = *agent.view,
                      .clock = agent.clock,
                      .instance = agent.config.instance,
                      .max_back_off = agent.config.max_back_off,
                      .node = [&agent] { return agent.node->Last()->environment; },
                      .log = [](const std::string& line) { spdlog::warn("{}", line); },
                      .admission = &agent.admission,
                      .reporter = agent.cluster ? &agent.cluster->reporter() : nullptr,
                      .inputs = agent.cluster ? &agent.cluster->inputs() : nullptr,
                      .prober = agent.prober.get(),
                      .puller = &agent.images->puller(),
                      .pulled_images = &agent.images->pulled(),
                      .node_logins =
                          [&agent](const std::string& image, const TokenOwner* pod,
                                   const std::atomic<bool>& cancelled) {
                            return agent.images->Logins(image, pod, cancelled);
                          },
                      .file_inputs = InputsOfFiles(agent),
                      .keep_secrets = agent.config.cluster.keep_inputs == "all",
                      .csi = agent.csi_mounter.get(),
                      .nfs = agent.nfs_mounter.get(),
                      .node_labels = [&agent] { return NodeLabels(agent); },
                      .metrics = &agent.pod_metrics,
                      .patch_claim =
                          [&agent](const kube::Claim& claim, std::string patch) {
                            return PatchClaim(agent.cluster->api(), claim, std::move(patch));
                          },
                      .pulls = &agent.pulls});
  return {};
}

Result<void> OpenTable(AgentParts& agent) {
  PodTableOptions options;
  options.workers = agent.config.workers;
  if (agent.network.cni) options.sandboxes = kAttachmentsAtATime;
  options.pulls = agent.images->MostThatWait();
  agent.table = std::make_unique<PodTable>(agent.io, *agent.services, agent.registry, options);
  RETURN_IF_ERROR(agent.table->Recover());
  agent.file_pods = std::make_unique<FilePods>(
      *agent.source, agent.registry,
      [a = &agent](const PodSnapshot& snapshot) { TakeWhatPodsAreMadeFrom(*a, snapshot); },
      [a = &agent](const PodSnapshot& snapshot) { a->faults->Look(snapshot, a->clock.Wall()); });
  return {};
}

// Once, as a kubelet does.
void JudgeResolvConf(AgentParts& agent) {
  const model::Instance& instance = agent.config.instance;
  if (instance.resolv_conf.empty()) return;
  const auto text = sys::ReadFileAt(AT_FDCWD, instance.resolv_conf, kMostResolvConf);
  const std::string fault =
      text ? ResolvConfFault(instance.resolv_conf, *text, instance.cluster_domain)
           : text.error().message();
  if (fault.empty()) return;
  agent.view->AddEvent(NodeSubject(instance.node_name),
                       {true, "CheckLimitsForResolvConf", fault, "", false});
}

// Last of what the table needs: it ends pods.
Result<void> WatchStorage(AgentParts& agent) {
  agent.storage_watch = std::unique_ptr<StorageWatch>(new StorageWatch(
      {.instance = agent.config.instance,
       .pods = *agent.view,
       .evict = [&agent](const PodUid& uid,
                         const Eviction& eviction) { agent.table->Evict(uid, eviction); },
       .tell = [&agent](const corev1::Pod& pod,
                        const EventNote& note) { agent.view->AddEvents(pod, {note}); }}));
  return agent.storage_watch->Start();
}

Result<void> WatchPressure(AgentParts& agent) {
  agent.pressure_watch = std::unique_ptr<PressureWatch>(new PressureWatch(
      {.config = agent.config.node.eviction,
       .clock = agent.clock,
       .pods = *agent.view,
       .rooms =
           [&agent] {
             return ReadRooms(agent.config.instance, CgroupNamingOf(agent.config),
                              agent.node->Last()->standing->cgroups);
           },
       .sample =
           [&agent](bool disk) {
             if (disk) agent.stats->MeasureTrees();
             return agent.stats->Sample(std::chrono::milliseconds(0));
           },
       .memory_is_short =
           [&agent](bool is_short) {
             agent.runtime->KeepReady(is_short ? 0 : agent.config.sandbox_pool_size);
           },
       .make_room = [&agent] { (void)agent.images->collector().MakeRoom(); },
       .evict = [&agent](const PodUid& uid,
                         const Eviction& eviction) { agent.table->Evict(uid, eviction); },
       .tell =
           [&agent](const EventNote& note) {
             agent.view->AddEvent(NodeSubject(agent.config.instance.node_name), note);
           },
       .log = [](const std::string& line) { spdlog::warn("{}", line); }}));
  agent.runtime->KeepReady(agent.config.sandbox_pool_size);  // until it has looked
  return agent.pressure_watch->Start();
}

// What this node tells the API server of itself.
std::shared_ptr<const NodeDescription> DescriptionOf(AgentParts& agent) {
  auto description = std::make_shared<NodeDescription>(*agent.node->Last()->description);
  if (const auto images = agent.images->store().List()) description->images = ShownImages(*images);
  if (agent.csi_mounter) description->volumes_in_use = agent.csi_mounter->VolumesInUse();
  if (agent.server) description->port = static_cast<uint16_t>(agent.config.server.port);
  return description;
}

// Last: from here on others may want something.
Result<void> JoinCluster(AgentParts& agent) {
  if (!agent.cluster) return {};
  RETURN_IF_ERROR(agent.cluster->Join({agent.network.built_in.get(), *agent.proxy->cluster(),
                                       *agent.view, [&agent] { return DescriptionOf(agent); }}));
  if (agent.network.cni) {
    agent.network.cni->SetListener(
        [&agent](const std::string& problem) { agent.cluster->TellNetwork(problem); });
    agent.listeners.Add([&agent] { agent.network.cni->SetListener({}); });
  }
  agent.csi_drivers.SetListener([&agent](const std::vector<CsiDriverInfo>& drivers) {
    std::vector<CsiNodeDriver> told;
    for (const CsiDriverInfo& driver : drivers) {
      told.push_back({driver.name, driver.node_id, driver.most_volumes, driver.topology});
    }
    agent.cluster->TellDrivers(std::move(told));
  });
  return {};
}

// In the background from the start on: what is there may take long, and nobody waits for it.
void OpenLeftovers(AgentParts& agent) {
  const model::Instance& instance = agent.config.instance;
  agent.leftovers =
      std::make_unique<LeftoverSweeper>(std::vector{instance.AsideDir(), instance.LogAsideDir()},
                                        [](const std::string& line) { spdlog::warn("{}", line); });
  if (auto started = agent.leftovers->Start(); !started) {
    spdlog::warn("leftovers are only removed by \"holdctl check --repair\": {}",
                 started.error().message());
  }
}

// What can be asked of the node as a part of a cluster.
ClusterOperationsParts ClusterOperations(AgentParts& agent) {
  if (!agent.cluster) return {};
  ClusterNode& cluster = *agent.cluster;
  return {.conditions = [&cluster](WallTime now) { return cluster.identity().Conditions(now); },
          .review_rights = [&cluster] { return cluster.ReviewRights(); }};
}

Result<void> OpenApi(AgentParts& agent) {
  const model::Instance& instance = agent.config.instance;
  agent.operations = std::unique_ptr<LocalNodeOperations>(new LocalNodeOperations({
      .audited = {instance, *agent.table, *agent.view, *agent.runtime, *agent.network,
                  *agent.leftovers},
      .table = *agent.table,
      .pods = *agent.view,
      .stats = *agent.stats,
      .services = agent.proxy->services(),
      .images = agent.images->by_short_name(),
      .puller = agent.images->puller(),
      .pusher = agent.images->pusher(),
      .pulls = agent.pulls,
      .short_names = agent.images->short_names(),
      .image_collector = agent.images->collector(),
      .node_logins =
          [&agent](const std::string& image, const std::atomic<bool>& cancelled) {
            return agent.images->Logins(image, nullptr, cancelled).all;
          },
      .editor = *agent.editor,
      .manifests = *agent.source,
      .faults = *agent.faults,
      .config = agent.config,
      .clock = agent.clock,
      .started = agent.started,
      .version = kVersion,
      .cluster = ClusterOperations(agent),
  }));
  ASSIGN_OR_RETURN(agent.api,
                   ApiServer::Start(*agent.operations, instance, agent.clock, agent.audit,
                                    {.have_threads = ReserveLibraryThreads}));
  return {};
}

Result<void> OpenServer(AgentParts& agent) {
  if (!agent.config.server.IsOn(agent.IsInCluster())) return {};
  ASSIGN_OR_RETURN(
      agent.server,
      NodeServer::Start({agent.io, agent.config, *agent.view, *agent.stats,
                         agent.cluster ? &agent.cluster->api() : nullptr, agent.clock, kVersion,
                         [&agent] { return agent.node->Last()->description; },
                         [&agent] { return UnhealthyBecause(*agent.table); },
                         [&agent] { return agent.prober->MetricsText(); },
                         [&agent] { return agent.pod_metrics.Text(); },
                         [&agent] {
                           using Reason = ImageCollector::Reason;
                           const ImageCollector& collector = agent.images->collector();
                           return std::pair(collector.Collected(Reason::kAge),
                                            collector.Collected(Reason::kSpace));
                         },
                         *agent.operations, agent.audit,
                         [](const std::string& line) { spdlog::warn("{}", line); }}));
  if (agent.config.cluster.server_tls_bootstrap) {
    agent.cluster->identity().DeliverServing(agent.server->CertificateTaker());
  }
  return {};
}

Result<void> JudgeMemorySettings(AgentParts& agent) {
  const NodeConfig& node = agent.config.node;
  const model::Instance& instance = agent.config.instance;
  const bool unified = HasUnifiedCgroups(runtime::DetectCgroupLayout(instance.cgroup_root));
  for (const std::string& line : WithoutEffect(node, unified)) {
    spdlog::warn("{}", line);
  }
  const auto swaps = sys::ReadFileAt(AT_FDCWD, "/proc/swaps", kMostSwaps);
  if (!swaps) return {};  // a kernel without swap
  return CheckSwap(node, instance.node_name, *swaps, KeepsTmpfsFromSwap(), *agent.view);
}

Result<void> OpenAll(AgentParts& agent) {
  const model::Instance& instance = agent.config.instance;
  ASSIGN_OR_RETURN(agent.lock, LockRoot(instance.root_dir));
  RETURN_IF_ERROR(sys::MakeDirs(AT_FDCWD, instance.manifest_dir, 0750));
  agent.view = std::make_unique<PodViewStore>(instance.node_name, agent.clock);
  RETURN_IF_ERROR(JudgeMemorySettings(agent));
  agent.stats = std::make_unique<NodeStats>(NodeStatsOptions{
      .instance = instance,
      .pods = *agent.view,
      .clock = agent.clock,
      .naming = CgroupNamingOf(agent.config),
      .claims = [&agent](const corev1::Pod& pod) { return agent.claim_usage.Of(pod); },
      .measure_claims = [&agent] { agent.claim_usage.Measure(); }});
  ASSIGN_OR_RETURN(agent.state, WithContext(PodStateStore::Open(instance), "state of pods"));
  RETURN_IF_ERROR(WithContext(OpenRuntime(agent), "container runtime"));
  // Now that the keeper has mounted the run directory.
  RETURN_IF_ERROR(WithContext(OpenPodFilesRoot(instance), "files of pods"));
  RETURN_IF_ERROR(WithContext(OpenWrittenVolumes(instance), "volumes"));
  RETURN_IF_ERROR(WithContext(OpenNetwork(agent), "pod network"));
  RETURN_IF_ERROR(OpenImages(agent));
  RETURN_IF_ERROR(WithContext(OpenSource(agent), "manifests"));
  RETURN_IF_ERROR(WithContext(OpenCluster(agent), "kubeconfig"));
  RETURN_IF_ERROR(WithContext(OpenServices(agent), "services"));
  RETURN_IF_ERROR(WithContext(OpenPlugins(agent), "storage plugins"));
  RETURN_IF_ERROR(OpenNode(agent));
  RETURN_IF_ERROR(WithContext(OpenPodServices(agent), "pods"));
  RETURN_IF_ERROR(WithContext(OpenTable(agent), "pods"));
  JudgeResolvConf(agent);
  ASSIGN_OR_RETURN(agent.archives, agent.images->Tend());
  RETURN_IF_ERROR(WithContext(WatchStorage(agent), "local storage"));
  RETURN_IF_ERROR(WithContext(WatchPressure(agent), "pressure on the node"));
  OpenLeftovers(agent);
  RETURN_IF_ERROR(WithContext(OpenApi(agent), "api"));
  RETURN_IF_ERROR(WithContext(OpenServer(agent), "https server"));
  return WithContext(JoinCluster(agent), "cluster");
}

void ReloadOnHangup(AgentParts& agent) {
  agent.hangup.async_wait([&agent](const auto& error, int) {
    if (error) return;
    if (const auto fresh = agent.read_config(); !fresh) {
      spdlog::error("the configuration stays as it is: {}", fresh.error().message());
    } else {
      spdlog::info("configuration read again: proxyMode {}", fresh->proxy.mode);
      agent.proxy->SetMode(fresh->proxy.mode);
    }
    ReloadOnHangup(agent);
  });
}

}  // namespace

Agent::Agent(AgentConfig config, std::function<Result<AgentConfig>()> read_config,
             const rlimit& core_limit)
    : parts_(std::make_unique<AgentParts>(std::move(config), std::move(read_config))) {
  parts_->core_limit = core_limit;
}

Agent::~Agent() = default;

Result<void> Agent::Open() { return OpenAll(*parts_); }

void Agent::Serve() {
  AgentParts& agent = *parts_;
  agent.manager = std::make_unique<ServiceManager>(
      agent.io, [&agent] { return UnhealthyBecause(*agent.table); });
  // Not before: a start that hangs ends with the signal, as it ends with any.
  agent.signals.add(SIGTERM);
  agent.signals.add(SIGINT);
  agent.signals.async_wait([&agent](const auto& error, int signal) {
    if (error) return;
    spdlog::info("signal {}: stopping, pods go on", signal);
    LimitTimeToStop();
    agent.images->Stop();
    if (agent.network.cni) agent.network.cni->Stop();
    if (agent.nfs_mounter) agent.nfs_mounter->Stop();
    agent.manager->Stopping();
    agent.io.stop();
  });
  ReloadOnHangup(agent);
  boost::asio::steady_timer start_is_over(agent.io, kStartIsOver);
  start_is_over.async_wait([](const auto& error) {
    if (!error) sys::UnmapProgramPages();
  });
  const std::string& name = agent.config.instance.node_name;
  spdlog::info("holdfastd {} runs node {}, manifests in {}", kVersion, name,
               agent.config.instance.manifest_dir);
  agent.manager->Ready("running node " + name);
  agent.io.run();
}

}  // namespace holdfast::agent
