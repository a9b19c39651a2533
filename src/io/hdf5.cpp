#include "io/hdf5.hpp"

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "nestplan/mpi/mpi.hpp"

namespace nestplan::io::hdf5 {
namespace {

static_assert(std::is_same_v<hid_t, std::int64_t>);
static_assert(std::is_same_v<herr_t, int>);

/// Metadata is kept together in blocks; arrays of some size begin on a page.
constexpr hsize_t kMetadataBlock = 8192;
constexpr hsize_t kAlignedFrom = 65536;
constexpr hsize_t kAlignment = 4096;

/// HDF5 would flush and close what is still open when the process ends, after MPI has.
void prepare() {
  static const bool done = [] {
    H5dont_atexit();
    return H5open() >= 0 && H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  }();
  if (!done) throw InternalError("HDF5 cannot be initialised");
}

/// The reasons that HDF5 gives for one failure, the first cause first.
struct Reasons {
  std::vector<std::string> lines;
  bool system = false;
};

herr_t collect(unsigned, const H5E_error2_t* error, void* data) {
  auto& reasons = *static_cast<Reasons*>(data);
  const std::string line = error->desc == nullptr ? "" : error->desc;
  const bool by_errno =
      line.find("errno = ") != std::string::npos && line.find("errno = 0,") == std::string::npos;
  reasons.system |= by_errno || error->min_num == H5E_MPI || error->min_num == H5E_MPIERRSTR;
  reasons.lines.push_back(line);
  return 0;
}

Reasons take_reasons() {
  Reasons reasons;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect, &reasons);
  H5Eclear2(H5E_DEFAULT);
  return reasons;
}

/// HDF5's "… time = …, errno = 28, error message = 'No space left on device', …" in short.
std::string shortened(const std::string& line) {
  constexpr std::string_view kBefore = "error message = '";
  const auto begin = line.find(kBefore);
  if (begin == std::string::npos) return line;
  const auto from = begin + kBefore.size();
  const std::string message = line.substr(from, line.find('\'', from) - from);
  return fmt::format("{}: {}", line.substr(0, line.find_first_of(":,")), message);
}

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  const Reasons reasons = take_reasons();
  std::string reason = "HDF5 does not say why";
  if (!reasons.lines.empty()) reason = shortened(reasons.lines.front());
  if (reasons.system && reasons.lines.size() > 1 && reason == reasons.lines.front()) {
    reason += fmt::format(" ({})", reasons.lines[1]);
  }
  const bool locking =
      std::any_of(reasons.lines.begin(), reasons.lines.end(), [](const std::string& line) {
        return line.find("lock file") != std::string::npos ||
               line.find("lock the file") != std::string::npos;
      });
  if (locking) {
    reason +=
        " (HDF5 locks the files it opens; on a file system that cannot lock files, and if nobody "
        "else uses this one, set HDF5_USE_FILE_LOCKING=FALSE)";
  }
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  throw Error(fmt::format("{}: {}: {}", file, what, reason), reasons.system);
}

/// Everything that is opened goes through here.
Handle hold(std::int64_t id, Handle::Close close, const std::string& file,
            const std::string& what) {
  if (id < 0) fail(file, what);
  return {id, close};
}

void check(herr_t result, const std::string& file, const std::string& what) {
  if (result < 0) fail(file, what);
}

hid_t file_type(Element element) {
  switch (element) {
    case Element::kInteger:
      return H5T_STD_I64LE;
    case Element::kReal:
      return H5T_IEEE_F64LE;
    case Element::kHash:
      return H5T_STD_U64LE;
    case Element::kText:
      break;
  }
  throw InternalError("text has a type of its own for every length");
}

Handle make_text_type(std::int64_t bytes, const std::string& file) {
  const char* what = "cannot describe a text";
  Handle type = hold(H5Tcopy(H5T_C_S1), H5Tclose, file, what);
  check(H5Tset_size(type.get(), static_cast<std::size_t>(bytes)), file, what);
  check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), file, what);
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), file, what);
  return type;
}

