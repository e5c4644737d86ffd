// SPDX-License-Identifier: Apache-2.0
// Texts made to break parsers (security catalogue 3.7): each ends with an error that has line and
// column, quickly, or is read as Kubernetes reads it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ctime>

#include "agent/kube/defaulting.h"
#include "agent/kube/manifest_reader.h"
#include "agent/kube/validation/validate.h"
#include "holdfast/base/address_sanitizer.h"
#include "k8s/core/v1/config.pb.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

using ::testing::HasSubstr;

#if HOLDFAST_ADDRESS_SANITIZER || defined(__SANITIZE_THREAD__)
constexpr int kSlower = 20;
#else
constexpr int kSlower = 1;
#endif
// Processor time. Reading takes some 50 ms at most; this only tells linear from anything worse.
constexpr double kMostSeconds = 1.0 * kSlower;

std::string Repeat(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

Manifest ReadQuickly(std::string_view text) {
  const std::clock_t start = std::clock();
  Manifest manifest = ReadManifest("h.yaml", text);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, kMostSeconds);
  return manifest;
}

std::string FirstError(std::string_view text) {
  const Manifest manifest = ReadQuickly(text);
  if (manifest.ok()) return "ok";
  EXPECT_NE(manifest.diagnostics[0].at.line, 0u);
  EXPECT_NE(manifest.diagnostics[0].at.column, 0u);
  return manifest.diagnostics[0].ToString();
}

std::string Data(const std::string& value) {
  return "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: " + value + "\n";
}

std::string PodField(const std::string& field) {
  return "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  " + field + "\n";
}

TEST(HostileTextTest, AliasesAndMergeKeys) {
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i <= 9; ++i) {
    const std::string alias = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + Repeat(alias + ",", 8) +
            alias + "]\n";
  }
  EXPECT_THAT(FirstError(bomb), HasSubstr("h.yaml:2:10: a1[0]: aliases are not allowed"));
  EXPECT_THAT(FirstError("a: &x [*x]\n"), HasSubstr("h.yaml:1:8: a[0]: aliases are not allowed"));
  EXPECT_THAT(FirstError("a: &x {<<: {b: c}}\n"), HasSubstr("h.yaml:1:8: a: merge keys are not"));
  EXPECT_THAT(FirstError("a: *nowhere\n"), HasSubstr("aliases are not allowed"));
}

