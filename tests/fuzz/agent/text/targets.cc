// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/agent/text/targets.h"

#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "agent/cluster/api_objects.h"
#include "agent/cluster/kubeconfig.h"
#include "agent/cluster/managed_fields.h"
#include "agent/kube/codec.h"
#include "agent/kube/label_selector.h"
#include "agent/lease/lease_requests.h"
#include "agent/log/log_line.h"
#include "agent/pod/state/record.h"
#include "k8s/core/v1/pod.pb.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {

void FuzzCriLog(std::string_view input) {
  agent::LineJoiner joiner;
  std::vector<agent::ShownLine> shown;
  for (std::string_view rest = input; !rest.empty();) {
    const size_t end = rest.find('\n');
    const auto line = agent::ParseCriLine(rest.substr(0, end));
    if (line) joiner.Add(*line, shown);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  joiner.Flush(shown);
  size_t total = 0;
  for (const auto& line : shown) total += line.text.size();
  Require(total <= input.size(), "no text is made up", input);
}

void FuzzLabelSelector(std::string_view input) {
  const auto selector = agent::kube::LabelSelector::Parse(input);
  if (!selector) return;
  (void)selector->Matches(std::map<std::string, std::string>{{"app", "web"}, {"tier", ""}});
}

void FuzzKubeConfig(std::string_view input) {
  const auto config = agent::ParseKubeConfig(input, "/etc/kubeconfig");
  if (config) Require(!config->host.empty() && config->port != 0, "a server is named", input);
}

void FuzzPodRecord(std::string_view input) {
  const auto memory = agent::DecodeRecord(std::string(input));
  if (!memory) return;
  const std::string text = agent::EncodeRecord(*memory);
  const auto again = agent::DecodeRecord(text);
  Require(again.has_value() && agent::EncodeRecord(*again) == text, "what is written is read",
          input);
}

// The first byte chooses the status. (HTTP/1.1 itself is read by Boost.)
void FuzzApiAnswer(std::string_view input) {
  if (input.empty()) return;
  constexpr int kStatus[] = {200, 201, 404, 409, 500};
  const agent::ApiAnswer answer{kStatus[static_cast<unsigned char>(input[0]) % std::size(kStatus)],
                                std::string(input.substr(1))};
  const auto lease = agent::ReadLease(answer, {agent::ApiMethod::kGet, "/lease", ""});
  if (lease) Require(answer.status < 300 && !lease->version.empty(), "it is a Lease", input);
}

// Without the magic bytes: an envelope as a watch sends it.
void FuzzManagedFields(std::string_view input) {
  const agent::kube::TypeMeta type{"v1", "Pod"};
  const std::string whole = std::string("k8s\0", 4) + std::string(input);
  const std::string cut = agent::WithoutManagedFields(whole, agent::EnvelopeHolds::kObject);
  Require(cut.size() <= whole.size(), "it does not grow", input);
  (void)agent::WithoutManagedFields(whole, agent::EnvelopeHolds::kList);
  (void)agent::DecodePage(whole, type);
  const auto before = agent::kube::DecodeEnvelope(whole, type);
  if (!before) return;
  const auto after = agent::kube::DecodeEnvelope(cut, type);
  Require(after.has_value(), "what can be read is still read", input);
  auto* pod = dynamic_cast<agent::corev1::Pod*>(before->get());
  auto* left = dynamic_cast<agent::corev1::Pod*>(after->get());
  if (pod == nullptr || left == nullptr) return;
  pod->mutable_metadata()->clear_managedfields();
  left->mutable_metadata()->clear_managedfields();  // of what holds groups nothing is cut
  Require(agent::kube::EncodeJson(*pod) == agent::kube::EncodeJson(*left), "nothing else goes",
          input);
}

}  // namespace holdfast::fuzz