Handle make_space(std::int64_t size, const std::string& file) {
  const hsize_t dimensions = static_cast<hsize_t>(size);
  return hold(H5Screate_simple(1, &dimensions, nullptr), H5Sclose, file, "cannot describe a size");
}

/// The elements of one transfer in the file (`of` elements) and in memory.
std::pair<Handle, Handle> select(std::int64_t offset, std::int64_t count, std::int64_t of,
                                 const std::string& file) {
  const char* what = "cannot select values";
  Handle in_file = make_space(of, file);
  Handle in_memory = make_space(std::max<std::int64_t>(count, 1), file);
  if (count == 0) {
    check(H5Sselect_none(in_file.get()), file, what);
    check(H5Sselect_none(in_memory.get()), file, what);
  } else {
    const auto start = static_cast<hsize_t>(offset);
    const auto values = static_cast<hsize_t>(count);
    check(H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, &start, nullptr, &values, nullptr),
          file, what);
  }
  return {std::move(in_file), std::move(in_memory)};
}

Handle make_access(const std::string& path, const mpi::Comm* comm) {
  const char* what = "cannot prepare access";
  Handle access = hold(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, path, what);
  check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), path, what);
  check(H5Pset_meta_block_size(access.get(), kMetadataBlock), path, what);
  check(H5Pset_alignment(access.get(), kAlignedFrom, kAlignment), path, what);
  if (comm != nullptr) {
    check(H5Pset_fapl_mpio(access.get(), comm->handle(), MPI_INFO_NULL), path, what);
  }
  return access;
}

}  // namespace

Handle::Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(close_, other.close_);
  return *this;
}

bool Handle::reset() { return id_ < 0 || close_(std::exchange(id_, -1)) >= 0; }

Dataset::Dataset(std::string file, std::string name, Handle id, Handle text_type, Element element,
                 std::int64_t size, bool collective)
    : file_(std::move(file)),
      name_(std::move(name)),
      id_(std::move(id)),
      text_type_(std::move(text_type)),
      element_(element),
      size_(size),
      collective_(collective) {}

std::int64_t Dataset::memory_type() const {
  switch (element_) {
    case Element::kInteger:
      return H5T_NATIVE_INT64;
    case Element::kReal:
      return H5T_NATIVE_DOUBLE;
    case Element::kHash:
      return H5T_NATIVE_UINT64;
    case Element::kText:
      break;
  }
  return text_type_.get();
}

std::int64_t Dataset::end_in_file() const {
  const haddr_t begin = H5Dget_offset(id_.get());
  if (begin != HADDR_UNDEF)
    return static_cast<std::int64_t>(begin + H5Dget_storage_size(id_.get()));
  if (size_ > 0) fail(file_, fmt::format("cannot find a place for {}", name_));
  return 0;
}

void Dataset::write(std::int64_t offset, std::int64_t count, const void* values) {
  const std::string what = fmt::format("cannot write {}", name_);
  Handle transfer = hold(H5Pcreate(H5P_DATASET_XFER), H5Pclose, file_, what);
  if (collective_) {
    check(H5Pset_dxpl_mpio(transfer.get(), H5FD_MPIO_COLLECTIVE), file_, what);
    // what comes here is contiguous on every rank: MPI need not gather it once more
    check(H5Pset_dxpl_mpio_collective_opt(transfer.get(), H5FD_MPIO_INDIVIDUAL_IO), file_, what);
  }
  const auto [in_file, in_memory] =
      select(offset, count, element_ == Element::kText ? 1 : size_, file_);
  const double nothing = 0;  // HDF5 wants an address even where there is nothing
  check(H5Dwrite(id_.get(), memory_type(), in_memory.get(), in_file.get(), transfer.get(),
                 count == 0 ? &nothing : values),
        file_, what);
  if (!collective_) return;
  H5D_mpio_actual_io_mode_t mode = H5D_MPIO_NO_COLLECTIVE;
  check(H5Pget_mpio_actual_io_mode(transfer.get(), &mode), file_, what);
  if (mode == H5D_MPIO_NO_COLLECTIVE) {
    throw InternalError(fmt::format("{}: {} was not written collectively", file_, name_));
  }
}

