#include "distributed/node_storage.hpp"

#include <algorithm>
#include <span>

namespace nestplan::distributed {
namespace {

constexpr std::size_t kSlabBytes = std::size_t{32} << 20;
constexpr std::size_t kAlignment = 64;

}  // namespace

NodeStorage::NodeStorage(const mpi::Comm& node) : node_(node) {}

std::int64_t NodeStorage::agree(std::int64_t value) {
  node_.broadcast(std::as_writable_bytes(std::span(&value, 1)), 0);
  return value;
}

void NodeStorage::publish() {
  for (const auto& slab : slabs_) slab->synchronise();
}

std::shared_ptr<std::byte[]> NodeStorage::allocate(std::size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (used_ + bytes > capacity_) {
    capacity_ = std::max(bytes, kSlabBytes);
    used_ = 0;
    slabs_.push_back(std::make_shared<mpi::SharedMemory>(node_, capacity_));
  }
  std::byte* memory = slabs_.back()->data() + used_;
  used_ += bytes;
  return {slabs_.back(), memory};
}

}  // namespace nestplan::distributed
