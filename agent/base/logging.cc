// SPDX-License-Identifier: Apache-2.0
#include "agent/base/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "holdfast/base/printable.h"

namespace holdfast::agent {
namespace {

// sd-daemon(3): "<3>" for an error; the journal takes it off again.
class PriorityFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    static constexpr char kDigits[] = {'7', '7', '6', '4', '3', '2'};
    const auto level = static_cast<size_t>(message.level);
    out.push_back('<');
    out.push_back(level < sizeof kDigits ? kDigits[level] : '6');
    out.push_back('>');
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PriorityFlag>();
  }
};

// The text of a message. Much of it is others': an image's entrypoint, a file's name.
class TextFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = Printable({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<TextFlag>();
  }
};

}  // namespace

void SetUpLogging(const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>("holdfastd",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<TextFlag>('v');
  if (::getenv("JOURNAL_STREAM") != nullptr) {
    formatter->add_flag<PriorityFlag>('*').set_pattern("%*%v");
  } else {
    formatter->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
  }
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace holdfast::agent