void Dataset::read(std::int64_t offset, std::int64_t count, void* values) const {
  if (count == 0) return;
  const auto [in_file, in_memory] =
      select(offset, count, element_ == Element::kText ? 1 : size_, file_);
  check(H5Dread(id_.get(), memory_type(), in_memory.get(), in_file.get(), H5P_DEFAULT, values),
        file_, fmt::format("cannot read {}", name_));
}

File::File(std::string path, Handle id, bool collective)
    : path_(std::move(path)), id_(std::move(id)), collective_(collective) {}

File File::create(const std::string& path, const mpi::Comm* comm) {
  prepare();
  const Handle access = make_access(path, comm);
  Handle file = hold(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose,
                     path, "cannot be created");
  return {path, std::move(file), comm != nullptr};
}

File File::open(const std::string& path) {
  prepare();
  const Handle access = make_access(path, nullptr);
  Handle file =
      hold(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose, path, "cannot be opened");
  return {path, std::move(file), false};
}

void File::create_group(const std::string& name) {
  hold(H5Gcreate2(id_.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose, path_,
       fmt::format("cannot create {}", name));
}

Dataset File::create(const std::string& name, Element element, std::int64_t size) {
  const std::string what = fmt::format("cannot create {}", name);
  const bool is_text = element == Element::kText;
  Handle text_type;
  if (is_text) text_type = make_text_type(size, path_);
  const Handle space = make_space(is_text ? 1 : size, path_);
  const Handle links = hold(H5Pcreate(H5P_LINK_CREATE), H5Pclose, path_, what);
  check(H5Pset_create_intermediate_group(links.get(), 1), path_, what);
  const Handle creation = hold(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, path_, what);
  check(H5Pset_layout(creation.get(), H5D_CONTIGUOUS), path_, what);
  check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), path_, what);
  check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), path_, what);
  check(H5Pset_obj_track_times(creation.get(), false), path_, what);
  Handle id =
      hold(H5Dcreate2(id_.get(), name.c_str(), is_text ? text_type.get() : file_type(element),
                      space.get(), links.get(), creation.get(), H5P_DEFAULT),
           H5Dclose, path_, what);
  return {path_, name, std::move(id), std::move(text_type), element, size, collective_};
}

Dataset File::dataset(const std::string& name) const {
  const std::string what = fmt::format("cannot open {}", name);
  Handle id = hold(H5Dopen2(id_.get(), name.c_str(), H5P_DEFAULT), H5Dclose, path_, what);
  const Handle type = hold(H5Dget_type(id.get()), H5Tclose, path_, what);
  const Handle space = hold(H5Dget_space(id.get()), H5Sclose, path_, what);
  hsize_t size = 0;
  if (H5Sget_simple_extent_ndims(space.get()) != 1 ||
      H5Sget_simple_extent_dims(space.get(), &size, nullptr) != 1) {
    throw Error(fmt::format("{}: {} does not have one dimension", path_, name), false);
  }
  if (H5Tget_class(type.get()) == H5T_STRING && size == 1) {
    const auto bytes = static_cast<std::int64_t>(H5Tget_size(type.get()));
    Handle text_type = make_text_type(bytes, path_);
    if (H5Tequal(type.get(), text_type.get()) > 0) {
      return {path_, name, std::move(id), std::move(text_type), Element::kText, bytes, false};
    }
  }
  for (const Element element : {Element::kInteger, Element::kReal, Element::kHash}) {
    if (H5Tequal(type.get(), file_type(element)) > 0) {
      const auto elements = static_cast<std::int64_t>(size);
      return {path_, name, std::move(id), Handle(), element, elements, false};
    }
  }
  throw Error(fmt::format("{}: {} has a type that checkpoints do not have", path_, name), false);
}

