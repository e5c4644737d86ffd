// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/state/record.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using Json = nlohmann::json;

constexpr int kRecordVersion = 1;

int64_t Nanos(WallTime t) { return t.since_epoch.count(); }
WallTime Wall(const Json& j) { return {std::chrono::nanoseconds(j.get<int64_t>())}; }

Json ToJson(const Finished& f) {
  return {{"id", f.id.value},
          {"attempt", f.attempt},
          {"exitCode", f.exit_code},
          {"signal", f.signal},
          {"reason", f.reason},
          {"message", f.message},
          {"startedAt", Nanos(f.started_at)},
          {"finishedAt", Nanos(f.finished_at)},
          {"image", f.image},
          {"imageID", f.image_id}};
}

Finished FinishedFrom(const Json& j) {
  Finished f;
  f.id = ContainerId(j.at("id").get<std::string>());
  f.attempt = j.at("attempt");
  f.exit_code = j.at("exitCode");
  f.signal = j.at("signal");
  f.reason = j.at("reason");
  f.message = j.at("message");
  f.started_at = Wall(j.at("startedAt"));
  f.finished_at = Wall(j.at("finishedAt"));
  f.image = j.at("image");
  f.image_id = j.at("imageID");
  return f;
}

Json ToJson(const Current& c) {
  Json j = {{"id", c.id.value}, {"attempt", c.attempt}, {"startedAt", Nanos(c.started_at)}};
  if (c.post_started) j["postStarted"] = true;
  if (!c.post_start_error.empty()) j["postStartError"] = c.post_start_error;
  if (c.startup_passed) j["startupPassed"] = true;
  j["ready"] = c.ready;
  if (c.unhealthy) j["unhealthy"] = static_cast<int>(*c.unhealthy);
  if (c.user) j["user"] = {{"uid", c.user->uid}, {"gid", c.user->gid}, {"groups", c.user->groups}};
  return j;
}

Current CurrentFrom(const Json& j) {
  Current c;
  c.id = ContainerId(j.at("id").get<std::string>());
  c.attempt = j.at("attempt");
  c.started_at = Wall(j.at("startedAt"));
  // What an agent without hooks and probes started had started for good, and was ready.
  const bool older = !j.contains("ready");
  c.post_started = j.value("postStarted", older);
  c.post_start_error = j.value("postStartError", "");
  c.startup_passed = j.value("startupPassed", older);
  c.ready = j.value("ready", true);
  if (const auto kind = j.find("unhealthy"); kind != j.end()) {
    c.unhealthy = static_cast<ProbeKind>(kind->get<int>());
  }
  if (const auto user = j.find("user"); user != j.end()) {
    c.user = UserIds{user->at("uid"), user->at("gid"), user->at("groups")};
  }
  return c;
}

Json ToJson(const BackOff& b) {
  return {{"delay", b.delay.count()},
          {"updatedAt", Nanos(b.updated_at)},
          {"announced", b.announced_attempt}};
}

BackOff BackOffFrom(const Json& j) {
  BackOff b;
  b.delay = std::chrono::seconds(j.at("delay").get<int64_t>());
  b.updated_at = Wall(j.at("updatedAt"));
  b.announced_attempt = j.at("announced");
  return b;
}

Json ToJson(const Amounts& a) { return {{"requests", a.requests}, {"limits", a.limits}}; }

Amounts AmountsFrom(const Json& j) { return {j.at("requests"), j.at("limits")}; }

Json ToJson(const Allocation& a) {
  Json j = {{"containers", Json::object()}};
  for (const auto& [name, amounts] : a.containers) j["containers"][name] = ToJson(amounts);
  if (a.pod) j["pod"] = ToJson(*a.pod);
  return j;
}

Allocation AllocationFrom(const Json& j) {
  Allocation a;
  for (const auto& [name, amounts] : j.at("containers").items()) {
    a.containers[name] = AmountsFrom(amounts);
  }
  if (const auto pod = j.find("pod"); pod != j.end()) a.pod = AmountsFrom(*pod);
  return a;
}

