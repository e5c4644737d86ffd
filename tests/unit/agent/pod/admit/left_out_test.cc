// SPDX-License-Identifier: Apache-2.0
// No field is ignored in silence: every field that the schema has is in a table, the docs show the
// tables, and what is to be told is told.
#include "agent/pod/admit/left_out.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "agent/kube/defaulting.h"
#include "agent/kube/manifest_reader.h"
#include "agent/proxy/service_fields.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/service.pb.h"
#include "tests/support/text_file.h"

namespace holdfast::agent {
namespace {

using google::protobuf::Descriptor;
using kube::FieldRule;
using kube::FieldRules;
using kube::Treatment;

std::vector<std::string> Words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// Every field that can be reached and is in no row, and every entry of a row that names none.
struct Walk {
  const FieldRules& rules;
  std::set<std::string> seen = {};  // "Message.field"
  std::set<std::string> visited = {};
  std::vector<std::string> unclassified = {};

  void Visit(const Descriptor& message) {
    if (!visited.insert(std::string(message.full_name())).second) return;
    for (int i = 0; i < message.field_count(); ++i) {
      const auto& field = *message.field(i);
      const std::string name = StrCat(message.name(), ".", field.name());
      seen.insert(name);
      const FieldRule* rule = kube::FindRule(rules, message.name(), field.name());
      if (rule == nullptr) {
        unclassified.push_back(name);
      } else if (rule->treatment == Treatment::kHonoured && kube::HasFields(field)) {
        Visit(*field.message_type());
      }
    }
  }

