// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/container_logs.h"

#include <algorithm>
#include <utility>

#include "agent/base/log_time.h"
#include "agent/kube/containers_of.h"
#include "agent/view/find_container.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::api {
namespace {

constexpr uint64_t kMostUnpacked = 512u << 20;  // of compressed logs that are being read

HttpAnswer Refused(unsigned status, std::string text) {
  return {.status = status, .body = std::move(text)};
}

std::string Quoted(const std::string& text) { return StrCat("\"", text, "\""); }

}  // namespace

std::string WhyNoLog(const k8s::io::api::core::v1::Pod& pod, const std::string& container,
                     bool previous) {
  const std::string what = ContainerInPod(pod, container);
  const auto* const status = kube::StatusOf(pod, container);
  if (status == nullptr) return StrCat(what, " is not available");
  const auto has_run = [](const auto& state) {
    return state.has_terminated() && !state.terminated().containerid().empty();
  };
  const auto& state = status->state();
  if (previous) {
    return has_run(status->laststate()) ? "" : StrCat("previous terminated ", what, " not found");
  }
  if (state.has_running() || has_run(state) || has_run(status->laststate())) return "";
  if (state.has_terminated() || status->laststate().has_terminated()) {
    return StrCat(what, " is terminated");
  }
  if (!state.has_waiting()) return StrCat(what, " is waiting to start - no logs yet");
  const std::string& reason = state.waiting().reason();
  const char* const pull = reason == "ErrImagePull"       ? "image can't be pulled"
                           : reason == "ImagePullBackOff" ? "trying and failing to pull image"
                                                          : nullptr;
  return StrCat(what, " is waiting to start: ", pull != nullptr ? pull : reason.c_str());
}

// One reader. The follower's calls come from any thread and are brought to the server's.
class ContainerLogs::Body final : public LogSink, public std::enable_shared_from_this<Body> {
 public:
  Body(ContainerLogs& logs, ExchangePtr exchange, const LogOptions& options, LogQuestion question)
      : logs_(logs),
        exchange_(std::move(exchange)),
        timestamps_(options.timestamps),
        left_(options.limit_bytes),
        follower_(LogFollower::New(logs.Sources(), std::move(question), *this)) {}

  void Start() { follower_->Start(); }

  // The last call: the follower is let go.
  void Done() {
    if (std::exchange(done_, true)) return;
    (void)follower_->Cancel();
    follower_->Release();
  }

  void Opened() override {
    Post([](Body& body) { body.Begin(); });
  }
  void Take(std::vector<ShownLine> lines, bool last) override {
    std::string text;
    for (const ShownLine& line : lines) Append(line, text);
    const bool full = left_ && *left_ == 0;
    Post([text = std::move(text), last = last || full](Body& body) mutable {
      body.text_ = std::move(text);
      body.last_ = last;
      body.taken_ = true;
      body.Pump();
    });
  }
  void End(const Result<void>& result) override {
    Post([why = result ? "" : result.error().message()](Body& body) { body.OnEnd(why); });
  }

 private:
  void Post(std::function<void(Body&)> work) {
    exchange_->Post([self = shared_from_this(), work = std::move(work)] {
      if (!self->done_) work(*self);
    });
  }

  // The limit counts what is sent, time stamps too.
  void Append(const ShownLine& line, std::string& out) {
    std::string text;
    const bool begins = !std::exchange(in_line_, line.partial);
    if (timestamps_ && begins) text = FormatLogTime(line.time) + " ";
    text += line.text;
    if (!line.partial) text.push_back('\n');
    if (left_) {
      text.resize(std::min<size_t>(text.size(), static_cast<size_t>(*left_)));
      *left_ -= static_cast<int64_t>(text.size());
    }
    out += text;
  }

  void Begin() {
    begun_ = writing_ = true;
    // Weak: the events are the exchange's, which this holds.
    const std::weak_ptr<Body> weak = weak_from_this();
    exchange_->Begin({}, {.passed =
                              [weak] {
                                if (const auto body = weak.lock()) body->OnPassed();
                              },
                          .gone =
                              [weak] {
                                if (const auto body = weak.lock()) body->Leave();
                              }});
  }

  void OnPassed() {
    writing_ = false;
    Pump();
  }

  void Pump() {
    if (writing_) return;
    if (!text_.empty()) {
      writing_ = true;
      return exchange_->Write(std::exchange(text_, {}));
    }
    if (last_) {
      exchange_->End();
      return Leave();
    }
    if (std::exchange(taken_, false)) follower_->Passed();
  }

  void OnEnd(const std::string& why) {
    if (begun_) {
      last_ = true;  // what was sent is all there is
      return Pump();
    }
    exchange_->Answer(Refused(400, why));
    Leave();
  }

  void Leave() {
    const auto self = shared_from_this();
    Done();
    logs_.open_.erase(self);
  }

  ContainerLogs& logs_;
  const ExchangePtr exchange_;
  const bool timestamps_;
  std::optional<int64_t> left_;  // of the follower's calls
  bool in_line_ = false;         // the same
  std::string text_;             // all others: of the server's thread
  bool begun_ = false, writing_ = false, taken_ = false, last_ = false, done_ = false;
  const std::shared_ptr<LogFollower> follower_;  // also of who wakes it
};

ContainerLogs::ContainerLogs(PodView& pods, const model::Instance& instance, const Clock& clock,
                             WorkerPool& pool)
    : pods_(pods), instance_(instance), clock_(clock), pool_(pool), unpacked_(kMostUnpacked) {}

ContainerLogs::~ContainerLogs() {
  for (const auto& body : open_) body->Done();
  pool_.Finish();
}

LogSources ContainerLogs::Sources() {
  return {.pods = pods_,
          .instance = instance_,
          .unpacked = unpacked_,
          .waker = waker_,
          .readers = pool_,
          .closers = pool_};
}

void ContainerLogs::Answer(const ExchangePtr& exchange, const std::vector<std::string>& parts,
                           const Query& query) {
  constexpr const char* kMissing[] = {"podNamespace", "podID", "container name"};
  if (parts.size() != 3) return exchange->Answer(Refused(404, "404 page not found\n"));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].empty()) continue;
    return exchange->Answer(Refused(400, StrCat("{\"message\": \"Missing ", kMissing[i], ".\"}")));
  }
  const auto options = ReadLogOptions(query, clock_.Wall());
  if (!options) {
    return exchange->Answer(Refused(options.error().status, options.error().text));
  }
  const PodPtr pod = pods_.FindPod(parts[0], parts[1]);
  if (!pod) {
    return exchange->Answer(Refused(404, StrCat("pod ", Quoted(parts[1]), " does not exist\n")));
  }
  const auto names = kube::ContainerNames(*pod);
  if (std::find(names.begin(), names.end(), parts[2]) == names.end()) {
    return exchange->Answer(Refused(
        404, StrCat("container ", Quoted(parts[2]), " not found in pod ", Quoted(parts[1]), "\n")));
  }
  const std::string trouble = WhyNoLog(*pod, parts[2], options->previous);
  if (!trouble.empty()) return exchange->Answer(Refused(400, trouble));
  LogQuestion question{.pod_namespace = parts[0],
                       .pod = parts[1],
                       .container = parts[2],
                       .previous = options->previous,
                       .follow = options->follow && !options->previous,
                       .one_run = true,
                       .filter = options->filter,
                       .limit_bytes = {}};
  const auto body = std::make_shared<Body>(*this, exchange, *options, std::move(question));
  open_.insert(body);
  body->Start();
}

}  // namespace holdfast::agent::api