Json ToJson(const ResizeNote& n) {
  return {{"reason", n.reason},
          {"message", n.message},
          {"generation", n.generation},
          {"since", Nanos(n.since)},
          {"told", Nanos(n.told)}};
}

ResizeNote ResizeNoteFrom(const Json& j) {
  return {j.at("reason"), j.at("message"), j.at("generation"), Wall(j.at("since")),
          Wall(j.at("told"))};
}

Json ToJson(const ContainerMemory& c) {
  Json j = {{"attempts", c.attempts},
            {"initDone", c.init_done},
            {"again", c.again},
            {"restartBackOff", ToJson(c.restart_back_off)},
            {"imageBackOff", ToJson(c.image_back_off)}};
  if (c.launch) {
    j["launch"] = {{"attempt", c.launch->attempt},          {"image", c.launch->image},
                   {"imageID", c.launch->image_id},         {"stopSignal", c.launch->stop_signal},
                   {"imageDigest", c.launch->image_digest}, {"reference", c.launch->reference}};
    if (c.launch->amounts) j["launch"]["amounts"] = ToJson(*c.launch->amounts);
    if (!c.launch->volume_images.empty()) j["launch"]["volumeImages"] = c.launch->volume_images;
  }
  if (c.current) j["current"] = ToJson(*c.current);
  if (c.last) j["last"] = ToJson(*c.last);
  if (c.before_last) j["beforeLast"] = ToJson(*c.before_last);
  if (c.failure) j["failure"] = {{"reason", c.failure->reason}, {"message", c.failure->message}};
  if (c.stop) {
    j["stop"] = {{"begun", Nanos(c.stop->begun)},
                 {"preStopOver", c.stop->pre_stop_over},
                 {"signalledAt", Nanos(c.stop->signalled_at)}};
  }
  return j;
}

ContainerMemory ContainerFrom(const Json& j) {
  ContainerMemory c;
  c.attempts = j.at("attempts");
  c.init_done = j.at("initDone");
  c.again = j.value("again", false);
  c.restart_back_off = BackOffFrom(j.at("restartBackOff"));
  c.image_back_off = BackOffFrom(j.at("imageBackOff"));
  if (const auto l = j.find("launch"); l != j.end()) {
    c.launch = Launch{l->at("attempt"),
                      l->at("image"),
                      l->at("imageID"),
                      l->at("stopSignal"),
                      l->value("imageDigest", ""),
                      l->value("reference", "")};
    if (l->contains("amounts")) c.launch->amounts = AmountsFrom(l->at("amounts"));
    c.launch->volume_images = l->value("volumeImages", std::map<std::string, std::string>());
  }
  if (j.contains("current")) c.current = CurrentFrom(j["current"]);
  if (j.contains("last")) c.last = FinishedFrom(j["last"]);
  if (j.contains("beforeLast")) c.before_last = FinishedFrom(j["beforeLast"]);
  if (const auto f = j.find("failure"); f != j.end()) {
    c.failure = Failure{f->at("reason"), f->at("message"), {}};
  }
  if (const auto s = j.find("stop"); s != j.end()) {
    c.stop = Stop{.begun = Wall(s->value("begun", s->at("signalledAt"))),
                  .pre_stop_over = s->value("preStopOver", true),
                  .signalled_at = Wall(s->at("signalledAt"))};
  }
  return c;
}

// "file", "http" or "api"; records from before there was more than one have none.
constexpr const char* kOrigins[] = {"file", "http", "api"};

PodOrigin OriginFrom(const Json& j) {
  const std::string name = j.value("origin", kOrigins[0]);
  for (size_t i = 0; i < std::size(kOrigins); ++i) {
    if (name == kOrigins[i]) return static_cast<PodOrigin>(i);
  }
  throw Json::other_error::create(501, "unknown origin " + name, &j);
}

