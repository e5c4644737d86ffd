// SPDX-License-Identifier: Apache-2.0
// Ages, the table, the STATUS and RESTARTS columns, the other tables.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <functional>

#include "agent/cli/durations.h"
#include "agent/cli/pod_summary.h"
#include "agent/cli/rows.h"
#include "agent/cli/table.h"
#include "k8s/core/v1/event.pb.h"
#include "k8s/core/v1/node.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int64_t kNow = 1'800'000'000;
const WallTime kNowTime{seconds(kNow)};

TEST(HumanDurationTest, IsKubectls) {
  const std::vector<std::pair<seconds, const char*>> table = {
      {seconds(-5), "<invalid>"}, {seconds(-1), "0s"},
      {seconds(0), "0s"},         {seconds(119), "119s"},
      {seconds(120), "2m"},       {seconds(312), "5m12s"},
      {seconds(599), "9m59s"},    {seconds(600), "10m"},
      {minutes(179), "179m"},     {minutes(180), "3h"},
      {minutes(185), "3h5m"},     {minutes(479), "7h59m"},
      {hours(8), "8h"},           {hours(47), "47h"},
      {hours(48), "2d"},          {hours(52), "2d4h"},
      {hours(191), "7d23h"},      {hours(192), "8d"},
      {hours(24 * 729), "729d"},  {hours(24 * 730), "2y"},
      {hours(24 * 770), "2y40d"}, {hours(24 * 2919), "7y364d"},
      {hours(24 * 2920), "8y"}};
  for (const auto& [duration, text] : table) EXPECT_EQ(HumanDuration(duration), text);
}

