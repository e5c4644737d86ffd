// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/kubelet_api.h"

#include <algorithm>
#include <boost/beast/http/verb.hpp>
#include <future>
#include <string_view>
#include <utility>

#include "agent/api/kubelet/agent_metrics.h"
#include "agent/api/kubelet/authentication.h"
#include "agent/api/kubelet/authorization.h"
#include "agent/api/kubelet/configz.h"
#include "agent/api/kubelet/container_logs.h"
#include "agent/api/kubelet/healthz.h"
#include "agent/api/kubelet/log_query.h"
#include "agent/api/kubelet/node_attributes.h"
#include "agent/api/kubelet/node_logs.h"
#include "agent/api/kubelet/pod_lists.h"
#include "agent/api/kubelet/request_metrics.h"
#include "agent/api/kubelet/stats_metrics.h"
#include "agent/api/kubelet/stats_summary.h"
#include "agent/base/worker_pool.h"
#include "agent/http/client_authority.h"
#include "agent/http/https_server.h"
#include "holdfast/base/percent.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::api {
namespace {

constexpr size_t kThreads = 4;   // for what waits for files
constexpr size_t kQueued = 256;  // as many as there are connections
constexpr char kSystemLogs[] = "/var/log";

std::string ToString(boost::beast::string_view text) { return {text.data(), text.size()}; }

HttpAnswer NotFoundPage() { return {.status = 404, .body = "404 page not found\n"}; }
HttpAnswer JsonAnswer(std::string body) {
  return {.body = std::move(body), .content_type = "application/json"};
}
HttpAnswer MetricsAnswer(std::string text) {
  return {.body = std::move(text), .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}
HttpAnswer WrongMethod() { return {.status = 405, .body = "405: Method Not Allowed"}; }
// As Go's http.Error() says it.
HttpAnswer Disabled(const char* why) {
  return {
      .status = 405, .body = StrCat(why, "\n"), .headers = {{"X-Content-Type-Options", "nosniff"}}};
}

// What is asked of a request's target.
struct Target {
  std::string path;  // as it was sent, without its query
  Query query;
  bool IsBelow(std::string_view prefix) const {
    return path == prefix || path.starts_with(StrCat(prefix, "/"));
  }
};

Target TargetOf(const HttpRequest& request) {
  const std::string text = ToString(request.target());
  const size_t split = std::min(text.find('?'), text.size());
  Target target{text.substr(0, split), {}};
  if (split < text.size()) target.query = ParseQuery(std::string_view(text).substr(split + 1));
  return target;
}

}  // namespace

// Everything but the constructor and the destructor runs on the server's thread.
class KubeletApi::Impl {
 public:
  Impl(KubeletApiParts parts, std::unique_ptr<ClientAuthority> clients)
      : parts_(std::move(parts)), clients_(std::move(clients)) {}
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<void> Start();
  uint16_t port() const { return server_->port(); }
  void RefreshFiles();

 private:
  const NodeServerConfig& config() const { return parts_.config.server; }
  AuthenticationOptions AuthenticationWanted() const;
  AuthorizationOptions AuthorizationWanted() const;

  void Handle(const ExchangePtr& exchange);
  void Authorize(const ExchangePtr& exchange, const NodeUser& user);
  void Dispatch(const ExchangePtr& asked, const NodeUser& user);
  bool AnswerDebugging(const ExchangePtr& exchange, const Target& target, const NodeUser& user);
  bool AnswerSystemLogs(const ExchangePtr& exchange, const Target& target);
  bool AnswerStatistics(const ExchangePtr& exchange, const Target& target);
  void BeginSession(const ExchangePtr& exchange, const NodeUser& user);
  HttpAnswer WithSample(const std::function<HttpAnswer(const NodeSample&)>& answer);
  std::string Metrics() const;
  // On another thread.
  void Offload(const ExchangePtr& exchange, std::function<HttpAnswer()> work,
               std::function<void()> afterwards = {});

