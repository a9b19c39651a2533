#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>

#include "nestplan/io/huggingface.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::test {

using Json = nlohmann::json;

/// A directory of its own with a `config.json`, gone at the end of the test.
class ConfigFixture : public ::testing::Test {
 protected:
  ConfigFixture()
      : directory_(std::filesystem::temp_directory_path() /
                   ("nestplan-hf-" + std::to_string(::getpid()) + "-" +
                    ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(directory_ / "tiny");
  }
  ~ConfigFixture() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path file() const { return directory_ / "tiny" / "config.json"; }

  model::Architecture read(const Json& config) const {
    std::ofstream(file()) << config.dump();
    return io::read_architecture(file());
  }

  template <class Kind>
  Kind read_as(const Json& config) const {
    std::ofstream(file()) << config.dump();
    return std::get<Kind>(io::read_model(file()));
  }

  /// The message without the leading path.
  std::string failure(const Json& config) const {
    try {
      std::ofstream(file()) << config.dump();
      io::read_model(file());
    } catch (const InvalidInput& error) {
      const std::string message = error.what();
      const std::string prefix = file().string() + ": ";
      EXPECT_EQ(message.substr(0, prefix.size()), prefix);
      return message.substr(std::min(prefix.size(), message.size()));
    }
    return "";
  }

  std::filesystem::path directory_;
};

/// `config` with `key` set to `value`.
inline Json set(Json config, const std::string& key, Json value) {
  config[key] = std::move(value);
  return config;
}

inline Json without(Json config, const std::string& key) {
  config.erase(key);
  return config;
}

}  // namespace nestplan::test