  std::vector<std::string> Stale() const {
    std::vector<std::string> stale;
    for (const FieldRule& rule : rules) {
      for (const std::string& field : Words(rule.fields)) {
        const std::string name = StrCat(rule.message, ".", field);
        if (!seen.contains(name) || kube::FindRule(rules, rule.message, field) != &rule) {
          stale.push_back(name);
        }
      }
    }
    return stale;
  }
};

void ExpectWhole(const FieldRules& rules, const Descriptor& root) {
  Walk walk{rules};
  walk.Visit(root);
  EXPECT_EQ(walk.unclassified, std::vector<std::string>())
      << "say in the table whether it is honoured, refused or told";
  EXPECT_EQ(walk.Stale(), std::vector<std::string>())
      << "twice in the table, or reached by nothing";
  for (const FieldRule& rule : rules) {
    EXPECT_TRUE(rule.treatment == Treatment::kHonoured || *rule.how != 0) << rule.fields;
  }
}

TEST(FieldRulesTest, EveryFieldOfAPodIsHonouredRefusedOrTold) {
  ExpectWhole(PodFieldRules(), *corev1::PodSpec::descriptor());
}

TEST(FieldRulesTest, EveryFieldOfAServiceIsHonouredRefusedOrTold) {
  ExpectWhole(ServiceFieldRules(), *corev1::ServiceSpec::descriptor());
}

std::string Ticked(std::string_view fields) {
  std::string out;
  for (const std::string& field : Words(fields))
    out += StrCat(out.empty() ? "`" : ", `", field, "`");
  return out;
}

// The table as the docs show it.
std::string Shown(const FieldRules& rules) {
  std::string out = "\n| in | fields | |\n|---|---|---|\n";
  for (const FieldRule& rule : rules) {
    constexpr const char* kWords[] = {"honoured", "refused", "told", "honoured elsewhere"};
    const char* word = kWords[static_cast<size_t>(rule.treatment)];
    const std::string event =
        rule.treatment == Treatment::kTold
            ? StrCat(" by `", *rule.event != 0 ? rule.event : kube::kFieldNotHonoured, "`")
            : "";
    const std::string unless = *rule.harmless != 0 ? StrCat(", unless `", rule.harmless, "`") : "";
    const std::string how = *rule.how != 0 ? StrCat(": ", rule.how) : "";
    out += StrCat("| `", rule.message, "` | ", Ticked(rule.fields), " | ", word, event, unless, how,
                  " |\n");
  }
  return out;
}

void ExpectShown(const std::string& page, const FieldRules& rules) {
  const std::string text = test_support::ReadText(StrCat(HOLDFAST_DOCS, "/", page));
  const std::string begin = "<!-- fields: begin -->\n";
  const size_t at = text.find(begin);
  const size_t end = text.find("\n<!-- fields: end -->");
  ASSERT_NE(at, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::string shown = text.substr(at + begin.size(), end - at - begin.size());
  EXPECT_EQ(shown, Shown(rules)) << page << " shows another table than the code has";
}

TEST(FieldRulesTest, TheDocsShowTheTables) {
  ExpectShown("pods.md", PodFieldRules());
  ExpectShown("services.md", ServiceFieldRules());
}

std::vector<std::string> Told(const std::string& spec, const std::string& container = "",
                              PodOrigin origin = PodOrigin::kFile, bool has_selinux = false) {
  kube::Manifest manifest = kube::ReadManifest(
      "a.yaml", StrCat("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers: "
                       "[{name: app, image: i",
                       container, "}]\n", spec));
  EXPECT_TRUE(manifest.ok()) << kube::ToString(manifest.diagnostics);
  corev1::Pod pod = *manifest.objects.at(0).As<corev1::Pod>();
  kube::SetPodDefaults(&pod);
  std::vector<std::string> out;
  for (const EventNote& note : LeftOut(pod, origin, has_selinux)) {
    EXPECT_TRUE(note.warning);
    const std::string whose =
        note.container.empty() ? "" : StrCat(note.init ? "init " : "", note.container, ": ");
    out.push_back(StrCat(whose, note.reason, ": ", note.message));
  }
  return out;
}
using Texts = std::vector<std::string>;

TEST(LeftOutTest, OfAPlainPodNothing) {
  EXPECT_EQ(Told("  serviceAccountName: ''\n  automountServiceAccountToken: false\n"
                 "  schedulerName: default-scheduler\n"),
            Texts{});
}

TEST(LeftOutTest, FieldsOfThePod) {
  EXPECT_EQ(Told("  serviceAccountName: robot\n"),
            (Texts{"FieldNotHonoured: spec.serviceAccountName: there is no API server that would "
                   "give the pod a token"}));
  EXPECT_EQ(Told("  automountServiceAccountToken: true\n").size(), 1u);
  EXPECT_EQ(Told("  imagePullSecrets: [{name: a}, {name: b}]\n"), Texts{});
  EXPECT_EQ(Told("  securityContext: {seLinuxOptions: {level: s0}, windowsOptions: "
                 "{runAsUserName: x}}\n")
                .size(),
            2u);
  EXPECT_EQ(Told("  affinity: {podAntiAffinity: {}, nodeAffinity: "
                 "{preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: "
                 "{matchExpressions: [{key: x, operator: Exists}]}}]}}\n"),
            (Texts{"FieldNotHonoured: "
                   "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution: "
                   "nobody schedules here: it has no effect",
                   "FieldNotHonoured: spec.affinity.podAntiAffinity: nobody schedules here: it has "
                   "no effect"}));
}

// The scheduler and the server's admission did their part; a false stands where nothing was written.
TEST(LeftOutTest, OfAPodOfAClusterOnlyWhatThisNodeLeavesOut) {
  EXPECT_EQ(Told("  serviceAccountName: robot\n  automountServiceAccountToken: true\n"
                 "  schedulerName: mine\n  preemptionPolicy: Never\n  priorityClassName: high\n"
                 "  affinity: {podAntiAffinity: {}}\n  imagePullSecrets: [{name: a}]\n",
                 ", stdinOnce: false", PodOrigin::kApi),
            Texts{});
  EXPECT_EQ(Told("", ", stdin: true, stdinOnce: true", PodOrigin::kApi), Texts{});
}

TEST(LeftOutTest, FieldsOfAContainerNameIt) {
  EXPECT_EQ(Told("",
                 ", livenessProbe: {exec: {command: [a]}}, readinessProbe: {exec: {command: "
                 "[a]}}, lifecycle: {postStart: {exec: {command: [a]}}, preStop: {sleep: "
                 "{seconds: 1}}}"),
            Texts{})
      << "they are carried out";
  EXPECT_EQ(Told("  initContainers: [{name: i, image: i, securityContext: {seLinuxOptions: {level: "
                 "s0}}}]\n")
                .at(0)
                .substr(0, 24),
            "init i: FieldNotHonoured");
}

TEST(LeftOutTest, SelinuxIsTheNodes) {
  const std::string pod =
      "  securityContext: {seLinuxOptions: {level: s0}, seLinuxChangePolicy: Recursive}\n";
  const std::string container = ", securityContext: {seLinuxOptions: {type: spc_t}}";
  const std::string why = ": this node's kernel has no SELinux enabled: it has no effect";
  EXPECT_EQ(
      Told(pod, container),
      (Texts{"app: FieldNotHonoured: spec.containers[app].securityContext.seLinuxOptions" + why,
             "FieldNotHonoured: spec.securityContext.seLinuxOptions" + why,
             "FieldNotHonoured: spec.securityContext.seLinuxChangePolicy" + why}));
  EXPECT_EQ(Told(pod, container, PodOrigin::kFile, true), Texts{});
}

TEST(LeftOutTest, ResourcesThatTheContainerDoesNotGet) {
  EXPECT_EQ(Told("",
                 ", resources: {limits: {cpu: 1, memory: 1Mi, ephemeral-storage: 1Mi, "
                 "hugepages-2Mi: 2Mi, example.com/gpu: 1, example.com/none: 0}}"),
            (Texts{"app: FieldNotHonoured: spec.containers[app].resources: example.com/gpu: the "
                   "node has no such resource, and the container gets none"}));
}

TEST(LeftOutTest, FieldsOfAService) {
  corev1::Service service;
  service.mutable_spec()->set_type("LoadBalancer");
  EXPECT_EQ(LeftOut(service), Texts{});
  service.mutable_spec()->set_loadbalancerip("192.0.2.1");
  EXPECT_EQ(LeftOut(service), (Texts{"spec.loadBalancerIP: nobody gives load balancer addresses "
                                     "here: write them in status.loadBalancer.ingress"}));
}

}  // namespace
}  // namespace holdfast::agent