std::vector<std::string> File::datasets(const std::string& group) const {
  std::vector<std::string> names;
  const auto visit = [](hid_t, const char* name, const H5O_info_t* info, void* data) -> herr_t {
    if (info->type == H5O_TYPE_DATASET)
      static_cast<std::vector<std::string>*>(data)->push_back(name);
    return 0;
  };
  check(H5Ovisit_by_name2(id_.get(), group.c_str(), H5_INDEX_NAME, H5_ITER_INC, visit, &names,
                          H5O_INFO_BASIC, H5P_DEFAULT),
        path_, fmt::format("cannot list {}", group));
  std::sort(names.begin(), names.end());
  return names;
}

void File::set(const std::string& object, const std::string& attribute, std::string_view value) {
  const std::string what = fmt::format("cannot describe {}", object);
  const Handle type = make_text_type(static_cast<std::int64_t>(value.size()), path_);
  const Handle space = hold(H5Screate(H5S_SCALAR), H5Sclose, path_, what);
  const Handle id = hold(H5Acreate_by_name(id_.get(), object.c_str(), attribute.c_str(), type.get(),
                                           space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose, path_, what);
  check(H5Awrite(id.get(), type.get(), value.data()), path_, what);
}

void File::set(const std::string& object, const std::string& attribute, std::uint64_t value) {
  const std::string what = fmt::format("cannot describe {}", object);
  const Handle space = hold(H5Screate(H5S_SCALAR), H5Sclose, path_, what);
  const Handle id =
      hold(H5Acreate_by_name(id_.get(), object.c_str(), attribute.c_str(), H5T_STD_U64LE,
                             space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
           H5Aclose, path_, what);
  check(H5Awrite(id.get(), H5T_NATIVE_UINT64, &value), path_, what);
}

namespace {

/// An attribute of one value, with its type; not valid if it is not there.
std::pair<Handle, Handle> open_attribute(hid_t file, const std::string& path,
                                         const std::string& object, const std::string& attribute) {
  const std::string what = fmt::format("cannot read attribute {} of {}", attribute, object);
  const htri_t exists = H5Aexists_by_name(file, object.c_str(), attribute.c_str(), H5P_DEFAULT);
  check(exists, path, what);
  if (exists == 0) return {};
  Handle id =
      hold(H5Aopen_by_name(file, object.c_str(), attribute.c_str(), H5P_DEFAULT, H5P_DEFAULT),
           H5Aclose, path, what);
  const Handle space = hold(H5Aget_space(id.get()), H5Sclose, path, what);
  if (H5Sget_simple_extent_npoints(space.get()) != 1) return {};
  Handle type = hold(H5Aget_type(id.get()), H5Tclose, path, what);
  return {std::move(id), std::move(type)};
}

}  // namespace

std::optional<std::string> File::text(const std::string& object,
                                      const std::string& attribute) const {
  const auto [id, type] = open_attribute(id_.get(), path_, object, attribute);
  if (!id.valid() || H5Tget_class(type.get()) != H5T_STRING ||
      H5Tis_variable_str(type.get()) != 0) {
    return std::nullopt;
  }
  std::string value(H5Tget_size(type.get()), '\0');
  check(H5Aread(id.get(), type.get(), value.data()), path_,
        fmt::format("cannot read attribute {} of {}", attribute, object));
  return value.substr(0, value.find('\0'));
}

std::optional<std::uint64_t> File::number(const std::string& object,
                                          const std::string& attribute) const {
  const auto [id, type] = open_attribute(id_.get(), path_, object, attribute);
  if (!id.valid() || H5Tget_class(type.get()) != H5T_INTEGER) return std::nullopt;
  std::uint64_t value = 0;
  check(H5Aread(id.get(), H5T_NATIVE_UINT64, &value), path_,
        fmt::format("cannot read attribute {} of {}", attribute, object));
  return value;
}

void File::flush() { check(H5Fflush(id_.get(), H5F_SCOPE_LOCAL), path_, "cannot be flushed"); }

void File::close() {
  if (!id_.reset()) fail(path_, "cannot be closed");
}

}  // namespace nestplan::io::hdf5