PodMemory MemoryFrom(const Json& j) {
  PodMemory m;
  m.origin = OriginFrom(j);
  m.start_time = Wall(j.at("startTime"));
  m.sandbox_made = j.at("sandboxMade");
  m.initialized = j.at("initialized");
  m.restarting_all = j.value("restartingAll", false);
  m.terminal_phase = j.at("terminalPhase");
  m.terminal_reason = j.at("terminalReason");
  m.terminal_message = j.at("terminalMessage");
  m.disrupted = j.value("disrupted", false);
  m.pod_ips = j.at("podIPs").get<std::vector<std::string>>();
  for (const auto& [name, value] : j.at("containers").items()) {
    m.containers[name] = ContainerFrom(value);
  }
  for (const auto& [type, value] : j.at("conditions").items()) {
    m.conditions[type] = ConditionMemory{value.at("status"), Wall(value.at("since"))};
  }
  if (const auto a = j.find("admission"); a != j.end()) {
    m.admission = Admission{a->at("reason"), a->at("message")};
  }
  if (const auto a = j.find("allocation"); a != j.end()) {
    m.allocation = AllocationFrom(*a);
    m.allocations = j.at("allocations");
    if (j.contains("podAmounts")) m.pod_amounts = AmountsFrom(j["podAmounts"]);
  }
  if (j.contains("resizePending")) m.resize_pending = ResizeNoteFrom(j["resizePending"]);
  if (j.contains("resizeInProgress")) m.resize_in_progress = ResizeNoteFrom(j["resizeInProgress"]);
  if (const auto e = j.find("ending"); e != j.end()) {
    m.ending = Ending{static_cast<Ending::Why>(e->at("why").get<int>()),
                      Wall(e->at("since")),
                      std::chrono::seconds(e->at("grace").get<int64_t>()),
                      e->value("overdue", false),
                      {}};
  }
  return m;
}

}  // namespace

std::string EncodeRecord(const PodMemory& m) {
  Json j = {{"version", kRecordVersion},
            {"origin", kOrigins[static_cast<size_t>(m.origin)]},
            {"startTime", Nanos(m.start_time)},
            {"sandboxMade", m.sandbox_made},
            {"initialized", m.initialized},
            {"restartingAll", m.restarting_all},
            {"terminalPhase", m.terminal_phase},
            {"terminalReason", m.terminal_reason},
            {"terminalMessage", m.terminal_message},
            {"disrupted", m.disrupted},
            {"podIPs", m.pod_ips},
            {"containers", Json::object()},
            {"conditions", Json::object()}};
  for (const auto& [name, container] : m.containers) j["containers"][name] = ToJson(container);
  for (const auto& [type, condition] : m.conditions) {
    j["conditions"][type] = {{"status", condition.status}, {"since", Nanos(condition.since)}};
  }
  if (m.admission) {
    j["admission"] = {{"reason", m.admission->reason}, {"message", m.admission->message}};
  }
  if (m.allocation) {
    j["allocation"] = ToJson(*m.allocation);
    j["allocations"] = m.allocations;
    if (m.pod_amounts) j["podAmounts"] = ToJson(*m.pod_amounts);
  }
  if (m.resize_pending) j["resizePending"] = ToJson(*m.resize_pending);
  if (m.resize_in_progress) j["resizeInProgress"] = ToJson(*m.resize_in_progress);
  if (m.ending) {
    j["ending"] = {{"why", static_cast<int>(m.ending->why)},
                   {"since", Nanos(m.ending->since)},
                   {"grace", m.ending->grace.count()},
                   {"overdue", m.ending->overdue}};
  }
  // What a container said may hold any bytes; they are replaced, not refused.
  return j.dump(1, ' ', false, Json::error_handler_t::replace);
}

Result<PodMemory> DecodeRecord(const std::string& text) {
  try {
    const Json j = Json::parse(text);
    const int version = j.at("version");
    if (version != kRecordVersion) {
      return Unsupported(
          StrCat("record of version ", version, ", this agent knows ", kRecordVersion));
    }
    return MemoryFrom(j);
  } catch (const Json::exception& e) {
    return InvalidArgument(StrCat("damaged record: ", e.what()));
  }
}

}  // namespace holdfast::agent
