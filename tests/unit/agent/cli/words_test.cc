// SPDX-License-Identifier: Apache-2.0
// What words of the command line mean: kinds and names, short options, selectors, columns.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/cli/columns.h"
#include "agent/cli/default_container.h"
#include "agent/cli/object.h"
#include "agent/cli/resource.h"
#include "agent/cli/selection.h"
#include "agent/cli/words.h"
#include "k8s/core/v1/event.pb.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

// "pods,services: pods/a services/a", or the error.
std::string Read(const std::vector<std::string>& words,
                 std::optional<Resource> bare = std::nullopt) {
  const auto read = ReadResourceWords(words, bare);
  if (!read) return read.error().message().substr(0, read.error().message().find(';'));
  std::string text;
  for (const Resource resource : read->resources) {
    text += (text.empty() ? "" : ",") + std::string(Plural(resource));
  }
  text += ":";
  for (const ObjectName& object : read->objects) {
    text += " " + std::string(Plural(object.resource)) + "/" + object.name;
  }
  return text;
}

// What is said of a line, whose words no command need take.
std::string FaultOf(std::vector<std::string> words) {
  CLI::App app("test", "holdctl");
  CLI::App* get = app.add_subcommand("get");
  int tail = 0;
  std::string sort_by;
  std::vector<std::string> names;
  get->add_option("names", names)->required();
  get->add_option("--tail", tail);
  get->add_option("-s,--sort-by", sort_by);
  const std::string last = words.back();
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return FlagFault(error, app.remaining(true), last);
  }
  return "";
}

TEST(FlagFaultTest, IsToldInKubectlsWords) {
  EXPECT_EQ(FaultOf({"get", "pods", "--tail=3"}), "");
  EXPECT_EQ(FaultOf({"get", "pods", "--nonsense"}), "unknown flag: --nonsense");
  EXPECT_EQ(FaultOf({"get", "pods", "--nonsense=1"}), "unknown flag: --nonsense");
  EXPECT_EQ(FaultOf({"get", "--nonsense"}), "unknown flag: --nonsense") << "whatever lacks";
  EXPECT_EQ(FaultOf({"get", "pods", "-Z"}), "unknown shorthand flag: 'Z' in -Z");
  EXPECT_EQ(FaultOf({"get", "pods", "--sort-by"}), "flag needs an argument: --sort-by");
  EXPECT_EQ(FaultOf({"get", "pods", "-s"}), "flag needs an argument: 's' in -s");
  EXPECT_EQ(FaultOf({"get", "pods", "--tail=x"}),
            "invalid argument \"x\" for \"--tail\" flag: not a number of its range");
  EXPECT_EQ(FaultOf({"get"}), "names is required") << "the parser's own words";
}

TEST(ResourceWordsTest, KindsAndNames) {
  EXPECT_EQ(Read({"pods"}), "pods:");
  EXPECT_EQ(Read({"pods", "a", "b"}), "pods: pods/a pods/b");
  EXPECT_EQ(Read({"po", "prod/a"}), "pods: pods/prod/a");
  EXPECT_EQ(Read({"svc", "service/a", "b"}), "services: services/a services/b");
  EXPECT_EQ(Read({"po/a", "pod/b", "svc/c"}), "pods,services: pods/a pods/b services/c");
  EXPECT_EQ(Read({"pods,services"}), "pods,services:");
  EXPECT_EQ(Read({"po,svc,pods", "web"}), "pods,services: pods/web services/web");
  EXPECT_EQ(Read({"all"}), "pods,services:");
  EXPECT_EQ(Read({"endpointslices.discovery.k8s.io/a"}), "endpointslices: endpointslices/a");
  EXPECT_EQ(Read({"cm,secret", "a"}), "configmaps,secrets: configmaps/a secrets/a");
  EXPECT_EQ(Read({"configmap/a", "secrets/b"}), "configmaps,secrets: configmaps/a secrets/b");
}

TEST(ResourceWordsTest, AnUnknownKindIsNeverAName) {
  const std::string no_such = "the server doesn't have a resource type ";
  EXPECT_EQ(Read({"foo"}), no_such + "\"foo\"");
  EXPECT_EQ(Read({"deployment", "web"}), no_such + "\"deployment\"");
  EXPECT_EQ(Read({"pods,foo"}), no_such + "\"foo\"");
  EXPECT_EQ(Read({"pods,"}), no_such + "\"\"");
  EXPECT_EQ(Read({"deploy/web"}), no_such + "\"deploy\"");
  EXPECT_EQ(Read({"web/x"}), no_such + "\"web\"");
  EXPECT_EQ(Read({"pod/a", "b"}), "b: either all are named as TYPE/NAME, or none");
  EXPECT_EQ(Read({"pods", "svc/b"}), "svc/b: a kind was named already");
  EXPECT_EQ(Read({"pods,svc", "svc/b"}), "svc/b: a kind was named already");
  EXPECT_EQ(Read({"pods", ""}), "a name is empty");
  EXPECT_EQ(Read({}), "you must name the type of resource, or TYPE/NAME");
}

