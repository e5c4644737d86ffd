// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/print.h"

#include <gtest/gtest.h>

#include "agent/kube/codec.h"
#include "agent/kube/diagnostic.h"
#include "agent/kube/parse.h"
#include "agent/kube/suggest.h"
#include "k8s/core/v1/config.pb.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

std::string Yaml(const std::string& json) { return SortedYaml(ParseJson(json).documents.at(0)); }

TEST(PrintTest, QuotesInYamlWhatWouldBeReadAsSomethingElse) {
  EXPECT_EQ(
      Yaml(R"({"a": ["x", "true", "1", "1.5", "null", "", "22:22", "2001-01-01", "0x1", "y"]})"),
      "a:\n- x\n- \"true\"\n- \"1\"\n- \"1.5\"\n- \"null\"\n- \"\"\n- \"22:22\"\n"
      "- \"2001-01-01\"\n- \"0x1\"\n- \"y\"\n");
  EXPECT_EQ(Yaml(R"({"a": "x: y", "b": " x", "c": "#x", "d": "*x", "e": "it's", "f": "@"})"),
            "a: 'x: y'\nb: ' x'\nc: '#x'\nd: '*x'\ne: it's\nf: '@'\n");
  EXPECT_EQ(Yaml(R"({"a": [], "b": {}, "c": null, "d": "one\ntwo\n", "e": "one\ntwo"})"),
            "a: []\nb: {}\nc: null\nd: |\n  one\n  two\ne: |-\n  one\n  two\n");
}

TEST(PrintTest, SortsKeysLikeKubectl) {
  EXPECT_EQ(Yaml(R"({"a10": 1, "a2": 1, "B": 1, "a": 1, "a-b": 1, "a.b": 1, "ab": 1})"),
            "B: 1\na: 1\na-b: 1\na.b: 1\na2: 1\na10: 1\nab: 1\n");
  EXPECT_EQ(SortedJson(ParseJson(R"({"b": [1, {"d": 1, "c": []}], "a": {}})").documents.at(0)),
            "{\n    \"a\": {},\n    \"b\": [\n        1,\n        {\n            \"c\": [],\n"
            "            \"d\": 1\n        }\n    ]\n}\n");
}

TEST(PrintTest, EscapesJsonAsGoDoes) {
  Node text = Node::String("\"\\\n\t\x01<&>\u2028é");
  EXPECT_EQ(CompactJson(text), R"("\"\\\n\t\u0001\u003c\u0026\u003e\u2028é")");
}

// Everything that is printed is read back as it was.
TEST(PrintTest, RoundTripsThroughBothForms) {
  corev1::ConfigMap map;
  map.mutable_metadata()->set_name("m");
  int i = 0;
  for (const char* value : {"",     " ",      "\n", "a\n ", " a\n", "\ta",  "a: b",        "- a",
                            "'",    "\"",     "\\", "|",    "é",    "a #b", "yes",         "0x1F",
                            "\x7F", "a\r\nb", "%",  "---",  "...",  "!x",   "a\n\n\nb\n\n"}) {
    (*map.mutable_data())["k" + std::to_string(i++)] = value;
  }
  (*map.mutable_data())["long"] =
      "word " + std::string(70, 'x') + " word " + std::string(200, 'y') + " z";
  (*map.mutable_binarydata())["b"] = std::string("\0\xFF", 2);
  for (const std::string& text : {PrintYaml(map), PrintJson(map), EncodeJson(map)}) {
    ParsedText parsed = text.starts_with('{') ? ParseJson(text) : ParseYaml(text);
    ASSERT_TRUE(parsed.errors.empty()) << parsed.errors[0].message << "\n" << text;
    corev1::ConfigMap read;
    std::vector<Diagnostic> diagnostics;
    FromTree(parsed.documents.at(0), {}, &read, &diagnostics);
    EXPECT_EQ(ToString(diagnostics), "");
    EXPECT_EQ(EncodeJson(read), EncodeJson(map));
  }
}

TEST(PrintTest, PrintsSeveralObjectsAsAList) {
  corev1::ConfigMap map;
  map.mutable_metadata()->set_name("m");
  EXPECT_EQ(
      PrintYamlList({&map}),
      "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: m\n"
      "kind: List\nmetadata:\n  resourceVersion: \"\"\n");
}

TEST(CodecTest, TellsZeroFromAbsentByPointer) {
  corev1::Pod pod;
  pod.mutable_spec()->set_hostnetwork(false);         // no pointer: the same as absent
  pod.mutable_spec()->set_enableservicelinks(false);  // a pointer: a value
  pod.mutable_spec()->mutable_securitycontext()->set_runasuser(0);
  EXPECT_EQ(EncodeJson(pod),
            R"({"kind":"Pod","apiVersion":"v1","metadata":{},"spec":{"containers":null,)"
            R"("securityContext":{"runAsUser":0},"enableServiceLinks":false},"status":{}})");
}

TEST(CodecTest, KeepsUnknownFieldsOfNewerServers) {
  corev1::Pod pod;
  pod.mutable_metadata()->set_name("p");
  std::string bytes = EncodeEnvelope(pod);
  auto object = DecodeEnvelope(bytes);
  ASSERT_TRUE(object.has_value());
  EXPECT_FALSE(DecodeEnvelope("k8s").has_value());
  EXPECT_EQ(DecodeEnvelope(std::string_view("k8s\0\xFF", 5)).error().code(),
            Code::kInvalidArgument);
  auto json =
      DecodeJson(R"({"kind":"Pod","apiVersion":"v1","spec":{"brandNew":{"x":[1]},"priority":-1}})");
  ASSERT_TRUE(json.has_value()) << json.error().message();
  EXPECT_EQ(static_cast<const corev1::Pod&>(**json).spec().priority(), -1);
  EXPECT_EQ(DecodeJson(R"({"kind":"Podd","apiVersion":"v1"})").error().code(), Code::kUnsupported);
  EXPECT_FALSE(DecodeJson(R"({"kind":"Pod","apiVersion":"v1","spec":[]})").has_value());
}

TEST(SuggestTest, FindsTheNearestName) {
  const std::vector<std::string_view> names = {"image", "name", "imagePullPolicy", "ports"};
  EXPECT_EQ(DidYouMean("imagee", names), " (did you mean \"image\"?)");
  EXPECT_EQ(DidYouMean("IMAGE", names), " (did you mean \"image\"?)");
  EXPECT_EQ(DidYouMean("imagepullpolicy", names), " (did you mean \"imagePullPolicy\"?)");
  EXPECT_EQ(DidYouMean("prots", names), " (did you mean \"ports\"?)");
  EXPECT_EQ(DidYouMean("replicas", names), "");
  EXPECT_EQ(DidYouMean(std::string(100'000, 'x'), names), "");
}

TEST(QuotedTest, ShowsNoControlCharactersAndCutsLongText) {
  EXPECT_EQ(Quoted("a\"b\\\n\x1B"), "\"a\\\"b\\\\\\x0a\\x1b\"");
  EXPECT_EQ(Quoted("éé", 3), "\"é…\"");
}

}  // namespace
}  // namespace holdfast::agent::kube
