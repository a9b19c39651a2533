#pragma once

#include <gtest/gtest.h>

#include <string>

#include "nestplan/cost/operators.hpp"
#include "nestplan/importers/importers.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::importers::test {

inline std::string sample_path(const std::string& name) {
  return std::string(NESTPLAN_SOURCE_DIR "/tests/importers/data/") + name;
}
inline std::string sample(const std::string& name) { return io::read_text(sample_path(name)); }

inline model::Device device() {
  model::Device device;
  device.name = "a100";
  device.peak_flops = {{"bf16", 312e12}, {"fp32", 19.5e12}};
  device.memory_bandwidth = 2.039e12;
  return device;
}

inline Imported import(const std::string& content, const std::string& file, Format format,
                       const Options& options = {}, const std::string& precision = "bf16") {
  const cost::AnalyticalCostModel costs(device(), cost::precision_of(precision));
  return import_graph(content, file, format, costs, options);
}

/// Of a file in data, by its name.
inline Imported import_sample(const std::string& name, const Options& options = {}) {
  const std::string content = sample(name);
  return import(content, name, detect_format(content, name), options);
}

/// What the import of a bad file says.
inline std::string complaint(const std::string& content, const std::string& file, Format format,
                             const Options& options = {}) {
  try {
    import(content, file, format, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "no complaint";
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline const model::Layer& layer(const model::Graph& graph, const std::string& id) {
  for (const model::Layer& each : graph.layers) {
    if (each.id == id) return each;
  }
  throw InternalError("no layer " + id);
}

}  // namespace nestplan::importers::test