TEST(ResourceWordsTest, BareNamesWhereACommandHasAKindOfItsOwn) {
  const auto read = [](const std::vector<std::string>& words) {
    return Read(words, Resource::kPods);
  };
  EXPECT_EQ(read({"web"}), "pods: pods/web");
  EXPECT_EQ(read({"web", "prod/db"}), "pods: pods/web pods/prod/db");
  EXPECT_EQ(read({"prod/db"}), "pods: pods/prod/db");
  EXPECT_EQ(read({"services"}), "services:");
  // Kubernetes' words for what is not run here are no names and no namespaces.
  for (const char* word : {"deployment", "deployments", "deploy", "deployments.apps", "ds", "sa",
                           "ingresses", "networkpolicies", "storageclasses", "jobs"}) {
    EXPECT_TRUE(read({word, "web"}).starts_with("the server doesn't have")) << word;
    EXPECT_TRUE(read({std::string(word) + "/web"}).starts_with("the server doesn't have")) << word;
  }
}

TEST(PodNameTest, SaysWhatIsNoPod) {
  const auto name = [](const char* text) {
    const auto read = ReadPodName(text, "default");
    return read ? read->name_space + "/" + read->name
                : read.error().message().substr(0, read.error().message().find(';'));
  };
  EXPECT_EQ(name("web"), "default/web");
  EXPECT_EQ(name("pod/web"), "default/web");
  EXPECT_EQ(name("prod/web"), "prod/web");
  EXPECT_EQ(name("deployment/web"), "the server doesn't have a resource type \"deployment\"");
  EXPECT_EQ(name("svc/web"), "svc/web: services have no containers: name a pod");
}

TEST(WithLongNamesTest, ShortOptionsMayHaveAnEqualsSign) {
  CLI::App app("", "holdctl");
  std::string text;
  std::vector<std::string> words;
  bool flag = false;
  app.add_option("-n,--namespace", text);
  CLI::App* get = app.add_subcommand("get", "");
  get->add_option("words", words);
  get->add_option("-o,--output", text);
  get->add_flag("-w,--watch", flag);
  CLI::App* image = app.add_subcommand("image", "");
  CLI::App* save = image->add_subcommand("export", "");
  save->add_option("-o,--output-file", text);
  using Words = std::vector<std::string>;
  const auto long_names = [&](const Words& given) { return WithLongNames(app, given); };
  EXPECT_EQ(long_names({"get", "pods", "-n=a", "-o=name", "-w=true"}),
            (Words{"get", "pods", "--namespace=a", "--output=name", "--watch=true"}));
  EXPECT_EQ(long_names({"-n=a", "get", "-o=jsonpath={.a=b}"}),
            (Words{"--namespace=a", "get", "--output=jsonpath={.a=b}"}));
  EXPECT_EQ(long_names({"image", "export", "-o=f"}), (Words{"image", "export", "--output-file=f"}));
  // Values and what is unknown stay as they are; a value is no command.
  EXPECT_EQ(long_names({"get", "-o", "-n=x", "-x=y", "-nget", "a=b", "-"}),
            (Words{"get", "-o", "-n=x", "-x=y", "-nget", "a=b", "-"}));
  EXPECT_EQ(long_names({"-n", "image", "get", "--namespace", "image", "-o=a"}),
            (Words{"-n", "image", "get", "--namespace", "image", "--output=a"}));
  EXPECT_EQ(FindCommand(app, {"image", "export"}), save);
  EXPECT_EQ(FindCommand(app, {"image", "get"}), nullptr);
  EXPECT_EQ(FindCommand(app, {}), &app);
}

Object Pod(const std::string& name, const std::string& memory = "", bool ready = true) {
  core::Pod pod;
  pod.mutable_metadata()->set_name(name);
  pod.mutable_metadata()->set_namespace_("default");
  auto* container = pod.mutable_spec()->add_containers();
  if (!memory.empty()) {
    (*container->mutable_resources()->mutable_limits())["memory"].set_string(memory);
  }
  pod.mutable_status()->set_phase(ready ? "Running" : "Pending");
  for (const char* ip : {"10.0.0.1", "fd00::1"}) pod.mutable_status()->add_podips()->set_ip(ip);
  return MakeObject(Resource::kPods, pod);
}