TEST(HostileTextTest, Depth) {
  for (const std::string_view opening : {"[", "- ", "? ", "{\"a\":", "[{\"a\":"}) {
    SCOPED_TRACE(opening);
    EXPECT_THAT(FirstError(Repeat(opening, 100'000)), HasSubstr("h.yaml:1:"));
  }
  EXPECT_THAT(FirstError("{" + Repeat("\"a\":{", 100'000)), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(FirstError("a: " + Repeat("[", 100)), HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(FirstError(Repeat("{a: ", 100'000)), HasSubstr("h.yaml:1:2: not valid JSON"));
  EXPECT_THAT(FirstError("x: " + Repeat("{a: ", 100'000)), HasSubstr("h.yaml:1:"));
}

TEST(HostileTextTest, Size) {
  EXPECT_THAT(FirstError("a: " + std::string(3 << 20, 'x')),
              HasSubstr("h.yaml:1:1: document is larger than 1048576 bytes"));
  EXPECT_THAT(FirstError(std::string(11 << 20, 'x')), HasSubstr("larger than 10485760 bytes"));
  EXPECT_THAT(FirstError(Repeat("---\n", 1'000'000)), HasSubstr("more than 1000 documents"));
  EXPECT_THAT(FirstError("a: [" + Repeat("1,", 200'000) + "]"),
              HasSubstr("more than 100000 values"));
  EXPECT_THAT(FirstError("{\"a\": [" + Repeat("1,", 200'000) + "1]}"),
              HasSubstr("more than 100000 values"));
}

TEST(HostileTextTest, BytesThatAreNoText) {
  EXPECT_THAT(FirstError(std::string("a: \0b", 5)), HasSubstr("h.yaml:1:4: NUL is not allowed"));
  EXPECT_THAT(FirstError("a: b\nc: \x01"), HasSubstr("h.yaml:2:4: control character"));
  EXPECT_THAT(FirstError("a: \xC2\x80"), HasSubstr("control character"));
  EXPECT_THAT(FirstError("a: \xE9t\xE9"), HasSubstr("h.yaml:1:4: not UTF-8"));
  EXPECT_THAT(FirstError("a: \xC0\xAF"), HasSubstr("not UTF-8"));
  EXPECT_THAT(FirstError("a: \xED\xA0\x80"), HasSubstr("not UTF-8"));
  EXPECT_THAT(FirstError(std::string("\xFF\xFE"
                                     "a\0",
                                     4)),
              HasSubstr("h.yaml:1:1: not UTF-8"));
  EXPECT_THAT(FirstError("{\"a\": \"\\ud800\"}"), HasSubstr("half of a surrogate pair"));
  EXPECT_THAT(FirstError("{\"a\": \"\\udc00\\ud800\"}"), HasSubstr("half of a surrogate pair"));
  EXPECT_THAT(FirstError("{\"a\": \"\\u0000\"}"), HasSubstr("NUL is not allowed"));
  EXPECT_THAT(FirstError("{\"a\": \"\x01\"}"), HasSubstr("control character"));
  EXPECT_THAT(FirstError("a:\n\t- b\n"), HasSubstr("h.yaml:2:1: not valid YAML"));
}

TEST(HostileTextTest, LineEndsAndByteOrderMarkAreRead) {
  const std::string lf = Data("\"x\"");
  std::string crlf;
  for (const char c : lf) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_TRUE(ReadQuickly(crlf).ok());
  EXPECT_TRUE(ReadQuickly("\xEF\xBB\xBF" + lf).ok());
}

TEST(HostileTextTest, TagsAndDirectives) {
  EXPECT_THAT(FirstError("%YAML 9.9\n---\na: b\n"), HasSubstr("h.yaml:1:"));
  EXPECT_THAT(FirstError("a: !!binary aGk=\n"), HasSubstr("h.yaml:1:4: a: tag"));
  EXPECT_THAT(FirstError("a: !!python/object:os.system x\n"), HasSubstr("is not allowed"));
  EXPECT_THAT(FirstError("a: !mine {b: c}\n"), HasSubstr("tag \"!mine\" is not allowed"));
  EXPECT_EQ(FirstError(Data("!!str 12")), "ok");
}

TEST(HostileTextTest, WordsThatLookLikeOtherTypes) {
  for (const char* value : {"yes", "no", "on", "off", "y", "N", "true", "FALSE"}) {
    EXPECT_THAT(FirstError(Data(value)), HasSubstr("data[a]: expected a string, got a boolean"));
  }
  for (const char* value : {"1", "-0", "0x1F", "0777", "0o777", "0b1", "1_000", ".inf", "-.Inf",
                            ".NaN", "1e3", "1.5", "+1"}) {
    EXPECT_THAT(FirstError(Data(value)), HasSubstr("data[a]: expected a string, got a number"));
  }
  for (const char* value :
       {"22:22", "2001-01-01", "nan", "0x", "0o", "1e", "'1'", "\"yes\"", "~x"}) {
    EXPECT_EQ(FirstError(Data(value)), "ok") << value;
  }
}

TEST(HostileTextTest, IntegersAreExact) {
  const auto priority = [](const std::string& value) {
    const Manifest manifest = ReadQuickly(PodField("priority: " + value));
    if (!manifest.ok()) return manifest.diagnostics[0].message;
    return std::to_string(manifest.objects[0].As<corev1::Pod>()->spec().priority());
  };
  EXPECT_EQ(priority("0777"), "511");
  EXPECT_EQ(priority("0o777"), "511");
  EXPECT_EQ(priority("0x1F"), "31");
  EXPECT_EQ(priority("1_000"), "1000");
  EXPECT_EQ(priority("-0"), "0");
  EXPECT_EQ(priority("2147483647"), "2147483647");
  EXPECT_EQ(priority("2147483648"), "2147483648 does not fit 32 bits");
  EXPECT_EQ(priority("-2147483649"), "-2147483649 does not fit 32 bits");
  EXPECT_THAT(priority("1" + std::string(400, '0')), HasSubstr("does not fit 32 bits"));
  // Whole, whatever its form: Kubernetes turns YAML into JSON by way of a double.
  EXPECT_EQ(priority("80.0"), "80");
  EXPECT_EQ(priority("8e1"), "80");
  EXPECT_EQ(priority("-0.0"), "0");
  EXPECT_EQ(priority("1e-400"), "0");
  EXPECT_THAT(priority("1.5"), HasSubstr("expected a whole number"));
  EXPECT_THAT(priority("1e400"), HasSubstr("expected a whole number, got a string"));
  EXPECT_THAT(priority("22:22"), HasSubstr("expected a whole number, got a string"));
  EXPECT_THAT(FirstError(PodField("terminationGracePeriodSeconds: 9223372036854775808")),
              HasSubstr("does not fit 64 bits"));
}

TEST(HostileTextTest, QuantitiesAreReadAsKubernetesReadsThem) {
  const auto memory = [](const std::string& value) {
    const Manifest manifest = ReadQuickly(PodField("overhead: {memory: " + value + "}"));
    if (!manifest.ok()) return manifest.diagnostics[0].message;
    return manifest.objects[0].As<corev1::Pod>()->spec().overhead().at("memory").string();
  };
  EXPECT_EQ(memory("\" 64Mi \""), "64Mi");
  EXPECT_EQ(memory("1e9"), "1G");  // a number in YAML
  EXPECT_EQ(memory("\"1e9\""), "1e9");
  EXPECT_EQ(memory("1e400"), "9223372036854775807");
  EXPECT_EQ(memory("0.1"), "100m");
  EXPECT_THAT(memory("\"64 Mi\""), HasSubstr("unknown suffix"));
  EXPECT_THAT(memory("\" \""), HasSubstr("must be a number with a suffix"));
}

TEST(HostileTextTest, KeysDoubledAtEachLevelOrDifferingByCase) {
  const Manifest manifest = ReadQuickly(
      "apiVersion: v1\nkind: Pod\nkind: Pod\nmetadata: {name: a, name: b}\nspec: {x: 1, "
      "Containers: []}\n");
  ASSERT_EQ(manifest.diagnostics.size(), 4u);
  EXPECT_EQ(manifest.diagnostics[0].ToString(),
            "h.yaml:3:1: kind: duplicate key, first set in line 2");
  EXPECT_EQ(manifest.diagnostics[1].ToString(),
            "h.yaml:4:21: metadata.name: duplicate key, first set in line 4");
  EXPECT_THAT(manifest.diagnostics[3].message, HasSubstr("did you mean \"containers\"?"));
  EXPECT_THAT(FirstError("? [a]\n: b\n"), HasSubstr("a key must be a string"));
  EXPECT_THAT(FirstError("~: b\n"), HasSubstr("a key must be a string, not null"));
}

long PeakKibibytes() {
  rusage usage{};
  EXPECT_EQ(::getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_maxrss;
}

// The first is the largest that is let through.
TEST(HostileTextTest, ManyItemsStayBelow64MiB) {
  [[maybe_unused]] const long before = PeakKibibytes();
  std::string containers = PodField("containers:");
  for (int i = 0; i < 60'000; ++i) containers += "  - {}\n";
  const Manifest manifest = ReadManifest("h.yaml", containers);
  ASSERT_TRUE(manifest.ok()) << manifest.diagnostics[0].ToString();
  EXPECT_EQ(manifest.objects[0].As<corev1::Pod>()->spec().containers_size(), 60'000);
  EXPECT_THAT(FirstError(PodField("containers:\n" + Repeat("  - {}\n", 110'000))),
              HasSubstr("more than 100000 values"));
#if !HOLDFAST_ADDRESS_SANITIZER && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(PeakKibibytes() - before, 64 << 10);
#endif
}

TEST(HostileTextTest, SmallRubbish) {
  for (const char* text :
       {"",       " ",       "\n",       "#",         "---",       "...", "-",     "?",       ":",
        "!",      "&",       "*",        "|",         ">",         "%",   "@",     "`",       "{",
        "}",      "[",       "]",        ",",         "\"",        "'",   "{}",    "[]",      "{\"",
        "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "{}}",       "{}{", "- - -", "a: b: c", "&a",
        "!!",     "<<",      "? ?",      "-\t-",      "|\n x\n\ty"}) {
    ReadQuickly(text);
  }
}

}  // namespace
}  // namespace holdfast::agent::kube
