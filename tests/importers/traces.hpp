#pragma once

#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "chakra.pb.h"

namespace nestplan::importers::test {

inline chakra::Node compute(std::uint64_t id, const std::string& name, std::uint64_t micros,
                            const std::vector<std::uint64_t>& data = {}) {
  chakra::Node node;
  node.set_id(id);
  node.set_name(name);
  node.set_type(chakra::COMP_NODE);
  node.set_duration_micros(micros);
  for (const std::uint64_t from : data) node.add_data_deps(from);
  return node;
}

inline void set(chakra::Node& node, const std::string& name, std::int64_t value) {
  chakra::Attribute* attribute = node.add_attr();
  attribute->set_name(name);
  attribute->set_int64_val(value);
}

inline chakra::Node collective(std::uint64_t id, std::int64_t type, std::int64_t bytes,
                               std::uint64_t behind) {
  chakra::Node node = compute(id, "COMM_COLL_NODE_" + std::to_string(id), 0, {behind});
  node.set_type(chakra::COMM_COLL_NODE);
  set(node, "comm_type", type);
  set(node, "comm_size", bytes);
  return node;
}

/// Two layers as the text converter writes them: forward 10 and 20 us, backward 30 and 40 us, an
/// all-reduce forward behind the first, and the gradients of 1000 and 2000 parameters of 16 bits.
inline std::vector<chakra::Node> two_layers() {
  std::vector<chakra::Node> nodes{
      compute(0, "COMP_NODE_a_FWD", 10),         collective(1, 0, 4096, 0),
      compute(2, "COMP_NODE_b_FWD", 20, {1}),    compute(3, "COMP_NODE_b_BWD_IG", 25, {2}),
      compute(4, "COMP_NODE_b_BWD_WG", 15, {3}), collective(5, 0, 4000, 4),
      compute(6, "COMP_NODE_a_BWD_WG", 30, {3}), collective(7, 0, 2000, 6),
  };
  set(nodes[0], "tensor_size", 512);
  set(nodes[2], "tensor_size", 256);
  return nodes;
}

/// With lengths in front, behind the metadata.
inline std::string as_protobuf(const std::vector<chakra::Node>& nodes) {
  std::string content;
  const auto append = [&content](const auto& message) {
    const std::string bytes = message.SerializeAsString();
    std::size_t size = bytes.size();
    for (; size >= 128; size /= 128) content += static_cast<char>(128 + size % 128);
    content += static_cast<char>(size);
    content += bytes;
  };
  chakra::Metadata metadata;
  metadata.set_version("0.0.4");
  append(metadata);
  for (const chakra::Node& node : nodes) append(node);
  return content;
}

inline std::string as_messages(const std::vector<chakra::Node>& nodes) {
  std::string content = "{\n  \"version\": \"0.0.4\"\n}";
  for (const chakra::Node& node : nodes) {
    std::string object;
    EXPECT_TRUE(google::protobuf::util::MessageToJsonString(node, &object).ok());
    content += object;
  }
  return content;
}

}  // namespace nestplan::importers::test
