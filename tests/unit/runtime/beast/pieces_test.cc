// SPDX-License-Identifier: Apache-2.0
// Messages in chunks, however they are cut on their way.
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include <gtest/gtest.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string>

namespace holdfast {
namespace {

namespace http = boost::beast::http;

// The body, put together from pieces that end at `first` and `second`; "unread" of what is no message.
template <bool kIsRequest>
std::string BodyOf(const std::string& message, size_t first, size_t second) {
  http::parser<kIsRequest, http::string_body> parser;
  parser.eager(true);
  std::string waiting;
  for (const auto& [begin, end] :
       {std::pair<size_t, size_t>{0, first}, {first, second}, {second, message.size()}}) {
    waiting += message.substr(begin, end - begin);
    boost::beast::error_code error;
    while (!waiting.empty() && !parser.is_done() && !error) {
      waiting.erase(0, parser.put(boost::asio::buffer(waiting), error));
    }
    if (error && error != http::error::need_more) return "unread";
  }
  return parser.is_done() ? parser.get().body() : "unread";
}

template <bool kIsRequest>
void EveryCut(const std::string& head) {
  for (const auto& [chunks, body] : {std::pair<std::string, std::string>{"0\r\n\r\n", ""},
                                     {"000;a=b\r\nTrailer: x\r\n\r\n", ""},
                                     {"3\r\nabc\r\n0\r\n\r\n", "abc"}}) {
    const std::string message = head + "Transfer-Encoding: chunked\r\n\r\n" + chunks;
    for (size_t first = head.size(); first <= message.size(); ++first) {
      for (size_t second = first; second <= message.size(); ++second) {
        EXPECT_EQ(BodyOf<kIsRequest>(message, first, second), body)
            << chunks << " cut at " << first << " and " << second;
      }
    }
  }
}

TEST(PiecesTest, AnAnswersBodyIsWhatItIsHoweverItIsCut) { EveryCut<false>("HTTP/1.1 200 OK\r\n"); }

TEST(PiecesTest, SoIsARequests) { EveryCut<true>("POST / HTTP/1.1\r\nHost: n\r\n"); }

TEST(PiecesTest, OtherAssertionsEndTheProcess) {
  http::response_parser<http::string_body> parser;
  EXPECT_DEATH((void)parser.keep_alive(), "is_header_done");
}

}  // namespace
}  // namespace holdfast
