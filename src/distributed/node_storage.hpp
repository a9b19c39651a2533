#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "nestplan/mpi/mpi.hpp"
#include "nestplan/util/array.hpp"

namespace nestplan::distributed {

/// Memory that the ranks of a node share; its first rank fills it. In slabs, since every window
/// costs a round trip and a file descriptor on each rank; pages that nobody touches cost nothing.
class NodeStorage final : public util::Storage {
 public:
  /// `node` has to outlive what is stored. *Collective over `node`*, as is all else, and as is
  /// giving up the last array.
  explicit NodeStorage(const mpi::Comm& node);

  bool fills() const override { return node_.rank() == 0; }
  std::int64_t agree(std::int64_t value) override;
  void publish() override;

 protected:
  std::shared_ptr<std::byte[]> allocate(std::size_t bytes) override;
  int processes() const override { return node_.size(); }

 private:
  const mpi::Comm& node_;
  std::vector<std::shared_ptr<mpi::SharedMemory>> slabs_;
  std::size_t used_ = 0;      ///< of the last slab
  std::size_t capacity_ = 0;  ///< of the last slab
};

}  // namespace nestplan::distributed
