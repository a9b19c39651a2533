#pragma once

#include <gtest/gtest.h>

#include <string>

#include "nestplan/util/errors.hpp"

namespace nestplan::test {

/// What `action` throws, which must be an `Expected` with a message of one short line.
template <class Expected = InvalidInput, class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Expected& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 600U) << message;
    return message;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no error";
  return "";
}

/// Checks that `text` contains `part`.
inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no <" << part << "> in <" << text << ">";
}

}  // namespace nestplan::test