  const KubeletApiParts parts_;
  const std::unique_ptr<ClientAuthority> clients_;
  std::unique_ptr<HttpsServer> server_;
  WorkerPool pool_{{.name = "node-api", .threads = kThreads, .queued = kQueued}};
  RequestMetrics requests_;
  std::unique_ptr<ContainerLogs> logs_;
  NodeLogs system_logs_{kSystemLogs, pool_};
  std::unique_ptr<Authentication> authentication_;
  std::unique_ptr<Authorization> authorization_;
};

Result<void> KubeletApi::Impl::Start() {
  RETURN_IF_ERROR(pool_.Start());
  logs_ = std::make_unique<ContainerLogs>(parts_.pods, parts_.config.instance, parts_.clock, pool_);
  authentication_ = std::make_unique<Authentication>(AuthenticationWanted());
  authorization_ = std::make_unique<Authorization>(AuthorizationWanted());
  HttpsServerOptions options;
  options.address = config().address;
  options.port = static_cast<uint16_t>(config().port);
  options.handler = [this](const ExchangePtr& exchange) { Handle(exchange); };
  options.log = parts_.log;
  ASSIGN_OR_RETURN(server_, HttpsServer::Start(std::move(options), parts_.certificate));
  return {};
}

// What runs elsewhere holds exchanges, which must be gone before the server.
KubeletApi::Impl::~Impl() {
  if (server_) server_->Stop();
  authentication_.reset();
  authorization_.reset();
  if (parts_.api != nullptr) {
    std::promise<void> passed;
    parts_.api->Post([&passed] { passed.set_value(); });
    passed.get_future().wait();
  }
  logs_.reset();
  pool_.Finish();
}

// When the pool is busy the next look finds the same.
void KubeletApi::Impl::RefreshFiles() {
  (void)pool_.TryPost([this] {
    parts_.certificate.Refresh();
    const auto read = clients_->Refresh();
    if (!read) parts_.log(StrCat(read.error().message(), ", the former one stays"));
  });
}

AuthenticationOptions KubeletApi::Impl::AuthenticationWanted() const {
  return {.clients = *clients_,
          .api = config().token_webhook ? parts_.api : nullptr,
          .cache_for = config().token_cache,
          .anonymous = config().anonymous,
          .log = parts_.log};
}

AuthorizationOptions KubeletApi::Impl::AuthorizationWanted() const {
  return {.node_name = parts_.config.instance.node_name,
          .api = config().authorization_mode == "Webhook" ? parts_.api : nullptr,
          .cache_allowed_for = config().allowed_cache,
          .cache_denied_for = config().denied_cache};
}

void KubeletApi::Impl::Handle(const ExchangePtr& exchange) {
  authentication_->Authenticate(exchange, [this, exchange](std::optional<NodeUser> user) {
    if (!user) return exchange->Answer({.status = 401, .body = "Unauthorized"});
    Authorize(exchange, *user);
  });
}

void KubeletApi::Impl::Authorize(const ExchangePtr& exchange, const NodeUser& user) {
  const std::string path = TargetOf(exchange->request()).path;
  const std::string verb = VerbOf(ToString(exchange->request().method_string()), path);
  const auto subresources = SubresourcesOf(path);
  const std::string what =
      StrCat("(user=", user.name, ", verb=", verb, ", resource=nodes, subresource(s)=[",
             Join(subresources, " "), "])");
  authorization_->Authorize(
      exchange, user, verb, subresources,
      [this, exchange, user, what](const Result<bool>& allowed) {
        if (!allowed) {
          parts_.log(StrCat("authorization error ", what, ": ", allowed.error().message()));
          return exchange->Answer({.status = 500, .body = StrCat("Authorization error ", what)});
        }
        if (!*allowed) {
          return exchange->Answer({.status = 403, .body = StrCat("Forbidden ", what, "\n")});
        }
        Dispatch(exchange, user);
      });
}

void KubeletApi::Impl::Offload(const ExchangePtr& exchange, std::function<HttpAnswer()> work,
                               std::function<void()> afterwards) {
  const auto posted = pool_.TryPost(
      [exchange, work = std::move(work), afterwards = std::move(afterwards)]() mutable {
        exchange->Answer(work());
        if (afterwards) afterwards();
      });
  if (!posted) exchange->Answer({.status = 503, .body = posted.error().message() + "\n"});
}

void KubeletApi::Impl::Dispatch(const ExchangePtr& asked, const NodeUser& user) {
  using boost::beast::http::verb;
  const Target target = TargetOf(asked->request());
  const ExchangePtr exchange = requests_.Count(asked, target.path, IsSession(target.path));
  if (AnswerDebugging(exchange, target, user) || AnswerSystemLogs(exchange, target)) return;
  const bool summary = target.path == "/stats/summary";
  const verb method = exchange->request().method();
  if (method != verb::get && !(summary && method == verb::post)) {
    return exchange->Answer(WrongMethod());
  }
  if (AnswerStatistics(exchange, target)) return;
  if (target.IsBelow("/healthz")) {
    return exchange->Answer(
        HealthzAnswer(target.path, target.query.contains("verbose"), parts_.unhealthy_because()));
  }
  if (target.path == "/pods" || target.path == "/pods/") {
    return Offload(exchange, [this] { return JsonAnswer(PodsJson(parts_.pods)); });
  }
  exchange->Answer(NotFoundPage());
}

bool KubeletApi::Impl::AnswerStatistics(const ExchangePtr& exchange, const Target& target) {
  if (target.path == "/stats/summary") {
    const auto brief = target.query.find("only_cpu_and_memory");
    const bool only = brief != target.query.end() && brief->second.front() == "true";
    Offload(
        exchange,
        [this, only] {
          return WithSample([&](const NodeSample& sample) {
            return JsonAnswer(SummaryJson(sample, parts_.config.instance.node_name, only));
          });
        },
        only ? std::function<void()>() : [this] {
          parts_.stats.MeasureTrees();
          parts_.stats.MeasureClaims();
        });
  } else if (target.path == "/metrics/resource") {
    Offload(exchange, [this] {
      return WithSample([](const NodeSample& s) { return MetricsAnswer(ResourceMetrics(s)); });
    });
  } else if (target.path == "/metrics/cadvisor") {
    Offload(exchange, [this] {
      return WithSample([this](const NodeSample& sample) {
        return MetricsAnswer(CadvisorMetrics(sample, parts_.machine()));
      });
    });
  } else if (target.path == "/metrics/probes") {
    Offload(exchange,
            [this] { return MetricsAnswer(parts_.probe_metrics ? parts_.probe_metrics() : ""); });
  } else if (target.path == "/metrics") {
    Offload(
        exchange, [this] { return MetricsAnswer(Metrics()); },
        [this] { parts_.stats.MeasureClaims(); });
  } else {
    return false;
  }
  return true;
}

HttpAnswer KubeletApi::Impl::WithSample(
    const std::function<HttpAnswer(const NodeSample&)>& answer) {
  const auto sample = parts_.stats.Sample();
  if (sample) return answer(**sample);
  return {.status = 500, .body = StrCat(sample.error().message(), "\n")};
}

std::string KubeletApi::Impl::Metrics() const {
  const auto layout = runtime::DetectCgroupLayout(parts_.config.instance.cgroup_root);
  const bool v1 = layout && layout->version == runtime::CgroupVersion::kV1;
  const auto [by_age, by_space] =
      parts_.collected_images ? parts_.collected_images() : std::pair<uint64_t, uint64_t>();
  MetricsText text;
  AddAgentMetrics(parts_.pods.ListPods(),
                  {parts_.config.instance.node_name, parts_.version, v1 ? 1 : 2, by_age, by_space},
                  text);
  requests_.Print(text);
  if (const auto sample = parts_.stats.Sample()) AddVolumeMetrics(**sample, text);
  return StrCat(text.text(), parts_.pod_metrics ? parts_.pod_metrics() : "");
}

// Files of /var/log, and what a kubelet has for its own debugging, which is off here.
bool KubeletApi::Impl::AnswerSystemLogs(const ExchangePtr& exchange, const Target& target) {
  if (target.IsBelow("/debug/pprof")) {
    exchange->Answer(Disabled("profiling endpoint is disabled."));
  } else if (target.path == "/debug/flags/v") {
    exchange->Answer(Disabled("flags endpoint is disabled."));
  } else if (!target.IsBelow("/logs")) {
    return false;
  } else if (!config().debugging_handlers || !config().system_log_handler) {
    exchange->Answer(Disabled(config().debugging_handlers ? "logs endpoint is disabled."
                                                          : "Debug endpoints are disabled."));
  } else if (exchange->request().method() != boost::beast::http::verb::get) {
    exchange->Answer(WrongMethod());
  } else if (target.path == "/logs") {
    exchange->Answer({.status = 301, .body = "", .headers = {{"Location", "logs/"}}});
  } else {
    constexpr std::string_view kPrefix = "/logs/";
    system_logs_.Answer(exchange, PercentDecoded(target.path.substr(kPrefix.size())));
  }
  return true;
}

// What enableDebuggingHandlers is for. False: it is something else.
bool KubeletApi::Impl::AnswerDebugging(const ExchangePtr& exchange, const Target& target,
                                       const NodeUser& user) {
  const bool session = IsSession(target.path), logs = target.IsBelow("/containerLogs"),
             running = target.IsBelow("/runningpods"), configz = target.path == "/configz";
  if (!session && !logs && !running && !configz) return false;
  if (!config().debugging_handlers) {
    exchange->Answer(Disabled("Debug endpoints are disabled."));
  } else if (session) {
    BeginSession(exchange, user);
  } else if (exchange->request().method() != boost::beast::http::verb::get) {
    exchange->Answer(WrongMethod());
  } else if (configz) {
    exchange->Answer(JsonAnswer(ConfigzJson(parts_.config)));
  } else if (logs) {
    auto parts = PathParts(target.path);
    parts.erase(parts.begin());
    logs_->Answer(exchange, parts, target.query);
  } else {
    Offload(exchange, [this] { return JsonAnswer(RunningPodsJson(parts_.pods)); });
  }
  return true;
}

void KubeletApi::Impl::BeginSession(const ExchangePtr& exchange, const NodeUser& user) {
  if (!parts_.sessions) {
    return exchange->Answer({.status = 501, .body = "sessions are not served by this node\n"});
  }
  UpgradedConnection connection = exchange->Release();
  connection.user = user.name;
  connection.from = exchange->peer();
  parts_.sessions(std::move(connection));
}

KubeletApi::KubeletApi(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KubeletApi::~KubeletApi() = default;

Result<std::unique_ptr<KubeletApi>> KubeletApi::Start(KubeletApiParts parts) {
  ASSIGN_OR_RETURN(auto clients, ClientAuthority::Open(parts.config.server.client_ca_file));
  auto impl = std::make_unique<Impl>(std::move(parts), std::move(clients));
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<KubeletApi>(new KubeletApi(std::move(impl)));
}

uint16_t KubeletApi::port() const { return impl_->port(); }
void KubeletApi::RefreshFiles() { impl_->RefreshFiles(); }

}  // namespace holdfast::agent::api
