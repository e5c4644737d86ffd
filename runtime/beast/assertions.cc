// SPDX-License-Identifier: Apache-2.0
// What Boost calls when an assertion of its headers does not hold (boost/assert.hpp). The process ends as by assert(3), but
// for one: basic_parser of Boost 1.74 asserts that five bytes are there when it looks at the last chunk again, which a peer
// decides who sends "0\r\n" of a body without any other chunk and then the rest byte by byte. What follows that assertion
// reads no further than the bytes that are there.
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace boost {

void assertion_failed(const char* expression, const char* function, const char* file, long line);
void assertion_failed_msg(const char* expression, const char* message, const char* function,
                          const char* file, long line);

void assertion_failed(const char* expression, const char* function, const char* file, long line) {
  const bool is_of_last_chunk =
      std::string_view(expression) == "n >= 5" &&
      std::string_view(function).find("parse_chunk_header") != std::string_view::npos;
  if (is_of_last_chunk) return;
  std::fprintf(stderr, "%s:%ld: %s: Assertion `%s' failed.\n", file, line, function, expression);
  std::abort();
}

void assertion_failed_msg(const char* expression, const char* /*message*/, const char* function,
                          const char* file, long line) {
  assertion_failed(expression, function, file, line);
}

}  // namespace boost