TEST(LongTimeTest, IsOfTheReadersZone) {
  const auto in = [](const char* zone) {
    EXPECT_EQ(::setenv("TZ", zone, 1), 0);
    ::tzset();
    return LongTime(WallTime{seconds(1'800'000'000)});
  };
  EXPECT_EQ(in("EST+5"), "Fri, 15 Jan 2027 03:00:00 -0500");
  EXPECT_EQ(in("IST-5:30"), "Fri, 15 Jan 2027 13:30:00 +0530");
  EXPECT_EQ(in("UTC0"), "Fri, 15 Jan 2027 08:00:00 +0000");
}

TEST(TableTest, LaysOutAsKubectl) {
  Table table({"NAME", "READY", "S", "AGE"});
  table.AddRow({"a-long-name", "1/1", "x", "5s"});
  table.AddRow({"b", "0/1", "y", "7m"});
  EXPECT_EQ(table.Render(true),
            "NAME          READY   S     AGE\n"
            "a-long-name   1/1     x     5s\n"
            "b             0/1     y     7m\n");
  table.AddRow({"c", "1/1", "z", "1s"});
  EXPECT_EQ(table.Render(false), "c             1/1     z     1s\n");
}

TEST(TableTest, DefusesTextOfOthers) {
  Table table({"A", "B"});
  table.AddRow({"x\x1b[2Jy", "one\ntwo"});
  EXPECT_EQ(table.Render(false), "x^[[2Jy   one...\n");
}

TEST(VisibleTest, NoControlCharacterOfAnyKindIsLeft) {
  EXPECT_EQ(Visible("a\tb\nc\x1b]0;t\a\x7f"), "a\tb\nc^[]0;t^G^?");
  EXPECT_EQ(Visible("\xc2\x9b"
                    "2J \x9b"
                    "2J"),
            "\\u009b2J \\x9b2J");
  // What turns the order of the text around, and lines of Unicode's own.
  EXPECT_EQ(Visible("a\u202ebc\u2066d\u200f\u061c\u2028"),
            "a\\u202ebc\\u2066d\\u200f\\u061c\\u2028");
  EXPECT_EQ(Visible("\u200d\u2010\u2030"),
            "\u200d\u2010\u2030");  // joins emoji; a hyphen; per mille
  EXPECT_EQ(Visible("gr\xc3\xb6\xc3\x9f \xe2\x82\xac"), "gr\xc3\xb6\xc3\x9f \xe2\x82\xac");
}

core::ContainerStatus* AddContainer(core::Pod& pod, const std::string& name) {
  pod.mutable_spec()->add_containers()->set_name(name);
  auto* status = pod.mutable_status()->add_containerstatuses();
  status->set_name(name);
  return status;
}
core::ContainerStatus* AddInit(core::Pod& pod, const std::string& name, bool sidecar = false) {
  auto* container = pod.mutable_spec()->add_initcontainers();
  container->set_name(name);
  if (sidecar) container->set_restartpolicy("Always");
  auto* status = pod.mutable_status()->add_initcontainerstatuses();
  status->set_name(name);
  return status;
}
void Running(core::ContainerStatus* status, bool ready = true) {
  status->set_ready(ready);
  status->set_started(true);
  status->mutable_state()->mutable_running();
}
void Waiting(core::ContainerStatus* status, const std::string& reason) {
  status->mutable_state()->mutable_waiting()->set_reason(reason);
}
void Terminated(core::ContainerStatus* status, int code, const std::string& reason,
                int signal = 0) {
  auto* ended = status->mutable_state()->mutable_terminated();
  ended->set_exitcode(code);
  ended->set_signal(signal);
  ended->set_reason(reason);
}
void Ready(core::Pod& pod, const std::string& type = "Ready") {
  auto* condition = pod.mutable_status()->add_conditions();
  condition->set_type(type);
  condition->set_status("True");
}

struct Case {
  const char* name;
  const char* ready;
  const char* status;
  const char* restarts;
  std::function<void(core::Pod&)> make;
};

TEST(PodSummaryTest, StatusColumn) {
  const std::vector<Case> cases = {
      {"pending", "0/1", "Pending", "0",
       [](core::Pod& p) {
         p.mutable_status()->set_phase("Pending");
         p.mutable_spec()->add_containers();
       }},
      {"creating", "0/1", "ContainerCreating", "0",
       [](core::Pod& p) { Waiting(AddContainer(p, "a"), "ContainerCreating"); }},
      {"running", "2/2", "Running", "0",
       [](core::Pod& p) {
         Running(AddContainer(p, "a"));
         Running(AddContainer(p, "b"));
       }},
      {"not ready", "1/2", "Running", "0",
       [](core::Pod& p) {
         Running(AddContainer(p, "a"));
         Running(AddContainer(p, "b"), false);
       }},
      {"back-off", "0/1", "CrashLoopBackOff", "3 (10s ago)",
       [](core::Pod& p) {
         auto* status = AddContainer(p, "a");
         Waiting(status, "CrashLoopBackOff");
         status->set_restartcount(3);
         status->mutable_laststate()->mutable_terminated()->mutable_finishedat()->set_seconds(kNow -
                                                                                              10);
       }},
      {"restarts without a time", "1/1", "Running", "2",
       [](core::Pod& p) {
         auto* status = AddContainer(p, "a");
         Running(status);
         status->set_restartcount(2);
       }},
      {"completed", "0/1", "Completed", "0",
       [](core::Pod& p) {
         p.mutable_status()->set_phase("Succeeded");
         Terminated(AddContainer(p, "a"), 0, "Completed");
       }},
      {"error", "0/1", "Error", "0",
       [](core::Pod& p) { Terminated(AddContainer(p, "a"), 1, "Error"); }},
      {"oom", "0/1", "OOMKilled", "0",
       [](core::Pod& p) { Terminated(AddContainer(p, "a"), 137, "OOMKilled"); }},
      {"exit code", "0/1", "ExitCode:3", "0",
       [](core::Pod& p) { Terminated(AddContainer(p, "a"), 3, ""); }},
      {"signal", "0/1", "Signal:9", "0",
       [](core::Pod& p) { Terminated(AddContainer(p, "a"), 137, "", 9); }},
      {"one completed, one runs", "1/2", "NotReady", "0",
       [](core::Pod& p) {
         Terminated(AddContainer(p, "a"), 0, "Completed");
         Running(AddContainer(p, "b"));
       }},
      {"one completed, pod ready", "1/2", "Running", "0",
       [](core::Pod& p) {
         Ready(p);
         Terminated(AddContainer(p, "a"), 0, "Completed");
         Running(AddContainer(p, "b"));
       }},
      {"init running", "0/1", "Init:1/2", "0",
       [](core::Pod& p) {
         Terminated(AddInit(p, "i"), 0, "Completed");
         AddInit(p, "j")->mutable_state()->mutable_running();
         Waiting(AddContainer(p, "a"), "PodInitializing");
       }},
      {"init waits in back-off", "0/1", "Init:CrashLoopBackOff", "4",
       [](core::Pod& p) {
         auto* init = AddInit(p, "i");
         Waiting(init, "CrashLoopBackOff");
         init->set_restartcount(4);
         Waiting(AddContainer(p, "a"), "PodInitializing");
       }},
      {"init failed", "0/1", "Init:Error", "0",
       [](core::Pod& p) {
         Terminated(AddInit(p, "i"), 1, "Error");
         Waiting(AddContainer(p, "a"), "PodInitializing");
       }},
      {"init failed without a reason", "0/1", "Init:ExitCode:5", "0",
       [](core::Pod& p) {
         Terminated(AddInit(p, "i"), 5, "");
         Waiting(AddContainer(p, "a"), "PodInitializing");
       }},
      {"sidecar counts", "2/2", "Running", "1",
       [](core::Pod& p) {
         auto* sidecar = AddInit(p, "s", true);
         Running(sidecar);
         sidecar->set_restartcount(1);
         Running(AddContainer(p, "a"));
       }},
      {"terminating", "1/1", "Terminating", "0",
       [](core::Pod& p) {
         Running(AddContainer(p, "a"));
         p.mutable_metadata()->mutable_deletiontimestamp()->set_seconds(kNow);
       }},
      {"deleted after its end", "0/1", "Completed", "0",
       [](core::Pod& p) {
         p.mutable_status()->set_phase("Succeeded");
         Terminated(AddContainer(p, "a"), 0, "Completed");
         p.mutable_metadata()->mutable_deletiontimestamp()->set_seconds(kNow);
       }},
      {"evicted", "0/1", "Evicted", "0",
       [](core::Pod& p) {
         p.mutable_status()->set_phase("Failed");
         p.mutable_status()->set_reason("Evicted");
         p.mutable_spec()->add_containers();
       }},
      {"lost", "0/1", "ContainerStatusUnknown", "0",
       [](core::Pod& p) { Terminated(AddContainer(p, "a"), 137, "ContainerStatusUnknown"); }},
  };
  for (const Case& c : cases) {
    core::Pod pod;
    pod.mutable_status()->set_phase("Running");
    c.make(pod);
    const PodSummary summary = Summarize(pod, kNowTime);
    EXPECT_EQ(summary.ready, c.ready) << c.name;
    EXPECT_EQ(summary.status, c.status) << c.name;
    EXPECT_EQ(summary.restarts, c.restarts) << c.name;
  }
}

TEST(RowsTest, PodsWide) {
  core::Pod pod;
  pod.mutable_metadata()->set_name("web");
  pod.mutable_metadata()->set_namespace_("prod");
  pod.mutable_metadata()->mutable_creationtimestamp()->set_seconds(kNow - 312);
  pod.mutable_status()->set_phase("Running");
  pod.mutable_status()->set_podip("10.88.0.5");
  pod.mutable_spec()->set_nodename("node1");
  pod.mutable_spec()->add_readinessgates()->set_conditiontype("gate");
  Running(AddContainer(pod, "a"));
  Ready(pod, "gate");
  const RowStyle style{.wide = true, .with_namespace = true, .now = kNowTime};
  Table table(PodHeader(style));
  table.AddRow(PodRow(pod, style));
  EXPECT_EQ(table.Render(true),
            "NAMESPACE   NAME   READY   STATUS    RESTARTS   AGE     IP          NODE    "
            "NOMINATED NODE   READINESS GATES\n"
            "prod        web    1/1     Running   0          5m12s   10.88.0.5   node1   "
            "<none>           1/1\n");
}

TEST(RowsTest, Events) {
  core::Event event;
  event.set_type("Warning");
  event.set_reason("BackOff");
  event.set_message("Back-off restarting failed container");
  event.set_count(5);
  event.mutable_involvedobject()->set_kind("Pod");
  event.mutable_involvedobject()->set_name("web");
  event.mutable_firsttimestamp()->set_seconds(kNow - 180);
  event.mutable_lasttimestamp()->set_seconds(kNow - 12);
  const RowStyle style{.now = kNowTime};
  Table table(EventHeader(style));
  table.AddRow(EventRow(event, style));
  EXPECT_EQ(table.Render(true),
            "LAST SEEN          TYPE      REASON    OBJECT    MESSAGE\n"
            "12s (x5 over 3m)   Warning   BackOff   pod/web   Back-off restarting failed "
            "container\n");
}

TEST(RowsTest, Node) {
  core::Node node;
  node.mutable_metadata()->set_name("node1");
  node.mutable_metadata()->mutable_creationtimestamp()->set_seconds(kNow - 60);
  auto* ready = node.mutable_status()->add_conditions();
  ready->set_type("Ready");
  ready->set_status("True");
  node.mutable_status()->mutable_nodeinfo()->set_kubeletversion("holdfast-0.1.0");
  const RowStyle style{.now = kNowTime};
  Table table(NodeHeader(style));
  table.AddRow(NodeRow(node, style));
  EXPECT_EQ(table.Render(true),
            "NAME    STATUS   ROLES    AGE   VERSION\n"
            "node1   Ready    <none>   60s   holdfast-0.1.0\n");
}

TEST(RowsTest, ACertificateThatCannotBeUsedIsSeen) {
  core::Node node;
  node.mutable_metadata()->set_name("n1");
  const auto add = [&](const char* type, const char* status, const char* reason) {
    auto* condition = node.mutable_status()->add_conditions();
    condition->set_type(type);
    condition->set_status(status);
    condition->set_reason(reason);
  };
  add("Ready", "True", "KubeletReady");
  add("ClientCertificate", "True", "Renewing");
  const RowStyle style{.now = kNowTime};
  EXPECT_EQ(NodeRow(node, style)[1], "Ready");
  add("ServingCertificate", "False", "Pending");
  EXPECT_EQ(NodeRow(node, style)[1], "Ready,ServingCertificatePending");
}

TEST(RowsTest, Images) {
  v1::Image image;
  image.set_id("sha256:0123456789abcdef");
  image.add_repo_tags("docker.io/library/nginx:1.27");
  image.add_repo_tags("localhost:5000/app:latest");
  image.set_size_bytes(187'400'000);
  const RowStyle style{.now = kNowTime};
  Table table(ImageHeader(style));
  for (Cells& row : ImageRows(image, style)) table.AddRow(row);
  v1::Image nameless;
  nameless.set_id("sha256:ff");
  for (Cells& row : ImageRows(nameless, style)) table.AddRow(row);
  EXPECT_EQ(table.Render(true),
            "IMAGE                     TAG      IMAGE ID       SIZE\n"
            "docker.io/library/nginx   1.27     0123456789ab   187MB\n"
            "localhost:5000/app        latest   0123456789ab   187MB\n"
            "<none>                    <none>   ff             0B\n");
}

TEST(RowsTest, Slices) {
  Slice slice;
  slice.mutable_metadata()->set_name("web-x");
  slice.mutable_metadata()->mutable_creationtimestamp()->set_seconds(kNow - 60);
  slice.set_addresstype("IPv4");
  for (int i = 1; i <= 4; ++i) {
    slice.add_endpoints()->add_addresses("10.0.0." + std::to_string(i));
  }
  slice.add_ports()->set_port(80);
  slice.add_ports()->set_name("any");
  Slice empty;
  empty.set_addresstype("IPv6");
  const RowStyle style{.now = kNowTime};
  Table table(SliceHeader(style));
  table.AddRow(SliceRow(slice, style));
  table.AddRow(SliceRow(empty, style));
  EXPECT_EQ(table.Render(true),
            "NAME    ADDRESSTYPE   PORTS     ENDPOINTS                                AGE\n"
            "web-x   IPv4          80,any    10.0.0.1,10.0.0.2,10.0.0.3 + 1 more...   60s\n"
            "        IPv6          <unset>   <unset>                                  <unknown>\n");
}

TEST(HumanBytesTest, ThreeDigits) {
  EXPECT_EQ(HumanBytes(0), "0B");
  EXPECT_EQ(HumanBytes(999), "999B");
  EXPECT_EQ(HumanBytes(1000), "1.00kB");
  EXPECT_EQ(HumanBytes(45'600), "45.6kB");
  EXPECT_EQ(HumanBytes(999'600), "1.00MB");
  EXPECT_EQ(HumanBytes(7'250'000'000), "7.25GB");
}

}  // namespace
}  // namespace holdfast::agent::cli