TEST(FieldSelectorTest, AsTheApiServerSelects) {
  const Object pod = Pod("web");
  const auto matches = [&](const char* text) { return FieldSelector::Parse(text)->Matches(pod); };
  EXPECT_TRUE(matches(""));
  EXPECT_TRUE(matches("status.phase=Running"));
  EXPECT_TRUE(matches("status.phase==Running,metadata.name!=db"));
  EXPECT_FALSE(matches("status.phase!=Running"));
  EXPECT_FALSE(matches("metadata.name=web,metadata.namespace=prod"));
  EXPECT_TRUE(matches("spec.hostNetwork=false,spec.nodeName="));
  EXPECT_FALSE(matches("status.podIPs=10.0.0.1"));  // it has two
  for (const char* bad : {"status.phase", "=x", "a=b,c"}) {
    EXPECT_FALSE(FieldSelector::Parse(bad).has_value()) << bad;
  }
  const auto known = [](const char* text, Resource resource) {
    return FieldSelector::Parse(text)->CheckFor(resource).has_value();
  };
  EXPECT_TRUE(known("status.phase=x,metadata.name=y", Resource::kPods));
  EXPECT_FALSE(known("status.foo=x", Resource::kPods));
  EXPECT_FALSE(known("status.phase=x", Resource::kServices));
  EXPECT_TRUE(known("involvedObject.name=x,reason!=y,type=Warning", Resource::kEvents));
  core::Event event;
  event.mutable_source()->set_component("holdfastd");
  EXPECT_TRUE(
      FieldSelector::Parse("source=holdfastd")->Matches(MakeObject(Resource::kEvents, event)));
}

TEST(SortByTest, NumbersQuantitiesAndTexts) {
  const auto sorted = [](const char* path, std::vector<Object> objects) {
    const auto done = SortBy(path, objects);
    if (!done) return done.error().message();
    std::string names;
    for (const Object& object : objects) names += object.meta->name() + " ";
    return names;
  };
  EXPECT_EQ(sorted(".metadata.name", {Pod("p10"), Pod("p9"), Pod("a"), Pod("p09b")}),
            "a p09b p10 p9 ");
  EXPECT_EQ(sorted("{.spec.containers[0].resources.limits.memory}",
                   {Pod("g", "1Gi"), Pod("m", "512Mi"), Pod("none"), Pod("k", "900k")}),
            "none k m g ");
  EXPECT_EQ(sorted(".nope", {Pod("a")}),
            "couldn't find any field with path \"{.nope}\" in the list of objects");
  EXPECT_TRUE(sorted("x{", {Pod("a")}).starts_with("unexpected path string"));
}

TEST(LabelColumnsTest, StandBehindTheOthers) {
  const LabelColumns columns{.labels = {"app", "example.com/tier"}, .all = true};
  std::vector<std::string> header = {"NAME"};
  columns.AddHeader(header);
  EXPECT_EQ(header, (std::vector<std::string>{"NAME", "APP", "TIER", "LABELS"}));
  std::vector<std::string> row = {"web"};
  columns.AddCells(std::map<std::string, std::string>{{"b", "2"}, {"app", "x"}}, row);
  EXPECT_EQ(row, (std::vector<std::string>{"web", "x", "", "app=x,b=2"}));
  std::vector<std::string> bare = {"web"};
  columns.AddCells(std::map<std::string, std::string>(), bare);
  EXPECT_EQ(bare.back(), "<none>");
}

TEST(DefaultContainerTest, OffersThemAsKubectl) {
  core::Pod pod;
  pod.mutable_spec()->add_initcontainers()->set_name("init");
  for (const char* name : {"a", "b"}) pod.mutable_spec()->add_containers()->set_name(name);
  pod.mutable_spec()->add_ephemeralcontainers()->mutable_ephemeralcontainercommon()->set_name("d");
  EXPECT_EQ(ContainerChoice(pod), "a, b, init (init), d (ephem)");
  EXPECT_EQ(DefaultContainer(pod, true), "a");
  (*pod.mutable_metadata()->mutable_annotations())["kubectl.kubernetes.io/default-container"] = "b";
  EXPECT_EQ(DefaultContainer(pod, true), "b");
}

}  // namespace
}  // namespace holdfast::agent::cli
